/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Functions: what they have of their own, what they share, their order, how they end. */
#include "harness.h"

#include <sched.h>
#include <setjmp.h>

static long add(int a, long b, unsigned char c, const char *d, short e)
{
	return a + b + c + (long)strlen(d) + e;
}

static void arguments_and_result_are_those_of_the_function(void)
{
	hanare_queue *queue = queue_of(NULL);

	HOLDS(result_of(queue, hanare_call(queue, 0, add, -1, 20L, 3, "four", -5)) == 21);
	HOLDS((void *)result_of(queue, hanare_call(queue, 0, strdup, "copied")) != NULL);
	HOLDS((int)result_of(queue, hanare_call(queue, 0, atoi, "-17")) == -17);
	hanare_queue_destroy(queue);
}

static __thread int own = 5;

static long uses_what_is_its_own(int *errno_there)
{
	char big[200000];

	memset(big, 1, sizeof(big));
	own += big[100000];
	errno = 33;
	*errno_there = errno;
	close(-1);
	return errno == EBADF ? own : -1;
}

static void a_function_has_stack_errno_and_variables_of_its_thread(void)
{
	hanare_queue *queue = queue_of(NULL);
	int there = 0;

	errno = 44;
	HOLDS(result_of(queue, hanare_call(queue, 0, uses_what_is_its_own, &there)) == 6);
	HOLDS(result_of(queue, hanare_call(queue, 0, uses_what_is_its_own, &there)) == 7);
	HOLDS(there == 33 && errno == 44 && own == 5);
	hanare_queue_destroy(queue);
}

static void *allocate(size_t size)
{
	char *bytes = malloc(size);

	memset(bytes, (int)size, size);
	return bytes;
}

static void memory_is_shared(void)
{
	struct hanare_attributes attributes = attributes_of(64, 3);
	hanare_queue *queue = queue_of(&attributes);

	for (size_t i = 1; i < 5000; i++) {
		char *bytes = (char *)result_of(queue, hanare_call(queue, 0, allocate, i * 7));

		HOLDS(bytes && bytes[i * 7 - 1] == (char)(i * 7));
		if (i % 2)
			free(bytes);
		else
			HOLDS(hanare_call(queue, HANARE_DETACH, free, bytes) == 0);
	}
	hanare_drain(queue, SECOND);
	hanare_queue_destroy(queue);
}

#define KEYS 5
static int lists[KEYS][4000];
static atomic_int lengths[KEYS], inside[KEYS];

static void append(int key, int number)
{
	HOLDS(atomic_fetch_add(&inside[key], 1) == 0);
	lists[key][atomic_fetch_add(&lengths[key], 1)] = number;
	atomic_fetch_sub(&inside[key], 1);
}

static void functions_of_one_key_run_one_after_the_other(void)
{
	struct hanare_attributes attributes = attributes_of(128, 3);
	hanare_queue *queue;

	attributes.flags = HANARE_BLOCKING | HANARE_MULTI_PRODUCER;
	queue = queue_of(&attributes);
	for (int i = 0; i < KEYS * 4000; i++)
		HOLDS(hanare_call(queue, HANARE_DETACH | HANARE_KEY(i % KEYS), append, i % KEYS, i / KEYS) == 0);
	HOLDS(hanare_drain(queue, 3 * LATE) == 0);
	for (int key = 0; key < KEYS; key++)
		for (int i = 0; i < 4000; i++)
			HOLDS(lists[key][i] == i);
	hanare_queue_destroy(queue);
}

static atomic_int arrived;

static long meet(int count)
{
	atomic_fetch_add(&arrived, 1);
	for (int i = 0; i < 15000 * factor && atomic_load(&arrived) < count; i++)
		nap(1000000);
	return atomic_load(&arrived) == count;
}

static void functions_without_a_key_run_side_by_side(void)
{
	struct hanare_attributes attributes = attributes_of(16, 4);
	hanare_queue *queue = queue_of(&attributes);
	hanare_ticket tickets[4];

	for (int i = 0; i < 4; i++)
		tickets[i] = hanare_call(queue, 0, meet, 4);
	for (int i = 0; i < 4; i++)
		HOLDS(result_of(queue, tickets[i]) == 1);
	hanare_queue_destroy(queue);
}

/* More than there were workers at first. */
static void functions_that_wait_for_each_other_get_workers(void)
{
	struct hanare_attributes attributes = attributes_of(16, 1);
	hanare_queue *queue;
	hanare_ticket tickets[4];

	attributes.workers_max = 4;
	queue = queue_of(&attributes);
	for (int i = 0; i < 4; i++)
		tickets[i] = hanare_call(queue, 0, meet, 4);
	for (int i = 0; i < 4; i++)
		HOLDS(result_of(queue, tickets[i]) == 1);
	hanare_queue_destroy(queue);
}

/*
 * On one CPU, a worker is often stopped while it polls. A thread that posts two functions then
 * finds a worker that polls, takes that for enough, and sleeps. The worker takes the first
 * function, which waits for the second one.
 */
static void functions_posted_while_a_worker_polls_get_workers(void)
{
	struct hanare_attributes attributes = attributes_of(16, 1);
	hanare_queue *queue;
	hanare_ticket tickets[2];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	HOLDS(sched_setaffinity(0, sizeof(one), &one) == 0);
	attributes.workers_max = 2;
	attributes.spin_ns = 200000000;
	attributes.wait_spin_ns = 0;
	for (int round = 0; round < 10; round++) {
		atomic_store(&arrived, 0);
		queue = queue_of(&attributes);
		nap(5000000);
		for (int i = 0; i < 2; i++)
			tickets[i] = hanare_call(queue, 0, meet, 2);
		for (int i = 0; i < 2; i++)
			HOLDS(result_of(queue, tickets[i]) == 1);
		hanare_queue_destroy(queue);
	}
}

static long until_cancelled(void)
{
	long rounds = 0;

	while (!hanare_cancelled())
		rounds++;
	return rounds >= 0 ? 99 : 0;
}

static void a_function_sees_that_it_is_cancelled(void)
{
	hanare_queue *queue = queue_of(NULL);

	HOLDS(hanare_cancelled() == 0);
	for (int i = 0; i < 20; i++) {
		hanare_ticket ticket = hanare_call(queue, 0, until_cancelled);

		nap(i * 100000);
		if (hanare_cancel(queue, ticket) == 0)
			HOLDS(result_of(queue, ticket) == -ECANCELED);
		else
			HOLDS(result_of(queue, ticket) == 99);
		HOLDS(result_of(queue, hanare_call(queue, 0, hanare_cancelled)) == 0);
	}
	hanare_queue_destroy(queue);
}

static long sleeps_long(void)
{
	struct timespec time = { 1000, 0 };

	atomic_store(&arrived, 1);
	return nanosleep(&time, NULL) == -1 && errno == EINTR;
}

static void a_function_that_waits_is_interrupted(void)
{
	hanare_queue *queue = queue_of(NULL);
	hanare_ticket ticket;

	atomic_store(&arrived, 0);
	ticket = hanare_call(queue, 0, sleeps_long);
	while (!atomic_load(&arrived))
		nap(1000000);
	nap(SECOND / 20);
	HOLDS(hanare_cancel(queue, ticket) == -EINPROGRESS);
	HOLDS(result_of(queue, ticket) == 1);
	hanare_queue_destroy(queue);
}

static long waits_for_its_own_queue(hanare_queue *queue)
{
	int64_t result;
	hanare_ticket ticket = hanare_submit(queue, SYS_getppid);
	struct hanare_completion next;

	HOLDS(hanare_drain(queue, 0) == -EDEADLK);
	HOLDS(hanare_queue_destroy(queue) == -EDEADLK);
	HOLDS(hanare_next(queue, &next, SECOND) == -EDEADLK);
	HOLDS(hanare_wait(queue, ticket, &result, HANARE_FOREVER) == -EDEADLK);
	return ticket;
}

static void a_function_does_not_wait_for_its_own_queue(void)
{
	struct hanare_attributes attributes = attributes_of(16, 1);
	hanare_queue *queue;

	attributes.flags = HANARE_MULTI_PRODUCER;
	queue = queue_of(&attributes);
	HOLDS(result_of(queue, result_of(queue, hanare_call(queue, 0, waits_for_its_own_queue, queue))) == getppid());
	hanare_queue_destroy(queue);
}

static long posts_to(hanare_queue *queue)
{
	return result_of(queue, hanare_submit(queue, SYS_getppid));
}

static void a_function_may_wait_for_another_queue(void)
{
	hanare_queue *one = queue_of(NULL), *other = queue_of(NULL);

	for (int i = 0; i < 100; i++)
		HOLDS(result_of(one, hanare_call(one, 0, posts_to, other)) == getppid());
	hanare_queue_destroy(one);
	hanare_queue_destroy(other);
}

static long jumps(int count)
{
	jmp_buf place;
	volatile int done = 0;

	if (setjmp(place) < count) {
		done++;
		longjmp(place, done);
	}
	return done;
}

static void longjmp_inside_of_a_function_is_as_ever(void)
{
	hanare_queue *queue = queue_of(NULL);

	for (int i = 0; i < 100; i++)
		HOLDS(result_of(queue, hanare_call(queue, 0, jumps, 10)) == 10);
	hanare_queue_destroy(queue);
}

static long blocked_signals(void)
{
	sigset_t set;
	long bits = 0;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	for (int i = 1; i < 32; i++)
		bits |= (long)sigismember(&set, i) << i;
	return bits;
}

static void workers_block_the_signals_of_others(void)
{
	hanare_queue *queue = queue_of(NULL);
	long blocked = result_of(queue, hanare_call(queue, 0, blocked_signals));
	static const int open[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU };

	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
		HOLDS(!(blocked >> open[i] & 1));
	HOLDS(blocked >> SIGINT & 1 && blocked >> SIGCHLD & 1 && blocked >> SIGUSR1 & 1 && blocked >> SIGALRM & 1);
	hanare_queue_destroy(queue);
}

static long cpu_of_function(void)
{
	return sched_getcpu();
}

/* The caller's side: on plain Linux there is no other. */
static void a_worker_of_this_side_stays_on_its_cpu(void)
{
	struct hanare_attributes attributes = attributes_of(16, 1);
	cpu_set_t set;
	int32_t cpu;
	hanare_queue *queue;

	HOLDS(sched_getaffinity(0, sizeof(set), &set) == 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		attributes.side = HANARE_SIDE_HERE;
		attributes.cpus = &cpu;
		attributes.cpus_count = 1;
		queue = queue_of(&attributes);
		HOLDS(hanare_queue_remote(queue) == 0);
		for (int i = 0; i < 100; i++)
			HOLDS(result_of(queue, hanare_call(queue, 0, cpu_of_function)) == cpu);
		hanare_queue_destroy(queue);
	}
}

#define TEST(name) { #name, name }

const struct test function_tests[] = {
	TEST(arguments_and_result_are_those_of_the_function),
	TEST(a_function_has_stack_errno_and_variables_of_its_thread),
	TEST(memory_is_shared),
	TEST(functions_of_one_key_run_one_after_the_other),
	TEST(functions_without_a_key_run_side_by_side),
	TEST(functions_that_wait_for_each_other_get_workers),
	TEST(functions_posted_while_a_worker_polls_get_workers),
	TEST(a_function_sees_that_it_is_cancelled),
	TEST(a_function_that_waits_is_interrupted),
	TEST(a_function_does_not_wait_for_its_own_queue),
	TEST(a_function_may_wait_for_another_queue),
	TEST(longjmp_inside_of_a_function_is_as_ever),
	TEST(workers_block_the_signals_of_others),
	TEST(a_worker_of_this_side_stays_on_its_cpu),
	{ 0 },
};
