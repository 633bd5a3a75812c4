/*
 * A tracer of several threads: one traces, another one waits for what its tracees do, as in Delve.
 * And waits without a siginfo_t.
 */
#include "tracer.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, answered = PTHREAD_COND_INITIALIZER;
static int request = -1;
static pid_t subject;
static void *address, *data;
static long result;
static int error;
static void (*run)(void);

/* The request of a process that is to be made, and traced from its beginning. */
#define BEGIN 0x10000

static void *traces(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		while (request == -1)
			pthread_cond_wait(&asked, &lock);
		errno = 0;
		result = request == BEGIN ? stopping(run) : ptrace(request, subject, address, data);
		error = errno;
		request = -1;
		pthread_cond_signal(&answered);
	}
	return unused;
}

/* Has the thread that traces make a request. */
static long by_tracer(int what, pid_t pid, void *first, void *second)
{
	long got;

	pthread_mutex_lock(&lock);
	subject = pid;
	address = first;
	data = second;
	request = what;
	pthread_cond_signal(&asked);
	while (request != -1)
		pthread_cond_wait(&answered, &lock);
	got = result;
	errno = error;
	pthread_mutex_unlock(&lock);
	return got;
}

static void goes_on(int how, pid_t pid, long signal)
{
	if (by_tracer(how, pid, NULL, (void *)signal))
		printf("  request %d: %s\n", how, strerrorname_np(errno));
}

static pid_t begun_by_tracer(const char *what, void (*body)(void))
{
	pid_t pid;

	puts(what);
	run = body;
	pid = by_tracer(BEGIN, 0, NULL, NULL);
	next(pid);
	return pid;
}

static volatile int handled;

static void handler(int signal)
{
	handled = signal;
}

static void *thread(void *unused)
{
	return unused;
}

static void tracee(void)
{
	pthread_t other;
	int status;
	pid_t pid;

	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	syscall(SYS_getppid);
	pid = forked();
	if (!pid)
		_exit(3);
	waitpid(pid, &status, 0);
	pthread_create(&other, NULL, thread, NULL);
	pthread_join(other, NULL);
	execl("/bin/true", "true", NULL);
}

/*
 * What the tracee's registers say, and its word, by the thread that traces; and that another one
 * may not ask.
 */
static void looks(pid_t pid)
{
	struct user_regs_struct regs;

	TELL(by_tracer(PTRACE_GETREGS, pid, NULL, &regs));
	printf("  call %lld: %s\n", (long long)regs.orig_rax,
	       regs.rax == -(unsigned long long)ENOSYS ? "begins" : "ends");
	TELL(ptrace(PTRACE_GETREGS, pid, NULL, &regs));
}

static pid_t child_of_event(pid_t pid)
{
	unsigned long message = 0;

	TELL(by_tracer(PTRACE_GETEVENTMSG, pid, NULL, &message));
	return message;
}

static void another_waits(void)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
	pid_t pid = begun_by_tracer("another thread waits", tracee), child;
	struct user_regs_struct regs;
	int status, given = SIGUSR1;

	TELL(waitpid(pid, &status, __WALL | __WNOTHREAD | WNOHANG));
	TELL(by_tracer(PTRACE_SETOPTIONS, pid, NULL, (void *)options));
	TELL(ptrace(PTRACE_CONT, pid, 0, 0));
	goes_on(PTRACE_CONT, pid, 0);
	next(pid);
	do {
		goes_on(PTRACE_SYSCALL, pid, given);
		given = 0;
		if (waitpid(pid, &status, __WALL) != pid || status >> 8 != (SIGTRAP | 0x80)) {
			printf("  no call: %#x\n", status);
			return;
		}
		by_tracer(PTRACE_GETREGS, pid, NULL, &regs);
	} while (regs.orig_rax != SYS_getppid);
	looks(pid);
	goes_on(PTRACE_SYSCALL, pid, 0);
	next(pid);
	looks(pid);
	for (int i = 0; i < 2; i++) {
		goes_on(PTRACE_CONT, pid, 0);
		next(pid);
		child = child_of_event(pid);
		next(child);
		goes_on(PTRACE_CONT, child, 0);
		next(child);
		if (!i) {
			goes_on(PTRACE_CONT, pid, 0);
			next(pid);		/* SIGCHLD */
		}
	}
	goes_on(PTRACE_CONT, pid, 0);
	next(pid);
	looks(pid);
	goes_on(PTRACE_CONT, pid, 0);
	next(pid);
}

static void spins(void)
{
	for (;;)
		;
}

/* A tracee that is stopped stands, whichever thread has heard of it. */
static void it_stands(void)
{
	struct user_regs_struct before, after;
	pid_t pid = begun_by_tracer("a thread that computes stands", spins);

	goes_on(PTRACE_CONT, pid, 0);
	usleep(20000);
	kill(pid, SIGUSR1);
	next(pid);
	TELL(by_tracer(PTRACE_GETREGS, pid, NULL, &before));
	usleep(20000);
	TELL(by_tracer(PTRACE_GETREGS, pid, NULL, &after));
	TELL(memcmp(&before, &after, sizeof(before)));
	goes_on(PTRACE_KILL, pid, 0);
	next(pid);
}

static struct sock_filter tracing[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 7),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static void decided(void)
{
	struct sock_fprog program = { sizeof(tracing) / sizeof(*tracing), tracing };
	long own = getpgid(0);

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	_exit(syscall(SYS_getpgid, 0) == own && syscall(SYS_getpgid, 0) == own ? 5 : 6);
}

/* The stops of a tracee that waitid(2) tells without a siginfo_t. */
static void without_siginfo(void)
{
	pid_t pid = start("without siginfo_t", decided);
	siginfo_t seen;

	TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP));
	for (int i = 0; i < 2; i++) {
		unsigned long message = 0;

		go(PTRACE_CONT, pid, 0);
		TELL(waitid(P_PID, pid, NULL, WSTOPPED | WEXITED));
		TELL(ptrace(PTRACE_GETSIGINFO, pid, 0, &seen));
		printf("  %s code %#x\n", sigabbrev_np(seen.si_signo), seen.si_code);
		TELL(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message));
		printf("  message %lu\n", message);
	}
	TELL(waitid(P_PID, pid, NULL, WSTOPPED | WEXITED | WNOHANG));
	go(PTRACE_CONT, pid, 0);
	TELL(waitid(P_PID, pid, NULL, WEXITED | WNOWAIT));
	next(pid);
}

int main(void)
{
	pthread_t tracer;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	without_siginfo();
	pthread_create(&tracer, NULL, traces, NULL);
	it_stands();
	another_waits();
	return 0;
}
