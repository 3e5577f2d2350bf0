# `make demo` and `make test` are all that a fresh machine needs: each sets up what it uses first.

CARGO ?= cargo
OUT ?= results

.PHONY: demo test check bench bench-quick clean setup-demo setup-test setup-bench build

demo: setup-demo build ## Measure nginx, HAProxy and Envoy against direct, and show it
	./target/release/hoptax run plans/quickstart.yaml --skip-missing --accept-void --out $(OUT)

test: setup-test ## Set-up and all tests
	$(CARGO) test --workspace --locked
	benches/tests.py

check: ## Format, lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

bench: setup-bench build ## Every benchmark, about 85 minutes; prints ratios against named peers, kept under records/
	benches/run full

bench-quick: setup-bench build ## The same with few and short turns, about 15 minutes; kept under target/
	benches/run quick

build:
	$(CARGO) build --release --locked

setup-demo:
	@scripts/setup.sh demo

setup-test:
	@scripts/setup.sh test

setup-bench:
	@scripts/setup.sh bench

clean:
	$(CARGO) clean
	rm -rf $(OUT)
