# Thin on purpose: each target is a command that can be typed as well. ARGS goes to the program: make up ARGS='--listen 127.0.0.1:9000'
CARGO ?= cargo
.DEFAULT_GOAL := help
.PHONY: help up build test bench soak rocksdb

help: ## what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

up: rocksdb ## release build, then a development log and its witnesses
	$(CARGO) run --release --locked -- up $(ARGS)

build: rocksdb ## release build
	$(CARGO) build --release --locked --workspace

# First everything at once: the suites start the executables, and built by themselves those would get other features of the
# same crates, so that half of the tree would be compiled a second time.
test: rocksdb ## all tests
	$(CARGO) build --workspace --all-targets --locked
	$(CARGO) test --workspace --locked --no-fail-fast $(ARGS)

bench: rocksdb ## the figures of the documentation, beside a peer in Go
	tests/bench/run.sh $(ARGS)

# The suites read SOAK: each loop of rounds runs so many times as long.
soak: rocksdb ## what takes hours: races, kills and seeds fifty times as long (SOAK=50), each parser fuzzed for ten minutes (SECONDS=600), a log of ten million leaves (LEAVES)
	$(CARGO) build --release --workspace --all-targets --locked
	SOAK=$(or $(SOAK),50) $(CARGO) test --release --package countersign-tests --locked -- b125 two_workers races kill between b100 seed
	tests/fuzz/run $(or $(SECONDS),600)
	PEER=none WITNESS_PEER=none ONLY="start disk memory audit" tests/bench/run.sh --leaves $(or $(LEAVES),10000000) --rounds 1 --payload-bytes 128

rocksdb: ## the static RocksDB, once a machine; here because cargo would hide its progress
	@sh log/rocksdb/build.sh >/dev/null
