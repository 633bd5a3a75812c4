# Hanare: `make demo` shows it, `make test` tests it, `make install` installs it.
#
#   make            build everything for the sandbox VM's default kernel
#   make all-kernels  build the module for 6.1, 6.12 and 7.2
#   make check      host tests only (seconds): unit, property, loom, tidy

KERNEL ?= 6.1
B := build
LWK := kernel/target/x86_64-unknown-none/release/hanare-lwk
PROXY := tools/proxy/target/x86_64-unknown-none/release/hanare-proxy

.PHONY: build
build: setup bin lwk module

.PHONY: setup
setup:
	@tools/setup

.PHONY: bin
bin:
	@mkdir -p $(B)/bin
	cargo build --quiet --release -p hanare
	cd tools/proxy && cargo build --quiet --release
	@install -m 755 target/release/hanare $(PROXY) $(B)/bin/

.PHONY: lwk
lwk:
	@mkdir -p $(B)/lwk
	cd kernel && cargo build --quiet --release
	@install -m 644 $(LWK) $(B)/lwk/hanare-lwk

.PHONY: module all-kernels
module:
	@$(MAKE) --no-print-directory -C module KERNEL=$(KERNEL)
all-kernels:
	@$(MAKE) --no-print-directory -C module all-kernels
