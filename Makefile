SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .cache/bin
CASE ?= admitted

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: render
render: ## Render a case of test/render with Crossplane's own engine: make render CASE=over-quota
	@hack/tools.sh crossplane-cli crossplane-core >&2
	@go build -o $(BIN)/render ./hack/render
	@$(BIN)/render "$(CASE)"

.PHONY: test
test: ## Check everything: generated files, module files, lint, unit tests and render cases
	@trap 'echo "make test: $$SECONDS s"' EXIT; $(MAKE) tools generate-check tidy-check lint; go test -race ./...

.PHONY: unit
unit: ## Run the unit tests only, without the render cases
	@go test -race -short ./...

.PHONY: golden
golden: tools ## Rewrite the golden file of every render case
	@go test -count=1 ./hack/render -run TestCases -update

.PHONY: generate
generate: ## Generate deep copies, XRDs and the input's CRD from the Go types
	@hack/tools.sh controller-gen
	@hack/generate.sh

.PHONY: generate-check
generate-check: ## Fail if generated files are stale
	@hack/tools.sh controller-gen
	@hack/generate.sh check

.PHONY: tidy-check
tidy-check: ## Fail if a go.mod or go.sum is not tidy
	@for mod in . hack/tools/*; do go -C "$$mod" mod tidy -diff || { echo "$$mod/go.mod is not tidy: run go mod tidy there" >&2; exit 1; }; done

.PHONY: lint
lint: ## Run the linters
	@hack/tools.sh golangci-lint
	@$(BIN)/golangci-lint run

.PHONY: tools
tools: ## Build the pinned tools into .cache/bin, where they are not up to date
	@hack/tools.sh

.PHONY: clean
clean: ## Remove what was built
	rm -rf .cache
