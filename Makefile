SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# As hack/tools.sh and hack/release build: what has the same flags is compiled once, wherever the repository is. Without
# debugging information compiling takes an eighth less; stack traces do not need it.
export GOFLAGS := -buildvcs=false -trimpath -gcflags=all=-dwarf=false
export CGO_ENABLED := 0

BIN := .cache/bin
CASE ?= admitted
TARGET ?=
KEEP ?=
RUN ?=
CLAIMS ?= 200
ROOM ?= 50
KILLS ?= 12
SEED ?= 0
REGISTRY ?=
PROVIDER_REGISTRY ?=
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
RELEASE = $(if $(REGISTRY),--registry="$(REGISTRY)") $(if $(PROVIDER_REGISTRY),--provider-registry="$(PROVIDER_REGISTRY)") --revision="$(REVISION)"
# Reports of vulnerabilities, for where their server cannot be reached.
VULNDB := golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: render
render: ## Render a case of test/render with Crossplane's engine: [CASE=over-quota] [TARGET=dns:///127.0.0.1:9443]
	@hack/tools.sh crossplane-cli crossplane-core >&2
	@go build -o $(BIN)/render ./hack/render
	@$(BIN)/render -target="$(TARGET)" "$(CASE)"

.PHONY: demo
demo: controlplane ## Bring the control plane up and show what it does: [KEEP=1] leaves it running
	@$(BIN)/controlplane demo $(if $(KEEP),--keep)

.PHONY: up
up: controlplane ## Bring up a real control plane on this machine: docs/local-control-plane.md
	@$(BIN)/controlplane up

.PHONY: down
down: controlplane ## End everything that make up started, and remove its data
	@$(BIN)/controlplane down

.PHONY: status
status: controlplane ## Show what runs of the control plane
	@$(BIN)/controlplane status

.PHONY: controlplane
controlplane:
	@go build -o $(BIN)/controlplane ./hack/controlplane

.PHONY: e2e
e2e: ## Test on a real control plane: [RUN=TestName]
	@go test -vet=off -count=1 -timeout=55m -parallel=16 ./test/e2e -run "$(RUN)"

.PHONY: storm
storm: ## Storm a control plane while its parts are killed, and measure latency and overhead: [CLAIMS=200] [ROOM=50] [KILLS=12] [SEED=0] [RUN=TestStorm]
	@go test -count=1 -timeout=2h -v ./test/e2e -run "$(or $(RUN),^(TestLatency|TestOverhead|TestStorm)$$)" -storm.full \
		-storm.claims=$(CLAIMS) -storm.room=$(ROOM) -storm.kills=$(KILLS) -storm.seed=$(SEED)

.PHONY: test
test: ## Check everything: generated files, module files, lint, workflows, unit tests, packages, render cases, the model of the ledger, a control plane
	@trap 'echo "make test: $$SECONDS s"' EXIT; $(MAKE) -j2 e2e lint-unit-and-model

# The tests on the control plane mostly wait. They run beside all others, which leave them the processors when they want
# them. The race detector is for what works concurrently in the product: it takes a second build of all that is linked. Those
# of the ledger that do not come again in model are quick in it. lint vets everything.
.PHONY: lint-unit-and-model
lint-unit-and-model:
	@nice -n 19 $(MAKE) tools generate-check tidy-check lint workflows
	@CGO_ENABLED=1 nice -n 19 go test -vet=off -race -short ./fn ./internal/ledger
	@nice -n 19 go test -vet=off $$(go list ./... | grep -vE '/test/e2e$$|/internal/ledger$$')
	@nice -n 19 $(MAKE) model

.PHONY: model
model: ## Check the ledger in every interleaving: [OPS=4] explores more
	@go test -vet=off -count=1 -timeout=1h -v -run '^TestModel' ./internal/ledger -model.ops="$(or $(OPS),0)" | grep -vE '^ {6}|^=== '

.PHONY: unit
unit: ## Run the unit tests only, without the render cases
	@CGO_ENABLED=1 go test -race -short ./...

.PHONY: golden
golden: tools ## Rewrite the golden file of every render case
	@go test -count=1 ./hack/render -run TestCases -update

.PHONY: matrix
matrix: ## Render with the CLIs of v1.20 and v1.16 too: docs/compatibility.md
	@hack/tools.sh crossplane-cli crossplane-core crossplane-cli-1.20 crossplane-cli-1.16
	@go test -count=1 ./hack/render -run '^TestOlderCLIs' -matrix

.PHONY: image
image: release ## Build the function's image for linux/amd64 and linux/arm64, without Docker
	@$(BIN)/release $(RELEASE) image

.PHONY: xpkg
xpkg: release ## Build both packages and the chart: [REGISTRY=registry.example.org/rig-gateway] [PROVIDER_REGISTRY=…]
	@$(BIN)/release $(RELEASE) xpkg

.PHONY: push
push: release ## Build and publish both packages and the chart: REGISTRY=… PROVIDER_REGISTRY=…, prints digests
	@[[ -n "$(REGISTRY)" && -n "$(PROVIDER_REGISTRY)" ]] || { echo "set REGISTRY and PROVIDER_REGISTRY: docs/install.md" >&2; exit 1; }
	@$(BIN)/release $(RELEASE) push

.PHONY: version
version: release ## Print the version that would be published
	@$(BIN)/release $(RELEASE) version

.PHONY: release
release:
	@hack/tools.sh crossplane-cli >&2
	@go build -o $(BIN)/release ./hack/release

.PHONY: sbom
sbom: image ## Write what is linked into the function, as CycloneDX: .cache/release/linux-*/sbom.json
	@hack/tools.sh cyclonedx-gomod >&2
	@for dir in .cache/release/linux-*; do \
	  $(BIN)/cyclonedx-gomod bin -json -std -noserial -notimestamp -output "$$dir/sbom.json" "$$dir/rootfs/usr/local/bin/function-rig"; done

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what the function calls: [ONLINE=1] asks their server
	@hack/tools.sh govulncheck >&2
	@$(BIN)/govulncheck $(if $(ONLINE),,-db "file://$$(cd / && go mod download -json $(VULNDB) | awk -F '"' '$$2 == "Dir" { print $$4 }')/data/osv") ./fn

.PHONY: workflows
workflows: ## Lint the workflows
	@hack/tools.sh actionlint >&2
	@$(BIN)/actionlint

.PHONY: generate
generate: ## Generate deep copies, XRDs and the input's CRD from the Go types
	@hack/tools.sh controller-gen
	@hack/generate.sh

.PHONY: generate-check
generate-check: ## Fail if generated files are stale
	@hack/tools.sh controller-gen
	@hack/generate.sh check

.PHONY: tidy-check
tidy-check: ## Fail if go.mod or go.sum is not tidy
	@go mod tidy -diff || { echo "go.mod is not tidy: run go mod tidy" >&2; exit 1; }

.PHONY: lint
lint: ## Run the linters
	@hack/tools.sh golangci-lint
	@$(BIN)/golangci-lint run

.PHONY: tools
tools: ## Build the pinned tools into .cache/bin, where they are not up to date
	@hack/tools.sh

.PHONY: clean
clean: ## End the control plane and remove what was built
	@for dir in .cache/controlplane/*; do [[ ! -d $$dir ]] || $(BIN)/controlplane --name="$${dir##*/}" down; done
	rm -rf .cache
