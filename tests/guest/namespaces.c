/*
 * Namespaces (as root): signals to the first process of a pid namespace; ids while a user namespace
 * gets its maps; calls for processes with one thread, and limits, after other threads have ended.
 */
#include "guest.h"
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

/* ---- init ---- */

static void from_child(int signal)
{
	if (!fork()) {
		kill(1, signal);
		_exit(0);
	}
	wait(NULL);
	usleep(20000);
	printf("alive after %d\n", signal);
	fflush(stdout);
}

static void signalled(void)
{
	int ends[2];

	from_child(SIGTERM);
	from_child(SIGKILL);
	from_child(SIGTSTP);
	from_child(SIGABRT);
	TELL(raise(SIGTERM));
	TELL(kill(getpid(), SIGINT));
	pipe(ends);
	close(ends[0]);
	TELL(write(ends[1], "x", 1));
	signal(SIGALRM, SIG_DFL);
	alarm(1);
	usleep(1200000);
	printf("alive after the alarm\n");
	fflush(stdout);
	_exit(4);
}

static volatile int got;

static void hears(int signal)
{
	got = signal;
}

static void with_handler(void)
{
	signal(SIGTERM, hears);
	from_child(SIGTERM);
	printf("heard %d\n", got);
	fflush(stdout);
	execl("/bin/sh", "sh", "-c", "kill -TERM $$; echo the shell lives; exit 9", NULL);
}

static void waits(void)
{
	sigset_t set;
	int signal = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (!fork()) {
		kill(1, SIGTERM);
		_exit(0);
	}
	sigwait(&set, &signal);
	printf("waited for %d\n", signal);
	kill(1, SIGTERM);
	TELL(sigpending(&set) || !sigismember(&set, SIGTERM));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("alive\n");
	fflush(stdout);
}

static void faults(void)
{
	*(volatile int *)8 = 1;
}

static void traps(void)
{
	__builtin_trap();
}

static void from_outside(int signal)
{
	int status = 0, ends[2], sent[2];
	char c;
	pid_t pid;

	pipe(ends);
	pipe(sent);
	pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		write(ends[1], "", 1);
		read(sent[0], &c, 1);
		usleep(300000);
		_exit(11);
	}
	read(ends[0], &c, 1);
	kill(pid, signal);
	write(sent[1], "", 1);
	waitpid(pid, &status, 0);
	printf("%d from outside: %#x\n", signal, status);
	fflush(stdout);
}

/* ---- user namespaces ---- */

static void put(pid_t pid, const char *file, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY);
	write(fd, text, strlen(text));
	close(fd);
}

static void ids(const char *when)
{
	printf("%s: %d %d %d %d\n", when, getuid(), geteuid(), getgid(), getegid());
	fflush(stdout);
}

static void maps_itself(void)
{
	TELL(unshare(CLONE_NEWUSER));
	ids("before");
	put(getpid(), "uid_map", "0 0 1");
	put(getpid(), "setgroups", "deny");
	put(getpid(), "gid_map", "7 0 1");
	execl("/proc/self/exe", "namespaced", "ids", NULL);
}

static void is_mapped(void)
{
	int ends[2], back[2];
	char c;
	pid_t pid;

	pipe(ends);
	pipe(back);
	pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		ids("child before");
		write(ends[1], "", 1);
		read(back[0], &c, 1);
		ids("child after");
		_exit(0);
	}
	read(ends[0], &c, 1);
	put(pid, "uid_map", "1234 0 1");
	put(pid, "gid_map", "5678 0 1");
	write(back[1], "", 1);
	wait(NULL);
}

/* ---- after threads ---- */

static void *nothing(void *unused)
{
	return unused;
}

static void threads(int n)
{
	pthread_t t[8];

	for (int i = 0; i < n; i++)
		pthread_create(t + i, NULL, nothing, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* pthread_join is told before the thread is gone: Linux may say EINVAL, too, for a moment. */
static long until_alone(long (*call)(void))
{
	for (int i = 0; i < 60000; i++) {
		if (call() == 0)
			return 0;
		usleep(1000);
	}
	return -1;
}

static long unshares(void) { return unshare(CLONE_THREAD | CLONE_SIGHAND | CLONE_VM); }
static long new_user(void) { return unshare(CLONE_NEWUSER); }
static int space = -1;
static long enters(void) { return setns(space, 0); }

static void single(void)
{
	threads(8);
	TELL(until_alone(unshares));
	threads(2);
	space = open("/proc/self/ns/mnt", O_RDONLY);
	TELL(until_alone(enters));
	threads(2);
	space = open("/proc/self/ns/time", O_RDONLY);
	TELL(until_alone(enters));
	threads(4);
	TELL(until_alone(new_user));
}

static void limited(void)
{
	struct rlimit two = { 2, 2 };
	pid_t pid;

	setresuid(54321, 54321, 54321);
	threads(4);
	usleep(100000);
	setrlimit(RLIMIT_NPROC, &two);
	/* Threads that have been joined may count for a moment. */
	for (int i = 0; i < 60000 && (pid = fork()) < 0; i++)
		usleep(1000);
	if (!pid)
		_exit(0);
	printf("one process more: %s\n", pid < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
}

static void *named(void *unused)
{
	prctl(PR_SET_NAME, "by-itself");
	return unused;
}

static void *says_name(void *unused)
{
	char name[17] = "";

	prctl(PR_GET_NAME, name);
	printf("the next thread's name: %s\n", name);
	fflush(stdout);
	return unused;
}

static void names(void)
{
	pthread_t t;

	pthread_create(&t, NULL, named, NULL);
	pthread_join(t, NULL);
	usleep(50000);
	pthread_create(&t, NULL, says_name, NULL);
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "ids")) {
		ids("after exec");
		printf("told: %lu %lu\n", getauxval(AT_UID), getauxval(AT_GID));
		return 0;
	}
	child_of("signals", CLONE_NEWPID, signalled);
	child_of("handler", CLONE_NEWPID, with_handler);
	child_of("waits", CLONE_NEWPID, waits);
	child_of("fault", CLONE_NEWPID, faults);
	child_of("trap", CLONE_NEWPID, traps);
	from_outside(SIGTERM);
	from_outside(SIGKILL);
	child_of("maps itself", 0, maps_itself);
	child_of("is mapped", 0, is_mapped);
	child_of("single", 0, single);
	child_of("limited", 0, limited);
	names();
	return 0;
}
