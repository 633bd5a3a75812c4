/*
 * Threads whose code executes on a Linux CPU (prctl PR_HANARE_RUN_ON): all is as in any thread of
 * the program. Linux does not know that call, so the same lines are printed there. With an
 * argument: says where the threads execute.
 */
#include "utility.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>

#define WAIT_S 200

extern char **environ;

/* ---- what a thread is ---- */

static void *ids(void *main_tid)
{
	printf("same process: %d, thread of its own: %d\n", getpid() == (pid_t)(long)main_tid,
	       gettid() != getpid());
	printf("task directory: %d\n", access("/proc/self/task", X_OK));
	errno = 0;
	printf("close(-1): %d, errno %s\n", close(-1), strerrorname_np(errno));
	return (void *)(long)gettid();
}

/* ---- calls ---- */

static void *calls(void *unused)
{
	char text[64], path[] = "/tmp/utility-XXXXXX";
	void *volatile unmapped = (void *)8;
	struct stat st;
	int fd, ends[2];

	(void)unused;
	TELL(pipe(ends) == 0);
	TELL(write(ends[1], "hello", 5));
	TELL(read(ends[0], text, sizeof(text)));
	fd = mkstemp(path);
	TELL(fd >= 0);
	TELL(write(fd, "0123456789", 10));
	TELL(pread(fd, text, 4, 3));
	printf("%.4s\n", text);
	TELL(fstat(fd, &st));
	TELL(st.st_size);
	TELL(stat(path, &st));
	TELL(dup2(fd, ends[0]) == ends[0]);
	TELL(lseek(ends[0], 0, SEEK_END));
	TELL(close(fd));
	TELL(close(ends[0]));
	TELL(close(ends[1]));
	TELL(unlink(path));
	TELL(open(path, O_RDONLY));
	TELL(read(12345, text, 1));
	TELL(write(1, unmapped, 1));
	fd = open("/proc/self/comm", O_RDONLY);
	TELL(fd >= 0);
	TELL(close(fd));
	return NULL;
}

/* ---- memory ---- */

static void *memory(void *unused)
{
	size_t bytes = 32 << 20;
	char *at, *more = malloc(bytes);
	unsigned long sum = 0;

	(void)unused;
	for (size_t i = 0; i < bytes; i += PAGE)
		more[i] = i / PAGE;
	for (size_t i = 0; i < bytes; i += PAGE)
		sum += (unsigned char)more[i];
	printf("sum %lu\n", sum);
	free(more);
	at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(at, 'x', 16 * PAGE);
	TELL(mprotect(at, PAGE, PROT_READ));
	TOUCH(at, 0);
	TOUCH(at, 1);
	TELL(munmap(at + PAGE, PAGE));
	TOUCH(at + PAGE, 0);
	TOUCH(at + 2 * PAGE, 1);
	at = mremap(at + 2 * PAGE, 14 * PAGE, 28 * PAGE, MREMAP_MAYMOVE);
	printf("moved: %c %d\n", at[0], at[20 * PAGE]);
	TELL(munmap(at, 28 * PAGE));
	return NULL;
}

/* Code that did not exist when the thread began. */
static void *made_code(void *unused)
{
	static const unsigned char code[] = { 0x8d, 0x47, 0x2a, 0xc3 }; /* lea eax, [rdi + 42]; ret */
	unsigned char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*function)(int);

	(void)unused;
	memcpy(at, code, sizeof(code));
	function = (int (*)(int))(void *)at;
	TELL(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	TELL(function(1));
	TELL(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
	at[2] = 0x2b;
	TELL(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	TELL(function(1));
	TELL(mprotect(at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
	at[2] = 0x2c;
	TELL(function(1));
	return NULL;
}

/* ---- registers ---- */

static void *registers(void *unused)
{
	double values[16], sum = 0;
	long wrong = 0;

	(void)unused;
	for (int i = 0; i < 16; i++)
		values[i] = 1.0 / (i + 3);
	for (int round = 0; round < 200; round++) {
		double a = values[0], b = values[1], c = values[2];
		void *at;

		asm volatile("" : "+x"(a), "+x"(b), "+x"(c));
		at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(at, PAGE);
		asm volatile("" : "+x"(a), "+x"(b), "+x"(c));
		wrong += a != values[0] || b != values[1] || c != values[2];
		sum += a * b + c;
	}
	printf("wrong %ld, sum %.12f\n", wrong, sum);
	return NULL;
}

/* ---- threads ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static long counter;

static void take_turns(int own)
{
	for (int i = 0; i < 50; i++) {
		pthread_mutex_lock(&lock);
		while (turn != own)
			pthread_cond_wait(&changed, &lock);
		counter++;
		turn = !own;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
}

static void *other_turn(void *unused)
{
	(void)unused;
	take_turns(1);
	return NULL;
}

static void *adds(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20000; i++) {
		pthread_mutex_lock(&lock);
		counter++;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void *child_thread(void *argument)
{
	return (void *)((long)argument * 2);
}

static void *makes_threads(void *unused)
{
	pthread_t thread;
	void *result;
	long sum = 0;

	(void)unused;
	for (long i = 1; i <= 5; i++) {
		TELL(pthread_create(&thread, NULL, child_thread, (void *)i));
		pthread_join(thread, &result);
		sum += (long)result;
	}
	return (void *)sum;
}

static void threads(void)
{
	pthread_t thread;

	thread = outside(other_turn, NULL);
	take_turns(0);
	pthread_join(thread, NULL);
	printf("turns: %ld\n", counter);
	counter = 0;
	thread = outside(adds, NULL);
	adds(NULL);
	pthread_join(thread, NULL);
	printf("both: %ld\n", counter);
	printf("made threads: %ld\n", (long)in_thread(makes_threads, NULL));
}

/* ---- signals ---- */

static volatile sig_atomic_t came;
static volatile int go_on;
static volatile pid_t came_to, reader;
static int ends[2];

static void handler(int signal)
{
	(void)signal;
	came++;
	came_to = gettid();
}

static void *computes(void *unused)
{
	(void)unused;
	while (!came)
		;
	return (void *)(long)(came_to == gettid());
}

static void *reads(void *unused)
{
	char byte;
	ssize_t result;

	(void)unused;
	reader = gettid();
	errno = 0;
	result = read(ends[0], &byte, 1);
	printf("read: %zd %s\n", result, result < 0 ? strerrorname_np(errno) : "");
	return NULL;
}

static void *blocks(void *unused)
{
	struct timespec no_time = { 0, 0 };
	sigset_t set, pending;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	came = 0;
	pthread_kill(pthread_self(), SIGUSR1);
	printf("blocked: %d\n", came);
	sigpending(&pending);
	printf("pending: %d\n", sigismember(&pending, SIGUSR1));
	TELL(sigtimedwait(&set, NULL, &no_time));
	pthread_kill(pthread_self(), SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	printf("taken: %d\n", came);
	return NULL;
}

static void signal_at(void *(*body)(void *), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	pthread_t thread;
	void *result;

	came = reader = 0;
	sigaction(SIGUSR1, &action, NULL);
	thread = outside(body, NULL);
	usleep(200000);
	while (body == reads && !reader)
		usleep(1000);
	if (body == reads)
		until_asleep(getpid(), reader);
	pthread_kill(thread, SIGUSR1);
	if (flags & SA_RESTART) {
		for (int i = 0; !came && i < 100 * WAIT_S; i++)
			usleep(10000);
		/* The other thread prints as soon as it has read. */
		if (write(ends[1], "x", 1) != 1)
			printf("nothing written\n");
	}
	pthread_join(thread, &result);
	printf("handled: %d, there: %ld\n", came, body == computes ? (long)result : -1);
}

static void signals(void)
{
	TELL(pipe(ends));
	signal_at(computes, 0);
	signal_at(reads, 0);
	signal_at(reads, SA_RESTART);
	in_thread(blocks, NULL);
}

/* ---- time ---- */

static void *times(void *unused)
{
	struct timespec before, after, pause = { 0, 20000000 };
	struct pollfd nothing = { .fd = -1 };

	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, &before);
	TELL(nanosleep(&pause, NULL));
	TELL(poll(&nothing, 1, 20));
	clock_gettime(CLOCK_MONOTONIC, &after);
	printf("slept: %d\n",
	       (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec >= 40000000);
	return NULL;
}

/* ---- processes ---- */

static void *forks(void *unused)
{
	char *argv[] = { "echo", "spawned", NULL };
	int status = -1, made;
	pid_t pid = fork();

	(void)unused;
	if (!pid) {
		char *more = malloc(1 << 20);

		memset(more, 1, 1 << 20);
		_exit(more[77] == 1 && getppid() > 1 ? 7 : 8);
	}
	TELL(waitpid(pid, &status, 0) == pid);
	printf("status %#x\n", status);
	made = posix_spawn(&pid, "/bin/echo", NULL, NULL, argv, environ);
	TELL(waitpid(pid, &status, 0) == pid);
	printf("spawned: %d\n", made);
	printf("status %#x\n", status);
	return NULL;
}

static void *executes(void *unused)
{
	(void)unused;
	execl("/bin/echo", "echo", "executed", NULL);
	return NULL;
}

static void *ends_process(void *unused)
{
	(void)unused;
	exit(9);
}

static void *computes_for_ever(void *unused)
{
	(void)unused;
	go_on = 1;
	while (go_on)
		;
	return NULL;
}

static void *divides(void *zero)
{
	volatile long divisor = (long)zero;

	return (void *)(5 / divisor);
}

static void *illegal(void *unused)
{
	(void)unused;
	asm volatile("ud2");
	return NULL;
}

static void *breakpoint(void *unused)
{
	(void)unused;
	asm volatile("int3");
	return NULL;
}

static void *bad_address(void *unused)
{
	(void)unused;
	return (void *)(long)*(volatile char *)0x123456;
}

static void *jumps_to_data(void *unused)
{
	static char data[64];

	(void)unused;
	((void (*)(void))(void *)data)();
	return NULL;
}

static void *overflows(void *depth)
{
	volatile char more[4096];

	more[0] = 1;
	return (char *)overflows((char *)depth + more[0]) + more[0];
}

static void *aborts(void *unused)
{
	(void)unused;
	abort();
}

static void *filters(void *unused)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	(void)unused;
	TELL(getppid() > 0);
	TELL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
	TELL(getppid());
	return NULL;
}

static void *gives_up_rights(void *unused)
{
	(void)unused;
	TELL(setresuid(1234, 1234, 1234));
	TELL(getuid());
	TELL(open("/root/none", O_RDONLY | O_CREAT, 0600));
	return NULL;
}

/* It computes for ever, and its process is ended: by a signal, or by another thread. */
static void endless(int signal)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		outside(computes_for_ever, NULL);
		while (!go_on)
			sched_yield();
		usleep(50000);
		if (!signal)
			_exit(11);
		pause();
	}
	if (signal) {
		usleep(400000);
		kill(pid, signal);
	}
	waitpid(pid, &status, 0);
	printf("endless: status %#x\n", status);
}

static void *asks(void *unused)
{
	unsigned int cpu = ~0u;

	(void)unused;
	syscall(SYS_getcpu, &cpu, NULL, NULL);
	printf("on Linux: %d, on CPU %u\n", is_out(), cpu);
	prctl(PR_HANARE_RUN_ON, 0, 0, 0, 0);
	printf("on Linux: %d\n", is_out());
	return NULL;
}

int main(int argc, char **argv)
{
	(void)argv;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1) {
		in_thread(asks, NULL);
		return 0;
	}
	printf("ids: %d\n", in_thread(ids, (void *)(long)getpid()) != NULL);
	in_thread(calls, NULL);
	in_thread(memory, NULL);
	in_thread(made_code, NULL);
	in_thread(registers, NULL);
	threads();
	signals();
	in_thread(times, NULL);
	in_thread(forks, NULL);
	in_child("execve", executes);
	in_child("exit", ends_process);
	in_child("division by zero", divides);
	in_child("illegal instruction", illegal);
	in_child("breakpoint", breakpoint);
	in_child("bad address", bad_address);
	in_child("jump to data", jumps_to_data);
	in_child("stack overflow", overflows);
	in_child("abort", aborts);
	in_child("filter of calls", filters);
	in_child("rights", gives_up_rights);
	endless(SIGTERM);
	endless(SIGKILL);
	endless(0);
	return 0;
}
