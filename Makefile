# Hanare: `make demo` shows it, `make test` tests it, `make install` installs it.
#
#   make            build everything for the sandbox VM's default kernel
#   make checked    build the LWK with assertions
#   make all-kernels  build the module for 6.1, 6.12 and 7.2
#   make demo       see it work, in the sandbox VM
#   make bench      figures, in the sandbox VM
#   make figures    docs/figures.md: the same beside Linux plain and tuned, in two VMs
#   make library    build libhanare, for programs that post calls
#   make native     build everything for the running kernel, whose headers have to be there
#   make install    what make native built, as root; PREFIX, DESTDIR; make uninstall
#   make quick      host tests before a commit (a minute or two): formats, clippy, unit tests, tidy
#   make check      host tests only (some minutes): also loom, the libraries, native tasks;
#                   TESTS_TIER=long for full depth
#   make fuzz       fuzz the parsers of foreign data, FUZZ_SECONDS of CPU time each (default: 60);
#                   TARGET=elf for one
#   make miri       the tests of ikc under miri, if a nightly toolchain has it
#   make test       each promise once, 25 minutes; GROUP=faults for one group of tests/run,
#                   TESTS=-v for more words
#   make test-long  everything, 150 minutes; goes on where it was interrupted
#   V=1             each command that a target executes

include tools/build.mk

KERNEL ?= 6.1
B := build
# The command, of which `hanare run` is nearly all that there is to wait for: nothing to load,
# nothing to relocate.
STATIC := -C target-feature=+crt-static -C relocation-model=static
PROXY := tools/proxy/target/x86_64-unknown-none/release/hanare-proxy

.PHONY: build
build: setup bin async lwk module demonstrators

.PHONY: setup
setup:
	@tools/setup

.PHONY: bin proxy
bin: proxy
	$(call say,COMMAND)
	$(Q)$(CARGO) rustc $(CARGO_FLAGS) --release -p hanare-cli --bin hanare -- $(STATIC)
	@$(MAKE) --no-print-directory -C bench/guest
	@$(MAKE) --no-print-directory -C bench/posted
	@install -m 755 target/release/hanare $(B)/bin/
proxy:
	$(call say,PROXY)
	@mkdir -p $(B)/bin
	$(Q)cd tools/proxy && $(CARGO) build $(CARGO_FLAGS) --release
	@install -m 755 $(PROXY) $(B)/bin/

# Preloaded by `hanare run --async` (docs/async.md).
.PHONY: async
async:
	$(call say,ASYNC)
	@mkdir -p $(B)/lib
	$(Q)$(CARGO) build $(CARGO_FLAGS) --profile preload -p hanare-async
	@install -m 755 target/preload/libhanare_async.so $(B)/lib/libhanare-async.so

# An image is taken from the cache (tools/cached) where it has been built of the same sources, in
# whatever folder: paths in it begin at this one. What the images are made of: kernel/Cargo.toml and
# kernel/build.rs.
image = $(Q)tools/cached $(B)/lwk/$(1) -t "$$(env -u MAKEFLAGS rustc -Vv; ld --version)" -t "$${CARGO_HOME:-$$HOME/.cargo}" \
	kernel abi ikc Cargo.toml .cargo tools/build.mk -- tools/image $(2) $(B)/lwk/$(1)

.PHONY: lwk
lwk:
	$(call say,LWK)
	$(call image,hanare-lwk,release)

# The same with assertions: overflow, accounts of pages, the order of locks.
.PHONY: checked
checked:
	$(call say,LWK,checked)
	$(call image,hanare-lwk-checked,checked)

# Calls and functions that programs post (docs/posted.md). `make -C libhanare install` installs it,
# `make uninstall` removes it, too.
.PHONY: library
library: setup
	@$(MAKE) --no-print-directory -C libhanare

# Programs for `hanare native` (docs/native.md).
.PHONY: demonstrators
demonstrators:
	@$(MAKE) --no-print-directory -C native

.PHONY: module all-kernels
module:
	@$(MAKE) --no-print-directory -C module KERNEL=$(KERNEL)
all-kernels:
	@$(MAKE) --no-print-directory -C module all-kernels

# Rust, a C compiler and the headers of the running kernel are all it needs: not Debian, no VM.
.PHONY: native
native:
	@tools/setup --rust
	@$(MAKE) --no-print-directory -C module native
	@$(MAKE) --no-print-directory bin async lwk

.PHONY: demo
demo: build
	@tools/demo

# The VM has a disk whose answers take a millisecond.
bench_vm := tools/vm --timeout 1800 --append=init_on_alloc=1 --qemu=-device --qemu=virtio-blk-pci,drive=slow \
	--qemu=-blockdev --qemu=driver=null-co,node-name=slow,size=16777216,latency-ns=1000000,read-zeroes=on
in_bench_vm := -- sh -c 'modprobe virtio_blk; exec "$$@"' sh hanare bench --device /dev/vda

# Figures in the sandbox VM (about ten minutes), and the sizes of the parts.
.PHONY: bench sizes
bench: build
	$(bench_vm) $(in_bench_vm) </dev/null
	@cargo xtask sizes
sizes: build
	@cargo xtask sizes

# docs/figures.md and docs/noise.svg (about half an hour). Linux has as many CPUs for the measured
# programs as the LWK: two, in the second VM two that it leaves alone, beside two for itself.
.PHONY: figures
tuned_vm := $(bench_vm) --cpus 6 --append=isolcpus=2-3 --append=nohz_full=2-3 --append=rcu_nocbs=2-3
figures: build
	@mkdir -p $(B)/figures
	$(bench_vm) $(in_bench_vm) --json </dev/null >$(B)/figures/plain.json
	$(tuned_vm) $(in_bench_vm) --json </dev/null >$(B)/figures/tuned.json
	$(tuned_vm) --rw docs -- sh -c 'hanare boot --cpus 4-5 --mem 256M && hanare noise --plot docs/noise.svg' </dev/null
	@rm -f docs/figures-*.svg
	$(B)/bin/hanare bench --from $(B)/figures/plain.json --tuned $(B)/figures/tuned.json --json --report docs/figures.md \
		>docs/figures.json

# One line of counts at the end. tests/run --list shows the groups.
.PHONY: quick check test
# What fails, and one line of counts.
quick: setup proxy
	@TESTS_TIER=quick tests/host.sh | awk '/^(FAIL|unstable) /; { count[$$1]++ } \
		END { printf "quick: %d ok, %d failed, %d unstable\n", count["ok"], count["FAIL"], count["unstable"]; exit count["FAIL"] || !count["ok"] }'
check: setup proxy
	@tests/run $(TESTS) host
# What comes over the network, where it is not there yet: packages, crates, kernels, an emulator.
.PHONY: fetch
fetch: setup
	@begin=$$(date +%s) && for kernel in 6.1 6.12 7.2; do tools/kernels fetch $$kernel >/dev/null || exit 1; done && \
		tools/kernels trixie >/dev/null && tools/kernels qemu >/dev/null && \
		for workspace in . kernel tools/proxy native tests/fuzz; do \
			$(CARGO) fetch --quiet --locked --manifest-path $$workspace/Cargo.toml || exit 1; done && \
		echo "fetched what was missing in $$(($$(date +%s) - begin)) s"
# All that tests run, several at once: images of the LWK are optimised by one CPU each.
.PHONY: built
built: fetch
	@begin=$$(date +%s) && tools/crates fetch target tools/proxy/target native/target && \
		$(MAKE) --no-print-directory -j2 all-kernels lwk checked bin async library demonstrators && \
		tools/crates keep target tools/proxy/target native/target && echo "built in $$(($$(date +%s) - begin)) s"
# Each promise once, in at most 25 minutes of two cores; GROUP= names groups of tests/run.
# docs/testing.md has the tiers.
test: built
	@tests/run $(TESTS) $(GROUP)
# Everything, in at most 150 minutes. It can be interrupted, and goes on with groups whose last
# result does not count any more.
.PHONY: test-long
test-long: built
	@tests/run --long $(TESTS) $(GROUP)

# Two targets at once; what breaks a property is shown in hexadecimal, kept, and can be run again.
.PHONY: fuzz
fuzz: setup
	@tests/fuzz/run -j 2 $(TARGET)

.PHONY: miri
miri: setup
	@tests/miri

.PHONY: tidy
tidy:
	@cargo xtask tidy

.PHONY: man
man: bin
	@$(B)/bin/hanare man $(B)/man

# `make native` as yourself, then `sudo make install`, which builds nothing, and installs nothing
# unless it can install everything. MODULE= leaves the module out.
PREFIX ?= /usr/local
DESTDIR ?=
MODULE ?= module
share := $(DESTDIR)$(PREFIX)/share
bindir := $(DESTDIR)$(PREFIX)/bin
libdir := $(DESTDIR)$(PREFIX)/lib/hanare
includedir := $(DESTDIR)$(PREFIX)/include/hanare
mandir := $(share)/man/man1
docdir := $(share)/doc/hanare
bashdir := $(share)/bash-completion/completions
zshdir := $(share)/zsh/site-functions
fishdir := $(share)/fish/vendor_completions.d
udevdir := $(DESTDIR)$(PREFIX)/lib/udev/rules.d
usersdir := $(DESTDIR)$(PREFIX)/lib/sysusers.d
installed := $(B)/bin/hanare $(B)/lib/libhanare-async.so $(B)/bin/hanare-proxy $(B)/bin/hanare-bench-guest \
	$(B)/bin/hanare-bench-posted $(B)/bin/hanare-bench-web $(B)/lwk/hanare-lwk

# The group whose members may run programs. In a DESTDIR the package's installation makes it
# (sysusers.d).
add_group = $(if $(DESTDIR),,@getent group hanare >/dev/null || PATH=$$PATH:/usr/sbin:/sbin groupadd --system hanare)

.PHONY: install installable uninstall
installable:
	@for file in $(installed); do \
		test -f $$file || { echo "install: there is no $$file: run 'make native' first" >&2; exit 1; }; done
	@$(B)/bin/hanare --version >/dev/null || { \
		echo "install: $(B)/bin/hanare does not run on this machine: run 'make native' here" >&2; exit 1; }
	@for folder in $(bindir) $(libdir) $(includedir) $(mandir) $(docdir) $(bashdir) $(zshdir) $(fishdir) $(udevdir) $(usersdir); do \
		while ! test -e $$folder; do folder=$$(dirname $$folder); done; \
		test -d $$folder -a -w $$folder || { \
			echo "install: cannot write to $$folder: sudo make install, or another PREFIX" >&2; exit 1; }; done
	$(if $(MODULE),@$(MAKE) --no-print-directory -C module installable DESTDIR=$(DESTDIR))
install: installable
	install -D -m 755 $(B)/bin/hanare $(bindir)/hanare
	install -D -m 755 -t $(libdir) $(B)/bin/hanare-proxy $(B)/bin/hanare-bench-guest $(B)/bin/hanare-bench-posted \
		$(B)/bin/hanare-bench-web $(B)/lib/libhanare-async.so
	install -D -m 644 $(B)/lwk/hanare-lwk $(libdir)/hanare-lwk
	install -D -m 644 -t $(includedir) native/include/hanare/native.h
	install -D -m 644 -t $(docdir) README.md CONTRIBUTING.md LICENSE LICENSE-MIT
	install -D -m 644 -t $(docdir)/docs $(wildcard docs/*.md docs/*.svg)
	install -d $(bashdir) $(zshdir) $(fishdir)
	$(B)/bin/hanare completion bash > $(bashdir)/hanare
	$(B)/bin/hanare completion zsh > $(zshdir)/_hanare
	$(B)/bin/hanare completion fish > $(fishdir)/hanare.fish
	$(B)/bin/hanare man $(mandir)
	install -D -m 644 module/60-hanare.rules $(udevdir)/60-hanare.rules
	install -D -m 644 module/hanare.sysusers $(usersdir)/hanare.conf
	$(add_group)
	$(if $(MODULE),$(MAKE) --no-print-directory -C module install DESTDIR=$(DESTDIR))
uninstall:
	rm -f $(bindir)/hanare $(mandir)/hanare.1 $(mandir)/hanare-*.1
	rm -f $(bashdir)/hanare $(zshdir)/_hanare $(fishdir)/hanare.fish
	rm -f $(udevdir)/60-hanare.rules $(usersdir)/hanare.conf
	rm -rf $(libdir) $(includedir) $(docdir)
	@for folder in $(mandir) $(bashdir) $(zshdir) $(fishdir) $(udevdir) $(usersdir); do for empty in $$folder $$(dirname $$folder); do \
		test ! -d $$empty || rmdir --ignore-fail-on-non-empty $$empty; done; done
	@$(MAKE) --no-print-directory -C libhanare uninstall PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)
	$(if $(MODULE),$(MAKE) --no-print-directory -C module uninstall DESTDIR=$(DESTDIR))
