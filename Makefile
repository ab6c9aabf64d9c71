# Thin on purpose: each target is a command that can be typed as well. ARGS goes to the program: make up ARGS='--listen 127.0.0.1:9000'
CARGO ?= cargo
.DEFAULT_GOAL := help
.PHONY: help up build test bench soak rocksdb

help: ## what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

up: rocksdb ## release build, then a development log with three witnesses
	$(CARGO) run --release --locked -- up $(ARGS)

build: rocksdb ## release build
	$(CARGO) build --release --locked --workspace

test: rocksdb ## all tests
	$(CARGO) test --workspace --locked --no-fail-fast $(ARGS)

PEER = tests/peers/bin/tesserapeer
bench: rocksdb ## the figures of the documentation, beside a peer where Go is installed (WHAT='http included ndjson verify')
	@if command -v go >/dev/null; then cd tests/peers && go build -o bin/ ./cmd/tesserapeer; fi
	@for what in $(or $(WHAT),http included ndjson verify); do \
	  $(CARGO) run --quiet --release --locked -- bench $$what $$([ ! -x $(PEER) ] || echo --peer-binary $(PEER)) $(ARGS) || exit 1; \
	done

soak: ## what takes hours: each parser fuzzed for ten minutes (SECONDS=600)
	tests/fuzz/run $(or $(SECONDS),600)

rocksdb: ## the static RocksDB, once a machine; here because cargo would hide its progress
	@sh log/rocksdb/build.sh >/dev/null
