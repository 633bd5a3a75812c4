/*
 * futex(2): operations, flags, counts and errors; private and shared words are apart. Also
 * membarrier, and sleeps that continue after a stop, on CPU clocks of others, too.
 */
#include "guest.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/ptrace.h>

static int word, second = 5;

static long futex(const void *addr, int op, int value, const void *time, const void *addr2, int value3)
{
	return syscall(SYS_futex, addr, op, value, time, addr2, value3);
}

static volatile int woken, wait_op;

static void *waits(void *unused)
{
	if (futex(&word, wait_op, 0, NULL, NULL, 0) == 0)
		__sync_fetch_and_add(&woken, 1);
	return unused;
}

static pthread_t threads[4];

/* Some threads wait; a requeue to where they are counts them. */
static void begin(int op, int count)
{
	woken = 0;
	wait_op = op;
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, waits, NULL);
	while (futex(&word, FUTEX_CMP_REQUEUE | (op & FUTEX_PRIVATE_FLAG), 0, (void *)9L, &word, 0) != count)
		usleep(1000);
}

static void end(int count)
{
	int flag = wait_op & FUTEX_PRIVATE_FLAG;

	futex(&word, FUTEX_WAKE | flag, 9, NULL, NULL, 0);
	futex(&second, FUTEX_WAKE | flag, 9, NULL, NULL, 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("woken %d\n", woken);
}

static void operations(void)
{
	struct timespec soon = { 0, 1000000 };
	void *odd = (char *)&word + 2, *kernel = (void *)0xffff888000000000;

	TELL(futex(&word, FUTEX_WAIT_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &soon, NULL, 0));
	TELL(futex(&word, FUTEX_WAKE_PRIVATE | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, 0));
	TELL(futex(&word, FUTEX_WAKE_PRIVATE | 0x200, 1, NULL, NULL, 0));
	TELL(futex(&word, FUTEX_WAKE_PRIVATE | 0x10000000, 1, NULL, NULL, 0));
	TELL(futex(odd, 14, 1, NULL, NULL, 0));
	TELL(futex(odd, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	TELL(futex(odd, FUTEX_WAIT_PRIVATE, 1, (void *)8, NULL, 0));
	TELL(futex(NULL, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	TELL(futex(kernel, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	TELL(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &soon, NULL, 0));
	TELL(futex(&word, FUTEX_REQUEUE_PRIVATE, 0, (void *)1L, (char *)&second + 1, 0));
	TELL(futex(&word, FUTEX_REQUEUE_PRIVATE, 0, (void *)1L, kernel, 0));
	TELL(futex(&word, FUTEX_REQUEUE, 0, (void *)1L, NULL, 0));
	TELL(futex(&word, FUTEX_REQUEUE_PRIVATE, -1, (void *)1L, &second, 0));
	TELL(futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1L, odd, 0));
	TELL(futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1L, &second, FUTEX_OP((FUTEX_OP_SET | 8), 40, FUTEX_OP_CMP_EQ, 9)));
	TELL(second);
	int *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*page = 7;
	TELL(futex(page, FUTEX_WAKE, 1, NULL, NULL, 0));
	mprotect(page, PAGE, PROT_READ);
	TELL(futex(page, FUTEX_WAKE, 1, NULL, NULL, 0));
	TELL(futex(page, FUTEX_WAIT, 0, &soon, NULL, 0));
	TELL(futex(page, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0));
}

static void counts(void)
{
	begin(FUTEX_WAIT_PRIVATE, 3);
	TELL(futex(&word, FUTEX_WAKE_PRIVATE, 0, NULL, NULL, 0));
	TELL(futex(&word, FUTEX_WAKE_PRIVATE, -1, NULL, NULL, 0));
	end(3);
	begin(FUTEX_WAIT_PRIVATE, 4);
	TELL(futex(&word, FUTEX_WAKE, 9, NULL, NULL, 0));
	TELL(futex(&word, FUTEX_REQUEUE_PRIVATE, 1, (void *)2L, &second, 0));
	TELL(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1L, &second, 1));
	TELL(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1L, &second, 0));
	TELL(futex(&second, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0));
	end(4);
	begin(FUTEX_WAIT_PRIVATE, 2);
	TELL(futex(&word, FUTEX_WAKE_OP_PRIVATE, 0, 0, &second, FUTEX_OP(FUTEX_OP_SET, 9, FUTEX_OP_CMP_EQ, 5)));
	end(2);
	begin(FUTEX_WAIT, 2);
	TELL(futex(&word, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0));
	TELL(futex(&word, FUTEX_WAKE, 9, NULL, NULL, 0));
	end(2);
}

static void barriers(void)
{
	enum { RSEQ = 128, REGISTER_RSEQ = 256 };

	TELL(syscall(SYS_membarrier, 0, 0, 0) & 0x1ff);
	TELL(syscall(SYS_membarrier, RSEQ, 0, 0));
	TELL(syscall(SYS_membarrier, REGISTER_RSEQ, 1, 0));
	TELL(syscall(SYS_membarrier, REGISTER_RSEQ, 0, 0));
	TELL(syscall(SYS_membarrier, RSEQ, 0, 0));
	TELL(syscall(SYS_membarrier, RSEQ, 1, 0));
	TELL(syscall(SYS_membarrier, 1, 1, 0));
}

static void handler(int signal)
{
	(void)signal;
}

/*
 * A thread stopped for longer than it sleeps does not sleep again. A busy machine may be late: some
 * tries.
 */
static void stopped(const char *name, int caught, int (*waits)(void))
{
	int tries = 0;
again:;
	struct timespec before, now;
	int status, fds[2];
	char byte;

	pipe(fds);
	pid_t pid = fork();
	if (!pid) {
		if (caught)
			signal(SIGCONT, handler);
		write(fds[1], "b", 1);
		_exit(waits() == -1 ? errno : 0);
	}
	read(fds[0], &byte, 1);
	clock_gettime(CLOCK_MONOTONIC, &before);
	usleep(300000);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	usleep(2500000);
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	long ms = (now.tv_sec - before.tv_sec) * 1000 + (now.tv_nsec - before.tv_nsec) / 1000000;
	close(fds[0]);
	close(fds[1]);
	if (ms >= 4500 && ++tries < 20)
		goto again;
	printf("%s: %s", name, strerrorname_np(WEXITSTATUS(status)) ?: "ok");
	printf(ms < 4500 ? "\n" : ", but after %ld ms\n", ms);
}

static int sleeps(void)
{
	struct timespec time = { 2, 0 };

	return nanosleep(&time, NULL);
}

static int sleeps_long(void)
{
	struct timespec time = { 30, 0 }, left = {};
	int result = nanosleep(&time, &left);

	return left.tv_sec >= 20 && left.tv_sec < 30 ? result : 0;
}

static int waits_for_word(void)
{
	struct timespec time = { 2, 0 };

	return futex(&word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
}

static void clocks(void)
{
	struct timespec before, then, time = { 0, 50000000 };
	pid_t pid = fork();
	clockid_t clock;

	if (!pid) {
		alarm(300);
		for (;;)
			__asm__ volatile("pause");
	}
	TELL(clock_getcpuclockid(pid, &clock));
	clock_gettime(clock, &before);
	TELL(clock_nanosleep(clock, 0, &time, NULL));
	clock_gettime(clock, &then);
	TELL(then.tv_sec > before.tv_sec || then.tv_nsec - before.tv_nsec >= 50000000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	TELL(clock_gettime(clock, &then));
	TELL(syscall(SYS_clock_nanosleep, -2, 0, &time, NULL));
	TELL(syscall(SYS_restart_syscall));
}

static void tracing(void)
{
	struct { uint64_t area; uint32_t size, signature, flags, pad; } rseq = {};
	sigset_t set;
	pid_t pid = fork();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		sigprocmask(SIG_BLOCK, NULL, &set);
		_exit(sigismember(&set, SIGTERM) + 2 * sigismember(&set, SIGHUP));
	}
	int status;
	waitpid(pid, &status, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	TELL(ptrace(PTRACE_SETSIGMASK, pid, 4, &set));
	TELL(ptrace(PTRACE_SETSIGMASK, pid, 8, &set));
	TELL(ptrace(0x420f /* GET_RSEQ_CONFIGURATION */, pid, sizeof(rseq), &rseq));
	TELL(rseq.area ? rseq.size : 0);
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	TELL(WEXITSTATUS(status));
}

/*
 * Threads that can own no lock: of the kernel, and ended. Words that an operation would write, and
 * may not.
 */
static void owners_and_rights(void)
{
	static const int locks[] = { FUTEX_LOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_UNLOCK_PI, 13 /* LOCK_PI2 */ };
	struct timespec past = { 1, 0 };
	unsigned int *words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int *shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t zombie = fork();
	siginfo_t info;

	if (!zombie)
		_exit(0);
	waitid(P_PID, zombie, &info, WEXITED | WNOWAIT);
	for (int i = 0; i < 8; i++) {
		int op = locks[i / 2];
		unsigned int owner = i % 2 ? zombie : 2;

		words[0] = owner;
		TELL(syscall(SYS_futex, words, op, 0, &past, 0, 0));
		printf("waiters %d\n", words[0] == (owner | FUTEX_WAITERS));
	}
	words[0] = 0;
	waitpid(zombie, NULL, 0);
	for (int flag = 0; flag <= 128; flag += 128) {
		TELL(syscall(SYS_futex, words, 5 /* WAKE_OP */ | flag, 1, 1L, shared, 0));
		TELL(syscall(SYS_futex, words, 5 /* WAKE_OP */ | flag, 1, 1L, shared, 0x50000000));
		TELL(syscall(SYS_futex, words, 3 /* REQUEUE */ | flag, 1, 1L, shared, 0));
		TELL(syscall(SYS_futex, words, 12 /* CMP_REQUEUE_PI */ | flag, 1, 1L, shared, 0));
		TELL(syscall(SYS_futex, words, 12 /* CMP_REQUEUE_PI */ | flag, 2, 1L, shared, 0));
	}
	TELL(syscall(SYS_futex, words, 11 /* WAIT_REQUEUE_PI */, 0, &past, shared, 0));
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	operations();
	owners_and_rights();
	counts();
	barriers();
	stopped("nanosleep", 0, sleeps);
	stopped("nanosleep, caught", 1, sleeps_long);
	stopped("futex", 0, waits_for_word);
	clocks();
	tracing();
	return 0;
}
