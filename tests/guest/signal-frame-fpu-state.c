/*
 * What a handler makes of the FPU state in its frame: changed registers, marks, places, and what
 * the CPU refuses.
 */
#include "guest.h"

#define MAGIC1 464 /* struct _fpx_sw_bytes */
#define XSTATE_BV 512

static void (*change)(ucontext_t *);

static void handler(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	asm volatile("pcmpeqd %%xmm15, %%xmm15; pcmpeqd %%xmm0, %%xmm0" : : : "xmm0", "xmm15");
	change(context);
}

static unsigned char *state(ucontext_t *c)
{
	return (unsigned char *)c->uc_mcontext.fpregs;
}

static unsigned state_size(ucontext_t *c)
{
	unsigned size;

	memcpy(&size, state(c) + MAGIC1 + 16, sizeof(size));
	return size;
}

static void nothing(ucontext_t *c)
{
	(void)c;
}

static void xmm15(ucontext_t *c)
{
	memset(state(c) + 160 + 15 * 16, 0x5a, 16);
}

static void rounding(ucontext_t *c)
{
	memcpy(state(c) + 24, &(unsigned){ 0x7f80 }, 4);
}

static void initial(ucontext_t *c)
{
	memset(state(c) + XSTATE_BV, 0, 8); /* what the components hold counts no more */
}

static void unknown_component(ucontext_t *c)
{
	state(c)[XSTATE_BV + 7] |= 0x40;
}

static void compacted(ucontext_t *c)
{
	state(c)[XSTATE_BV + 15] |= 0x80;
}

static void no_marks(ucontext_t *c)
{
	xmm15(c);
	memset(state(c) + MAGIC1, 0, 4);
}

static void no_end_mark(ucontext_t *c)
{
	xmm15(c);
	memset(state(c) + state_size(c), 0, 4);
}

static void no_state(ucontext_t *c)
{
	c->uc_mcontext.fpregs = 0;
}

static void elsewhere(ucontext_t *c)
{
	static unsigned char copy[8192] __attribute__((aligned(64)));

	xmm15(c);
	memcpy(copy, state(c), state_size(c) + 4);
	c->uc_mcontext.fpregs = (void *)copy;
}

static void misaligned(ucontext_t *c)
{
	static unsigned char copy[8192] __attribute__((aligned(64)));

	memcpy(copy + 8, state(c), state_size(c) + 4);
	c->uc_mcontext.fpregs = (void *)(copy + 8);
}

/* Its second part is in a page that the CPU touches first, on the kernel's behalf. */
static void untouched(ucontext_t *c)
{
	char *at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(at + 3 * PAGE, PAGE);
	xmm15(c);
	memcpy(at + PAGE - 576, state(c), state_size(c) + 4);
	c->uc_mcontext.fpregs = (void *)(at + PAGE - 576);
	madvise(at + PAGE, PAGE, MADV_DONTNEED);
	/* The end mark has gone: only the legacy area counts. */
}

static void missing(ucontext_t *c)
{
	char *at = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(at + PAGE, PAGE);
	c->uc_mcontext.fpregs = (void *)(at + PAGE);
}

static void of_the_kernel(ucontext_t *c)
{
	c->uc_mcontext.fpregs = (void *)0xffffffff80000000ul;
}

/* Marks of the shortest extended state, of the components in `features`. */
static void mark(unsigned char *at, unsigned long features)
{
	memset(at + XSTATE_BV, 0, 64);
	at[XSTATE_BV] = 3;
	memcpy(at + MAGIC1 + 4, &(unsigned){ 580 }, 4);
	memcpy(at + MAGIC1 + 8, &features, 8);
	memcpy(at + MAGIC1 + 16, &(unsigned){ 576 }, 4);
	memcpy(at + 576, &(unsigned){ 0x46505845 }, 4);
}

static void shorter(ucontext_t *c)
{
	xmm15(c);
	mark(state(c), ~0ul);
}

static void shorter_without_sse(ucontext_t *c)
{
	xmm15(c);
	mark(state(c), 1);
}

static void without_components(ucontext_t *c)
{
	xmm15(c);
	memset(state(c) + MAGIC1 + 8, 0, 8);
}

static void wrong_header(ucontext_t *c)
{
	mark(state(c), 3);
	state(c)[XSTATE_BV + 16] = 1;
}

static void reserved_rounding(ucontext_t *c)
{
	mark(state(c), 3);
	state(c)[27] = 0x10;
}

/* An XSAVE area lies at a multiple of 64, one of FXSAVE at one of 16. */
static void misaligned_shorter(ucontext_t *c)
{
	misaligned(c);
	memmove(state(c) + 8, state(c), 584);
	c->uc_mcontext.fpregs = (void *)(state(c) + 8);
	mark(state(c), 3);
}

static void misaligned_legacy(ucontext_t *c)
{
	misaligned(c);
	memset(state(c) + MAGIC1, 0, 4);
}

static void half_aligned_legacy(ucontext_t *c)
{
	misaligned_shorter(c);
	memset(state(c) + MAGIC1, 0, 4);
}

/* The last bytes of a page, behind which none is. */
static void at_the_end(ucontext_t *c, unsigned bytes)
{
	char *at = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(at + 2 * PAGE, PAGE);
	xmm15(c);
	mark(state(c), 3);
	memcpy(at + 2 * PAGE - bytes, state(c), bytes);
	c->uc_mcontext.fpregs = (void *)(at + 2 * PAGE - bytes);
}

static void without_second_mark(ucontext_t *c)
{
	at_the_end(c, 576);
}

static void legacy_at_the_end(ucontext_t *c)
{
	at_the_end(c, 512);
	memset(state(c) + MAGIC1, 0, 4);
}

static void show(const char *name)
{
	static unsigned char in[16], out[16], zero[16];
	unsigned mxcsr = 0x1f80, after;

	memset(in, 0x11, 16);
	memset(zero, 0, 16);
	asm volatile("ldmxcsr %[m]; movdqu (%[in]), %%xmm15\n"
		     "mov %[call], %%eax; mov %[pid], %%edi; mov %[signal], %%esi; syscall\n"
		     "movdqu %%xmm15, (%[out]); stmxcsr %[after]; ldmxcsr %[m]"
		     : [after] "=m"(after)
		     : [m] "m"(mxcsr), [in] "r"(in), [out] "r"(out), [call] "i"(SYS_kill), [pid] "r"(getpid()),
		       [signal] "i"(SIGUSR1)
		     : "rax", "rdi", "rsi", "rcx", "r11", "xmm15", "memory");
	printf("%s: xmm15 %02x..%02x, mxcsr %x\n", name, out[0], out[15], after);
}

/* The frame on an alternate stack that begins in a page which is not there yet, or never. */
static void on_stack(const char *name, int is_there)
{
	char *at = mmap(0, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = at, .ss_size = 32 * PAGE };
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaltstack(&stack, 0);
	sigaction(SIGUSR1, &action, 0);
	if (!is_there)
		mprotect(at + 31 * PAGE, PAGE, PROT_READ);
	change = xmm15;
	show(name);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*change)(ucontext_t *);
	} cases[] = {
		{ "nothing", nothing }, { "xmm15", xmm15 }, { "rounding", rounding }, { "initial", initial },
		{ "unknown component", unknown_component }, { "compacted", compacted }, { "no marks", no_marks },
		{ "no end mark", no_end_mark }, { "no state", no_state }, { "elsewhere", elsewhere },
		{ "misaligned", misaligned }, { "untouched", untouched }, { "missing", missing },
		{ "of the kernel", of_the_kernel }, { "shorter", shorter }, { "shorter without SSE", shorter_without_sse },
		{ "without components", without_components }, { "wrong header", wrong_header },
		{ "reserved rounding", reserved_rounding }, { "misaligned shorter", misaligned_shorter },
		{ "misaligned legacy", misaligned_legacy }, { "half aligned legacy", half_aligned_legacy },
		{ "without second mark", without_second_mark }, { "legacy at the end", legacy_at_the_end },
	};
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	int status;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]) + 2; i++) {
		fflush(stdout);
		pid_t child = fork();

		if (!child) {
			sigaction(SIGUSR1, &action, 0);
			if (i < 2) {
				on_stack(i ? "read-only stack" : "fresh stack", !i);
			} else {
				change = cases[i - 2].change;
				show(cases[i - 2].name);
				show("again");
			}
			fflush(stdout);
			_exit(0);
		}
		waitpid(child, &status, 0);
		printf("%s: %s %d\n", i < 2 ? "stack" : cases[i - 2].name, WIFSIGNALED(status) ? "signal" : "exit",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	return 0;
}
