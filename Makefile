# `make demo` and `make test` are all that a fresh machine needs: each sets up what it uses first.

CARGO ?= cargo
OUT ?= results

.PHONY: demo test check bench clean setup-demo setup-test build

demo: setup-demo build ## Measure nginx, HAProxy and Envoy against direct, and show it
	./target/release/hoptax run plans/quickstart.yaml --skip-missing --accept-void --out $(OUT)

test: setup-test ## Set-up and all tests
	$(CARGO) test --workspace --locked

check: ## Format, lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

bench: setup-test build ## Every benchmark; prints ratios against named peers
	benches/run

build:
	$(CARGO) build --release --locked

setup-demo:
	@scripts/setup.sh demo

setup-test:
	@scripts/setup.sh test

clean:
	$(CARGO) clean
	rm -rf $(OUT)
