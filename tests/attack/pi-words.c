/*
 * Kind: an unprivileged or confined program. Locks with priority inheritance whose words other
 * threads change all the time: owners end with them, wait for each other in chains and circles, are
 * moved to words of private memory and of memory that Linux shares with a process of its own; pages
 * of words come, go, and cannot be written to; robust lists name any of them.
 *   pi-words SECONDS SEED [confined]
 */
#include "attack.h"

#define WORDS 24
#define THREADS 10

static unsigned *pages[2]; /* private, and of Linux' own */
static int file;
static volatile int alive, tids[64];

static unsigned *word(void)
{
	return pages[below(4) == 0] + below(WORDS) * (below(8) ? 1 : 40);
}

static unsigned value(void)
{
	unsigned flags = (below(3) ? 0 : FUTEX_WAITERS) | (below(5) ? 0 : FUTEX_OWNER_DIED);

	switch (below(6)) {
	case 0:
		return 0;
	case 1:
		return flags | thread_id();
	case 2:
		return flags | (below(1 << 30) & FUTEX_TID_MASK);
	case 3:
		return flags | getppid();
	default:
		return flags | tids[below(64)];
	}
}

static long futex(unsigned *at, int op, unsigned long number, void *time, unsigned *other, unsigned last)
{
	return tried(syscall(SYS_futex, at, op | (below(3) ? FUTEX_PRIVATE_FLAG : 0), number, time, other, last));
}

/* One operation; true: the thread is to end as it is. */
static int one(void)
{
	unsigned *at = word(), *other = word();
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += below(4000000);
	if (soon.tv_nsec >= 1000000000) {
		soon.tv_sec++;
		soon.tv_nsec -= 1000000000;
	}
	switch (below(20)) {
	case 0 ... 4:
		if (futex(at, FUTEX_LOCK_PI, 0, below(30) ? &soon : NULL, NULL, 0))
			return 0;
		if (!below(4))
			rest_us(below(500));
		if (!below(3))
			return 1; /* the owner ends */
		futex(at, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
		return 0;
	case 5:
		return !futex(at, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0) && !below(4);
	case 6:
		futex(at, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
		return 0;
	case 7 ... 8:
		return !futex(at, FUTEX_WAIT_REQUEUE_PI, *at, &soon, other, 0) && !below(3);
	case 9 ... 10:
		futex(at, FUTEX_CMP_REQUEUE_PI, 1, (void *)below(6), other, below(4) ? *at : value());
		return 0;
	case 11:
		futex(at, below(2) ? FUTEX_REQUEUE : FUTEX_CMP_REQUEUE, below(3), (void *)below(6), other, *at);
		return 0;
	case 12:
		futex(at, FUTEX_WAKE_OP, below(3), (void *)below(3), other, any());
		return 0;
	case 13:
		futex(at, below(2) ? FUTEX_WAIT : FUTEX_WAKE, *at, &(struct timespec){ 0, below(1000000) }, NULL, 0);
		return 0;
	case 14 ... 17:
		for (int i = below(200); i >= 0; i--)
			__atomic_store_n(word(), value(), __ATOMIC_RELAXED);
		return 0;
	case 18:
		switch (below(4)) {
		case 0:
			tried(madvise(pages[0], PAGE, MADV_DONTNEED));
			break;
		case 1:
			tried(mprotect(pages[0], PAGE, PROT_READ));
			tried(mprotect(pages[0], PAGE, RW));
			break;
		case 2:
			mmap(pages[0], PAGE, RW, ANON | MAP_FIXED, -1, 0);
			break;
		default:
			mmap(pages[1], PAGE, RW, MAP_SHARED | MAP_FIXED, file, 0);
		}
		return 0;
	default: {
		static unsigned long lists[16][8];
		unsigned long *list = lists[below(16)];

		list[0] = (unsigned long)(below(3) ? &list[4] : list) | below(2);
		list[1] = (long)((char *)at - (char *)&list[4]) + (below(6) ? 0 : below(64));
		list[2] = below(2) ? 0 : (unsigned long)&list[4] | below(2);
		list[4] = (unsigned long)(below(2) ? list : &list[4]);
		tried(syscall(SYS_set_robust_list, list, 24L));
		return !below(3);
	}
	}
}

static void on_fault(int number)
{
	syscall(SYS_exit, number); /* this thread only */
}

static void *actor(void *unused)
{
	tids[below(64)] = thread_id();
	for (int i = 40 + below(4000); i && !one(); i--)
		;
	__atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
	return unused;
}

static int sharer(void *unused)
{
	(void)unused;
	for (;;)
		__atomic_store_n(word(), value(), __ATOMIC_RELAXED);
	return 0;
}

static void body(void)
{
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	pages[0] = mmap(NULL, PAGE, RW, ANON, -1, 0);
	file = memfd_create("words", 0);
	ftruncate(file, PAGE);
	pages[1] = mmap(NULL, PAGE, RW, MAP_SHARED, file, 0);
	if (below(2))
		start_process(sharer, NULL);
	if (below(2) && !fork())
		actor(NULL), _exit(0);
	for (;;) {
		while (__atomic_load_n(&alive, __ATOMIC_RELAXED) < THREADS) {
			__atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
			start(actor, NULL);
		}
		/* Those that ended by a fault have not said so. */
		if (!below(50))
			alive = 0;
		if (!below(100))
			return;
		rest_us(2000 + below(5000));
	}
}

int main(int argc, char **argv)
{
	return attack(argc, argv, body, 3000);
}
