/* Threads and processes of `futex-table` that wait and wake as told; the print of their results. */
#include "guest.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/shm.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
#define SYS_waitv 449
#define WORD 0
#define OTHER 8		/* where waiters are moved to; a lock */
#define NOBODY 16	/* nobody waits here */
#define SECOND_PAGE (PAGE / 4)	/* of other memory, in `mixed` */

enum { NO_TIME, FAR, FAR_REALTIME, FAR_FROM_NOW, SOON, SOON_REALTIME, SOON_FROM_NOW };
enum { IDLE, FUTEX, WAITV, SET, OWN, LOCK_AND_END, ATTACH, END };

/* What an actor is to do, and what came of it. */
struct actor {
	volatile int command, done;
	int op, word, value, other, value3, time;
	long count, result;
	int tid;
};

/* Shared by all that take part. */
static struct common {
	struct actor threads[2], child, outside;
	int segment, has_segment;
	struct actor *of_outside;
} *common;

static int *words;

static long futex(int word, int op, int value, const void *time, int other, int value3)
{
	long result = syscall(SYS_futex, words + word, op, value, time, words + other, value3);

	return result < 0 ? -errno : result;
}

static const struct timespec *time_of(int kind, struct timespec *time)
{
	clockid_t clock = kind == FAR_REALTIME || kind == SOON_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	int is_soon = kind >= SOON;

	if (kind == NO_TIME)
		return NULL;
	*time = (struct timespec){};
	if (kind != FAR_FROM_NOW && kind != SOON_FROM_NOW)
		clock_gettime(clock, time);
	time->tv_sec += is_soon ? 0 : 300;
	time->tv_nsec += is_soon ? 20000000 : 0;
	if (time->tv_nsec >= 1000000000) {
		time->tv_nsec -= 1000000000;
		time->tv_sec++;
	}
	return time;
}

static long waitv(const struct actor *a, const struct timespec *time)
{
	int flags = 2 | (a->op & FUTEX_PRIVATE_FLAG);
	struct { uint64_t value, address; uint32_t flags, reserved; } all[2] = {
		{ words[NOBODY], (uintptr_t)(words + NOBODY), flags, 0 },
		{ a->value, (uintptr_t)(words + a->word), flags, 0 },
	};
	long result = syscall(SYS_waitv, all, 2, 0, time, CLOCK_MONOTONIC);

	return result < 0 ? -errno : result;
}

static void lock_and_end(struct actor *a);

static void act(struct actor *a)
{
	struct timespec time;
	const struct timespec *at = time_of(a->time, &time);

	switch (a->command) {
	case FUTEX:
		a->result = futex(a->word, a->op, a->value, at ? at : (void *)a->count, a->other, a->value3);
		break;
	case WAITV:
		a->result = waitv(a, at);
		break;
	case SET:
		__atomic_store_n(words + a->word, a->value, __ATOMIC_SEQ_CST);
		break;
	case OWN:
		__atomic_store_n(words + a->word, a->tid | a->value, __ATOMIC_SEQ_CST);
		break;
	case LOCK_AND_END:
		lock_and_end(a);
		break;
	case ATTACH:
		if (common->has_segment)
			words = shmat(common->segment, NULL, 0);
		else
			words = (int *)((char *)common + 4 * PAGE);
		break;
	}
}

static void *serves(void *argument)
{
	struct actor *a = argument;

	a->tid = gettid();
	a->done = 1;
	for (;;) {
		while (a->command == IDLE)
			usleep(200);
		if (a->command == END)
			break;
		act(a);
		a->command = IDLE;
		a->done = 1;
	}
	return NULL;
}

static void post(struct actor *a, int command)
{
	a->done = 0;
	__sync_synchronize();
	a->command = command;
}

static long finish(struct actor *a)
{
	while (!a->done)
		usleep(200);
	__sync_synchronize();
	return a->result;
}

static void do_futex(struct actor *a, int op, int word, int value, int time, long count, int other, int value3)
{
	a->op = op;
	a->word = word;
	a->value = value;
	a->time = time;
	a->count = count;
	a->other = other;
	a->value3 = value3;
	post(a, FUTEX);
}

static void set(struct actor *a, int command, int word, int value)
{
	a->word = word;
	a->value = value;
	a->time = NO_TIME;
	post(a, command);
	finish(a);
}

/* One that takes a lock, and ends when others wait for it, without giving it back. */
static void *ends_with_lock(void *argument)
{
	struct actor *a = argument;

	words[a->word] = gettid();
	a->done = 1;
	/*
	 * A waiter has said so in the word before it is known to wait: if the owner is gone by
	 * then, the waiter gets ESRCH.
	 */
	while (futex(a->word, FUTEX_WAKE | a->op, 1, NULL, a->word, 0) != -EINVAL)
		usleep(200);
	return NULL;
}

static pthread_t ending;

static void lock_and_end(struct actor *a)
{
	pthread_create(&ending, NULL, ends_with_lock, a);
	while (!a->done)
		usleep(200);
	a->done = 0;
}

static struct actor *waiter, *waker;
static int wait_flag, wake_flag;
static const char *memory;

static const char *error(long result)
{
	static char texts[8][32];
	static int at;
	char *text = texts[at++ % 8];

	if (result < 0)
		snprintf(text, 32, "%s", strerrorname_np(-result));
	else
		snprintf(text, 32, "%ld", result);
	return text;
}

/* A word whose value is a thread id. */
static const char *owner(int word)
{
	static char texts[4][32];
	static int at;
	char *text = texts[at++ % 4];
	unsigned int value = words[word], tid = value & FUTEX_TID_MASK;

	snprintf(text, 32, "%s%s%s", !tid ? "nobody" : tid == (unsigned int)waiter->tid ? "waiter" :
		 tid == (unsigned int)waker->tid ? "waker" : "other", value & FUTEX_WAITERS ? "+W" : "",
		 value & FUTEX_OWNER_DIED ? "+D" : "");
	return text;
}

static const char *name(const struct actor *a)
{
	return a == &common->child ? "child" : a == &common->outside ? "outside" : "thread";
}

static void begin(const char *what)
{
	printf("%s %s%s %s%s %s: ", memory, name(waiter), wait_flag ? "/p" : "", name(waker), wake_flag ? "/p" : "", what);
	words[WORD] = words[OTHER] = words[NOBODY] = 0;
}

/* Waits until so many wait there plainly: a requeue to where they are counts them. */
static void until_waits(int word)
{
	while (futex(word, FUTEX_CMP_REQUEUE | wait_flag, 0, (void *)9L, word, words[word]) != 1)
		usleep(200);
}

/* Waits until one waits for a lock, or to be moved to one: no wake-up is for it. */
static void until_waits_for_lock(int word)
{
	while (futex(word, FUTEX_WAKE | wait_flag, 1, NULL, word, 0) != -EINVAL)
		usleep(200);
}

static long done_by_waker(int op, int word, int value, long count, int other, int value3)
{
	do_futex(waker, op | wake_flag, word, value, NO_TIME, count, other, value3);
	return finish(waker);
}
