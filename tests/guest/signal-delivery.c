/*
 * Which thread handles a signal, and when.
 * Calls with a signal mask of their own (ppoll, pselect6, epoll_pwait): a result or an error comes
 * before a pending signal. A signal directed at one thread of several is handled by that thread. A
 * siginfo that is queued again arrives as it was. The signal frame: what it says, and what a
 * handler may change in it.
 */
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>

static volatile int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void set_handler(int signal, void *function, int flags)
{
	struct sigaction action = { .sa_flags = flags | SA_SIGINFO };

	action.sa_sigaction = (void (*)(int, siginfo_t *, void *))function;
	sigaction(signal, &action, NULL);
}

/* ---- Calls with a mask: what is ready, or wrong, comes before a signal that waits. ---- */

static sigset_t usr1, none;

static void after(void)
{
	struct timespec zero = {};
	sigset_t pending;

	sigpending(&pending);
	printf("  handled %d, pending %d\n", handled, sigismember(&pending, SIGUSR1));
	sigtimedwait(&usr1, NULL, &zero);
	handled = 0;
}

static void child_sends(int signal)
{
	pid_t pid = fork();

	if (!pid) {
		kill(getppid(), signal);
		_exit(0);
	}
	while (waitpid(pid, NULL, 0) != pid)
		;
}

#define PENDING(call)                                                           \
	do {                                                                    \
		by_child ? child_sends(SIGUSR1) : (void)raise(SIGUSR1);         \
		TELL(call);                                                     \
		after();                                                        \
	} while (0)

static void masks(int by_child)
{
	struct timespec zero = {}, later = { 3, 0 }, wrong = { -1, 0 };
	struct epoll_event event = { .events = EPOLLIN };
	struct { const sigset_t *mask; size_t size; } six = { &none, 8 }, short_mask = { &none, 4 };
	int fds[2], epoll = epoll_create1(0), round = 0;
	struct pollfd ready, never;
	fd_set set;

	pipe(fds);
	write(fds[1], "x", 1);
	epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event);
	ready = (struct pollfd){ fds[0], POLLIN };
	never = (struct pollfd){ fds[0], POLLPRI };
	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	PENDING(syscall(SYS_ppoll, &ready, 1, &later, &none, 8));
	PENDING(syscall(SYS_ppoll, &ready, 1, &zero, &none, 8));
	PENDING(syscall(SYS_ppoll, &never, 1, &zero, &none, 8));
	PENDING(syscall(SYS_ppoll, &never, 1, &later, &none, 8));
	PENDING(syscall(SYS_ppoll, &ready, 1, &later, &none, 4));
	PENDING(syscall(SYS_ppoll, &ready, 1, &wrong, &none, 8));
	PENDING(syscall(SYS_ppoll, 16, 1, &later, &none, 8));
	PENDING(syscall(SYS_ppoll, &ready, 1, &later, 16, 8));
	PENDING(syscall(SYS_ppoll, &ready, 1, &later, NULL, 8));
	PENDING(syscall(SYS_pselect6, fds[0] + 1, &set, NULL, NULL, &later, &six));
	PENDING(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &zero, &short_mask));
	PENDING(syscall(SYS_pselect6, -1, NULL, NULL, NULL, &zero, &six));
	PENDING(syscall(SYS_epoll_pwait, epoll, &event, 1, 3000, &none, 8));
	PENDING(syscall(SYS_epoll_pwait, 999, &event, 1, 3000, &none, 8));
	PENDING(syscall(SYS_epoll_pwait, epoll, &event, 0, 3000, &none, 8));
	PENDING(syscall(441 /* epoll_pwait2 */, epoll, &event, 1, &later, &none, 8));
	/* The loop of a server with a descriptor that is always ready, and then is not. */
	raise(SIGUSR1);
	for (int i = 0; i < 10; i++)
		round += ppoll(&ready, 1, NULL, &none) == 1;
	printf("ready %d, handled %d\n", round, handled);
	read(fds[0], &round, 1);
	TELL(ppoll(&ready, 1, NULL, &none));
	after();
	PENDING(syscall(SYS_epoll_pwait, epoll, &event, 1, 0, &none, 8));
	PENDING(syscall(SYS_epoll_pwait, epoll, &event, 1, 3000, &none, 8));
	PENDING(syscall(SYS_rt_sigsuspend, &none, 8));
}

/* A handler of a call with an open mask: signals that the thread blocks come into it. */
static void sends_second(int signal)
{
	int before = handled;

	(void)signal;
	child_sends(SIGUSR2);
	printf("in the handler: %d more\n", handled - before);
}

static void open_handler(void)
{
	sigset_t both;
	struct timespec zero = {};

	set_handler(SIGUSR1, sends_second, 0);
	set_handler(SIGUSR2, handler, 0);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	sigprocmask(SIG_BLOCK, &both, NULL);
	raise(SIGUSR1);
	TELL(ppoll(NULL, 0, &zero, &none));
	sigprocmask(SIG_SETMASK, &none, NULL);
	handled = 0;
}

/* ---- One thread of several. ---- */

static __thread int is_target;
static volatile int right, wrong, stop;
static volatile pthread_t target;
static pthread_barrier_t begun;

static void counting(int signal)
{
	(void)signal;
	*(is_target ? &right : &wrong) += 1;
}

static void *calls(void *unused)
{
	pthread_barrier_wait(&begun);
	while (!stop)
		syscall(SYS_getppid), syscall(SYS_getpid);
	return unused;
}

static void *breaks_pipes(void *unused)
{
	int fds[2], in_time = 0;

	is_target = 1;
	pipe(fds);
	close(fds[0]);
	pthread_barrier_wait(&begun);
	for (int i = 0; i < 200; i++) {
		int before = right;

		write(fds[1], "x", 1);
		in_time += right == before + 1;
	}
	printf("handled before the call was over: %d\n", in_time);
	stop = 1;
	return unused;
}

static void *spins(void *unused)
{
	is_target = 1;
	target = pthread_self();
	pthread_barrier_wait(&begun);
	while (!stop)
		__asm__ volatile("pause");
	return unused;
}

static void *sends_it(void *unused)
{
	pthread_barrier_wait(&begun);
	for (int i = 0; i < 50; i++) {
		pthread_sigqueue(target, SIGUSR1, (union sigval){ .sival_int = i });
		for (int k = 0; k < 100000 && right + wrong <= i; k++)
			usleep(1000);
	}
	stop = 1;
	return unused;
}

/* While it handles one it blocks the next. */
static void *sends_many(void *unused)
{
	pthread_barrier_wait(&begun);
	for (int i = 0; i < 200; i++)
		pthread_sigqueue(target, SIGRTMIN, (union sigval){ .sival_int = i });
	for (int k = 0; k < 100000 && right + wrong < 200; k++)
		usleep(1000);
	stop = 1;
	return unused;
}

static void among(const char *name, void *(*first)(void *), void *(*second)(void *))
{
	void *(*bodies[3])(void *) = { first, second, calls };
	pthread_t threads[3];

	right = wrong = stop = 0;
	pthread_barrier_init(&begun, NULL, 3);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, bodies[i], NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%s: right %d, wrong %d\n", name, right, wrong);
}

/* A signal for the process: the first thread takes it, though others are awake. */
static void prefers_the_first(void)
{
	pthread_t thread;
	int interrupted = 0, times = by_tier(6, 20);

	is_target = 1;
	right = wrong = stop = 0;
	pthread_barrier_init(&begun, NULL, 2);
	pthread_create(&thread, NULL, calls, NULL);
	pthread_barrier_wait(&begun);
	for (int i = 0; i < times; i++) {
		/*
		 * Once more, later: on a busy machine the first one may come before the sleep. So
		 * much later that the handler of the first is over: while it runs, the signal is
		 * blocked, and the other thread's.
		 */
		struct itimerval timer = { .it_value.tv_usec = 50000, .it_interval.tv_sec = 10 }, off = { 0 };
		struct timespec long_time = { 200, 0 };

		setitimer(ITIMER_REAL, &timer, NULL);
		interrupted += nanosleep(&long_time, NULL) == -1;
		setitimer(ITIMER_REAL, &off, NULL);
	}
	stop = 1;
	pthread_join(thread, NULL);
	printf("interrupted %d, right %d, wrong %d\n", interrupted, right >= times, wrong);
}

/*
 * One process sends a real-time signal to another that computes and makes no call: while that
 * ignores it, and once more when it has a handler again.
 */
static void ignored_and_handled_again(void)
{
	enum { BEGIN, IGNORES, SENT, HANDLES, OVER };
	volatile int *step = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	set_handler(SIGRTMIN, counting, 0);
	right = wrong = 0;
	pid = fork();
	if (!pid) {
		/* Every page used below is there: a page fault may ask Linux for something. */
		*step = BEGIN;
		counting(0);
		right = wrong = 0;
		/* So often that Linux is told of the last SIG_IGN only with the next call there. */
		for (int i = 0; i < 10; i++) {
			set_handler(SIGRTMIN, counting, 0);
			signal(SIGRTMIN, SIG_IGN);
		}
		*step = IGNORES;
		while (*step != SENT)
			__asm__ volatile("pause");
		set_handler(SIGRTMIN, counting, 0);
		*step = HANDLES;
		while (!right && !wrong && *step != OVER)
			__asm__ volatile("pause");
		_exit(right + wrong);
	}
	while (*step != IGNORES)
		usleep(1000);
	kill(pid, SIGRTMIN);
	usleep(100000);
	*step = SENT;
	while (*step != HANDLES)
		usleep(1000);
	kill(pid, SIGRTMIN);
	for (int k = 0, status; k < 100000; k++, usleep(1000))
		if (waitpid(pid, &status, WNOHANG) == pid) {
			printf("handled once it is not ignored: %d\n", WEXITSTATUS(status));
			return;
		}
	*step = OVER;
	waitpid(pid, NULL, 0);
	printf("not handled though it is not ignored\n");
}

/* ---- What is sent once more. ---- */

static siginfo_t seen;

static void note(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	seen = *info;
}

static void resend(int signal, int code)
{
	siginfo_t info = { .si_signo = signal, .si_code = code };

	info.si_addr = (void *)0x123456789a;
	set_handler(signal, note, 0);
	TELL(syscall(SYS_rt_sigqueueinfo, getpid(), signal, &info));
	printf("%s code %d address %lx\n", sigabbrev_np(seen.si_signo), seen.si_code, (long)seen.si_addr);
	TELL(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, &info));
}

/* As crash reporters do. */
static void reports(int signal, siginfo_t *info, void *context)
{
	(void)context;
	set_handler(signal, SIG_DFL, 0);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, info);
}

static void child(const char *name, void (*body)(void))
{
	struct rlimit no_core = {};
	int status;
	pid_t pid = fork();

	if (!pid) {
		dup2(1, 2);
		setrlimit(RLIMIT_CORE, &no_core);
		body();
		_exit(42);
	}
	waitpid(pid, &status, 0);
	printf("%s: signal %d, exit %d\n", name, WTERMSIG(status), WEXITSTATUS(status));
}

static void crashes(void)
{
	set_handler(SIGSEGV, reports, 0);
	*(volatile int *)8 = 1;
}

static void divides(void)
{
	set_handler(SIGFPE, reports, 0);
	__asm__ volatile("xor %%ecx, %%ecx; div %%ecx" ::: "eax", "ecx", "edx");
}

/* ---- Frames. ---- */

static char stack[65536], other[65536];

static void on_segv(int signal, siginfo_t *info, void *context)
{
	char text[64];

	(void)signal, (void)context;
	write(1, text, snprintf(text, sizeof(text), "SIGSEGV code %d\n", info->si_code));
	_exit(9);
}

static void catch_segv(void)
{
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&alternate, NULL);
	set_handler(SIGSEGV, on_segv, SA_ONSTACK);
}

static void bad_frame(void)
{
	catch_segv();
	__asm__ volatile("mov $16, %%rsp; mov $15, %%eax; syscall; ud2" ::: "memory");
}

static void no_restorer(void)
{
	struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = { handler };

	set_handler(SIGSEGV, SIG_DFL, 0);
	syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
	raise(SIGUSR1);
}

static int edit;

static void edits(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)signal, (void)info;
	switch (edit) {
	case 0: u->uc_mcontext.gregs[REG_RIP] = 0x8000000000000000; break;
	case 1: u->uc_mcontext.fpregs = (void *)8; break;
	case 2: u->uc_mcontext.fpregs = NULL; break;
	case 3: u->uc_stack = (stack_t){ .ss_sp = other, .ss_size = 16384 }; break;
	case 4: u->uc_stack.ss_size = 100; break;
	case 5: u->uc_stack.ss_flags = SS_DISABLE; break;
	case 6: u->uc_mcontext.gregs[REG_EFL] ^= 0x200000; break;
	}
}

static void edited(void)
{
	unsigned short word = 0x27f;

	catch_segv();
	set_handler(SIGUSR1, edits, 0);
	__asm__ volatile("fldcw %0" :: "m"(word));
	raise(SIGUSR1);
	__asm__ volatile("fnstcw %0" : "=m"(word));
	printf("control word %#x\n", word);
}

static void bad_handler(void)
{
	catch_segv();
	set_handler(SIGUSR1, (void *)0x8000000000000000, 0);
	raise(SIGUSR1);
}

static void tell_stack(void)
{
	stack_t now;

	sigaltstack(NULL, &now);
	printf("alternate stack: flags %#x size %zu, %s\n", now.ss_flags, now.ss_size,
	       now.ss_sp == stack ? "first" : now.ss_sp == other ? "second" : now.ss_sp ? "?" : "none");
}

static void sets_stack(int signal)
{
	stack_t wanted = { .ss_sp = other, .ss_size = 32768 };

	(void)signal;
	TELL(sigaltstack(&wanted, NULL));
}

static void frames(void)
{
	stack_t off = { .ss_flags = SS_DISABLE | 1 << 31 };

	child("no restorer", no_restorer);
	child("bad frame", bad_frame);
	for (edit = 0; edit < 3; edit++)
		child("edited", edited);
	child("bad handler", bad_handler);
	TELL(sigaltstack(&off, NULL));
	tell_stack();
	set_handler(SIGUSR1, sets_stack, 0);
	raise(SIGUSR1);
	tell_stack();
	set_handler(SIGUSR1, edits, 0);
	for (; edit < 6; edit++) {
		raise(SIGUSR1);
		tell_stack();
	}
	unsigned long before, then;
	__asm__ volatile("pushfq; pop %0" : "=r"(before));
	raise(SIGUSR1);
	__asm__ volatile("pushfq; pop %0" : "=r"(then));
	printf("flag ID changed: %d\n", (int)((before ^ then) >> 21 & 1));
}

static sigjmp_buf back;
static long trap, error, cr2;

static void tells_trap(int signal, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;

	trap = r[REG_TRAPNO], error = r[REG_ERR], cr2 = r[REG_CR2];
	seen = *info;
	if (signal != SIGUSR1)
		siglongjmp(back, 1);
}

static void float_fault(int open, int x87, double a, double b)
{
	unsigned mxcsr = 0x1f80 & ~(open << 7);
	unsigned short control = 0x37f & ~open;
	float small;

	if (sigsetjmp(back, 1)) {
		printf("%s code %d trap %ld error %ld\n", sigabbrev_np(seen.si_signo), seen.si_code, trap, error);
	} else if (x87) {
		__asm__ volatile("fninit; fldcw %1; fldl %2; fldl %3; fdivrp; fstps %0; fwait" : "=m"(small) : "m"(control), "m"(a), "m"(b));
		printf("no exception\n");
	} else {
		__asm__ volatile("ldmxcsr %1; divsd %2, %3; cvtsd2ss %3, %3; movss %3, %0" : "=m"(small) : "m"(mxcsr), "x"(b), "x"(a));
		printf("no exception\n");
	}
	mxcsr = 0x1f80;
	__asm__ volatile("fninit; ldmxcsr %0" :: "m"(mxcsr));
}

static void traps(void)
{
	set_handler(SIGFPE, tells_trap, 0);
	set_handler(SIGSEGV, tells_trap, 0);
	set_handler(SIGTRAP, tells_trap, 0);
	set_handler(SIGUSR1, tells_trap, 0);
	for (int x87 = 0; x87 < 2; x87++) {
		float_fault(1, x87, 0, 0);
		float_fault(4, x87, 1, 0);
		float_fault(8, x87, 1e300, 1);
		float_fault(16, x87, 1e-300, 1);
		float_fault(32, x87, 1, 3);
	}
	if (!sigsetjmp(back, 1))
		*(volatile int *)24 = 1;
	raise(SIGUSR1);
	printf("later: trap %ld error %ld address %ld\n", trap, error, cr2);
	if (!sigsetjmp(back, 1))
		__asm__ volatile(".byte 0xcd, 3");
	printf("int $3: %s code %d trap %ld error %ld address %ld\n", sigabbrev_np(seen.si_signo), seen.si_code, trap, error, cr2);
	if (!fork()) {
		raise(SIGUSR1);
		printf("child: trap %ld error %ld address %ld\n", trap, error, cr2);
		exit(0);
	}
	wait(NULL);
}

static void flags(void)
{
	struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = { handler, -1UL, handler, 0 };

	TELL(syscall(SYS_rt_sigaction, SIGUSR2, &action, NULL, 8));
	TELL(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &action, 8));
	printf("flags %#lx\n", action.flags);
	TELL(syscall(SYS_rt_sigaction, 65, 8, NULL, 8));
	TELL(syscall(SYS_rt_sigaction, 1L << 32 | SIGUSR2, NULL, &action, 8));
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	set_handler(SIGUSR1, handler, 0);
	masks(0);
	set_handler(SIGUSR1, handler, SA_RESTART);
	masks(1);
	sigprocmask(SIG_SETMASK, &none, NULL);
	open_handler();
	set_handler(SIGPIPE, counting, SA_RESTART);
	set_handler(SIGUSR1, counting, SA_RESTART);
	set_handler(SIGALRM, counting, 0);
	among("SIGPIPE", breaks_pipes, calls);
	among("to one that computes", spins, sends_it);
	set_handler(SIGRTMIN, counting, SA_RESTART);
	among("to one in its handler", spins, sends_many);
	prefers_the_first();
	ignored_and_handled_again();
	resend(SIGSEGV, SEGV_MAPERR);
	resend(SIGSEGV, SI_KERNEL);
	resend(SIGBUS, BUS_ADRERR);
	resend(SIGFPE, FPE_INTDIV);
	resend(SIGILL, ILL_ILLOPN);
	child("reported", crashes);
	child("reported", divides);
	frames();
	traps();
	flags();
	return 0;
}
