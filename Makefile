SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The cases that `make cases` runs.
CASES ?= testdata/cases

LINT := .ci/bin/golangci-lint
REPORT := build/requirements

# Results are never taken from go's cache: a test that was skipped because a server was missing would stay skipped after
# the server is there. Two packages at a time, because each may start servers of its own.
TEST := go test -count=1 -p 2

# Reads the stream of go test, prints it for people and counts at its end. Under pipefail the exit code is go test's.
SUMMARY := $(REPORT) summary

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/offerlog, a static binary
	CGO_ENABLED=0 go build -trimpath -o bin/offerlog ./cmd/offerlog

.PHONY: demo
demo: build ## build, start everything in one process and play the acme-eu story
	bin/offerlog dev --demo

.PHONY: test
test: $(REPORT) ## run all tests; needs Go, Java 17 and Maven (for Kafka), PostgreSQL and curl, as root or not
	@$(TEST) -timeout 10m -json ./... | $(SUMMARY) -save build/test.json

.PHONY: test-race
test-race: $(REPORT) ## run all tests under the race detector
	@$(TEST) -timeout 20m -race -json ./... | $(SUMMARY)

.PHONY: check
check: lint test-race ## format, vet, lint, generated files, tests under the race detector

.PHONY: lint
lint: format vet golangci generated ## all of check but the tests

.PHONY: format
format: ## fail if gofmt would change a file
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "run make fmt:"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## go vet, also of the build with fault points
	go vet ./...
	go vet -tags faults ./...

.PHONY: golangci
golangci: $(LINT) ## golangci-lint, built from .ci/tools on first use
	$(LINT) run ./...

.PHONY: generated
generated: ## fail if go generate would change a file
	@digests() { find . \( -path ./.git -o -path ./.ci/bin -o -path ./bin -o -path ./build \) -prune -o -type f -print0 | sort -z | xargs -0 sha256sum; }; \
	before=$$(digests); go generate ./...; after=$$(digests); \
	if [ "$$before" != "$$after" ]; then echo "go generate has changed:"; diff <(echo "$$before") <(echo "$$after") || exit 1; fi

.PHONY: cases
cases: ## run every case folder of CASES (testdata/cases) through the whole pipeline
	@cases=$$(cd "$(CASES)" && pwd); \
	OFFERLOG_CASES="$$cases" go test -count=1 -timeout 30m -v -run '^TestCases$$' ./streams/cases | \
	sed -uE '/^ *(===|---) |^(PASS|FAIL)$$|^(ok *|FAIL)\t/d'

.PHONY: requirements
requirements: $(REPORT) ## list each requirement with its tests and their results in the last `make test`
	@[ -s build/test.json ] || $(MAKE) test || echo "some tests have failed; the list shows whose"
	@$(REPORT) list -doc docs/requirements.md -results build/test.json

.PHONY: soak
soak: ## run the long campaigns, one after the other
	OFFERLOG_SOAK=1 go test -count=1 -timeout 150m -p 1 -v -run Soak ./...

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w .

.PHONY: $(REPORT)
$(REPORT):
	@go build -buildvcs=false -o $@ ./cmd/requirements

$(LINT): .ci/tools/go.mod .ci/tools/go.sum
	go build -C .ci/tools -buildvcs=false -o ../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
