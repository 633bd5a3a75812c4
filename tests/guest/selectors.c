/*
 * Selectors that a tracer gives a thread, and that a handler's frame has on its return: what is no
 * selector is refused, and with what no CPU enters user mode there comes SIGSEGV. Prints what is
 * the same on both kernels; 32-bit code is not tried.
 */
#include "guest.h"
#include <elf.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>

#define USER_CS 0x33
#define USER_SS 0x2b

enum { SETREGS, SETREGSET, POKEUSER };

static const char *const ways[] = { "SETREGS", "SETREGSET", "POKEUSER" };

static long set(pid_t child, int way, struct user_regs_struct *regs, size_t at, unsigned long value)
{
	struct iovec all = { regs, sizeof(*regs) };

	*(unsigned long *)((char *)regs + at) = value;
	switch (way) {
	case SETREGS:
		return ptrace(PTRACE_SETREGS, child, 0, regs);
	case SETREGSET:
		return ptrace(PTRACE_SETREGSET, child, NT_PRSTATUS, &all);
	default:
		return ptrace(PTRACE_POKEUSER, child, at, value);
	}
}

static void ended(int status)
{
	if (WIFSTOPPED(status))
		printf(" stopped by %d", WSTOPSIG(status));
	else if (WIFSIGNALED(status))
		printf(" ended by %d", WTERMSIG(status));
	else
		printf(" exited with %d", WEXITSTATUS(status));
}

/* One child gets one selector. */
static void give(int way, const char *name, size_t at, unsigned long value)
{
	struct user_regs_struct regs;
	int status;
	pid_t child = fork();

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(7);
	}
	waitpid(child, &status, 0);
	ptrace(PTRACE_GETREGS, child, 0, &regs);
	errno = 0;
	printf("%s %s %#lx: ", ways[way], name, value);
	if (set(child, way, &regs, at, value)) {
		printf("%s", strerror(errno));
	} else {
		ptrace(PTRACE_GETREGS, child, 0, &regs);
		printf("%#llx %#llx", (unsigned long long)regs.cs, (unsigned long long)regs.ss);
	}
	ptrace(PTRACE_CONT, child, 0, 0);
	waitpid(child, &status, 0);
	ended(status);
	if (WIFSTOPPED(status)) {
		siginfo_t info;

		ptrace(PTRACE_GETSIGINFO, child, 0, &info);
		printf(" code %d", info.si_code);
		ptrace(PTRACE_CONT, child, 0, WSTOPSIG(status));
		waitpid(child, &status, 0);
		ended(status);
	}
	printf("\n");
}

static volatile int cs, ss;
static sigjmp_buf back;

static void on_usr1(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	greg_t *selectors = &c->uc_mcontext.gregs[REG_CSGSFS];

	(void)signal, (void)info;
	*selectors = (*selectors & 0xffffffff0000) | cs | (greg_t)ss << 48;
}

static void on_segv(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	printf("SIGSEGV code %d\n", info->si_code);
	siglongjmp(back, 1);
}

/* A handler's frame with these selectors. */
static void back_with(int code, int stack)
{
	cs = code;
	ss = stack;
	printf("a frame with %#x %#x: ", code, stack);
	if (!sigsetjmp(back, 1)) {
		raise(SIGUSR1);
		printf("goes on\n");
	}
}

int main(void)
{
	static const unsigned long values[] = { 0, 3, 0x10, 0x18, 0x2b, 0x33, 0x10033, 0x1002b, 0x3b, 0x7f, 0xffff, ~0ul };
	struct sigaction usr1 = { .sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO };
	struct sigaction segv = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };

	setbuf(stdout, NULL);
	for (int way = SETREGS; way <= POKEUSER; way++)
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			give(way, "cs", offsetof(struct user_regs_struct, cs), values[i]);
			give(way, "ss", offsetof(struct user_regs_struct, ss), values[i]);
		}
	sigaction(SIGUSR1, &usr1, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	back_with(USER_CS, USER_SS);
	back_with(USER_CS & ~3, USER_SS & ~3);
	back_with(USER_CS, USER_CS);
	back_with(USER_CS, 0);
	back_with(USER_SS, USER_SS);
	back_with(0x7b, USER_SS);
	back_with(0, 0);
	back_with(USER_CS, USER_SS);
	return 0;
}
