/* Tracing a child: stops, registers, memory, system calls, steps, events. */
#include "tracer.h"
#include <elf.h>
#include <pthread.h>

static volatile long word = 0x1122334455667788;
static volatile int handled;

static void handler(int signal)
{
	handled = signal;
}

static void signals_run(void)
{
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	raise(SIGUSR1);
	if (handled != SIGUSR1)
		_exit(1);
	raise(SIGCHLD);		/* even those that are ignored */
	signal(SIGUSR2, SIG_IGN);
	raise(SIGUSR2);
	kill(getpid(), SIGTERM);
	_exit(2);
}

static void signals(void)
{
	pid_t pid;

	puts("signals");
	pid = begun(signals_run);
	info(pid);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);
	go(PTRACE_CONT, pid, SIGCHLD);
	next(pid);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, SIGTERM);
	next(pid);
}

static void faults_run(void)
{
	sigset_t set;

	signal(SIGSEGV, handler);
	asm volatile("int3");
	asm volatile("ud2");
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, NULL);
	*(volatile int *)8 = 0;
	_exit(3);
}

static void faults(void)
{
	struct user_regs_struct regs;
	pid_t pid;

	puts("faults");
	pid = begun(faults_run);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	info(pid);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	info(pid);
	TELL(ptrace(PTRACE_GETREGS, pid, 0, &regs));
	printf("  orig_rax %lld\n", (long long)regs.orig_rax);
	regs.rip += 2;		/* ud2 */
	TELL(ptrace(PTRACE_SETREGS, pid, 0, &regs));
	go(PTRACE_CONT, pid, 0);
	next(pid);
	info(pid);
	/* Blocked, so that its handler does not run. */
	go(PTRACE_CONT, pid, SIGSEGV);
	next(pid);
}

static void registers_run(void)
{
	double x = 1.5;
	long a = 7, b;

	asm volatile("movq %1, %%r12; movsd %2, %%xmm3; int3; movq %%r12, %0"
		     : "=r"(b) : "r"(a), "m"(x) : "r12", "xmm3");
	if (b == 77 && word == 0x42)
		_exit(4);
	_exit(5);
}

static void registers(void)
{
	static struct user_fpregs_struct fp;
	static struct user_regs_struct regs, again;
	static char xstate[8192];
	struct iovec iov = { &again, sizeof(again) };
	double x;
	pid_t pid;

	puts("registers");
	pid = begun(registers_run);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	TELL(ptrace(PTRACE_GETREGS, pid, 0, &regs));
	printf("  r12 %lld cs %#llx ss %#llx\n", regs.r12, regs.cs, regs.ss);
	TELL(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov));
	printf("  %zu %s\n", iov.iov_len, memcmp(&regs, &again, sizeof(regs)) ? "different" : "same");
	TELL(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.r12), 0));
	TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.r12), 77));
	TELL(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.r12), 0));
	TELL(ptrace(PTRACE_PEEKUSER, pid, 4, 0));
	TELL(ptrace(PTRACE_PEEKUSER, pid, sizeof(struct user) + 8, 0));
	TELL(ptrace(PTRACE_PEEKUSER, pid, sizeof(struct user) + 16, 0));
	TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_tsize), 1));
	TELL(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, u_debugreg[7]), 0));
	TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.cs), 0x10));
	TELL(ptrace(PTRACE_GETFPREGS, pid, 0, &fp));
	memcpy(&x, (char *)fp.xmm_space + 3 * 16, sizeof(x));
	printf("  xmm3 %g\n", x);
	TELL(ptrace(PTRACE_SETFPREGS, pid, 0, &fp));
	iov = (struct iovec){ xstate, sizeof(xstate) };
	TELL(ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &iov));
	TELL(ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &iov));
	xstate[512 + 8] = 1;
	TELL(ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &iov));
	TELL(ptrace(PTRACE_GETREGSET, pid, 0x7777, &iov));
	printf("  word %#lx\n", ptrace(PTRACE_PEEKDATA, pid, &word, 0));
	TELL(ptrace(PTRACE_POKEDATA, pid, &word, 0x42));
	printf("  word %#lx\n", ptrace(PTRACE_PEEKDATA, pid, &word, 0));
	TELL(ptrace(PTRACE_PEEKDATA, pid, 8, 0));
	TELL(ptrace(PTRACE_POKEDATA, pid, 8, 0));
	TELL(ptrace(PTRACE_GETREGS, pid, 0, 8));
	go(PTRACE_CONT, pid, 0);
	next(pid);
	printf("  own word %#lx\n", word);
}

static void odd_registers_run(void)
{
	for (;;)
		;
}

static long set_kind(int request, pid_t pid, long kind, void *at, unsigned long bytes)
{
	struct iovec part = { at, bytes };
	long result = ptrace(request, pid, kind, &part);

	return result ? result : (long)part.iov_len;
}

/* Values, lengths and kinds that no debugger uses. */
static void odd_registers(void)
{
	static const long kinds[] = { NT_PRSTATUS, NT_PRFPREG, 0x201, 0x203 };
	static const unsigned long lengths[] = { 0, 4, 8, 504, 512, 516, 520, 1000, ~7UL };
	static const unsigned long places[] = { 0x7fffffffefff, 0x7ffffffff000, 0x7fffffffffff, 1UL << 63 };
	unsigned char bytes[8192] = { 0 }, *state = bytes + 64;
	struct user_regs_struct old, set;
	char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();

	if (!pid)
		odd_registers_run();
	ptrace(PTRACE_SEIZE, pid, 0, 0);
	ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	waitpid(pid, NULL, 0);
	ptrace(PTRACE_GETREGS, pid, 0, &old);
	for (int i = 0; i < 4; i++) {
		unsigned long at = places[i];

		TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.fs_base), at));
		TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.gs_base), at));
		TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.rip), at));
		TELL(syscall(SYS_ptrace, 30 /* ARCH_PRCTL */, pid, at, 0x1002 /* SET_FS */));
		ptrace(PTRACE_SETREGS, pid, 0, &old);
	}
	TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.eflags), 0x4242));
	TELL(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.eflags), 0));
	/* Those before the wrong one, and those that can be read. */
	set = old;
	set.r15 = 1;
	set.cs = 0;
	TELL(ptrace(PTRACE_SETREGS, pid, 0, &set));
	TELL(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.r15), 0));
	munmap(page + PAGE, PAGE);
	memset(page, 2, PAGE);
	TELL(ptrace(PTRACE_SETREGS, pid, 0, page + PAGE - 12));
	TELL(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.r15), 0) == 0x202020202020202);
	ptrace(PTRACE_SETREGS, pid, 0, &old);
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(*kinds) * sizeof(lengths) / sizeof(*lengths); i++) {
		long kind = kinds[i % 4];
		unsigned long length = lengths[i / 4];

		ptrace(PTRACE_GETREGSET, pid, kind, &(struct iovec){ bytes, sizeof(bytes) });
		printf("kind %lx, length %lx: ", kind, length);
		TELL(set_kind(PTRACE_GETREGSET, pid, kind, bytes, length));
		TELL(set_kind(PTRACE_SETREGSET, pid, kind, bytes, length));
	}
	/* MXCSR counts where a component has it. */
	long size = set_kind(PTRACE_GETREGSET, pid, NT_X86_XSTATE, state, 4096);
	for (int components = 0; components < 8; components++) {
		memset(state + 512, 0, 64);
		state[512] = components;
		state[26] = 1;
		TELL(set_kind(PTRACE_SETREGSET, pid, NT_X86_XSTATE, state, size) == size);
	}
	/* It goes on where no program is. */
	TELL(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.rip), 0xffffffff81000000));
	ptrace(PTRACE_CONT, pid, 0, 0);
	int status;
	siginfo_t info;
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETSIGINFO, pid, 0, &info);
	printf("%#x, code %d at %p\n", status, info.si_code, info.si_addr);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

static void breakpoint_run(void)
{
	signals_run();
}

/* A breakpoint in the text: reported, taken away, stepped over. */
static void breakpoint(void)
{
	struct user_regs_struct regs;
	unsigned long address = (unsigned long)handler;
	long text;
	pid_t pid;
	int i;

	puts("breakpoint");
	pid = begun(breakpoint_run);
	text = ptrace(PTRACE_PEEKTEXT, pid, address, 0);
	TELL(ptrace(PTRACE_POKETEXT, pid, address, (text & ~0xffL) | 0xcc));
	go(PTRACE_CONT, pid, 0);
	next(pid);
	go(PTRACE_CONT, pid, SIGUSR1);
	next(pid);
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	printf("  %s\n", regs.rip == address + 1 ? "there" : "elsewhere");
	TELL(ptrace(PTRACE_POKETEXT, pid, address, text));
	regs.rip = address;
	TELL(ptrace(PTRACE_SETREGS, pid, 0, &regs));
	for (i = 0; i < 3; i++) {
		unsigned long before = regs.rip;

		go(PTRACE_SINGLESTEP, pid, 0);
		next(pid);
		info(pid);
		ptrace(PTRACE_GETREGS, pid, 0, &regs);
		printf("  %s, flags %#llx\n", regs.rip > before && regs.rip < before + 16 ? "stepped" : "did not step",
		       regs.eflags & 0x100);
	}
	go(PTRACE_KILL, pid, 0);
	next(pid);
	printf("  own text %s\n", *(long *)address == text ? "untouched" : "changed");
}

static void calls_run(void)
{
	syscall(SYS_getppid);
	if (syscall(SYS_getppid) != 99)
		_exit(1);
	syscall(SYS_close, 1000);
	_exit(6);
}

static void calls(int good)
{
	struct user_regs_struct regs;
	struct __ptrace_syscall_info what;
	int i, status, entering = 0;
	pid_t pid;

	printf("calls %d\n", good);
	pid = begun(calls_run);
	TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, good ? PTRACE_O_TRACESYSGOOD : 0));
	for (i = 0; i < 20; i++) {
		go(PTRACE_SYSCALL, pid, 0);
		status = next(pid);
		if (!WIFSTOPPED(status))
			break;
		info(pid);
		entering = !entering;
		ptrace(PTRACE_GETREGS, pid, 0, &regs);
		printf("  %s %lld: %lld\n", entering ? "enters" : "leaves", (long long)regs.orig_rax,
		       (long long)(regs.orig_rax == SYS_getppid && !entering ? 0 : regs.rax));
		memset(&what, 0, sizeof(what));
		printf("  %ld bytes, ", ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(what), &what));
		printf("op %d\n", what.op);
		if (i == 3) {
			regs.rax = 99;
			TELL(ptrace(PTRACE_SETREGS, pid, 0, &regs));
		}
		if (i == 4) {
			/* Another call instead, and then none at all. */
			regs.rdi = 1001;
			TELL(ptrace(PTRACE_SETREGS, pid, 0, &regs));
		}
	}
}

static void exec_run(void)
{
	execl("/bin/true", "true", NULL);
}

static void exec(int options)
{
	unsigned long message = 0;
	pid_t pid;
	int status;

	printf("exec %d\n", options);
	pid = begun(exec_run);
	TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, options));
	go(PTRACE_CONT, pid, 0);
	status = next(pid);
	info(pid);
	if (options) {
		TELL(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message));
		printf("  %s\n", message == (unsigned long)pid ? "its pid" : "another");
	}
	(void)status;
	go(PTRACE_CONT, pid, 0);
	next(pid);
}

static void attach(void)
{
	int fds[2], i;
	char byte = 'x';
	pid_t pid;

	puts("attach");
	pipe(fds);
	/* One that waits for Linux, one that computes. */
	for (i = 0; i < 2; i++) {
		pid = forked();
		if (!pid) {
			if (i == 0)
				_exit(read(fds[0], &byte, 1) == 1 ? 7 : 8);
			while (word != 0x43)
				;
			_exit(9);
		}
		usleep(100000);
		TELL(ptrace(PTRACE_PEEKDATA, pid, &word, 0));
		TELL(ptrace(PTRACE_ATTACH, pid, 0, 0));
		next(pid);
		TELL(ptrace(PTRACE_ATTACH, pid, 0, 0));
		TELL(ptrace(PTRACE_POKEDATA, pid, &word, 0x43));
		go(PTRACE_DETACH, pid, 0);
		if (i == 0)
			write(fds[1], "y", 1);
		next(pid);
	}
	TELL(ptrace(PTRACE_CONT, getpid(), 0, 0));
	TELL(ptrace(PTRACE_ATTACH, getpid(), 0, 0));
	TELL(ptrace(PTRACE_ATTACH, 0x3fffffff, 0, 0));
}

static void seize(void)
{
	pid_t pid;

	puts("seize");
	pid = forked();
	if (!pid) {
		while (word != 0x44)
			;
		raise(SIGSTOP);
		_exit(10);
	}
	TELL(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD));
	TELL(ptrace(PTRACE_CONT, pid, 0, 0));
	TELL(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
	next(pid);
	TELL(ptrace(PTRACE_POKEDATA, pid, &word, 0x44));
	go(PTRACE_CONT, pid, 0);
	next(pid);
	go(PTRACE_CONT, pid, SIGSTOP);
	next(pid);
	TELL(ptrace(PTRACE_LISTEN, pid, 0, 0));
	kill(pid, SIGCONT);
	next(pid);
	go(PTRACE_CONT, pid, 0);
	next(pid);
	go(PTRACE_CONT, pid, SIGCONT);
	next(pid);
}

/* A child is there for a tracer as soon as fork has told of it. */
static void at_once(void)
{
	int i, status, refused = 0;
	pid_t pid;

	for (i = 0; i < 40; i++) {
		pid = forked();
		if (!pid)
			pause();
		if (ptrace(i % 2 ? PTRACE_SEIZE : PTRACE_ATTACH, pid, 0, 0))
			refused++;
		kill(pid, SIGKILL);
		do
			waitpid(pid, &status, 0);
		while (WIFSTOPPED(status));
	}
	printf("at once: %d refused\n", refused);
}

static void every_signal(void)
{
	int i, status;
	pid_t pid;

	puts("every signal");
	for (i = 1; i <= 64; i++) {
		pid = forked();
		if (!pid) {
			ptrace(PTRACE_TRACEME, 0, 0, 0);
			kill(getpid(), i);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (i == SIGKILL ? WIFSIGNALED(status) : WIFSTOPPED(status) && WSTOPSIG(status) == i)
			printf("%d ", i);
		else
			printf("%d is %#x ", i, status);
		if (WIFSTOPPED(status)) {
			go(i % 2 ? PTRACE_CONT : PTRACE_KILL, pid, 0);
			waitpid(pid, &status, 0);
			printf("%#x ", status);
		}
	}
	puts("");
}

static void *thread(void *arg)
{
	return arg;
}

static void events_run(void)
{
	pthread_t t;
	int status;
	pid_t pid = forked();

	if (!pid)
		_exit(11);
	waitpid(pid, &status, 0);
	pid = vfork();
	if (!pid)
		_exit(12);
	waitpid(pid, &status, 0);
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	_exit(13);
}

/*
 * Which events there are, and how many children come with them and end how.  What
 * the children tell is counted: a child and its parent's next event race.
 */
static void events(int seized, long options)
{
	int status, first_stops = 0, exits = 0, ends = 0;
	unsigned long message;
	pid_t pid, got, child = 0;

	printf("events, options %#lx, %s\n", options, seized ? "seized" : "attached");
	fflush(stdout);
	pid = forked();
	if (!pid) {
		raise(SIGSTOP);
		events_run();
	}
	waitpid(pid, &status, WUNTRACED);
	TELL(seized ? ptrace(PTRACE_SEIZE, pid, 0, options) : ptrace(PTRACE_ATTACH, pid, 0, 0));
	if (!seized) {
		next(pid);
		TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, options));
	}
	kill(pid, SIGCONT);
	if (!seized)
		ptrace(PTRACE_CONT, pid, 0, 0);
	while ((got = waitpid(-1, &status, __WALL)) > 0) {
		long signal = 0;

		if (!WIFSTOPPED(status)) {
			ends++;
			if (got == pid)
				printf("  exited: %d\n", WEXITSTATUS(status));
			continue;
		}
		if (got != pid) {
			if (status >> 8 == SIGSTOP || status >> 16 == 128)
				first_stops++;
			else if (status >> 16 == PTRACE_EVENT_EXIT)
				exits++;
			else
				printf("  a child: %#x\n", status >> 8);
			ptrace(PTRACE_CONT, got, 0, 0);
			continue;
		}
		if (status >> 16 && status >> 16 != 128) {
			message = 0;
			ptrace(PTRACE_GETEVENTMSG, pid, 0, &message);
			if (status >> 16 == PTRACE_EVENT_EXIT)
				printf("  event exit: %#lx\n", message);
			else
				printf("  event %d: %s\n", status >> 16,
				       message == (unsigned long)child && child ? "the same child" : message > 1 ? "a child" : "none");
			child = message;
		} else if (WSTOPSIG(status) != SIGCONT && WSTOPSIG(status) != SIGCHLD &&
			   WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP) {
			signal = WSTOPSIG(status);
			printf("  stopped: %#x\n", status >> 8);
		}
		ptrace(PTRACE_CONT, pid, 0, signal);
	}
	printf("  %d first stops, %d exit events, %d ends\n", first_stops, exits, ends);
}

/* A tracer that ends: its tracee goes on, or not. */
static void tracer_ends(long options)
{
	int fds[2], status;
	char byte = 0;
	pid_t pid, tracer;

	printf("tracer ends, options %#lx\n", options);
	pipe(fds);
	pid = forked();
	if (!pid) {
		while (word != 0x45)
			;
		_exit(write(fds[1], "z", 1) == 1 ? 14 : 15);
	}
	tracer = forked();
	if (!tracer) {
		ptrace(PTRACE_SEIZE, pid, 0, options);
		ptrace(PTRACE_INTERRUPT, pid, 0, 0);
		waitpid(pid, &status, __WALL);
		ptrace(PTRACE_POKEDATA, pid, &word, 0x45);
		raise(SIGKILL);
	}
	waitpid(tracer, &status, 0);
	printf("  %#x\n", status);
	if (!(options & PTRACE_O_EXITKILL)) {
		read(fds[0], &byte, 1);
		printf("  it went on: %c\n", byte);
	}
	waitpid(pid, &status, 0);
	printf("  %#x\n", status);
	close(fds[0]);
	close(fds[1]);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	signals();
	faults();
	registers();
	odd_registers();
	breakpoint();
	calls(0);
	calls(1);
	exec(0);
	exec(PTRACE_O_TRACEEXEC);
	attach();
	seize();
	at_once();
	every_signal();
	events(0, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEVFORKDONE);
	events(1, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXIT);
	events(1, 0);
	tracer_ends(0);
	tracer_ends(PTRACE_O_EXITKILL);
	return 0;
}
