/*
 * A program executed by the child of a vfork finds what it would find after a fork: the process
 * keeps all that execve does not take, and has memory of its own.
 */
#include "guest.h"
#include <poll.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>

static char self[PATH_MAX], *stack;
static long long expected;

/* ---- the program ---- */

static long long ms_of(const struct rusage *usage)
{
	return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000LL +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
}

static long long used_ms(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return ms_of(&usage);
}

static void burn(long long ms)
{
	for (long long from = used_ms(RUSAGE_SELF); used_ms(RUSAGE_SELF) < from + ms;)
		for (volatile int i = 0; i < 200000; i++)
			;
}

static long long cpus(void)
{
	cpu_set_t set;
	long long bits = 0;

	sched_getaffinity(0, sizeof(set), &set);
	for (int i = 0; i < 63; i++)
		bits |= (long long)CPU_ISSET(i, &set) << i;
	return bits;
}

static void show_file(const char *name)
{
	char text[300], path[64];
	long length;

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	int fd = open(path, O_RDONLY);

	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	for (long i = 0; i < length; i++)
		if (text[i] < ' ')
			text[i] = '|';
	printf("  %s: %.*s\n", name, (int)(length < 0 ? 0 : length), text);
}

static void show_all(char **argv)
{
	struct sched_param parameter;
	struct itimerval timer;
	stack_t alternative;
	char name[17] = "";
	int signal = -1, reaper = -1;
	long long expected_cpus = 0;
	mode_t mask = umask(0);

	read(70, &expected_cpus, sizeof(expected_cpus));
	prctl(PR_GET_NAME, name);
	prctl(PR_GET_PDEATHSIG, &signal);
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	sched_getparam(0, &parameter);
	getitimer(ITIMER_REAL, &timer);
	sigaltstack(NULL, &alternative);
	printf("  %s %s, nice %d, policy %d %d, slack %d, death signal %d, reaper %d, mask %o\n", *argv, name,
	       getpriority(PRIO_PROCESS, 0), sched_getscheduler(0), parameter.sched_priority,
	       prctl(PR_GET_TIMERSLACK), signal, reaper, mask);
	printf("  huge pages off %d, personality %#x, stack %d, no new %d, keeps %d, timer %d, io %ld\n",
	       prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), personality(~0u), alternative.ss_flags,
	       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_KEEPCAPS),
	       timer.it_value.tv_sec > 100, syscall(SYS_ioprio_get, 1, 0));
	show_file("cmdline");
	show_file("environ");
	show_file("comm");
	show_file("oom_score_adj");
	printf("  affinity %d, timers %d, group %d, session %d\n", cpus() == expected_cpus,
	       timer_delete(0) != 0, getpgid(0) == getpid(), getsid(0) == getpid());
}

static void show_pending(void)
{
	struct timespec none = { 0 };
	sigset_t all, pending;
	siginfo_t info;

	sigfillset(&all);
	sigpending(&pending);
	printf("  pending:");
	for (int i = 1; i < 64; i++)
		if (sigismember(&pending, i) == 1)
			printf(" %d", i);
	printf("\n");
	while (sigtimedwait(&all, &info, &none) > 0)
		printf("  signal %d, code %d, value %d\n", info.si_signo, info.si_code,
		       info.si_signo >= SIGRTMIN ? info.si_value.sival_int : 0);
}

static void show_children(void)
{
	struct rusage usage;
	char byte = 0;

	long long own = used_ms(RUSAGE_SELF), children = used_ms(RUSAGE_CHILDREN);
	printf("  own time %s, children %s", own >= 180 ? "kept" : "lost", children >= 180 ? "kept" : "lost");
	if (expected) {
		write(70, &byte, 1);
		pid_t pid = wait4(expected, NULL, 0, &usage);
		printf(", waited %d", pid == expected);
		printf(", then children %s, told %s", used_ms(RUSAGE_CHILDREN) >= children + 180 ? "kept" : "lost",
		       ms_of(&usage) >= 180 ? "kept" : "lost");
	}
	printf("\n");
}

static void program(char **argv)
{
	expected = atoll(argv[3]);
	if (!strcmp(argv[2], "all"))
		show_all(argv);
	else if (!strcmp(argv[2], "pending"))
		show_pending();
	else if (!strcmp(argv[2], "children"))
		show_children();
	else if (!strcmp(argv[2], "pause"))
		for (int i = 0; i < 20; i++)
			usleep(1000000);
	else if (!strcmp(argv[2], "burn"))
		burn(100000);
	else
		printf("  program %s\n", argv[2]);
	fflush(stdout);
}

/* ---- the child ---- */

static void run(const char *what)
{
	static char number[32];

	snprintf(number, sizeof(number), "%lld", expected);
	execve(self, (char *[]){ "a name", "program", (char *)what, number, NULL }, (char *[]){ "ONE=1", NULL });
	_exit(99);
}

static void timer(int which, int ms)
{
	struct itimerval value = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

	setitimer(which, &value, NULL);
}

static void set_all(void)
{
	struct sched_param parameter = { 5 };
	stack_t alternative = { .ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ };
	timer_t id;
	cpu_set_t set;

	setpriority(PRIO_PROCESS, 0, 5);
	sched_setscheduler(0, SCHED_RR, &parameter);
	prctl(PR_SET_NAME, "child");
	prctl(PR_SET_TIMERSLACK, 77777);
	prctl(PR_SET_PDEATHSIG, SIGUSR2);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_KEEPCAPS, 1);
	personality(0x0020000); /* UNAME26 */
	umask(0123);
	setsid();
	syscall(SYS_ioprio_set, 1, 0, 3 << 13 | 2);
	timer(ITIMER_REAL, 1000000);
	timer_create(CLOCK_MONOTONIC, NULL, &id);
	sigaltstack(&alternative, NULL);
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	write(fd, "321", 3);
	close(fd);
	CPU_ZERO(&set);
	CPU_SET(63 - __builtin_clzll(cpus()), &set);
	sched_setaffinity(0, sizeof(set), &set);
	/* Not by an argument, for all of those are shown. */
	long long now = cpus();
	int pipes[2];

	pipe(pipes);
	write(pipes[1], &now, sizeof(now));
	dup2(pipes[0], 70);
	run("all");
}

static void set_pending(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	kill(getpid(), SIGTERM);
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ .sival_int = 1234 });
	sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ .sival_int = 5678 });
	timer(ITIMER_REAL, 10);
	/* As late as it comes. */
	do
		usleep(10000);
	while (!sigpending(&all) && !sigismember(&all, SIGALRM));
	run("pending");
}

static void set_alarm(void) { timer(ITIMER_REAL, by_tier(400, 1500)); run("pause"); }
static void set_virtual(void) { timer(ITIMER_VIRTUAL, by_tier(150, 500)); run("burn"); }
static void set_profile(void) { timer(ITIMER_PROF, by_tier(150, 500)); run("burn"); }

static void set_limit(void)
{
	setrlimit(RLIMIT_CPU, &(struct rlimit){ 1, 1000 });
	run("burn");
}

static int burns(void *unused)
{
	burn(200);
	_exit(0);
}

/* A grandchild that has ended, and one that lives on. */
static void set_children(void)
{
	int pipes[2];
	char byte;

	burn(200);
	waitpid(clone(burns, stack + (192 << 10), SIGCHLD, NULL), NULL, 0);
	pipe(pipes);
	pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		read(pipes[0], &byte, 1);
		burns(NULL);
	}
	dup2(pipes[1], 70);
	close(pipes[0]);
	close(pipes[1]);
	expected = pid;
	run("children");
}

static int other_runs(void *unused)
{
	run("of another thread");
	return 0;
}

static volatile int spins;

static int __attribute__((noreturn)) other_spins(void *unused)
{
	spins = 1;
	for (;;)
		sched_yield();
}

#define AS_THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static void beside_a_thread(void)
{
	spins = 0;
	clone(other_spins, stack + (192 << 10), AS_THREAD, NULL);
	while (!spins)
		sched_yield();
	run("beside a thread");
}

static void by_a_thread(void)
{
	clone(other_runs, stack + (192 << 10), AS_THREAD, NULL);
	for (;;)
		pause();
}

static void nested(void)
{
	int status = -1;

	waitpid(clone(other_runs, stack + (192 << 10), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL), &status, 0);
	printf("  grandchild %x\n", status);
	fflush(stdout);
	run("after a vfork of its own");
}

/* The grandchild stays in the memory that the child leaves. */
static int stays(void *unused)
{
	char byte;

	read(71, &byte, 1);
	_exit(3);
}

static void leaves_one(void)
{
	int pipes[2];

	pipe(pipes);
	dup2(pipes[0], 71);
	dup2(pipes[1], 70);
	close(pipes[0]);
	close(pipes[1]);
	expected = clone(stays, stack + (192 << 10), CLONE_VM | SIGCHLD, NULL);
	burn(200);
	run("children");
}

/* ---- what is run ---- */

static char *const words[] = { "a name", "program", "by another way", "0", NULL };
static char *const environment[] = { NULL };

static int program_fd(int flags, const char *text)
{
	char bytes[1 << 14];
	int fd = memfd_create("program", flags), in = text ? -1 : open(self, O_RDONLY);
	long n;

	if (text)
		write(fd, text, strlen(text));
	else
		while ((n = read(in, bytes, sizeof(bytes))) > 0)
			write(fd, bytes, n);
	close(in);
	/* What is open for writing does not run. */
	snprintf(bytes, sizeof(bytes), "/proc/self/fd/%d", fd);
	in = open(bytes, O_RDONLY | (flags & MFD_CLOEXEC ? O_CLOEXEC : 0));
	close(fd);
	fchmod(in, 0755);
	return in;
}

static void run_descriptor(int fd)
{
	syscall(SYS_execveat, fd, "", words, environment, AT_EMPTY_PATH);
	_exit(errno);
}

#define ECHO "#!/bin/echo   of a script \n"
static void by_descriptor(void) { run_descriptor(program_fd(MFD_CLOEXEC, NULL)); }
static void script(void) { run_descriptor(program_fd(0, ECHO)); }
static void script_closed(void) { run_descriptor(program_fd(MFD_CLOEXEC, ECHO)); }
static void script_wrong(void) { run_descriptor(program_fd(0, "#!/nowhere\n")); }
static void script_empty(void) { run_descriptor(program_fd(0, "\n")); }

static void in_directory(void)
{
	int fd = open("/bin", O_RDONLY | O_DIRECTORY);

	dup2(fd, 80);
	syscall(SYS_execveat, 80, "echo", (char *[]){ "echo", "  in a directory", NULL }, environment, 0);
	_exit(errno);
}

static void long_arguments(void)
{
	char *many[40], *one = malloc(1 << 17);

	memset(one, 'x', 1 << 17);
	one[(1 << 17) - 1] = 0;
	for (int i = 0; i < 39; i++)
		many[i] = one;
	many[0] = "/bin/true";
	many[15] = many[39] = NULL;
	execve("/bin/true", many, environment);
	_exit(errno);
}

static void too_long_arguments(void)
{
	struct rlimit small = { 256 << 10, 8 << 20 };

	setrlimit(RLIMIT_STACK, &small);
	long_arguments();
}

static volatile int heard;

static void hears(int signal)
{
	heard = signal;
}

/* After an execve that failed all is as it was. */
static void fails(void)
{
	static const char *const names[] = { "/nowhere", "/etc/passwd", "/", "/etc/passwd/x", "" };
	struct sigaction action;
	sigset_t mask;

	heard = 0;
	signal(SIGUSR1, hears);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	fcntl(dup2(1, 60), F_SETFD, FD_CLOEXEC);
	prctl(PR_SET_NAME, "child");
	for (int i = 0; i < 5; i++) {
		char name[17] = "";

		execve(names[i], words, environment);
		printf("  %s", strerrorname_np(errno));
		heard = 0;
		raise(SIGUSR1);
		sigprocmask(SIG_SETMASK, NULL, &mask);
		sigaction(SIGUSR1, NULL, &action);
		prctl(PR_GET_NAME, name);
		printf(": signal %d, mask %d, handler %d, descriptor %d, name %s\n", heard, sigismember(&mask, SIGUSR2),
		       action.sa_handler == hears, fcntl(60, F_GETFD), name);
	}
	fflush(stdout);
	run("after failures");
}

/* ---- parents ---- */

static int body(void *told)
{
	((void (*)(void))told)();
	return 0;
}

static void all_ways(const char *name, void (*child)(void))
{
	static const struct { const char *name; int flags; } ways[] = {
		{ "fork", 0 }, { "vfork", CLONE_VM | CLONE_VFORK }, { "shared", CLONE_VM },
	};

	for (int i = 0; i < 3; i++) {
		/*
		 * In `make test` all ways for what the process keeps by itself; for the rest vfork.
		 */
		if (i != 1 && child != set_all && child != set_pending && !by_tier(0, 1))
			continue;
		int status = -1, pidfd = -1;

		expected = 0;
		printf("%s, %s\n", name, ways[i].name);
		fflush(stdout);
		long long before = used_ms(RUSAGE_CHILDREN);
		pid_t pid = clone(body, stack + (128 << 10), ways[i].flags | CLONE_PIDFD | SIGCHLD, child, &pidfd);
		struct pollfd ends = { pidfd, POLLIN, 0 };

		poll(&ends, 1, -1);
		if (waitpid(pid, &status, 0) != pid)
			status = -1;
		close(pidfd);
		printf("  end %x, told by descriptor %d", status, ends.revents);
		if (child == set_children)
			printf(", children's time %s", used_ms(RUSAGE_CHILDREN) >= before + 550 ? "kept" : "lost");
		printf("\n");
		fflush(stdout);
		signal(SIGUSR1, SIG_DFL);
	}
}

int main(int argc, char **argv)
{
	if (argc > 3) {
		program(argv);
		return 0;
	}
	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	stack = mmap(NULL, 256 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	all_ways("all that stays", set_all);
	all_ways("pending signals", set_pending);
	all_ways("alarm", set_alarm);
	all_ways("timer of user time", set_virtual);
	all_ways("timer of CPU time", set_profile);
	all_ways("limit of CPU time", set_limit);
	all_ways("children", set_children);
	all_ways("beside a thread", beside_a_thread);
	all_ways("by a thread", by_a_thread);
	all_ways("nested", nested);
	all_ways("leaves one behind", leaves_one);
	all_ways("by descriptor", by_descriptor);
	all_ways("script", script);
	all_ways("script, closed", script_closed);
	all_ways("script, no interpreter", script_wrong);
	all_ways("not a program", script_empty);
	all_ways("in a directory", in_directory);
	all_ways("long arguments", long_arguments);
	all_ways("too long arguments", too_long_arguments);
	all_ways("failures", fails);
	return 0;
}
