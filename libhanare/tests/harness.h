/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The tests of libhanare: each runs in a process of its own, with a deadline. */
#ifndef HARNESS_H
#define HARNESS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <hanare.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct test {
	const char *name;
	void (*run)(void);
};

/* The end of each list has no name. */
extern const struct test queue_tests[], call_tests[], function_tests[], process_tests[], fault_tests[],
	cost_tests[];

#define HOLDS(condition)                                                                              \
	do {                                                                                          \
		if (!(condition)) {                                                                   \
			fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", __FILE__, __LINE__, \
				#condition, errno);                                                   \
			_exit(1);                                                                     \
		}                                                                                     \
	} while (0)

#define SECOND 1000000000L
/* What is certain to come has come by then, also on a busy machine. */
#define LATE (20 * SECOND * factor)

/* Above 1 where tests are to take longer (HANARE_TEST_FACTOR). */
extern int factor;
/* Tasks where there are to be many: HANARE_TEST_TASKS, a multiple of 32. */
#define TASKS_MAX 65536
extern int tasks;
/* Of what is made many times: a tenth with few tasks (below 4,096), where a run has to be short. */
#define ROUNDS(many) (tasks < 4096 ? (many) / 10 : (many))

/* A queue of one worker and 256 credits, changed by what follows. */
hanare_queue *queue_of(struct hanare_attributes *attributes);
struct hanare_attributes attributes_of(uint32_t depth, uint32_t workers);

/* The result, which has to come (LATE). */
int64_t result_of(hanare_queue *queue, hanare_ticket ticket);

/* What a child ends with: its status as of waitpid(2). */
int status_of(void (*run)(void *), void *argument);

void nap(long ns);
int64_t now_ns(void);
/* A descriptor of an empty file that has no name. */
int fresh_file(void);

#endif
