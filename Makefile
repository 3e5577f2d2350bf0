# On a new machine, run `make demo` or `make test`. Both first install the programs that they need.

CARGO ?= cargo
OUT ?= results

.PHONY: demo test test-fast check check-each docs site bench bench-quick fuzz miri clean gateways-extra kubernetes-lab packages packages-check other-systems setup-check setup-demo setup-test setup-bench build build-tests

demo: setup-demo ## Measure nginx, HAProxy and Envoy, and print the report
	$(CARGO) build --profile demo --locked
	./target/demo/hoptax run plans/quickstart.yaml --skip-missing --accept-void --out $(OUT)

# Compiles beside the set-up, unless the set-up must first install the C compiler.
test: ## Install what tests need and run all tests; lists skipped, repeated and slow tests at the end
	@$(MAKE) --no-print-directory -j$$(command -v cc > /dev/null && echo 2 || echo 1) setup-test build-tests
	CARGO="$(CARGO)" scripts/run-tests.py

test-fast: ## Run the tests that start no process (a minute after the build); installs nothing
	CARGO="$(CARGO)" scripts/run-tests.py --fast

check: setup-check ## Check formatting, spelling, wording, workflows, licenses of the chart library, and lints
	$(CARGO) fmt --all --check
	scripts/prose.py
	scripts/workflows.sh
	scripts/chart-library/licenses.py
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# In a build of the whole workspace, a crate also has the features that other crates ask for.
check-each: ## Check that each crate compiles by itself
	set -e; for crate in crates/*; do $(CARGO) check --locked --all-targets -p "$${crate#crates/}"; done

docs: ## Generate the pages of gateways, findings, results and the command line
	$(CARGO) build --quiet --locked -p hoptax
	$(CARGO) run --quiet --locked -p hoptax -- gateways --pages docs/gateways
	$(CARGO) run --quiet --locked -p hoptax -- generate reference findings > docs/reference/findings.md
	$(CARGO) run --quiet --locked -p hoptax -- generate reference > docs/reference/cli.md
	$(CARGO) run --quiet --locked -p hoptax -- generate reference openapi > docs/reference/openapi.json
	scripts/results.py

site: ## Build the documentation as a web site in target/site; installs mdBook if needed
	@scripts/site.py

bench: setup-bench build ## Run all benchmarks (about 85 minutes) and compare with other tools; results go to records/
	benches/run full

bench-quick: setup-bench build ## Run short benchmarks (about 15 minutes); results go to target/
	benches/run quick

FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= response request chunked http2 hpack grpc template plan spec histogram

fuzz: $(FUZZ_TARGETS:%=fuzz-%) ## Run each fuzz target for FUZZ_SECONDS; needs cargo-fuzz and a nightly compiler

fuzz-%:
	mkdir -p fuzz/found/$*
	$(CARGO) +nightly fuzz run $* fuzz/found/$* fuzz/corpus/$* -- -max_total_time=$(FUZZ_SECONDS) -max_len=2048 \
	    -timeout=10 -rss_limit_mb=1024 -dict=fuzz/dictionaries/$(if $(filter response request chunked,$*),http,$(if $(filter hpack,$*),http2,$*))

miri: ## Run codecs, pacer, recorder, timeouts and histograms under Miri; needs a nightly compiler
	$(CARGO) +nightly miri test --locked -p hoptax-wire
	$(CARGO) +nightly miri test --locked -p hoptax-format --lib -- histogram:: random checks template
	$(CARGO) +nightly miri test --locked -p hoptax-load --lib -- pacer recorder timeouts checks

build:
	$(CARGO) build --release --locked

build-tests:
	$(CARGO) test --workspace --locked --no-run --quiet

packages: ## Build static binaries, wheels, Debian packages and container images into dist/ (about 20 minutes at first)
	@scripts/packages/build.py $(if $(TARGETS),--targets $(TARGETS))

packages-check: packages ## Install each package and measure a hop with it
	@scripts/packages/check.py

other-systems: ## Check that commands that only read files compile for macOS and Windows
	@scripts/packages/systems.py

gateways-extra: ## Build gateways that have no packages (minutes, hundreds of megabytes); needs java, mvn, node, npm, go, python3
	@scripts/gateways-extra.sh

kubernetes-lab: ## Build a Kubernetes API server (10 to 25 minutes, 5 GB); see docs/guides/kubernetes-api-server.md
	@scripts/kubernetes-lab.sh build

setup-check:
	@scripts/setup.sh check

setup-demo:
	@scripts/setup.sh demo

setup-test:
	@scripts/setup.sh test

setup-bench:
	@scripts/setup.sh bench

clean:
	$(CARGO) clean
	rm -rf $(OUT) dist
