/* futex_waitv(2): several words at once, private, shared and mixed. */
#include "guest.h"
#include <linux/futex.h>
#include <pthread.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define SIZE_32 2

struct waiter {
	uint64_t value, address;
	uint32_t flags, reserved;
};

static uint32_t own[130];
static uint32_t *common;
static struct waiter words[130];

static long waitv(unsigned int count, long milliseconds, int clock)
{
	struct timespec until;

	clock_gettime(clock, &until);
	until.tv_sec += milliseconds / 1000;
	until.tv_nsec += milliseconds % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return syscall(SYS_futex_waitv, words, count, 0, milliseconds ? &until : NULL, clock);
}

static long wake(uint32_t *word, int flag)
{
	long woken = 0;

	/* The other one may not wait yet. */
	for (int i = 0; i < 40000 && !woken; i++) {
		woken = syscall(SYS_futex, word, FUTEX_WAKE | flag, 1, NULL, NULL, 0);
		if (!woken)
			usleep(5000);
	}
	return woken;
}

static void all(unsigned int count, uint32_t *of, uint32_t flags)
{
	for (unsigned int i = 0; i < count; i++)
		words[i] = (struct waiter){ of[i], (uintptr_t)(of + i), SIZE_32 | flags, 0 };
}

static void errors(void)
{
	struct timespec bad = { 1, 1000000000 };

	all(2, own, FUTEX_PRIVATE_FLAG);
	TELL(syscall(SYS_futex_waitv, words, 2, 1, NULL, 0));
	TELL(syscall(SYS_futex_waitv, words, 0, 0, NULL, 0));
	TELL(syscall(SYS_futex_waitv, words, 129, 0, NULL, 0));
	TELL(syscall(SYS_futex_waitv, NULL, 2, 0, NULL, 0));
	TELL(syscall(SYS_futex_waitv, 8, 2, 0, NULL, 0));
	TELL(syscall(SYS_futex_waitv, words, 2, 0, &bad, CLOCK_MONOTONIC));
	TELL(syscall(SYS_futex_waitv, words, 2, 0, 8, CLOCK_MONOTONIC));
	TELL(syscall(SYS_futex_waitv, words, 2, 0, &bad, CLOCK_BOOTTIME));
	words[1].reserved = 1;
	TELL(waitv(2, 10, CLOCK_MONOTONIC));
	words[1].reserved = 0;
	words[1].flags = FUTEX_PRIVATE_FLAG;
	TELL(waitv(2, 10, CLOCK_MONOTONIC));
	words[1].flags = SIZE_32 | FUTEX_PRIVATE_FLAG | 0x100;
	TELL(waitv(2, 10, CLOCK_MONOTONIC));
	words[1].flags = SIZE_32 | FUTEX_PRIVATE_FLAG;
	words[1].address++;
	TELL(waitv(2, 10, CLOCK_MONOTONIC));
	words[1].address = 4096;
	TELL(waitv(2, 10, CLOCK_MONOTONIC));
	words[1].address = (uintptr_t)(own + 1);
	words[1].value = 5;
	TELL(waitv(2, 10, CLOCK_MONOTONIC));
	words[1].value = 0;
	TELL(waitv(2, 30, CLOCK_MONOTONIC));
	TELL(waitv(2, 30, CLOCK_REALTIME));
	all(128, own, FUTEX_PRIVATE_FLAG);
	TELL(waitv(128, 30, CLOCK_MONOTONIC));
	/* No thread waits any more. */
	TELL(syscall(SYS_futex, own, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0));
	TELL(syscall(SYS_futex, own + 127, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0));
}

struct order {
	uint32_t *word;
	int flag;
	long woken;
};

static void *waker(void *argument)
{
	struct order *order = argument;

	order->woken = wake(order->word, order->flag);
	return NULL;
}

static void woken(const char *what, unsigned int count, uint32_t *word, int flag)
{
	struct order order = { word, flag, 0 };
	pthread_t thread;
	long index;

	pthread_create(&thread, NULL, waker, &order);
	index = waitv(count, 200000, CLOCK_MONOTONIC);
	pthread_join(thread, NULL);
	printf("%s: index %ld, %ld woken\n", what, index, order.woken);
}

static volatile int alarms, restarts;

static void on_alarm(int signal)
{
	/* Where the call ends the first one may have come before it. */
	if (++alarms == 2 && restarts)
		own[1] = 1; /* what is begun again finds it */
	else
		ualarm(50000, 0);
}

static void signals(void)
{
	struct sigaction action = { .sa_handler = on_alarm };

	for (int i = 0; i < 2; i++) {
		action.sa_flags = i ? SA_RESTART : 0;
		sigaction(SIGALRM, &action, NULL);
		alarms = 0;
		restarts = i;
		ualarm(50000, 0);
		TELL(waitv(3, i ? 200000 : 0, CLOCK_MONOTONIC));
		alarm(0);
	}
	own[1] = 0;
}

static void between_processes(void)
{
	pid_t pid;
	long index;
	int status;

	all(4, common, 0);
	if ((pid = fork()) == 0)
		_exit(wake(common + 3, 0) != 1);
	index = waitv(4, 200000, CLOCK_MONOTONIC);
	waitpid(pid, &status, 0);
	printf("woken by a child: %ld, status %#x\n", index, status);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	errors();
	all(3, own, FUTEX_PRIVATE_FLAG);
	woken("private", 3, own + 1, FUTEX_PRIVATE_FLAG);
	all(128, own, FUTEX_PRIVATE_FLAG);
	woken("the last of many", 128, own + 127, FUTEX_PRIVATE_FLAG);
	all(3, own, 0);
	woken("not said to be private", 3, own, 0);
	all(3, common, 0);
	woken("shared", 3, common + 2, 0);
	all(2, own, FUTEX_PRIVATE_FLAG);
	words[2] = (struct waiter){ 0, (uintptr_t)common, SIZE_32, 0 };
	woken("a mixture, by the private one", 3, own, FUTEX_PRIVATE_FLAG);
	woken("a mixture, by the shared one", 3, common, 0);
	TELL(waitv(3, 30, CLOCK_MONOTONIC));
	own[0] = 1;
	TELL(waitv(3, 30, CLOCK_MONOTONIC));
	own[0] = 0;
	all(3, own, FUTEX_PRIVATE_FLAG);
	signals();
	words[2] = (struct waiter){ 0, (uintptr_t)common, SIZE_32, 0 };
	/* Not where each call is held before it begins for longer than the alarms are apart. */
	if (argc == 1)
		signals();
	all(128, own, FUTEX_PRIVATE_FLAG);
	for (int i = 0; i < 127; i++)
		words[i] = (struct waiter){ 0, (uintptr_t)(common + i), SIZE_32, 0 };
	woken("many of both, by the private one", 128, own + 127, FUTEX_PRIVATE_FLAG);
	woken("many of both, by the last shared one", 128, common + 126, 0);
	between_processes();
	return 0;
}
