# What to do with this project. "make help" lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# These tools are run, not required: users of the module never see them.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# The root module and those nested in it.
MODULES := $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/testdata/*' | sort))

.PHONY: help demo deps test check vuln bench all

help: ## list what there is to do
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: ## see a leader elected, killed and replaced; needs nothing but Go
	@go run ./examples/quickstart

deps: ## install what the tests need (Debian, as root), or say what to do
	@scripts/deps

test: deps ## install what the tests need, and run them
	@scripts/test $(MODULES)

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
	@go test ./internal/bench -run TestTable -table -count=1 -timeout 60m -v

all: check vuln test ## check, vuln, test
