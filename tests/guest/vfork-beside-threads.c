/*
 * The child of a vfork shares memory with its parent beside the parent's other threads, until it
 * ends or calls execve. After that execve it is a process like any other.
 */
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#define THREADS 4
#define ROUNDS by_tier(12, 40)

static char self[PATH_MAX];

/* clone(CLONE_VM | CLONE_VFORK) on a stack of the caller's. */
static pid_t make(int (*body)(void *), char *stack, void *told, int flags)
{
	return clone(body, stack + (64 << 10), CLONE_VM | flags | SIGCHLD, told);
}

static int finish(pid_t pid)
{
	int status = -1;

	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* ---- a counter and what children write, on one page ---- */

static struct {
	pthread_mutex_t lock;
	int count, made[THREADS];
} shared __attribute__((aligned(4096))) = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int counts(void *thread)
{
	long i = (long)thread;

	if (++shared.made[i] % 4 == 0)
		execl("/bin/true", "true", NULL);
	if (shared.made[i] % 4 == 1)
		execl("/nowhere", "nowhere", NULL);
	_exit(0);
}

static void change(int by)
{
	pthread_mutex_lock(&shared.lock);
	shared.count += by;
	pthread_mutex_unlock(&shared.lock);
}

static void *makes_children(void *thread)
{
	char *stack = malloc(64 << 10);
	long bad = 0;

	for (int i = 0; i < ROUNDS; i++) {
		change(1);
		bad += finish(make(counts, stack, thread, CLONE_VFORK)) != 0;
		change(-1);
	}
	free(stack);
	return (void *)bad;
}

static void counter(void)
{
	pthread_t threads[THREADS];
	void *bad;
	long all = 0;

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, makes_children, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &bad);
		all += (long)bad;
	}
	printf("counter %d, children %d %d %d %d, bad %ld\n", shared.count, shared.made[0], shared.made[1],
	       shared.made[2], shared.made[3], all);
}

/* ---- child and thread see each other's writes while the parent waits ---- */

static volatile int from_thread, from_child;

static void *answers(void *unused)
{
	for (int i = 1; i <= 1000; i++) {
		while (from_child < i)
			sched_yield();
		from_thread = i;
	}
	return NULL;
}

static int asks(void *unused)
{
	for (int i = 1; i <= 1000; i++) {
		from_child = i;
		while (from_thread < i)
			sched_yield();
	}
	_exit(3);
}

static void at_once(char *stack)
{
	pthread_t thread;

	pthread_create(&thread, NULL, answers, NULL);
	printf("at once: status %x", finish(make(asks, stack, NULL, CLONE_VFORK)));
	pthread_join(thread, NULL);
	printf(", %d %d\n", from_thread, from_child);
}

/* ---- a child that never execs; deaths on either side ---- */

static int ready[2];
static volatile int lived;

static int lives(void *unused)
{
	char byte;

	lived = 1;
	if (write(ready[1], "c", 1) == 1 && read(0, &byte, 1) == 0)
		lived = 2;
	_exit(4);
}

static int dies(void *unused)
{
	kill(getpid(), SIGKILL);
	_exit(5);
}

static int crashes(void *unused)
{
	*(volatile int *)8 = 1;
	_exit(6);
}

static void *kills(void *unused)
{
	char byte;
	pid_t pid;

	/* The child's id is its own to tell: it is still the thread's sibling. */
	while (read(ready[0], &byte, 1) != 1)
		;
	pid = *(volatile pid_t *)unused;
	return (void *)(long)kill(pid, SIGKILL);
}

static volatile pid_t sleeper;

static int sleeps(void *unused)
{
	sleeper = getpid();
	if (write(ready[1], "s", 1) != 1)
		_exit(7);
	for (;;)
		pause();
}

static void deaths(char *stack)
{
	pthread_t thread;
	void *killed;
	int nothing[2], input = dup(0);

	if (pipe(ready) || pipe(nothing))
		return;
	printf("killed by itself: %x\n", finish(make(dies, stack, NULL, CLONE_VFORK)));
	printf("crashed: %x\n", finish(make(crashes, stack, NULL, CLONE_VFORK)) & 0x7f);
	pthread_create(&thread, NULL, kills, (void *)&sleeper);
	printf("killed by a thread: %x", finish(make(sleeps, stack, NULL, CLONE_VFORK)));
	pthread_join(thread, &killed);
	printf(", %ld\n", (long)killed);

	/* The parent, a process of its own, is killed while its child lives on in its memory. */
	fflush(stdout);
	dup2(nothing[0], 0);
	pid_t parent = fork();
	if (!parent) {
		close(nothing[1]);
		make(lives, stack, NULL, CLONE_VFORK);
		_exit(8);
	}
	char byte;
	printf("child lives: %ld", (long)read(ready[0], &byte, 1));
	kill(parent, SIGKILL);
	printf(", parent %x\n", finish(parent));
	close(nothing[1]);
	close(nothing[0]);
	dup2(input, 0);
	close(input);
}

/* ---- execve of a child ---- */

static void show(void)
{
	struct sigaction action;
	struct rlimit limit;
	sigset_t mask, pending;
	char name[17] = "", cwd[PATH_MAX];

	sigprocmask(SIG_SETMASK, NULL, &mask);
	sigpending(&pending);
	printf("program: USR1 %s", !sigaction(SIGUSR1, NULL, &action) && action.sa_handler == SIG_IGN ? "ignored" : "not ignored");
	printf(", USR2 %s", !sigaction(SIGUSR2, NULL, &action) && action.sa_handler == SIG_DFL ? "default" : "not default");
	printf(", mask %d%d, pending %d%d", sigismember(&mask, SIGTERM), sigismember(&mask, SIGINT),
	       sigismember(&pending, SIGTERM), sigismember(&pending, SIGINT));
	prctl(PR_GET_NAME, name);
	printf(", name %s, fd 60 %d, fd 61 %d", name, fcntl(60, F_GETFD), fcntl(61, F_GETFD));
	getrlimit(RLIMIT_STACK, &limit);
	printf(", stack %ld", limit.rlim_cur == RLIM_INFINITY ? -1 : (long)limit.rlim_cur);
	printf(", uid %d, cwd %s, tid %d", getuid(), getcwd(cwd, sizeof(cwd)), gettid() == getpid());
	printf(", pid %d\n", getenv("PARENT") && getppid() == atoi(getenv("PARENT")));
}

static char **arguments, *environment[2], *program;

static int execs(void *unused)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, _exit);
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	kill(getpid(), SIGTERM);
	dup2(1, 60);
	dup3(1, 61, O_CLOEXEC);
	setrlimit(RLIMIT_STACK, &unlimited);
	if (chdir("/tmp"))
		_exit(9);
	execve(program, arguments, environment);
	_exit(errno);
}

static int drops(void *unused)
{
	if (syscall(SYS_setresuid, 65534, 65534, 65534))
		_exit(9);
	return execs(unused);
}

static int leaves_root(void *directory)
{
	if (chroot(directory) || chdir("/"))
		_exit(9);
	execve("/program", arguments, environment);
	_exit(errno);
}

static int fills_table(void *unused)
{
	struct rlimit few = { 64, 64 };

	setrlimit(RLIMIT_NOFILE, &few);
	while (dup(1) >= 0)
		;
	execve(program, arguments, environment);
	_exit(errno);
}

static void copy(const char *from, const char *to)
{
	static char bytes[1 << 16];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	ssize_t n;

	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, n) != n)
			break;
	close(in);
	close(out);
}

static void programs(char *stack)
{
	char parent[32], directory[] = "/tmp/vfork-XXXXXX", path[64];

	snprintf(parent, sizeof(parent), "PARENT=%d", getpid());
	program = self;
	arguments = (char *[]){ "show", "show", NULL };
	environment[0] = parent;
	printf("exec: %x\n", finish(make(execs, stack, NULL, CLONE_VFORK)));
	printf("exec with less rights: %x\n", finish(make(drops, stack, NULL, CLONE_VFORK)));
	printf("exec with a full table: %x\n", finish(make(fills_table, stack, NULL, CLONE_VFORK)));
	printf("exec without vfork: %x\n", finish(make(execs, stack, NULL, 0)));
	if (!mkdtemp(directory))
		return;
	snprintf(path, sizeof(path), "%s/program", directory);
	copy(self, path);
	int status = finish(make(leaves_root, stack, directory, CLONE_VFORK));
	printf("exec in another root: %s\n", status == 0 || status == ENOENT << 8 ? "as it has its libraries" : "no");
	/* What was run may be written to at once. */
	int written = open(path, O_WRONLY);
	printf("written: %d\n", written >= 0);
	unlink(path);
	rmdir(directory);
	program = "/etc/passwd";
	printf("not a program: %x\n", finish(make(execs, stack, NULL, CLONE_VFORK)));
	program = "/";
	printf("a directory: %x\n", finish(make(execs, stack, NULL, CLONE_VFORK)));
}

/* ---- the process that had the memory first execs, and others stay ---- */

static volatile int stays_for;
static int told[2];

static int stays(void *unused)
{
	char byte;

	close(told[1]);
	stays_for = 1;
	while (read(told[0], &byte, 1) != 0)
		;
	_exit(10);
}

static void first_leaves(char *stack)
{
	fflush(stdout);
	if (pipe(told))
		return;
	fcntl(told[1], F_SETFD, FD_CLOEXEC);
	pid_t first = fork();
	if (!first) {
		pid_t other = make(stays, stack, NULL, 0);
		while (!stays_for)
			sched_yield();
		char id[16];
		snprintf(id, sizeof(id), "%d", other);
		close(told[0]);
		execl(self, "reap", "reap", id, NULL);
		_exit(errno);
	}
	close(told[0]);
	close(told[1]);
	printf("first leaves: %x\n", finish(first));
}

/* ---- execve of a thread with descriptors of its own ---- */

static int as_thread(void *unused)
{
	execve(self, arguments, environment);
	_exit(errno);
}

static void own_files(char *stack)
{
	char parent[32];

	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		snprintf(parent, sizeof(parent), "PARENT=%d", getppid());
		environment[0] = parent;
		clone(as_thread, stack + (64 << 10), CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
		for (;;)
			pause();
	}
	printf("thread with descriptors of its own: %x\n", finish(child));
}

int main(int argc, char **argv)
{
	char *stack = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc > 1 && !strcmp(argv[1], "show")) {
		show();
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "reap")) {
		/* It is our child still, and in our old memory: our end of the pipe is closed. */
		printf("reaped: %x\n", finish(atoi(argv[2])));
		return 11;
	}
	self[readlink("/proc/self/exe", self, sizeof(self) - 1)] = 0;
	counter();
	at_once(stack);
	deaths(stack);
	programs(stack);
	first_leaves(stack);
	own_files(stack);
	return 0;
}
