/*
 * Locks with priority inheritance in a program's own memory whose owner is a thread of another
 * program, by its id: threads that wait for them, or are moved to them, get them when the owner
 * ends.
 */
#include "guest.h"
#include <linux/futex.h>
#include <pthread.h>

static uint32_t word, lock;
static volatile pid_t waiter;

static long futex(uint32_t *at, int op, uint32_t value, void *time, uint32_t *other, uint32_t value3)
{
	errno = 0;
	return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, value, time, other, value3) < 0 ? -errno : 0;
}

static const char *name(long error)
{
	return error ? strerrorname_np(-error) : "ok";
}

static void word_is(void)
{
	pid_t own = waiter ?: gettid();

	printf("  lock: %s%s%s\n", (lock & FUTEX_TID_MASK) == (uint32_t)own ? "its own" : lock & FUTEX_TID_MASK ? "another's" : "nobody's",
	       lock & FUTEX_WAITERS ? ", waiters" : "", lock & FUTEX_OWNER_DIED ? ", owner died" : "");
}

static void *waits(void *unused)
{
	waiter = gettid();
	printf("  waiter: %s\n", name(futex(&word, FUTEX_WAIT_REQUEUE_PI, 0, unused, &lock, 0)));
	word_is();
	return NULL;
}

static pid_t outside(void)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	waiter = 0;
	lock = pid;
	return pid;
}

static void ends(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void locks(void)
{
	struct timespec soon;
	pid_t pid = outside();

	puts("lock");
	printf("  try: %s\n", name(futex(&lock, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0)));
	word_is();
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 1;
	printf("  until: %s\n", name(futex(&lock, FUTEX_LOCK_PI, 0, &soon, NULL, 0)));
	printf("  unlock: %s\n", name(futex(&lock, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0)));
	ends(pid);
	lock = pid;
	printf("  after its end: %s\n", name(futex(&lock, FUTEX_LOCK_PI, 0, NULL, NULL, 0)));
}

static void moved(int is_late)
{
	pthread_t thread;
	pid_t pid = outside();
	long result;

	puts(is_late ? "moved before its end" : "moved after its end");
	pthread_create(&thread, NULL, waits, NULL);
	while (!waiter)
		usleep(1000);
	until_asleep(getpid(), waiter);
	if (!is_late)
		ends(pid);
	result = futex(&word, FUTEX_CMP_REQUEUE_PI, 1, (void *)1L, &lock, 0);
	printf("  moved: %s\n", name(result));
	if (result) {
		futex(&word, FUTEX_CMP_REQUEUE_PI, 1, (void *)1L, (lock = 0, &lock), 0);
	} else {
		until_asleep(getpid(), waiter);
		ends(pid);
	}
	pthread_join(thread, NULL);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(20);
	locks();
	moved(1);
	moved(0);
	return 0;
}
