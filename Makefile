# Tasks for developers of this project. "make help" lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# These tools run by "go run": they do not become dependencies of the module.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# The root module and the nested modules, except those that only pin the version of a server.
MODULES := $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/testdata/*' -not -path './internal/tools/*' | sort))

.PHONY: help demo deps test verify check vuln bench pictures simulate mutants model model-trail chaos road fuzz all

help: ## list all tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

demo: ## show a leader being elected, killed and replaced; needs only Go
	@echo "go run ./cmd/elect demo  (the first time, it downloads and compiles for a minute)" >&2
	@go run ./cmd/elect demo

deps: ## install what the tests need (Debian, as root), or say what to do
	@scripts/deps

test: ## run the fast tier, in minutes: tests without a server, and each backend's contract on a real server
	@scripts/test fast

verify: deps ## run all tests, most with the race detector: clusters, faults, fleets, browsers, chaos, models
	@scripts/test verify $(MODULES)

# What fails is tried once more: a download may have failed.
check: ## run gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l .); if [[ -n $$unformatted ]]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	@for dir in $(MODULES); do (cd "$$dir"; for tool in "go vet" "go run $(STATICCHECK)"; do $$tool ./... || $$tool ./...; done); done
	@echo "check: gofmt, go vet and staticcheck found nothing"

vuln: ## look for known vulnerabilities in dependencies
	@for dir in $(MODULES); do \
		if out=$$(cd "$$dir" && go run $(GOVULNCHECK) ./... 2>&1); then echo "vuln: $$dir: $$(tail -n 1 <<<"$$out")"; \
		elif grep -qE 'fetching vulnerabilities|module lookup disabled|reading http' <<<"$$out"; then echo "vuln: NOT CHECKED: NO DATABASE OF VULNERABILITIES CAN BE REACHED"; exit 0; \
		else echo "$$out"; exit 1; fi; \
	done

bench: ## measure speed, memory and load, and print the tables
	@cd lab/bench && go test -run "TestTable|TestStores|TestCrashes|TestFleets" -table -count=1 -timeout 4h -v

pictures: ## draw the picture of docs/bench.md from its tables again
	@go test ./lab/figures -run TestThePicture -draw -count=1

# Virtual hours. They must take less than five minutes on two processors.
SIM_HOURS ?= 10000

simulate: ## SIM_HOURS=10000: run the state machine through virtual hours of faults, over package lease for a twentieth of them, and print the figures
	@go test ./election -run 'TestSimulation(OverLease)?$$' -sim.hours=$(SIM_HOURS) -count=1 -timeout 24h -v

mutants: ## break backends, the core, the guard and Kubernetes on purpose: the check for each rule must find each mutant
	@{ go test ./conformance -run TestEachMutantIsKilledByItsCase -count=1 -v && \
		go test ./lab/mutants -run 'TestEachBroken(Core|LeaseProtocol|Term|Guard|Kubernetes|Place)IsFound' -mutants.all -count=1 -timeout 2h -v; } | grep --line-buffered -vE '^(===|---|    ---)'

model: ## search all models of the protocol with spin, and print the table
	@{ command -v spin && command -v gcc; } >/dev/null || scripts/deps
	@go test ./lab/models -run TestModels -full -count=1 -timeout 2h -v | grep -vE '^(===|---|    ---)'

model-trail: ## MODEL=lease/own-ttl: print step by step how that twin breaks the rule
	@{ command -v spin && command -v gcc; } >/dev/null || scripts/deps
	@go test ./lab/models -run TestTrail -trail "$(MODEL)" -count=1 -timeout 2h -v | grep -vE '^(===|---)'

# HISTORIES is the number for each backend. A history takes half a minute; JOBS run at a
# time. CHAOS passes other options, such as -backend etcd, or -fault and -seed.
HISTORIES ?= 30
JOBS ?= 4
CHAOS ?=

chaos: deps ## HISTORIES=30: inject faults into real processes and servers, add to docs/chaos.json and docs/chaos.md
	@cd lab/chaos && go test -run TestChaos -histories $(HISTORIES) -parallel $(JOBS) -count=1 -timeout 24h -v $(CHAOS) . | grep -vE '^(===|---|    ---|        ---)'

road: deps ## move Java processes from ZooKeeper to MySQL and back, under kills, and check that two never lead
	@go test ./backend/curator -run TestTheRoadFromOtherProgramsToMySQLAndBack/LeaderLatch -count=1 -timeout 15m -v | grep --line-buffered -vE '^ *(===|---)' | sed -u 's/^ *[a-z_]*.go:[0-9]*: //'

# FUZZTIME is the time for each target. FUZZ selects targets: make fuzz FUZZ=FuzzRow
# FUZZTIME=10m. Failing inputs are written to testdata/fuzz beside the target, and every
# later "go test" runs them. On a busy machine Go's fuzzing engine may end with "context
# deadline exceeded" when its time is up; that is not a failure.
FUZZTIME ?= 30s
FUZZ ?= Fuzz

fuzz: ## FUZZTIME=30s: fuzz all code that parses data from outside
	@found=0; while IFS=: read -r file target; do \
		target=$${target#func }; target=$${target%%(*}; dir=$$(dirname "$$file"); \
		if out=$$(cd "$$dir" && go test . -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) 2>&1) || \
			{ ! grep -q 'Failing input' <<<"$$out" && grep -q '^    context deadline exceeded$$' <<<"$$out"; }; then \
			echo "fuzz: $${dir#./} $$target: $$(grep -o 'execs: [0-9]*' <<<"$$out" | tail -n 1 | cut -d ' ' -f 2) inputs, nothing found"; \
		else echo "$$out"; found=1; fi; \
	done < <(grep -rE --include='*_test.go' -o '^func ($(FUZZ))[A-Za-z]*\(' . | sort); exit $$found

all: check vuln test verify ## run check, vuln, test and verify
