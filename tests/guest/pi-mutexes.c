/* Mutexes with priority inheritance, and robust mutexes, between threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHECK(c) do { if (!(c)) { printf("line %d: %s (errno %d)\n", __LINE__, #c, errno); exit(1); } } while (0)

static pthread_mutex_t inherit, robust;
static long count;

static void *adder(void *arg)
{
	for (int i = 0; i < 300; i++) {
		CHECK(!pthread_mutex_lock(&inherit));
		long before = count;
		if (i % 50 == 0)
			sched_yield();
		count = before + 1;
		CHECK(!pthread_mutex_unlock(&inherit));
	}
	return arg;
}

static void *dies(void *arg)
{
	CHECK(!pthread_mutex_lock(&robust));
	return arg; /* with the lock */
}

static volatile int held, release;

static void *holds(void *arg)
{
	CHECK(!pthread_mutex_lock(&inherit));
	held = 1;
	while (!release)
		usleep(1000);
	usleep(100000); /* the other one waits for it by then */
	CHECK(!pthread_mutex_unlock(&inherit));
	return arg;
}

/* A mutex that processes may share, in memory that they do not: no FUTEX_PRIVATE_FLAG. */
static void shared_by_name(void)
{
	pthread_t t[4];
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	CHECK(!pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT));
	CHECK(!pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED));
	CHECK(!pthread_mutex_init(&inherit, &a));
	count = 0;
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, adder, NULL));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(count == 1200);
	puts("shared by name");
}

int main(void)
{
	pthread_t t[4];
	pthread_mutexattr_t a;
	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_mutexattr_init(&a);
	CHECK(!pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT));
	CHECK(!pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK));
	CHECK(!pthread_mutex_init(&inherit, &a));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, adder, NULL));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(count == 1200);
	CHECK(!pthread_mutex_lock(&inherit));
	CHECK(pthread_mutex_lock(&inherit) == EDEADLK);
	CHECK(!pthread_mutex_unlock(&inherit));
	CHECK(pthread_mutex_unlock(&inherit) == EPERM);
	puts("priority inheritance");

	struct timespec end;
	CHECK(!pthread_create(&t[0], NULL, holds, NULL));
	while (!held)
		usleep(1000);
	CHECK(pthread_mutex_trylock(&inherit) == EBUSY);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += 50000000;
	if (end.tv_nsec >= 1000000000)
		end.tv_sec++, end.tv_nsec -= 1000000000;
	CHECK(pthread_mutex_timedlock(&inherit, &end) == ETIMEDOUT);
	release = 1;
	CHECK(!pthread_mutex_lock(&inherit));
	CHECK(!pthread_mutex_unlock(&inherit));
	CHECK(!pthread_join(t[0], NULL));
	puts("timeouts");

	pthread_mutexattr_init(&a);
	CHECK(!pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST));
	CHECK(!pthread_mutex_init(&robust, &a));
	CHECK(!pthread_create(&t[0], NULL, dies, NULL));
	CHECK(!pthread_join(t[0], NULL));
	CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&robust));
	CHECK(!pthread_mutex_unlock(&robust));
	puts("robust");
	shared_by_name();
	return 0;
}
