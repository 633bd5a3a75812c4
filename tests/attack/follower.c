/*
 * Kind: a tracer. Follows processes that are born, execute programs from any of their threads, and
 * end, and asks anything of them at any time: registers, memory, options; and ends itself in the
 * midst of it.
 *   follower SECONDS SEED [confined]
 */
#include "attack.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#define OPTIONS (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | \
		 PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEVFORKDONE)

static void *executes(void *unused)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)any());
	if (below(2))
		execl("/proc/self/exe", program, "tracee", number, NULL);
	return unused;
}

/* What is traced. */
static void breed(void)
{
	for (int i = 0; i < 200; i++) {
		switch (below(6)) {
		case 0:
			if (!fork())
				_exit(below(3));
			break;
		case 1:
			if (!vfork())
				_exit(0);
			break;
		case 2:
			start(executes, NULL);
			break;
		case 3:
			if (!below(8))
				executes(NULL);
			break;
		case 4:
			raise(below(2) ? SIGURG : SIGSTOP);
			break;
		default:
			syscall(SYS_getppid);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	_exit(0);
}

static long word(void)
{
	switch (below(4)) {
	case 0:
		return below(512);
	case 1:
		return 1UL << below(64);
	case 2:
		return -below(4096);
	default:
		return any();
	}
}

/* Anything is asked of a tracee. */
static void ask(pid_t pid)
{
	static const int requests[] = {
		PTRACE_PEEKUSER, PTRACE_POKEUSER, PTRACE_PEEKDATA, PTRACE_POKEDATA, PTRACE_GETEVENTMSG, PTRACE_SETOPTIONS,
		PTRACE_INTERRUPT, PTRACE_LISTEN, PTRACE_GETSIGMASK, PTRACE_SETSIGMASK, PTRACE_GETSIGINFO, PTRACE_SETSIGINFO,
		PTRACE_GET_SYSCALL_INFO, PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_DETACH, PTRACE_GETFPREGS, PTRACE_SETFPREGS,
		PTRACE_ARCH_PRCTL, 0x420f /* PTRACE_GET_RSEQ_CONFIGURATION */, 77,
	};
	static char buffer[8192];
	struct user_regs_struct regs;
	struct iovec all = { below(4) ? buffer : (void *)word(), below(4) ? sizeof(regs) : (unsigned long)word() };

	switch (below(5)) {
	case 0:
		if (!tried(ptrace(PTRACE_GETREGS, pid, 0, &regs))) {
			for (int i = below(3); i; i--)
				((long *)&regs)[below(sizeof(regs) / 8)] = word();
			tried(ptrace(PTRACE_SETREGS, pid, 0, &regs));
		}
		break;
	case 1:
		tried(ptrace(below(2) ? PTRACE_GETREGSET : PTRACE_SETREGSET, pid, below(2) ? NT_PRSTATUS : below(2) ? NT_X86_XSTATE : word(), &all));
		break;
	default:
		tried(syscall(SYS_ptrace, requests[below(sizeof(requests) / sizeof(*requests))], pid, below(2) ? below(1024) & ~7 : word(),
			      below(2) ? (long)buffer : word()));
	}
}

static void go_on(pid_t pid, int status)
{
	static const int ways[] = { PTRACE_CONT, PTRACE_SYSCALL, PTRACE_SINGLESTEP, PTRACE_CONT, PTRACE_LISTEN };
	int number = WSTOPSIG(status) & 0x7f;

	if (!below(60))
		tried(ptrace(PTRACE_DETACH, pid, 0, 0));
	else
		tried(ptrace(ways[below(5)], pid, 0, below(3) && number != SIGTRAP && number != SIGSTOP ? number : 0));
}

static void body(void)
{
	long options = OPTIONS | (below(2) ? PTRACE_O_EXITKILL : 0);
	uint64_t end = now_ms() + below(2500);
	pid_t last[8] = { 0 };

	while (now_ms() < end) {
		pid_t pid = fork();
		int status, i;

		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (below(2) && !ptrace(PTRACE_TRACEME, 0, 0, 0))
				raise(SIGSTOP);
			breed();
		}
		if (pid < 0)
			continue;
		if (below(2))
			tried(ptrace(PTRACE_SEIZE, pid, 0, options));
		last[below(8)] = pid;
		for (i = 0; i < 2000 && now_ms() < end; i++) {
			pid_t told = waitpid(-1, &status, __WALL | WNOHANG | (below(8) ? 0 : WUNTRACED));

			if (told < 0)
				break;
			if (told > 0 && WIFSTOPPED(status)) {
				last[below(8)] = told;
				if (!below(4))
					tried(ptrace(PTRACE_SETOPTIONS, told, 0, options));
				for (int times = below(16); times; times--)
					ask(told);
				if (!below(100))
					kill(told, SIGKILL);
				go_on(told, status);
			} else if (!told) {
				for (int times = last[i % 8] ? below(4) : 0; times; times--)
					ask(last[i % 8]);
				/* One that was stopped twice, or is none any more. */
				if (last[i % 8] && !below(6))
					tried(ptrace(below(4) ? PTRACE_CONT : PTRACE_DETACH, last[i % 8], 0, 0));
				if (!below(200))
					kill(pid, below(2) ? SIGKILL : SIGCONT);
				rest_us(100);
			}
		}
	}
}

int main(int argc, char **argv)
{
	program = argv[0];
	if (argc > 2 && !strcmp(argv[1], "tracee")) {
		common = mmap(NULL, PAGE, RW, ANON, -1, 0);
		seed = strtoull(argv[2], NULL, 0);
		breed();
	}
	return attack(argc, argv, body, 3000);
}
