/*
 * Memory that a call of Linux' is the first to touch: fresh, after a fork, with other rights,
 * elsewhere, and taken away beside.
 */
#include "guest.h"

#include <pthread.h>
#include <stdatomic.h>

static int file;

static unsigned char *page_at(void *where)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0);

	return mmap(where, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
}

/* Bytes of the page that are not this. */
static unsigned others(const unsigned char *at, unsigned char byte)
{
	unsigned count = 0;

	for (long i = 0; i < PAGE; i++)
		count += at[i] != byte;
	return count;
}

/* The file's pages hold 1, 2, 3... */
static long load(void *to, int number)
{
	return pread(file, to, PAGE, (number - 1) * PAGE);
}

static void fresh_again_and_again(void)
{
	unsigned char *at = page_at(0);
	unsigned wrong = 0;

	for (int i = 0; i < by_tier(70, 200); i++) {
		int number = 1 + i % 7;

		wrong += load(at, number) != PAGE || others(at, number);
		munmap(at, PAGE);
		at = page_at(at);
		wrong += i % 3 == 0 && others(at, 0);
	}
	munmap(at, PAGE);
	TELL(wrong);
}

static void after_a_fork(void)
{
	unsigned char *at = page_at(0);
	int status;

	for (int i = 0; i < by_tier(8, 20); i++) {
		load(at, 1);
		if (!fork()) {
			long loaded = load(at, 2);

			_exit(loaded == PAGE && !others(at, 2) ? 0 : 1);
		}
		if (i % 2)
			load(at, 3);
		wait(&status);
		if (status || others(at, i % 2 ? 3 : 1))
			break;
		at[0] = 9;
	}
	TELL(status);
	TELL(at[PAGE - 1]);
	munmap(at, PAGE);
}

static void with_other_rights(void)
{
	unsigned char *at = page_at(0), *to = page_at(0);

	TELL(load(at, 1));
	mprotect(at, PAGE, PROT_READ);
	TELL(load(at, 2));
	TELL(others(at, 1));
	mprotect(at, PAGE, PROT_NONE);
	TELL(write(STDERR_FILENO, at, 1));
	mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	TELL(load(at, 3));
	TELL(others(at, 3));
	madvise(at, PAGE, MADV_DONTNEED);
	TELL(pwrite(file, at, PAGE, 7 * PAGE));
	TELL(load(at, 8));
	TELL(others(at, 0));
	TELL(load(at, 4));
	TELL(mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	TELL(load(at, 5));
	TELL(others(to, 4));
	TELL(load(to, 6));
	TELL(others(to, 6));
	munmap(to, PAGE);
}

static atomic_int over;
static unsigned char *shared_page;

/* Has Linux write to a page that comes and goes. */
static void *loading(void *unused)
{
	while (!over)
		load(shared_page, 5);
	return unused;
}

/* The next user of the frame of a page that is gone is not written to. */
static void taken_away_beside(void)
{
	pthread_t threads[2];
	unsigned char *own = page_at(0);
	unsigned wrong = 0;

	shared_page = page_at(0);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, loading, 0);
	for (int i = 0; i < by_tier(100, 300); i++) {
		if (i % 4 == 1)
			mprotect(shared_page, PAGE, PROT_READ);
		else if (i % 4 == 2)
			madvise(shared_page, PAGE, MADV_DONTNEED);
		else
			munmap(shared_page, PAGE);
		page_at(own); /* perhaps in the frame that has just become free */
		memset(own, 'c', PAGE);
		sched_yield();
		wrong += others(own, 'c') != 0;
		page_at(shared_page);
	}
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	TELL(wrong);
}

int main(void)
{
	unsigned char page[PAGE];

	file = memfd_create("content", 0);
	for (int number = 1; number <= 7; number++) {
		memset(page, number, PAGE);
		if (write(file, page, PAGE) != PAGE)
			return 1;
	}
	fresh_again_and_again();
	after_a_fork();
	with_other_rights();
	taken_away_beside();
	return 0;
}
