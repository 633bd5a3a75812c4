/*
 * What a kernel gives to a program carries nothing of another one's.
 *	canary plant          a program that has a word everywhere: in memory of each kind, on its
 *	                      stack, in registers, in calls
 *	canary look           looks for that word in all that is fresh, and prints where it is found
 *	canary dump           dies with a core dump
 * No program that looks has the word itself in memory: it is compared by its complement.
 */
#include "guest.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/user.h>

#define COMPLEMENT 0xa53c0ff1ce0ddba1UL
#define WORD (~COMPLEMENT)
#define BYTES (64L << 20)
#define LARGE (2L << 20)

/* Where no other code looks: the compiler keeps no copy of the word. */
static unsigned long word(void)
{
	unsigned long is = COMPLEMENT;

	asm volatile("not %0" : "+r"(is));
	return is;
}

static void fill(void *at, long bytes)
{
	unsigned long *words = at;

	for (long i = 0; i < bytes / 8; i++)
		words[i] = word();
}

static void *mapped(long bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* ---- the program that has it ---- */

/*
 * Registers of every kind have the word while calls are made that take a while, and ones that touch
 * much.
 */
static void call_with_registers(long number, long a, long b, long c)
{
	asm volatile("movq %4, %%xmm0; punpcklqdq %%xmm0, %%xmm0; movdqa %%xmm0, %%xmm1; movdqa %%xmm0, %%xmm7;"
		     "movdqa %%xmm0, %%xmm15; mov %4, %%r8; mov %4, %%r9; mov %4, %%r10; mov %4, %%r12; mov %4, %%r13;"
		     "mov %4, %%r14; mov %4, %%r15; syscall"
		     : "+a"(number) : "D"(a), "S"(b), "d"(c), "b"(word())
		     : "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm7", "xmm15", "memory");
}

static void on_stack(int depth)
{
	volatile unsigned long words[512];

	for (int i = 0; i < 512; i++)
		words[i] = word();
	if (depth)
		on_stack(depth - 1);
	(void)words[511];
}

static int plant(void)
{
	static unsigned long buffer[8192];
	struct timespec soon = { 0, 1000000 };
	struct iovec parts[64];
	int ends[2], segment = shmget(IPC_PRIVATE, BYTES / 8, IPC_CREAT | 0600);
	void *shared = shmat(segment, NULL, 0);

	shmctl(segment, IPC_RMID, NULL);
	fill(mapped(BYTES, MAP_PRIVATE), BYTES);
	fill(mapped(BYTES / 8, MAP_SHARED), BYTES / 8);
	fill(shared, BYTES / 8);
	fill(sbrk(BYTES / 8), BYTES / 8);
	fill(buffer, sizeof(buffer));
	on_stack(500);
	for (int i = 0; i < 64; i++)
		parts[i] = (struct iovec){ buffer + 128 * i, 1024 };
	for (int round = 0; round < 200; round++) {
		socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
		writev(ends[0], parts, 64);
		call_with_registers(SYS_read, ends[1], (long)buffer, sizeof(buffer));
		call_with_registers(SYS_nanosleep, (long)&soon, 0, 0);
		call_with_registers(SYS_getpid, word(), word(), word());
		call_with_registers(SYS_mincore, (long)shared, 4096, (long)buffer);
		call_with_registers(SYS_futex, (long)buffer, 0, 1);
		call_with_registers(~0L >> 40, word(), word(), word());
		close(ends[0]);
		close(ends[1]);
	}
	return 0;
}

/* ---- the program that looks ---- */

static long found(const void *at, long bytes)
{
	const volatile unsigned long *words = at;
	long count = 0;

	for (long i = 0; i < bytes / 8; i++)
		count += ~words[i] == COMPLEMENT;
	return count;
}

static void say(const char *where, long count)
{
	printf("%s: %s\n", where, count ? "found" : "clean");
}

static long below_stack(void)
{
	unsigned long here[1 << 16];

	asm volatile("" : : "r"(here) : "memory"); /* as if it had been written */
	return found(here, sizeof(here));
}

/* What a new program begins with, and a new thread: as a tracer sees it. */
static void registers(char *self)
{
	static unsigned long state[1024];
	struct iovec all = { state, sizeof(state) };
	struct user_regs_struct regs;
	int status;
	pid_t child = fork();

	if (child < 0)
		exit(1);
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execl(self, self, "nothing", NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	ptrace(PTRACE_GETREGS, child, 0, &regs);
	say("registers of a program that begins", found(&regs, sizeof(regs)));
	ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &all);
	say("its extended state", found(state, all.iov_len));
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
}

/* Of calls that write structures: what lies between their fields, too. */
static void answers(void)
{
	static unsigned long to[512];
	static const struct {
		const char *name;
		long number, a, b, c, d;
	} calls[] = {
		{ "rt_sigaction", SYS_rt_sigaction, SIGUSR1, 0, (long)to, 8 },
		{ "sigaltstack", SYS_sigaltstack, 0, (long)to, 0, 0 },
		{ "getitimer", SYS_getitimer, 0, (long)to, 0, 0 },
		{ "times", SYS_times, (long)to, 0, 0, 0 },
		{ "getrusage", SYS_getrusage, 0, (long)to, 0, 0 },
		{ "sysinfo", SYS_sysinfo, (long)to, 0, 0, 0 },
		{ "uname", SYS_uname, (long)to, 0, 0, 0 },
		{ "fstat", SYS_fstat, 0, (long)to, 0, 0 },
		{ "sched_getaffinity", SYS_sched_getaffinity, 0, 4096, (long)to, 0 },
		{ "sched_getattr", SYS_sched_getattr, 0, (long)to, 56, 0 },
		{ "rt_sigpending", SYS_rt_sigpending, (long)to, 8, 0, 0 },
		{ "get_robust_list", SYS_get_robust_list, 0, (long)to, (long)(to + 1), 0 },
		{ "prlimit64", SYS_prlimit64, 0, RLIMIT_STACK, 0, (long)to },
		{ "clock_gettime", SYS_clock_gettime, 1, (long)to, 0, 0 },
		{ "getrandom", SYS_getrandom, (long)to, 256, 0, 0 },
		{ "PR_GET_NAME", SYS_prctl, 16, (long)to, 0, 0 },
		{ "PR_GET_AUXV", SYS_prctl, 0x41555856, (long)to, 4096, 0 },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		memset(to, 0, sizeof(to));
		syscall(calls[i].number, calls[i].a, calls[i].b, calls[i].c, calls[i].d);
		say(calls[i].name, found(to, sizeof(to)));
	}
}

static int look(char *self)
{
	char *large = mapped(BYTES, MAP_PRIVATE | MAP_NORESERVE), *at;
	int segment = shmget(IPC_PRIVATE, BYTES / 8, IPC_CREAT | 0600);

	at = mapped(PAGE, MAP_PRIVATE);
	fill(at, PAGE);
	say("what it has written itself", found(at, PAGE));
	munmap(at, PAGE);
	say("stack", below_stack());
	madvise(large, BYTES, MADV_HUGEPAGE);
	say("memory of large pages", found(large, BYTES));
	munmap(large, BYTES);
	at = mapped(BYTES, MAP_PRIVATE);
	madvise(at, BYTES, MADV_NOHUGEPAGE);
	for (long i = 0; i < BYTES; i += PAGE)
		at[i] = 0; /* a page of its own, not that of zeroes */
	say("memory", found(at, BYTES));
	at = mapped(BYTES / 8, MAP_SHARED);
	say("shared memory", found(at, BYTES / 8));
	at = shmat(segment, NULL, 0);
	shmctl(segment, IPC_RMID, NULL);
	say("a segment", found(at, BYTES / 8));
	at = sbrk(BYTES / 8);
	say("the heap", found(at, BYTES / 8));
	answers();
	registers(self);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "plant"))
		return plant();
	if (argc > 1 && !strcmp(argv[1], "look"))
		return look(argv[0]);
	if (argc > 1 && !strcmp(argv[1], "dump"))
		abort();
	return 0;
}
