/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * libhanare: system calls and functions that a program posts, and that workers execute beside it.
 *
 * A queue has workers: threads of the program. On an LWK of Hanare they run on Linux' CPUs, at the
 * same addresses and with the program's rights; on plain Linux they are threads. The same program
 * runs on both. docs/posted.md says how it works, hanare(3) is where the man pages begin.
 *
 * Functions return 0 or a positive number, or a negative error number; none sets errno. None may be
 * called from a signal handler, but for hanare_cancelled.
 */
#ifndef HANARE_H
#define HANARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Queues ---- */

typedef struct hanare_queue hanare_queue;

/* Calls that may be posted and not picked up at once, at most. */
#define HANARE_DEPTH_MAX 65536
/* Workers of one queue, at most. */
#define HANARE_WORKERS_MAX 32

/* Where workers run (hanare_attributes.side). */
enum {
	/* On Linux' CPUs. On plain Linux: on any. */
	HANARE_SIDE_LINUX = 0,
	/* Threads of the kernel that the program runs on: on an LWK, of its CPUs. */
	HANARE_SIDE_HERE = 1,
};

/* hanare_attributes.flags */
/* Several threads use the queue. Without it only hanare_eventfd is for several at a time. */
#define HANARE_MULTI_PRODUCER 1u
/* A submission waits where the queue is full, as if each had HANARE_BLOCK. */
#define HANARE_BLOCKING 2u

/* hanare_attributes_init fills it; programs change what they want. */
struct hanare_attributes {
	uint32_t size; /* of this structure, as the program knows it */
	uint32_t flags;
	uint32_t depth; /* rounded up to a power of two; 256 */
	uint32_t side; /* HANARE_SIDE_LINUX */
	uint32_t workers_min; /* 1 */
	uint32_t workers_max; /* 1; more are started where all are busy and something waits */
	const int32_t *cpus; /* worker i runs on cpus[i % cpus_count], numbers of its side, else -EINVAL; NULL: anywhere */
	uint32_t cpus_count;
	uint32_t spin_ns; /* a worker that has nothing to do polls so long, at most; then it sleeps. 50 µs */
	uint32_t wait_spin_ns; /* likewise a thread that waits for a result. 50 µs */
	uint32_t idle_ms; /* a worker beyond workers_min ends after so long without work. 1000 */
};

void hanare_attributes_init(struct hanare_attributes *attributes);

/* NULL as attributes: those of hanare_attributes_init. */
int hanare_queue_create(hanare_queue **queue, const struct hanare_attributes *attributes);

/*
 * Queued work never begins, running work is cancelled as by hanare_cancel. Waits until the workers
 * have ended. -EDEADLK: the caller is a worker of the queue.
 */
int hanare_queue_destroy(hanare_queue *queue);

/* Waits until all that was posted before is done, picked up or not. -ETIMEDOUT, -EDEADLK. */
int hanare_drain(hanare_queue *queue, int64_t timeout_ns);

/* How many of its workers run on Linux beside an LWK: none on plain Linux. */
int hanare_queue_remote(hanare_queue *queue);

/* ---- Submissions ---- */

/* Names a submission until its result has been picked up. Above 0. */
typedef int64_t hanare_ticket;

/* Added to the number of a call, or alone for functions and chains. */
/* There is no ticket: 0 is returned. Errors are counted: hanare_errors. */
#define HANARE_DETACH (UINT64_C(1) << 16)
/* The result is picked up by hanare_next, and by nothing else. */
#define HANARE_NEXT (UINT64_C(1) << 17)
/*
 * Waits where the queue is full; otherwise that is -EAGAIN. -EDEADLK: only the caller could make
 * room.
 */
#define HANARE_BLOCK (UINT64_C(1) << 18)
/* exit(3) waits until it is done. */
#define HANARE_AT_EXIT (UINT64_C(1) << 19)
#define HANARE_KEYED (UINT64_C(1) << 20)
/* Submissions of one key are executed one after the other, in order. The key is one of 32 bits. */
#define HANARE_KEY(key) (HANARE_KEYED | (uint64_t)(uint32_t)(key) << 32)

/*
 * hanare_submit(queue, SYS_write | HANARE_DETACH, fd, bytes, count): posts a system call, with up
 * to six arguments.
 *
 * What its arguments point to must stay until the result is there. -EINVAL: the kernel that the
 * program runs on serves the call by itself (hanare_why). A call that acts on the thread that makes
 * it (credentials, its signal mask…) is made by the caller before the function returns. -EAGAIN:
 * full.
 */
#define hanare_submit(...) HANARE_PAD_SUBMIT_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
hanare_ticket hanare_submit6(hanare_queue *queue, uint64_t what, uint64_t arg0, uint64_t arg1, uint64_t arg2, uint64_t arg3,
			     uint64_t arg4, uint64_t arg5);

/* Any function of up to five integers or pointers. */
typedef void (*hanare_function)(void);

/*
 * hanare_call(queue, 0, function, argument): has a worker call a function of the program; what it
 * returns is the result.
 *
 * It has the worker's stack, errno and thread-local variables. It runs with signals blocked, but
 * for those of its own faults and calls. An exception or panic that leaves it ends the program by
 * abort.
 */
#define hanare_call(...) HANARE_PAD_CALL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
hanare_ticket hanare_call5(hanare_queue *queue, uint64_t flags, hanare_function function, uint64_t arg0, uint64_t arg1,
			   uint64_t arg2, uint64_t arg3, uint64_t arg4);

/* A call of a batch: what, and its arguments. */
struct hanare_request {
	uint64_t what;
	uint64_t args[6];
};

/*
 * Posts as many of the calls, from the first on, as there is room for, and returns their number.
 * tickets may be NULL where all are HANARE_DETACH. An error is that of the first one.
 */
int hanare_submit_batch(hanare_queue *queue, const struct hanare_request *requests, size_t count, hanare_ticket *tickets);

/* A call of a chain. It must be one that workers make. */
struct hanare_link {
	uint16_t nr;
	/* args[i] is the result of link from[i] - 1; 0: it is what stands there. */
	uint8_t from[6];
	uint32_t flags;
	uint32_t reserved;
	uint64_t args[6];
	/* What the call returned; -ECANCELED: it was not made. */
	int64_t result;
};
/*
 * hanare_link.flags: the call is made after an error, too, where the links that it takes results
 * from were made without error.
 */
#define HANARE_LINK_ALWAYS 1u
#define HANARE_LINKS_MAX 255

/*
 * Posts calls of which each is made when the one before is done without error. The result is that
 * of the last one, or the first error.
 */
hanare_ticket hanare_submit_chain(hanare_queue *queue, uint64_t flags, struct hanare_link *links, size_t count);

/* NULL: workers make call nr. Otherwise why they do not. */
const char *hanare_why(int nr);

/* How hanare_submit takes call nr: 2: workers make it, 1: the caller does, at once, 0: -EINVAL. */
int hanare_may_submit(int nr);

/* ---- Results ---- */

/* A result is what the call or the function returned: of calls an error is a negative number. */

#define HANARE_FOREVER (-1)

/* Picks a result up; result is not NULL. -EAGAIN: not yet. -EINVAL: no such ticket. */
int hanare_poll(hanare_queue *queue, hanare_ticket ticket, int64_t *result);

/*
 * Waits for a ticket, and picks its result up; result may be NULL. -ETIMEDOUT. -EDEADLK: the caller
 * is a worker of the queue itself.
 */
int hanare_wait(hanare_queue *queue, hanare_ticket ticket, int64_t *result, int64_t timeout_ns);

struct hanare_completion {
	hanare_ticket ticket;
	int64_t result;
};

/*
 * Picks up a result that was submitted with HANARE_NEXT, in the order in which they were done.
 * -EAGAIN if timeout_ns is 0, or -ETIMEDOUT.
 */
int hanare_next(hanare_queue *queue, struct hanare_completion *completion, int64_t timeout_ns);

/*
 * A descriptor for poll and epoll, readable while hanare_next would pick something up. It is the
 * library's: programs neither read nor close it. hanare_next makes it unreadable when it has
 * answered -EAGAIN.
 */
int hanare_eventfd(hanare_queue *queue);

/*
 * 0: it never begins; its result is -ECANCELED. -EINPROGRESS: it runs and was interrupted; a call
 * that waits returns -EINTR, a function sees hanare_cancelled. -EALREADY: it was done. Its result
 * is to be picked up in each case.
 */
int hanare_cancel(hanare_queue *queue, hanare_ticket ticket);

/* In a function: whether it was cancelled. */
int hanare_cancelled(void);

/*
 * The real-time signal by which workers are interrupted, SIGRTMAX - 2 where none was set. It has to
 * be set before the first queue: else -EBUSY.
 */
int hanare_set_signal(int signal);

/* How many of HANARE_DETACH have ended with an error; the last error, if error is not NULL. */
uint64_t hanare_errors(hanare_queue *queue, int *error);

#define HANARE_PAD_SUBMIT_(queue, what, a, b, c, d, e, f, ...)                                              \
	hanare_submit6((queue), (what), (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), (uint64_t)(d), (uint64_t)(e), \
		       (uint64_t)(f))
#define HANARE_PAD_CALL_(queue, flags, function, a, b, c, d, e, ...)                                                 \
	hanare_call5((queue), (flags), (hanare_function)(function), (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), \
		     (uint64_t)(d), (uint64_t)(e))

#ifdef __cplusplus
}
#endif

#endif
