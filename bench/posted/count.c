/* What is counted between marks (bench/count/plugin.c). */
#include "ways.h"
#include "../count/marks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void mark(void)
{
	asm volatile(MARK ::: "memory");
}

/* ---- phases ---- */

static _Atomic int at_gate, is_open, all_done, may_end;

/* Not to be counted: by its name. */
__attribute__((noinline)) static void spin_until(_Atomic int *word)
{
	while (!atomic_load_explicit(word, memory_order_acquire))
		__builtin_ia32_pause();
}

/* Holds the worker until everything is posted, so that it never looks in vain afterwards. */
static long gate(void)
{
	atomic_store(&at_gate, 1);
	spin_until(&is_open);
	return 0;
}

/* Holds it again, until counters have been read. */
static long last(void)
{
	atomic_store(&all_done, 1);
	spin_until(&may_end);
	return 0;
}

static long returns_one(long calls)
{
	return calls;
}

#define MOST 900
static hanare_ticket tickets[MOST];

/* The loops are functions of their own, so that their cost can be told from what they measure. */
__attribute__((noinline)) static void post_calls(hanare_queue *queue, int count)
{
	for (int i = 0; i < count; i++)
		tickets[i] = hanare_submit(queue, SYS_getppid);
}

__attribute__((noinline)) static void post_functions(hanare_queue *queue, int count)
{
	for (int i = 0; i < count; i++)
		tickets[i] = hanare_call(queue, 0, returns_one, 1);
}

__attribute__((noinline)) static void post_batches(hanare_queue *queue, int count)
{
	static const struct hanare_request requests[16] = { [0 ... 15] = { SYS_getppid, { 0 } } };

	for (int i = 0; i < count; i += 16)
		hanare_submit_batch(queue, requests, 16, tickets + i);
}

__attribute__((noinline)) static void pick_up(hanare_queue *queue, int count)
{
	int64_t result;

	for (int i = 0; i < count; i++)
		if (hanare_poll(queue, tickets[i], &result) || result < 0)
			fail("hanare_poll");
}

static void round_of(hanare_queue *queue, void (*post)(hanare_queue *, int), int count)
{
	hanare_ticket at_begin, at_end;

	atomic_store(&at_gate, 0);
	atomic_store(&is_open, 0);
	atomic_store(&all_done, 0);
	atomic_store(&may_end, 0);
	at_begin = hanare_call(queue, 0, gate);
	spin_until(&at_gate);
	mark();
	post(queue, count);
	mark();
	at_end = hanare_call(queue, 0, last);
	mark();
	atomic_store(&is_open, 1);
	spin_until(&all_done);
	mark();
	atomic_store(&may_end, 1);
	result_of(at_end);
	result_of(at_begin);
	usleep(20000);
	mark();
	pick_up(queue, count);
	mark();
}

/*
 * For each way to post, `rounds` times: six marks, between which are posting, one more, executing,
 * one more, picking up.
 */
void count_phases(const struct wish *wish)
{
	static void (*const posts[])(hanare_queue *, int) = { post_calls, post_functions, post_batches };
	int count = wish->tasks && wish->tasks < MOST ? (int)wish->tasks / 16 * 16 : 800;

	for (unsigned int i = 0; i < sizeof(posts) / sizeof(*posts); i++)
		for (int round = 0; round < wish->rounds; round++)
			round_of(queue_of_ways(), posts[i], count);
	printf("%d %d\n", count, hanare_queue_remote(queue_of_ways()));
}

/* ---- tasks ---- */

/* For each way, each number of calls and each round: two marks. Prints what was counted. */
void count_tasks(const struct wish *wish)
{
	set_call(wish->quick ? NULL_CALL : 1);
	for (int i = 0; i < ways_count; i++) {
		if ((wish->way && strcmp(wish->way, ways[i].name)) || !ways[i].begin())
			continue;
		for (int calls = 1; calls <= CALLS_MAX; calls *= 2) {
			/* About as many calls in all. */
			long tasks = (wish->tasks ? wish->tasks : 640) / calls;

			tasks = tasks < 16 ? 16 : tasks;
			for (int round = 0; round < wish->rounds; round++) {
				for (int task = 0; task < 4; task++)
					ways[i].task(calls);
				mark();
				for (long task = 0; task < tasks; task++)
					ways[i].task(calls);
				mark();
				if (ways[i].finish)
					ways[i].finish();
				printf("%s %d %ld\n", ways[i].name, calls, tasks);
			}
		}
	}
	fflush(stdout);
	_exit(0);
}
