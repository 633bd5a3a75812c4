/* Signals that are blocked and waited for; children and SIGCHLD; timers that count CPU time. */
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

static volatile int count;

static void counting(int signal)
{
	count++;
}

static sigset_t set_of(int a, int b)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, a);
	if (b)
		sigaddset(&set, b);
	return set;
}

static void waits(void)
{
	sigset_t set = set_of(SIGUSR1, SIGRTMIN + 1);
	struct timespec soon = { 0, 50000000 }, never = { 0, 0 };
	siginfo_t info;
	union sigval value = { .sival_int = 7 };
	int fd, pid, status;
	struct signalfd_siginfo from;

	sigprocmask(SIG_BLOCK, &set, NULL);
	TELL(sigtimedwait(&set, &info, &never));
	kill(getpid(), SIGUSR1);
	sigqueue(getpid(), SIGRTMIN + 1, value);
	value.sival_int = 8;
	sigqueue(getpid(), SIGRTMIN + 1, value);
	TELL(sigtimedwait(&set, &info, &soon));
	printf("from myself %d, code %d\n", info.si_pid == getpid(), info.si_code);
	TELL(sigwaitinfo(&set, &info));
	printf("value %d, code %d\n", info.si_value.sival_int, info.si_code);
	TELL(sigwaitinfo(&set, &info));
	printf("value %d\n", info.si_value.sival_int);
	TELL(sigtimedwait(&set, &info, &soon));
	fflush(stdout);
	if ((pid = fork()) == 0) {
		usleep(50000);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	TELL(sigwaitinfo(&set, &info));
	printf("from my child %d\n", info.si_pid == pid);
	waitpid(pid, &status, 0);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	TELL(read(fd, &from, sizeof(from)));
	raise(SIGUSR1);
	TELL(read(fd, &from, sizeof(from)));
	printf("signal %u\n", from.ssi_signo);
	close(fd);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* SIGBUS, which the proxy needs for itself. */
static void bus(void)
{
	sigset_t set = set_of(SIGBUS, 0), pending;
	struct timespec soon = { 0, 50000000 }, wrong = { 0, 1000000000 };
	siginfo_t info;
	union sigval value = { .sival_int = 9 };
	int pid, status;

	sigprocmask(SIG_BLOCK, &set, NULL);
	TELL(sigtimedwait(&set, &info, &soon));
	sigqueue(getpid(), SIGBUS, value);
	usleep(1000);
	TELL(sigtimedwait(&set, &info, &wrong));
	sigpending(&pending);
	printf("pending %d\n", sigismember(&pending, SIGBUS));
	TELL(sigtimedwait(&set, &info, &soon));
	printf("value %d, code %d, from myself %d\n", info.si_value.sival_int, info.si_code, info.si_pid == getpid());
	sigpending(&pending);
	printf("pending %d\n", sigismember(&pending, SIGBUS));
	raise(SIGBUS);
	TELL(sigwaitinfo(&set, NULL));
	TELL(sigtimedwait(&set, &info, &soon));
	fflush(stdout);
	if ((pid = fork()) == 0) {
		usleep(50000);
		kill(getppid(), SIGBUS);
		_exit(0);
	}
	TELL(sigwaitinfo(&set, &info));
	printf("from my child %d\n", info.si_pid == pid);
	waitpid(pid, &status, 0);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* A signal that comes when it is not blocked, is blocked in another handler, then waited for. */
static sigset_t both;

static void blocks(int signal)
{
	siginfo_t info;
	struct timespec soon = { 1, 0 };

	kill(getpid(), SIGUSR2);
	TELL(sigtimedwait(&both, &info, &soon));
	sigset_t pending;
	kill(getpid(), SIGUSR2);
	sigpending(&pending);
	printf("pending %d\n", sigismember(&pending, SIGUSR2));
}

static void in_handler(void)
{
	struct sigaction action = { .sa_handler = blocks };

	both = set_of(SIGUSR2, 0);
	signal(SIGUSR2, counting);
	action.sa_mask = both;
	sigaction(SIGUSR1, &action, NULL);
	count = 0;
	raise(SIGUSR1);
	printf("handled %d\n", count);
}

static void children(void)
{
	struct sigaction action = { .sa_handler = counting };
	int pid, status;

	fflush(stdout);
	action.sa_flags = SA_NOCLDWAIT;
	sigaction(SIGCHLD, &action, NULL);
	count = 0;
	if ((pid = fork()) == 0)
		_exit(0);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	TELL(waitpid(pid, &status, 0));
	printf("SIGCHLD %d\n", count);
	signal(SIGCHLD, SIG_IGN);
	if ((pid = fork()) == 0)
		_exit(0);
	TELL(waitpid(pid, &status, 0));
	action = (struct sigaction){ .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT };
	sigaction(SIGCHLD, &action, NULL);
	if ((pid = fork()) == 0)
		_exit(0);
	TELL(waitpid(pid, &status, 0));
	action = (struct sigaction){ .sa_handler = counting, .sa_flags = SA_NOCLDSTOP | SA_RESTART };
	sigaction(SIGCHLD, &action, NULL);
	count = 0;
	int go[2];
	if (pipe(go))
		return;
	if ((pid = fork()) == 0) {
		raise(SIGSTOP);
		/* Not gone before it was seen to go on. */
		_exit(read(go[0], &status, 1) == 1 ? 4 : 5);
	}
	waitpid(pid, &status, WUNTRACED);
	printf("stopped %d by %d, SIGCHLD %d\n", WIFSTOPPED(status), WSTOPSIG(status), count);
	kill(pid, SIGCONT);
	waitpid(pid, &status, WCONTINUED);
	printf("continued %d\n", WIFCONTINUED(status));
	if (write(go[1], "", 1) != 1)
		return;
	waitpid(pid, &status, 0);
	printf("status %x, SIGCHLD %d\n", status, count);
	action.sa_flags = SA_RESTART;
	sigaction(SIGCHLD, &action, NULL);
	count = 0;
	if ((pid = fork()) == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, &status, WUNTRACED);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	printf("with stops: %d\n", count >= 2);
	signal(SIGCHLD, SIG_DFL);
}

static long cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void burn(long ms)
{
	long until = cpu_ms() + ms;

	do {
		for (volatile int i = 0; i < 200000; i++)
			;
	} while (cpu_ms() < until);
}

/*
 * Until so many signals have come, too: a machine short of time ticks late, and once for several
 * periods.
 */
static void burn_for(long ms, int signals)
{
	long begin = cpu_ms();

	do
		burn(ms);
	while (count < signals && cpu_ms() < begin + 100000);
}

static void *burning(void *clock)
{
	struct timespec own, by_id;
	clockid_t id;

	burn(150);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
	pthread_getcpuclockid(pthread_self(), &id);
	clock_gettime(id, &by_id);
	printf("thread: %d %d\n", own.tv_sec * 1000000000L + own.tv_nsec > 50000000 && own.tv_sec < 100,
	       by_id.tv_sec > own.tv_sec || by_id.tv_nsec >= own.tv_nsec);
	return NULL;
}

static void cpu_time(void)
{
	struct itimerval t = { .it_value = { 0, 50000 }, .it_interval = { 0, 50000 } }, off = { }, old;
	struct rusage usage;
	struct tms { long u, s, cu, cs; } times;
	pthread_t thread;
	int pid, status;
	clockid_t id;
	struct timespec now;

	signal(SIGVTALRM, counting);
	signal(SIGPROF, counting);
	for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
		long begin = cpu_ms();

		count = 0;
		setitimer(which, &t, NULL);
		burn_for(400, 2);
		getitimer(which, &old);
		printf("armed %d\n", old.it_value.tv_usec > 0 && old.it_value.tv_usec <= 50000 &&
		       old.it_interval.tv_usec == 50000);
		setitimer(which, &off, NULL);
		printf("several signals: %d\n", count >= 2 && count < (cpu_ms() - begin) / 50 + 4);
	}
	t.it_interval = off.it_interval;
	/* A CPU that stands still just before it sleeps counts the time as computed: once more. */
	for (int tries = 0; tries < 20; tries++) {
		count = 0;
		setitimer(ITIMER_PROF, &t, NULL);
		usleep(200000);
		if (!count)
			break;
	}
	printf("asleep: %d\n", count);
	burn_for(200, 1);
	printf("once: %d\n", count);
	pthread_create(&thread, NULL, burning, NULL);
	pthread_join(thread, NULL);
	clock_getcpuclockid(0, &id);
	TELL(clock_gettime(id, &now));
	TELL(clock_getcpuclockid(getpid(), &id));
	TELL(clock_gettime(id, &now));
	printf("process: %d\n", now.tv_sec > 0 || now.tv_nsec > 500000000);
	fflush(stdout);
	if ((pid = fork()) == 0) {
		burn(300);
		_exit(0);
	}
	wait4(pid, &status, 0, &usage);
	long ms = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
		  (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
	printf("a child's time: %d, memory %d\n", ms >= 280 && ms < 100000, usage.ru_maxrss > 100);
	if (ms < 280 || ms >= 100000)
		printf("%ld ms\n", ms);
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("children's time: %d\n", usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000 +
	       usage.ru_stime.tv_sec * 1000 + usage.ru_stime.tv_usec / 1000 >= 280);
	syscall(SYS_times, &times);
	printf("in ticks: %d\n", times.cu + times.cs >= 28);
	if ((pid = fork()) == 0) {
		struct rlimit limit = { 1, 1000 };
		setrlimit(RLIMIT_CPU, &limit);
		signal(SIGXCPU, counting);
		count = 0;
		while (!count)
			;
		signal(SIGXCPU, SIG_DFL);
		for (;;)
			;
	}
	waitpid(pid, &status, 0);
	printf("died of signal %d\n", WTERMSIG(status));
}

static timer_t timer_made(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t timer;

	timer_create(CLOCK_MONOTONIC, &event, &timer);
	return timer;
}

/* The timer of the program before does not survive: no SIGUSR1. */
static int survives(int tries, char *self)
{
	struct itimerspec in = { .it_value = { 1, 0 } };
	struct timespec later = { 1, 300000000 };
	sigset_t set = set_of(SIGUSR1, 0), pending;
	char number[12];

	/* Where execve was not faster than the timer, once more. */
	sigpending(&pending);
	if (tries && (!sigismember(&pending, SIGUSR1) || tries > 20)) {
		TELL(sigtimedwait(&set, NULL, &later));
		return 0;
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigtimedwait(&set, NULL, &(struct timespec){ 0 });
	snprintf(number, sizeof(number), "%d", tries + 1);
	timer_settime(timer_made(), 0, &in, NULL);
	execl(self, self, number, NULL);
	return 1;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		return survives(atoi(argv[1]), argv[0]);
	waits();
	bus();
	in_handler();
	children();
	cpu_time();
	return survives(0, argv[0]);
}
