/* Processes that share memory: clone with CLONE_VM, without CLONE_THREAD and CLONE_VFORK. */
#include "guest.h"
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>

#define STACK (64 << 10)
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

static volatile int word, seen, go;
static char *volatile made;
static int shared_fd;
static pid_t parent_pid;

static long call_futex(volatile int *at, int operation, int value)
{
	return syscall(SYS_futex, at, operation, value, NULL, NULL, 0);
}

static pid_t start(int (*run)(void *), int flags, pid_t *tid, int *pidfd)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return clone(run, stack + STACK, CLONE_VM | flags, NULL, pidfd ? pidfd : tid, NULL, tid);
}

static int finish(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, __WALL) != pid)
		printf("waitpid: %s\n", strerrorname_np(errno));
	return status;
}

static int memory(void *unused)
{
	(void)unused;
	made = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(made, "made by the child");
	word = (getpid() != parent_pid) + 2 * (getppid() == parent_pid);
	return 7;
}

static int files(void *unused)
{
	(void)unused;
	seen = dup2(1, 70) == 70 && chdir("/proc") == 0;
	close(shared_fd);
	return 0;
}

static void shared_things(int flags)
{
	char cwd[64] = "";

	shared_fd = open("/dev/null", O_RDONLY);
	if (chdir("/tmp"))
		return;
	printf("flags %#x: status %x", flags, finish(start(files, flags | SIGCHLD, NULL, NULL)));
	getcwd(cwd, sizeof(cwd));
	printf(", done %d, fd 70 %s, closed %d, cwd %s\n", seen, fcntl(70, F_GETFD) == -1 ? "no" : "yes",
	       fcntl(shared_fd, F_GETFD) == -1, cwd);
	close(70);
	close(shared_fd);
}

static volatile pid_t handled_in;

static void handler(int signal)
{
	(void)signal;
	handled_in = getpid();
	go = 1;
}

static int catches(void *unused)
{
	(void)unused;
	signal(SIGUSR2, handler);
	signal(SIGWINCH, SIG_IGN);
	return 0;
}

static void handlers(int flags)
{
	struct sigaction usr2, winch;

	signal(SIGUSR2, SIG_DFL);
	signal(SIGWINCH, SIG_DFL);
	finish(start(catches, flags | SIGCHLD, NULL, NULL));
	sigaction(SIGUSR2, NULL, &usr2);
	sigaction(SIGWINCH, NULL, &winch);
	printf("flags %#x: caught %d, ignored %d\n", flags, usr2.sa_handler == handler, winch.sa_handler == SIG_IGN);
	signal(SIGUSR2, SIG_DFL);
	signal(SIGWINCH, SIG_DFL);
}

static int ping(void *unused)
{
	(void)unused;
	for (int i = 0; i < 50; i++) {
		while (word != 2 * i + 1)
			call_futex(&word, FUTEX_WAIT_PRIVATE, 2 * i);
		word = 2 * i + 2;
		call_futex(&word, FUTEX_WAKE_PRIVATE, 1);
	}
	return 0;
}

static void futexes(void)
{
	pid_t pid;

	word = 0;
	pid = start(ping, SIGCHLD, NULL, NULL);
	for (int i = 0; i < 50; i++) {
		word = 2 * i + 1;
		call_futex(&word, FUTEX_WAKE_PRIVATE, 1);
		while (word != 2 * i + 2)
			call_futex(&word, FUTEX_WAIT_PRIVATE, 2 * i + 1);
	}
	printf("ping-pong: %d, status %x\n", word, finish(pid));
}

static int ends(void *unused)
{
	(void)unused;
	return 3;
}

static void thread_id(void)
{
	static pid_t tid;
	struct timespec limit = { 200, 0 };
	pid_t pid = start(ends, SIGCHLD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID, &tid, NULL);
	long answer = 0;

	while (tid && answer == 0)
		answer = syscall(SYS_futex, &tid, FUTEX_WAIT, pid, &limit, NULL, 0);
	printf("thread id %d cleared, status %x\n", tid, finish(pid));
}

static int spins(void *unused)
{
	(void)unused;
	word = 1;
	for (;;)
		seen++;
	return 0;
}

static int waits_for_signal(void *unused)
{
	(void)unused;
	signal(SIGUSR1, handler);
	word = 1;
	while (!go)
		usleep(1000); /* not pause: it may come just before */
	return handled_in == getpid() ? 5 : 6;
}

static void signalled(void)
{
	pid_t pid;

	word = go = 0;
	pid = start(waits_for_signal, SIGCHLD, NULL, NULL);
	while (!word)
		sched_yield();
	do {
		kill(pid, SIGUSR1);
		usleep(1000);
	} while (!go);
	printf("signalled: status %x\n", finish(pid));
}

/*
 * Whether the other process counts while this thread sleeps on each CPU in turn: no CPU stands
 * still all the while, and it could run.
 */
static int counts(void)
{
	cpu_set_t all, one;
	int count = seen;

	sched_getaffinity(0, sizeof(all), &all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		for (int i = 0; i < 10; i++)
			usleep(10000);
	}
	sched_setaffinity(0, sizeof(all), &all);
	return seen != count;
}

/* The LWK hears of it a moment later. */
static void until_it_counts_no_more(void)
{
	for (int i = 0; i < 300 && counts(); i++)
		;
}

static void stopped(void)
{
	int status = 0, count;
	pid_t pid;

	word = 0;
	pid = start(spins, SIGCHLD, NULL, NULL);
	while (!word)
		sched_yield();
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	printf("stopped: %x", status);
	until_it_counts_no_more();
	count = seen;
	printf(", counts %s", counts() ? "on" : "no more");
	kill(pid, SIGCONT);
	for (int i = 0; i < 100000 && seen == count; i++)
		usleep(1000);
	printf(", continued %d", seen != count);
	kill(pid, SIGKILL);
	printf(", killed %x\n", finish(pid));
	until_it_counts_no_more();
	printf("counts %s\n", counts() ? "on" : "no more");
}

static int second(void *unused)
{
	(void)unused;
	for (;;)
		seen++;
	return 0;
}

static int with_thread(void *unused)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int before = seen;

	(void)unused;
	clone(second, stack + STACK, THREAD_FLAGS, NULL);
	while (seen == before)
		sched_yield();
	syscall(SYS_exit_group, 9);
	return 0;
}

static int forks(void *unused)
{
	pid_t pid = fork();
	int status;

	(void)unused;
	if (pid == 0) {
		word = 77;
		_exit(getppid() == parent_pid);
	}
	waitpid(pid, &status, 0);
	return 10 + WEXITSTATUS(status);
}

static int reads(void *unused)
{
	char text[32] = "";
	struct iovec to = { text, 17 }, from = { made, 17 };

	(void)unused;
	return process_vm_readv(parent_pid, &to, 1, &from, 1, 0) == 17 && !strcmp(text, "made by the child");
}

static int maps_shared(void *unused)
{
	int fd = memfd_create("shared", 0);

	(void)unused;
	if (ftruncate(fd, PAGE))
		return 1;
	made = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	strcpy(made, "in a file");
	return 0;
}

static int survives(void *unused)
{
	(void)unused;
	while (getppid() == parent_pid)
		usleep(1000);
	made[0] = 'S';
	dprintf(1, "survivor: %s\n", made);
	_exit(0);
}

static int own_files(void *unused)
{
	(void)unused;
	seen = dup2(1, 71) == 71 && chdir("/proc") == 0;
	word = 2;
	while (go < 1)
		sched_yield();
	seen += 2 * (fcntl(shared_fd, F_GETFD) == -1); /* still open here */
	go = 2;
	syscall(SYS_exit, 0);
	return 0;
}

/* A thread with descriptors and a working directory of its own. */
static void separate_thread(void)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), cwd[64] = "";

	shared_fd = open("/dev/null", O_RDONLY);
	word = go = 0;
	if (chdir("/tmp") || clone(own_files, stack + STACK, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, NULL) < 0)
		printf("thread: %s\n", strerrorname_np(errno));
	while (word != 2)
		sched_yield();
	close(shared_fd);
	getcwd(cwd, sizeof(cwd));
	printf("thread: fd 71 %s, cwd %s", fcntl(71, F_GETFD) == -1 ? "no" : "yes", cwd);
	go = 1;
	while (go != 2)
		sched_yield();
	printf(", done %d\n", seen);
}

/* The first process of the memory ends first. */
static void orphan(void)
{
	int ends[2], status;
	char byte;

	if (pipe(ends))
		return;
	if (fork() == 0) {
		close(ends[0]);
		made = strdup("survived");
		parent_pid = getpid();
		start(survives, SIGCHLD, NULL, NULL);
		syscall(SYS_exit_group, 0);
	}
	close(ends[1]);
	wait(&status);
	printf("first: %x, pipe %zd\n", status, read(ends[0], &byte, 1));
	close(ends[0]);
}

int main(void)
{
	int pidfd = -1;
	pid_t pid;

	setbuf(stdout, NULL);
	parent_pid = getpid();
	printf("memory: status %x", finish(start(memory, SIGCHLD, NULL, NULL)));
	printf(", %s, %d\n", made, word);
	printf("its memory: %x\n", finish(start(reads, SIGCHLD, NULL, NULL)));
	shared_things(0);
	shared_things(CLONE_FILES);
	shared_things(CLONE_FS);
	shared_things(CLONE_FS | CLONE_FILES);
	handlers(0);
	handlers(CLONE_SIGHAND);
	futexes();
	thread_id();
	signalled();
	stopped();
	printf("exit_group: %x\n", finish(start(with_thread, SIGCHLD, NULL, NULL)));
	word = 1;
	pid = start(forks, SIGCHLD, NULL, NULL);
	printf("fork: %x, %d\n", finish(pid), word);
	printf("file: %x, ", finish(start(maps_shared, SIGCHLD, NULL, NULL)));
	printf("%s\n", made);
	munmap(made, PAGE);
	pid = start(ends, SIGCHLD | CLONE_PIDFD, NULL, &pidfd);
	{
		struct pollfd end = { .fd = pidfd, .events = POLLIN };
		printf("descriptor: %d, %x\n", poll(&end, 1, -1), finish(pid));
	}
	for (int i = 0; i < 60; i++)
		if (finish(start(ends, SIGCHLD, NULL, NULL)) != 0x300)
			printf("number %d\n", i);
	printf("no signal: %x\n", finish(start(ends, 0, NULL, NULL)));
	separate_thread();
	orphan();
	return 0;
}
