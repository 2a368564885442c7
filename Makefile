# What to do with this project. "make help" lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# These tools are run, not required: users of the module never see them.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# The root module and those nested in it, but for those that only name a server.
MODULES := $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/testdata/*' -not -path './internal/tools/*' | sort))

.PHONY: help demo deps test verify check vuln bench simulate mutants model model-trail chaos road fuzz all

help: ## list what there is to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: ## see a leader elected, killed and replaced; needs nothing but Go
	@go run ./examples/quickstart

deps: ## install what all tests need (Debian, as root), or say what to do
	@scripts/deps

test: ## the fast tier, minutes: all that needs no server, and each backend's contract on a real one
	@scripts/test fast

verify: deps ## all tests, with the race detector: clusters, faults, fleets, browsers, chaos, models
	@scripts/test verify $(MODULES)
	@$(MAKE) --no-print-directory simulate

check: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); if [[ -n $$unformatted ]]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	@for dir in $(MODULES); do (cd "$$dir" && go vet ./... && go run $(STATICCHECK) ./...); done
	@echo "check: gofmt, go vet and staticcheck found nothing"

vuln: ## look for known vulnerabilities in what the module uses
	@for dir in $(MODULES); do \
		if out=$$(cd "$$dir" && go run $(GOVULNCHECK) ./... 2>&1); then echo "vuln: $$dir: $$(tail -n 1 <<<"$$out")"; \
		elif grep -qE 'fetching vulnerabilities|module lookup disabled|reading http' <<<"$$out"; then echo "vuln: $$dir: NOT CHECKED: NO DATABASE OF VULNERABILITIES CAN BE REACHED"; \
		else echo "$$out"; exit 1; fi; \
	done

bench: ## measure speed, memory and load, and print the table
	@go test ./internal/bench -run "TestTable|TestStores" -table -count=1 -timeout 4h -v

# Virtual hours. They must be done within five minutes on two processors.
SIM_HOURS ?= 10000

simulate: ## run the state machine through SIM_HOURS virtual hours of faults, and print the figures
	@go test ./election -run 'TestSimulation$$' -sim.hours=$(SIM_HOURS) -count=1 -timeout 24h -v

mutants: ## break backends and cores on purpose: each must be found by the check that is there to find it
	@{ go test ./conformance -run TestEachMutantIsKilledByItsCase -count=1 -v && \
		go test ./internal/mutants -run TestEachBrokenCoreIsFound -mutants.all -count=1 -timeout 2h -v; } | grep --line-buffered -vE '^(===|---|    ---)'

model: ## have spin search all models of the protocol, and print the table
	@{ command -v spin && command -v gcc; } >/dev/null || scripts/deps
	@go test ./proof/models -run TestModels -full -count=1 -timeout 2h -v | grep -vE '^(===|---|    ---)'

model-trail: ## MODEL=lease/own-ttl: print how that twin fails, step by step
	@{ command -v spin && command -v gcc; } >/dev/null || scripts/deps
	@go test ./proof/models -run TestTrail -trail "$(MODEL)" -count=1 -timeout 2h -v | grep -vE '^(===|---)'

# Of each backend. Histories take half a minute, and four run at a time: JOBS is how
# many. CHAOS passes other options, such as -backend etcd, or -fault and -seed.
HISTORIES ?= 30
JOBS ?= 4
CHAOS ?=

chaos: deps ## HISTORIES=30: torment real processes on real servers, add to docs/chaos.json, print the table and write a page
	@cd internal/chaos && go test -run TestChaos -histories $(HISTORIES) -parallel $(JOBS) -doc ../../docs/chaos.md -count=1 -timeout 24h -v $(CHAOS) . | grep -vE '^(===|---|    ---|        ---)'

road: deps ## move a fleet of Java processes on ZooKeeper to MySQL and back, under kills, and see that there are never two leaders
	@go test ./backend/migration -run TestTheRoadFromCuratorToMySQLAndBack -count=1 -timeout 15m -v | grep --line-buffered -vE '^(===|---)' | sed -u 's/^ *java_test.go:[0-9]*: //'

# For each target. FUZZ chooses: make fuzz FUZZ=FuzzRow FUZZTIME=10m. What is found is
# written to testdata/fuzz beside the target, and tried by every "go test" from then on.
# On a busy machine Go's engine may end with "context deadline exceeded": its time is up.
FUZZTIME ?= 30s
FUZZ ?= Fuzz

fuzz: ## FUZZTIME=30s: feed everything that reads what others wrote with what nobody would write
	@found=0; while IFS=: read -r file target; do \
		target=$${target#func }; target=$${target%%(*}; dir=$$(dirname "$$file"); \
		if out=$$(cd "$$dir" && go test . -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) 2>&1) || \
			{ ! grep -q 'Failing input' <<<"$$out" && grep -q '^    context deadline exceeded$$' <<<"$$out"; }; then \
			echo "fuzz: $${dir#./} $$target: $$(grep -o 'execs: [0-9]*' <<<"$$out" | tail -n 1 | cut -d ' ' -f 2) inputs, nothing found"; \
		else echo "$$out"; found=1; fi; \
	done < <(grep -rE --include='*_test.go' -o '^func ($(FUZZ))[A-Za-z]*\(' . | sort); exit $$found

all: check vuln test verify ## check, vuln, test, verify
