/*
 * Every operation of futex(2) finds the waiters of a word that it finds on Linux: a table of waits
 * and wake-ups by operation, by memory, and by FUTEX_PRIVATE_FLAG on either side.
 *
 *	futex-table             threads of this process, and its child
 *	futex-table FILE        beside the program `futex-table FILE outside`, which shares that
 *	                        file and runs on Linux
 */
#include "futex-actors.h"

/* What a waiter of the word gets after that, with how many a wake-up of either word reaches. */
static void end_plain(const char *what, long result)
{
	long there = futex(WORD, FUTEX_WAKE | wait_flag, 9, NULL, 0, 0);
	long other = futex(OTHER, FUTEX_WAKE | wait_flag, 9, NULL, 0, 0);

	printf("%s %s, then %ld %ld, waiter %s\n", what, error(result), there, other, error(finish(waiter)));
}

struct wait {
	const char *name;
	int op, time, value3, is_vector;
};

static const struct wait plain_waits[] = {
	{ "WAIT", FUTEX_WAIT, NO_TIME, 0, 0 },
	{ "WAIT", FUTEX_WAIT, FAR_FROM_NOW, 0, 0 },
	{ "WAIT_BITSET", FUTEX_WAIT_BITSET, FAR, 3, 0 },
	{ "WAIT_BITSET realtime", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, FAR_REALTIME, 3, 0 },
	{ "waitv", 0, FAR, 0, 1 },
};

static void waits(const struct wait *wait, int time)
{
	do_futex(waiter, wait->op | wait_flag, WORD, 0, time, 0, OTHER, wait->value3);
}

static void begin_plain(const struct wait *wait)
{
	begin(wait->name);
	if (wait->is_vector) {
		waiter->op = wait_flag;
		waiter->word = WORD;
		waiter->value = 0;
		waiter->time = wait->time;
		post(waiter, WAITV);
	} else {
		waits(wait, wait->time);
	}
	until_waits(WORD);
}

#define ADD_NOTHING FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)
#define SET_ONE FUTEX_OP(FUTEX_OP_SET, 1, FUTEX_OP_CMP_NE, 0)

static const struct act {
	const char *name;
	int op, word, value;
	long count;
	int other, value3;
} acts[] = {
	{ "WAKE", FUTEX_WAKE, WORD, 1, 0, 0, 0 },
	{ "WAKE_BITSET 1", FUTEX_WAKE_BITSET, WORD, 1, 0, 0, 1 },
	{ "WAKE_BITSET 4", FUTEX_WAKE_BITSET, WORD, 1, 0, 0, 4 },
	{ "WAKE_OP, first", FUTEX_WAKE_OP, WORD, 1, 1, NOBODY, SET_ONE },
	{ "WAKE_OP, second", FUTEX_WAKE_OP, NOBODY, 1, 1, WORD, ADD_NOTHING },
	{ "WAKE_OP, not the second", FUTEX_WAKE_OP, NOBODY, 1, 1, WORD, SET_ONE },
	{ "REQUEUE", FUTEX_REQUEUE, WORD, 0, 1, OTHER, 0 },
	{ "CMP_REQUEUE", FUTEX_CMP_REQUEUE, WORD, 0, 1, OTHER, 0 },
	{ "CMP_REQUEUE, changed", FUTEX_CMP_REQUEUE, WORD, 0, 1, OTHER, 1 },
	{ "CMP_REQUEUE_PI", FUTEX_CMP_REQUEUE_PI, WORD, 1, 1, OTHER, 0 },
	{ "LOCK_PI", FUTEX_TRYLOCK_PI, WORD, 0, 0, 0, 0 },
};

static void plain(void)
{
	for (unsigned int i = 0; i < sizeof(plain_waits) / sizeof(*plain_waits); i++) {
		/* Every operation for the first one. */
		for (unsigned int j = 0; j < (i ? 3 : sizeof(acts) / sizeof(*acts)); j++) {
			const struct act *act = acts + j;

			begin_plain(plain_waits + i);
			long result = done_by_waker(act->op, act->word, act->value, act->count, act->other, act->value3);
			/* With flags that differ, a lock without waiters. */
			if (!strcmp(act->name, "LOCK_PI"))
				set(waker, SET, WORD, 0);
			end_plain(act->name, result);
		}
	}
	begin_plain(plain_waits);
	set(waker, OWN, WORD, 0);
	long result = done_by_waker(FUTEX_UNLOCK_PI, WORD, 0, 0, 0, 0);
	printf("%s, ", owner(WORD));
	end_plain("UNLOCK_PI", result);
}

static const struct wait locks[] = {
	{ "LOCK_PI", FUTEX_LOCK_PI, NO_TIME, 0, 0 },
	{ "LOCK_PI", FUTEX_LOCK_PI, FAR_REALTIME, 0, 0 },
	{ "LOCK_PI2", FUTEX_LOCK_PI2, FAR, 0, 0 },
	{ "LOCK_PI2 realtime", FUTEX_LOCK_PI2 | FUTEX_CLOCK_REALTIME, FAR_REALTIME, 0, 0 },
};

/* The waiter waits for a lock of the waker's. */
static void begin_lock(const struct wait *wait)
{
	begin(wait->name);
	set(waker, OWN, WORD, 0);
	waits(wait, wait->time);
	until_waits_for_lock(WORD);
	printf("%s, ", owner(WORD));
}

/* The waiter has the lock, and gives it back. */
static void end_owned(int lock)
{
	long result = finish(waiter);

	printf("waiter %s, %s, ", error(result), owner(lock));
	do_futex(waiter, FUTEX_UNLOCK_PI | wait_flag, lock, 0, NO_TIME, 0, 0, 0);
	result = finish(waiter);
	printf("unlocked %s, %s\n", error(result), owner(lock));
}

/* The waker gives it to the waiter, which gives it back. */
static void end_lock(void)
{
	if (!(words[WORD] & FUTEX_TID_MASK)) /* its owner gave it back and has not found the waiter */
		set(waker, OWN, WORD, FUTEX_WAITERS);
	if ((words[WORD] & FUTEX_TID_MASK) == waker->tid) {
		do_futex(waker, FUTEX_UNLOCK_PI | wait_flag, WORD, 0, NO_TIME, 0, 0, 0);
		printf("unlocked %s, ", error(finish(waker)));
	}
	end_owned(WORD);
}

static void locking(void)
{
	static const struct act acts[] = {
		{ "UNLOCK_PI", FUTEX_UNLOCK_PI, WORD, 0, 0, 0, 0 },
		{ "WAKE", FUTEX_WAKE, WORD, 1, 0, 0, 0 },
		{ "WAKE_OP, first", FUTEX_WAKE_OP, WORD, 1, 1, NOBODY, SET_ONE },
		{ "WAKE_OP, second", FUTEX_WAKE_OP, NOBODY, 1, 1, WORD, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_NE, 0) },
		{ "REQUEUE", FUTEX_REQUEUE, WORD, 0, 1, OTHER, 0 },
		{ "TRYLOCK_PI", FUTEX_TRYLOCK_PI, WORD, 0, 0, 0, 0 },
		{ "LOCK_PI", FUTEX_LOCK_PI, WORD, 0, 0, 0, 0 },
	};

	for (unsigned int i = 0; i < sizeof(locks) / sizeof(*locks); i++) {
		for (unsigned int j = 0; j < (i ? 1 : sizeof(acts) / sizeof(*acts)); j++) {
			const struct act *act = acts + j;

			begin_lock(locks + i);
			long result = done_by_waker(act->op, act->word, act->value, act->count, act->other, act->value3);
			printf("%s %s, ", act->name, error(result));
			end_lock();
		}
	}
}

static const struct wait moved[] = {
	{ "WAIT_REQUEUE_PI", FUTEX_WAIT_REQUEUE_PI, NO_TIME, 0, 0 },
	{ "WAIT_REQUEUE_PI", FUTEX_WAIT_REQUEUE_PI, FAR, 0, 0 },
	{ "WAIT_REQUEUE_PI realtime", FUTEX_WAIT_REQUEUE_PI | FUTEX_CLOCK_REALTIME, FAR_REALTIME, 0, 0 },
};

static void begin_moved(const struct wait *wait)
{
	begin(wait->name);
	waits(wait, wait->time);
	until_waits_for_lock(WORD);
}

/* A waiter that was not moved is given the lock. */
static void end_moved(void)
{
	long result = 0;

	if ((words[OTHER] & FUTEX_TID_MASK) == waker->tid) {
		do_futex(waker, FUTEX_UNLOCK_PI | wait_flag, OTHER, 0, NO_TIME, 0, 0, 0);
		printf("unlocked %s, ", error(finish(waker)));
	}
	if (!waiter->done && !words[OTHER])
		result = futex(WORD, FUTEX_CMP_REQUEUE_PI | wait_flag, 1, (void *)1L, OTHER, words[WORD]);
	printf("then %s, ", error(result));
	end_owned(OTHER);
}

static void moving(void)
{
	static const struct act acts[] = {
		{ "CMP_REQUEUE_PI 1 1", FUTEX_CMP_REQUEUE_PI, WORD, 1, 1, OTHER, 0 },
		{ "CMP_REQUEUE_PI 1 0", FUTEX_CMP_REQUEUE_PI, WORD, 1, 0, OTHER, 0 },
		{ "CMP_REQUEUE_PI 0 1", FUTEX_CMP_REQUEUE_PI, WORD, 0, 1, OTHER, 0 },
		{ "CMP_REQUEUE_PI, changed", FUTEX_CMP_REQUEUE_PI, WORD, 1, 1, OTHER, 1 },
		{ "CMP_REQUEUE_PI to another lock", FUTEX_CMP_REQUEUE_PI, WORD, 1, 1, NOBODY, 0 },
		{ "WAKE", FUTEX_WAKE, WORD, 1, 0, 0, 0 },
		{ "REQUEUE", FUTEX_REQUEUE, WORD, 0, 1, OTHER, 0 },
	};

	for (unsigned int i = 0; i < sizeof(moved) / sizeof(*moved); i++) {
		for (unsigned int j = 0; j < (i ? 2 : sizeof(acts) / sizeof(*acts)); j++) {
			const struct act *act = acts + j;

			begin_moved(moved + i);
			long result = done_by_waker(act->op, act->word, act->value, act->count, act->other, act->value3);
			printf("%s %s, ", act->name, error(result));
			end_moved();
		}
	}
	/* To a lock that the waker has. */
	begin_moved(moved);
	set(waker, OWN, OTHER, 0);
	long result = done_by_waker(FUTEX_CMP_REQUEUE_PI, WORD, 1, 0, OTHER, 0);
	printf("to a lock that is held, CMP_REQUEUE_PI %s, %s, ", error(result), owner(OTHER));
	end_moved();
}

/* By a time that comes soon. */
static void times(void)
{
	static const struct wait soon[] = {
		{ "WAIT", FUTEX_WAIT, SOON_FROM_NOW, 0, 0 },
		{ "WAIT_BITSET", FUTEX_WAIT_BITSET, SOON, 3, 0 },
		{ "WAIT_BITSET realtime", FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, SOON_REALTIME, 3, 0 },
		{ "WAIT_REQUEUE_PI", FUTEX_WAIT_REQUEUE_PI, SOON, 0, 0 },
		{ "WAIT_REQUEUE_PI realtime", FUTEX_WAIT_REQUEUE_PI | FUTEX_CLOCK_REALTIME, SOON_REALTIME, 0, 0 },
		{ "LOCK_PI", FUTEX_LOCK_PI, SOON_REALTIME, 0, 0 },
		{ "LOCK_PI2", FUTEX_LOCK_PI2, SOON, 0, 0 },
		{ "LOCK_PI2 realtime", FUTEX_LOCK_PI2 | FUTEX_CLOCK_REALTIME, SOON_REALTIME, 0, 0 },
		{ "LOCK_PI realtime", FUTEX_LOCK_PI | FUTEX_CLOCK_REALTIME, SOON_REALTIME, 0, 0 },
	};

	for (unsigned int i = 0; i < sizeof(soon) / sizeof(*soon); i++) {
		begin(soon[i].name);
		if (soon[i].op == FUTEX_LOCK_PI || (soon[i].op & ~FUTEX_CLOCK_REALTIME) == FUTEX_LOCK_PI2)
			set(waker, OWN, WORD, 0);
		waits(soon + i, soon[i].time);
		long result = finish(waiter);
		printf("%s, %s\n", error(result), owner(WORD));
	}
	/* One that was moved to a lock. */
	begin("moved");
	set(waker, OWN, OTHER, 0);
	struct wait wait = moved[0];
	waits(&wait, SOON);
	long result = 0;
	while (!result && !waiter->done)
		result = futex(WORD, FUTEX_CMP_REQUEUE_PI | wait_flag, 1, NULL, OTHER, 0);
	result = finish(waiter);
	printf("%s, %s\n", error(result), (words[OTHER] & FUTEX_TID_MASK) == waker->tid ? "waker" : "another");
}

static void told(const char *what, long result)
{
	printf("%s %s, ", what, error(result));
}

static void errors(void)
{
	begin("errors");
	set(waker, OWN, WORD, 0);
	told("deadlock", done_by_waker(FUTEX_LOCK_PI, WORD, 0, 0, 0, 0));
	told("", done_by_waker(FUTEX_TRYLOCK_PI, WORD, 0, 0, 0, 0));
	do_futex(waiter, FUTEX_UNLOCK_PI | wait_flag, WORD, 0, NO_TIME, 0, 0, 0);
	told("unlock", finish(waiter));
	words[WORD] = 0;
	told("unlock nobody's", done_by_waker(FUTEX_UNLOCK_PI, WORD, 0, 0, 0, 0));
	words[WORD] = 0x3ffffff0; /* more than a thread id can be */
	told("no thread's", done_by_waker(FUTEX_LOCK_PI, WORD, 0, 0, 0, 0));
	told("", done_by_waker(FUTEX_TRYLOCK_PI, WORD, 0, 0, 0, 0));
	printf("%#x, ", words[WORD]);
	words[WORD] = FUTEX_OWNER_DIED;
	told("a dead one's", done_by_waker(FUTEX_TRYLOCK_PI, WORD, 0, 0, 0, 0));
	printf("%s\n", owner(WORD));
	if (waiter == &common->child || waker == &common->child)
		return;

	/* Each has what the other one wants. */
	begin("circle");
	set(waker, OWN, WORD, 0);
	set(waiter, OWN, OTHER, 0);
	waits(locks, NO_TIME);
	until_waits_for_lock(WORD);
	do_futex(waker, FUTEX_LOCK_PI | wait_flag, OTHER, 0, NO_TIME, 0, 0, 0);
	printf("%s, ", error(finish(waker)));
	end_lock();
}

/* The owner ends. */
static void dying(void)
{
	begin("its owner ends");
	waker->word = WORD;
	waker->op = wait_flag;
	post(waker, LOCK_AND_END);
	finish(waker);
	waits(locks, NO_TIME);
	end_owned(WORD);
}

static void with(struct actor *one, struct actor *other, int flags)
{
	waiter = one;
	waker = other;
	for (int i = 0; i < flags * flags; i++) {
		wait_flag = i & 2 ? FUTEX_PRIVATE_FLAG : 0;
		wake_flag = i & 1 ? FUTEX_PRIVATE_FLAG : 0;
		plain();
		locking();
		moving();
		if (wait_flag == wake_flag) {
			times();
			errors();
			if (waker != &common->outside)
				dying();
		}
	}
}

/*
 * One word in memory of the process' own, the other in shared memory: where a waiter is moved to is
 * not said.
 */
static void mixed(int is_first_own)
{
	int *both = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mmap(is_first_own ? both + SECOND_PAGE : both, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	words = both;
	memory = is_first_own ? "own-and-shared" : "shared-and-own";
	waiter = &common->threads[0];
	waker = &common->threads[1];
	wait_flag = wake_flag = 0;
	static const struct act acts[] = {
		{ "WAKE_OP, first", FUTEX_WAKE_OP, WORD, 1, 1, SECOND_PAGE, SET_ONE },
		{ "WAKE_OP, second", FUTEX_WAKE_OP, SECOND_PAGE, 1, 1, WORD, ADD_NOTHING },
		{ "REQUEUE", FUTEX_REQUEUE, WORD, 0, 1, SECOND_PAGE, 0 },
		{ "CMP_REQUEUE", FUTEX_CMP_REQUEUE, WORD, 0, 1, SECOND_PAGE, 0 },
		{ "CMP_REQUEUE, changed", FUTEX_CMP_REQUEUE, WORD, 0, 1, SECOND_PAGE, 1 },
	};

	for (unsigned int j = 0; j < sizeof(acts) / sizeof(*acts); j++) {
		const struct act *act = acts + j;

		both[SECOND_PAGE] = 0;
		begin_plain(plain_waits);
		long result = done_by_waker(act->op, act->word, act->value, act->count, act->other, act->value3);
		futex(WORD, FUTEX_WAKE, 9, NULL, 0, 0);
		futex(SECOND_PAGE, FUTEX_WAKE, 9, NULL, 0, 0);
		long end = finish(waiter);
		printf("%s %s, waiter %s, second %d\n", act->name, error(result), error(end), both[SECOND_PAGE]);
	}
	begin(moved[0].name);
	both[SECOND_PAGE] = 0;
	do_futex(waiter, FUTEX_WAIT_REQUEUE_PI, WORD, 0, FAR, 0, SECOND_PAGE, 0);
	long result = 0;
	while (!result) {
		usleep(1000);
		result = done_by_waker(FUTEX_CMP_REQUEUE_PI, WORD, 1, 1, SECOND_PAGE, 0);
	}
	long end = finish(waiter);
	printf("CMP_REQUEUE_PI %s, waiter %s, tid %d\n", error(result), error(end),
	       (both[SECOND_PAGE] & FUTEX_TID_MASK) == waiter->tid);
	munmap(both, 2 * PAGE);
}

static pthread_t threads[2];

static void start(void)
{
	for (int i = 0; i < 2; i++) {
		common->threads[i].done = 0;
		pthread_create(&threads[i], NULL, serves, &common->threads[i]);
		finish(&common->threads[i]);
	}
}

static void in_memory(const char *what, int *at, int is_shared)
{
	struct actor *one = &common->threads[0], *other = &common->threads[1];
	pid_t pid;
	int status;

	memory = what;
	words = at;
	with(one, other, 2);
	if (!is_shared)
		return;
	common->child = (struct actor){};
	pid = fork();
	if (!pid) {
		serves(&common->child);
		_exit(0);
	}
	finish(&common->child);
	with(one, &common->child, 1);
	with(&common->child, one, 1);
	post(&common->child, END);
	waitpid(pid, &status, 0);
	printf("%s child %#x\n", memory, status);
}

int main(int argc, char **argv)
{
	int prot = PROT_READ | PROT_WRITE, fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0666) : memfd_create("table", 0);

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc <= 2 && ftruncate(fd, 8 * PAGE))
		return 1;
	for (struct stat file; fstat(fd, &file) || file.st_size < 8 * PAGE;)
		usleep(1000);
	common = mmap(NULL, 8 * PAGE, prot, MAP_SHARED, fd, 0);
	if (argc > 2) {
		serves(&common->outside);
		return 0;
	}
	start();
	if (argc > 1) {
		finish(&common->outside);
		for (int i = 0; i < 2; i++) {
			common->has_segment = i;
			if (i)
				common->segment = shmget(IPC_PRIVATE, 2 * PAGE, 0600);
			post(&common->outside, ATTACH);
			finish(&common->outside);
			words = i ? shmat(common->segment, NULL, 0) : (int *)((char *)common + 4 * PAGE);
			memory = i ? "sysv" : "file";
			with(&common->threads[0], &common->outside, 1);
			with(&common->outside, &common->threads[0], 1);
			if (i)
				shmctl(common->segment, IPC_RMID, NULL);
		}
		post(&common->outside, END);
	} else {
		in_memory("private", mmap(NULL, PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0);
		in_memory("shared", mmap(NULL, PAGE, prot, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1);
		if (by_tier(0, 1)) { /* which are also in what runs beside Linux */
			int segment = shmget(IPC_PRIVATE, PAGE, 0600);

			in_memory("file", (int *)((char *)common + 4 * PAGE), 1);
			in_memory("sysv", shmat(segment, NULL, 0), 1);
			shmctl(segment, IPC_RMID, NULL);
		}
		mixed(1);
		mixed(0);
	}
	for (int i = 0; i < 2; i++) {
		post(&common->threads[i], END);
		pthread_join(threads[i], NULL);
	}
	return 0;
}
