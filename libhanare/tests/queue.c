/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Queues: their attributes, credits, waits, workers. */
#include "harness.h"

static void attributes_are_checked(void)
{
	hanare_queue *queue;
	struct hanare_attributes attributes;
	struct {
		struct hanare_attributes known;
		uint64_t more;
	} later = { 0 };

#define IS_REFUSED(change)                                                             \
	do {                                                                           \
		hanare_attributes_init(&attributes);                                   \
		attributes.change;                                                     \
		HOLDS(hanare_queue_create(&queue, &attributes) == -EINVAL);            \
	} while (0)
	IS_REFUSED(depth = 0);
	IS_REFUSED(depth = HANARE_DEPTH_MAX + 1);
	IS_REFUSED(workers_min = 0);
	IS_REFUSED(workers_min = 2);
	IS_REFUSED(workers_max = HANARE_WORKERS_MAX + 1);
	IS_REFUSED(flags = 1u << 31);
	IS_REFUSED(side = 7);
	IS_REFUSED(cpus_count = 1);
	IS_REFUSED(size = 3);
	/*
	 * A program that knows more fields is refused if it uses them; one that knows fewer has the
	 * defaults.
	 */
	hanare_attributes_init(&later.known);
	later.known.size = sizeof(later);
	HOLDS(hanare_queue_create(&queue, &later.known) == 0 && hanare_queue_destroy(queue) == 0);
	later.more = 1;
	HOLDS(hanare_queue_create(&queue, &later.known) == -E2BIG);
	hanare_attributes_init(&attributes);
	attributes.size = 8;
	attributes.depth = 0;
	HOLDS(hanare_queue_create(&queue, &attributes) == 0 && hanare_queue_destroy(queue) == 0);
	HOLDS(hanare_queue_create(&queue, NULL) == 0 && hanare_queue_destroy(queue) == 0);
	HOLDS(hanare_queue_destroy(NULL) == 0);
}

static long cpu_of_thread(void)
{
	unsigned int cpu = ~0u;

	syscall(SYS_getcpu, &cpu, NULL, NULL);
	return (long)cpu;
}

static int with_cpus(uint32_t side, uint32_t workers, int32_t first, int32_t second)
{
	struct hanare_attributes attributes = attributes_of(16, 1);
	const int32_t cpus[] = { first, second };
	hanare_queue *queue;
	int error;

	attributes.side = side;
	attributes.workers_max = workers;
	attributes.cpus = cpus;
	attributes.cpus_count = 2;
	error = hanare_queue_create(&queue, &attributes);
	if (!error)
		hanare_queue_destroy(queue);
	return error;
}

static void cpus_that_the_side_has_not_are_refused(void)
{
	struct hanare_attributes attributes = attributes_of(16, 1);
	hanare_queue *queue = queue_of(&attributes);
	int32_t here = (int32_t)cpu_of_thread(), there = (int32_t)result_of(queue, hanare_call(queue, 0, cpu_of_thread));
	int has_lwk = hanare_queue_remote(queue) > 0;
	cpu_set_t before, after;

	hanare_queue_destroy(queue);
	HOLDS(sched_getaffinity(0, sizeof(before), &before) == 0);
	for (uint32_t side = HANARE_SIDE_LINUX; side <= HANARE_SIDE_HERE; side++) {
		int32_t good = side == HANARE_SIDE_LINUX ? there : here, other = side == HANARE_SIDE_LINUX ? here : there;

		HOLDS(with_cpus(side, 2, good, good) == 0);
		HOLDS(with_cpus(side, 1, 1000, good) == -EINVAL);
		HOLDS(with_cpus(side, 1, 1 << 20, good) == -EINVAL);
		HOLDS(with_cpus(side, 1, -1, good) == -EINVAL);
		HOLDS(with_cpus(side, 2, good, 1000) == -EINVAL);
		/* No worker would run there. */
		HOLDS(with_cpus(side, 1, good, 1000) == 0);
		HOLDS(with_cpus(side, 1, other, good) == (has_lwk ? -EINVAL : 0));
	}
	HOLDS(sched_getaffinity(0, sizeof(after), &after) == 0 && CPU_EQUAL(&before, &after));
}

static void a_full_queue_says_so_until_something_is_picked_up(void)
{
	struct hanare_attributes attributes = attributes_of(4, 1);
	hanare_queue *queue = queue_of(&attributes);
	hanare_ticket tickets[4];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			tickets[i] = hanare_submit(queue, SYS_getppid);
		HOLDS(hanare_submit(queue, SYS_getppid) == -EAGAIN);
		HOLDS(hanare_submit(queue, SYS_getppid | HANARE_BLOCK) == -EDEADLK);
		HOLDS(hanare_drain(queue, LATE) == 0);
		HOLDS(hanare_submit(queue, SYS_getppid) == -EAGAIN);
		for (int i = 0; i < 4; i++)
			HOLDS(result_of(queue, tickets[i]) == getppid());
	}
	HOLDS(hanare_queue_destroy(queue) == 0);
}

/*
 * The paper's completion side was full at short calls, and then nothing went on. Here what is not
 * picked up keeps its credit.
 */
static void short_calls_that_nobody_picks_up_do_not_stop_the_rest(void)
{
	struct hanare_attributes attributes = attributes_of(16, 1);
	hanare_queue *queue = queue_of(&attributes);
	hanare_ticket kept[15], other;
	int full = 0;

	for (int i = 0; i < 15; i++)
		kept[i] = hanare_submit(queue, SYS_getppid);
	for (int i = 0; i < tasks; i++) {
		while ((other = hanare_submit(queue, SYS_getppid)) == -EAGAIN)
			full++;
		HOLDS(hanare_submit(queue, SYS_getppid) == -EAGAIN);
		HOLDS(result_of(queue, other) == getppid());
	}
	HOLDS(full == 0);
	for (int i = 0; i < 15; i++)
		HOLDS(result_of(queue, kept[i]) == getppid());
	hanare_queue_destroy(queue);
}

static void as_many_calls_as_wanted_are_picked_up_at_the_end(void)
{
	struct hanare_attributes attributes = attributes_of(256, 2);
	hanare_queue *queue = queue_of(&attributes);
	static hanare_ticket tickets[TASKS_MAX];
	int64_t result;
	int next = 0;

	for (int i = 0; i < tasks; i++)
		while ((tickets[i] = hanare_submit(queue, SYS_getppid)) < 0) {
			HOLDS(tickets[i] == -EAGAIN);
			HOLDS(hanare_wait(queue, tickets[next++], &result, LATE) == 0);
			HOLDS(result == getppid());
		}
	while (next < tasks)
		HOLDS(result_of(queue, tickets[next++]) == getppid());
	hanare_queue_destroy(queue);
}

static void a_ticket_is_picked_up_once(void)
{
	for (uint32_t flags = 0; flags <= HANARE_MULTI_PRODUCER; flags++) {
		struct hanare_attributes attributes = attributes_of(2, 1);
		hanare_queue *queue;
		hanare_ticket ticket, later;
		int64_t result;

		attributes.flags = flags;
		queue = queue_of(&attributes);
		ticket = hanare_submit(queue, SYS_getppid);
		HOLDS(result_of(queue, ticket) == getppid());
		HOLDS(hanare_poll(queue, ticket, &result) == -EINVAL);
		HOLDS(hanare_wait(queue, ticket, &result, 0) == -EINVAL);
		HOLDS(hanare_cancel(queue, ticket) == -EINVAL);
		later = hanare_submit(queue, SYS_getppid);
		HOLDS(later != ticket && hanare_poll(queue, ticket, &result) == -EINVAL);
		HOLDS(result_of(queue, later) == getppid());
		HOLDS(hanare_poll(queue, 0, &result) == -EINVAL);
		HOLDS(hanare_poll(queue, -1, &result) == -EINVAL);
		HOLDS(hanare_poll(queue, later + 0x100000, &result) == -EINVAL);
		hanare_queue_destroy(queue);
	}
}

static void a_wait_ends_at_its_time(void)
{
	hanare_queue *queue = queue_of(NULL);
	int64_t result, start = now_ns();
	int pipes[2];
	char byte;
	hanare_ticket ticket;

	HOLDS(pipe(pipes) == 0);
	ticket = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
	HOLDS(hanare_wait(queue, ticket, &result, 0) == -ETIMEDOUT);
	HOLDS(hanare_wait(queue, ticket, &result, SECOND / 10) == -ETIMEDOUT);
	HOLDS(now_ns() - start >= SECOND / 10);
	HOLDS(hanare_poll(queue, ticket, &result) == -EAGAIN);
	HOLDS(write(pipes[1], "x", 1) == 1);
	HOLDS(result_of(queue, ticket) == 1 && byte == 'x');
	hanare_queue_destroy(queue);
}

static void *write_later(void *fd)
{
	nap(SECOND / 20);
	HOLDS(write(*(int *)fd, "x", 1) == 1);
	return NULL;
}

static void who_waits_asleep_is_woken(void)
{
	hanare_queue *queue = queue_of(NULL);
	int pipes[2];
	char byte;
	pthread_t thread;

	HOLDS(pipe(pipes) == 0);
	for (int i = 0; i < 5; i++) {
		hanare_ticket ticket = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
		int64_t result;

		HOLDS(pthread_create(&thread, NULL, write_later, &pipes[1]) == 0);
		HOLDS(hanare_wait(queue, ticket, &result, HANARE_FOREVER) == 0 && result == 1);
		pthread_join(thread, NULL);
	}
	hanare_queue_destroy(queue);
}

static void workers_that_sleep_are_woken(void)
{
	for (uint32_t workers = 1; workers <= 3; workers++) {
		struct hanare_attributes attributes = attributes_of(64, workers);
		hanare_queue *queue;

		attributes.spin_ns = 1000;
		attributes.wait_spin_ns = 1000;
		queue = queue_of(&attributes);
		for (int i = 0; i < ROUNDS(200); i++) {
			if (i % 10 == 0)
				nap(2000000);
			HOLDS(result_of(queue, hanare_submit(queue, SYS_getppid)) == getppid());
		}
		hanare_queue_destroy(queue);
	}
}

#define PRODUCERS 4

static void *produce(void *queue)
{
	hanare_ticket tickets[8];

	for (int i = 0; i < tasks / PRODUCERS; i += 8) {
		for (int j = 0; j < 8; j++)
			HOLDS((tickets[j] = hanare_submit(queue, SYS_getppid | HANARE_BLOCK)) > 0);
		for (int j = 0; j < 8; j++)
			HOLDS(result_of(queue, tickets[j]) == getppid());
	}
	return NULL;
}

static void several_threads_post_and_wait(void)
{
	struct hanare_attributes attributes = attributes_of(32, 2);
	hanare_queue *queue;
	pthread_t threads[PRODUCERS];

	attributes.flags = HANARE_MULTI_PRODUCER;
	queue = queue_of(&attributes);
	for (int i = 0; i < PRODUCERS; i++)
		HOLDS(pthread_create(&threads[i], NULL, produce, queue) == 0);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	hanare_queue_destroy(queue);
}

static void who_posts_into_a_full_queue_waits_if_he_wants(void)
{
	struct hanare_attributes attributes = attributes_of(2, 1);
	hanare_queue *queue = queue_of(&attributes);
	int pipes[2];

	HOLDS(pipe(pipes) == 0);
	/* Those that have no ticket make room. */
	for (int i = 0; i < ROUNDS(10000); i++)
		HOLDS(hanare_submit(queue, SYS_getppid | HANARE_DETACH | HANARE_BLOCK) == 0);
	for (int i = 0; i < 5; i++) {
		char byte;
		pthread_t thread;

		HOLDS(hanare_submit(queue, SYS_read | HANARE_DETACH | HANARE_BLOCK, pipes[0], &byte, 1) == 0);
		HOLDS(hanare_submit(queue, SYS_getppid | HANARE_DETACH | HANARE_BLOCK) == 0);
		HOLDS(pthread_create(&thread, NULL, write_later, &pipes[1]) == 0);
		HOLDS(hanare_submit(queue, SYS_getppid | HANARE_DETACH | HANARE_BLOCK) == 0);
		pthread_join(thread, NULL);
		HOLDS(hanare_drain(queue, LATE) == 0);
	}
	HOLDS(hanare_errors(queue, NULL) == 0);
	hanare_queue_destroy(queue);
}

static void any_that_is_finished_is_next(void)
{
	for (uint32_t flags = 0; flags <= HANARE_MULTI_PRODUCER; flags++) {
		struct hanare_attributes attributes = attributes_of(64, 2);
		struct hanare_completion next;
		hanare_queue *queue;
		hanare_ticket ticket;
		int64_t result;

		attributes.flags = flags;
		queue = queue_of(&attributes);
		HOLDS(hanare_next(queue, &next, 0) == -EAGAIN);
		HOLDS(hanare_next(queue, &next, SECOND / 100) == -ETIMEDOUT);
		for (int round = 0; round < ROUNDS(100); round++) {
			uint64_t sum = 0, wanted = 0;

			for (int i = 0; i < 64; i++) {
				ticket = hanare_submit(queue, SYS_getppid | HANARE_NEXT);
				HOLDS(ticket > 0 && hanare_poll(queue, ticket, &result) == -EINVAL);
				wanted += (uint64_t)ticket;
			}
			HOLDS(hanare_submit(queue, SYS_getppid | HANARE_NEXT) == -EAGAIN);
			for (int i = 0; i < 64; i++) {
				HOLDS(hanare_next(queue, &next, LATE) == 0 && next.result == getppid());
				sum += (uint64_t)next.ticket;
			}
			HOLDS(sum == wanted && hanare_next(queue, &next, 0) == -EAGAIN);
		}
		hanare_queue_destroy(queue);
	}
}

static int is_readable(int fd, int ms)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };

	return poll(&one, 1, ms);
}

static void the_descriptor_is_readable_while_something_is_finished(void)
{
	hanare_queue *queue = queue_of(NULL);
	int fd = hanare_eventfd(queue);
	struct hanare_completion next;

	HOLDS(fd >= 0 && hanare_eventfd(queue) == fd);
	for (int round = 0; round < ROUNDS(200); round++) {
		HOLDS(is_readable(fd, 0) == 0);
		for (int i = 0; i < 3; i++)
			HOLDS(hanare_submit(queue, SYS_getppid | HANARE_NEXT) > 0);
		for (int i = 0; i < 3; i++) {
			HOLDS(is_readable(fd, 10000 * factor) == 1);
			HOLDS(hanare_next(queue, &next, LATE) == 0);
		}
		HOLDS(hanare_next(queue, &next, 0) == -EAGAIN);
	}
	hanare_queue_destroy(queue);
}

static void workers_are_started_where_all_are_busy_and_end_when_idle(void)
{
	struct hanare_attributes attributes = attributes_of(64, 1);
	hanare_queue *queue;
	hanare_ticket reads[3], ticket;
	int pipes[2], before, after;
	char bytes[3];

	attributes.workers_max = 4;
	attributes.idle_ms = 50;
	queue = queue_of(&attributes);
	HOLDS(pipe(pipes) == 0);
	for (int i = 0; i < 3; i++)
		reads[i] = hanare_submit(queue, SYS_read, pipes[0], &bytes[i], 1);
	/* Three workers wait for ever; the fourth one executes this. */
	ticket = hanare_submit(queue, SYS_getppid);
	HOLDS(result_of(queue, ticket) == getppid());
	before = (int)result_of(queue, hanare_submit(queue, SYS_access, "/proc/self/task", F_OK));
	HOLDS(before == 0);
	HOLDS(write(pipes[1], "xyz", 3) == 3);
	for (int i = 0; i < 3; i++)
		HOLDS(result_of(queue, reads[i]) == 1);
	nap(SECOND / 2);
	for (after = 0; after < ROUNDS(1000); after++)
		HOLDS(result_of(queue, hanare_submit(queue, SYS_getppid)) == getppid());
	hanare_queue_destroy(queue);
}

static void destruction_ends_what_runs(void)
{
	hanare_queue *queue = queue_of(NULL);
	int pipes[2];
	char byte;

	HOLDS(pipe(pipes) == 0);
	for (int i = 0; i < 5; i++)
		HOLDS(hanare_submit(queue, SYS_read, pipes[0], &byte, 1) > 0);
	nap(SECOND / 100);
	HOLDS(hanare_drain(queue, SECOND / 100) == -ETIMEDOUT);
	HOLDS(hanare_queue_destroy(queue) == 0);
}

static void queues_come_and_go(void)
{
	for (int i = 0; i < ROUNDS(300); i++) {
		struct hanare_attributes attributes = attributes_of(1u << i % 10, 1 + (uint32_t)i % 3);
		hanare_queue *queue = queue_of(&attributes);
		hanare_ticket ticket = hanare_submit(queue, SYS_getppid);

		if (i % 2)
			HOLDS(result_of(queue, ticket) == getppid());
		HOLDS(hanare_queue_destroy(queue) == 0);
	}
	/* No descriptor is left. */
	HOLDS(open("/dev/null", O_RDONLY) < 16);
}

#define TEST(name) { #name, name }

const struct test queue_tests[] = {
	TEST(attributes_are_checked),
	TEST(cpus_that_the_side_has_not_are_refused),
	TEST(a_full_queue_says_so_until_something_is_picked_up),
	TEST(short_calls_that_nobody_picks_up_do_not_stop_the_rest),
	TEST(as_many_calls_as_wanted_are_picked_up_at_the_end),
	TEST(a_ticket_is_picked_up_once),
	TEST(a_wait_ends_at_its_time),
	TEST(who_waits_asleep_is_woken),
	TEST(workers_that_sleep_are_woken),
	TEST(several_threads_post_and_wait),
	TEST(who_posts_into_a_full_queue_waits_if_he_wants),
	TEST(any_that_is_finished_is_next),
	TEST(the_descriptor_is_readable_while_something_is_finished),
	TEST(workers_are_started_where_all_are_busy_and_end_when_idle),
	TEST(destruction_ends_what_runs),
	TEST(queues_come_and_go),
	{ 0 },
};
