# What every Makefile prints: a line for each step, with V=1 each command, with `make -s` nothing.
#
#   $(call say,CC,name)    first line of a recipe; behind it $(Q)command, $(Q)$(CARGO) build …
ifeq ($(V),0)
override V :=
endif
Q := $(if $(V),,@)
say = @$(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),:,echo '  $(1)$(if $(2), $(2))')
# Of crates, what the lock files say, and nothing newer.
# Without make's job server, which a command that is no $(MAKE) does not get.
CARGO := env -u MAKEFLAGS -u MFLAGS cargo
CARGO_FLAGS := --locked
export CARGO_TERM_QUIET := $(if $(V),false,true)
