/*
 * Small and large pages with PROT_NONE, in a program that otherwise only counts. tests/vm/tables.py
 * stops it in count() and reads its page table.
 */
#include "guest.h"

#define HUGE (2ul << 20)
#define SMALL_PAGES 16

__attribute__((noinline)) void count(volatile unsigned long *rounds)
{
	++*rounds;
}

int main(void)
{
	volatile unsigned long rounds = 0;
	char *small = mmap(NULL, SMALL_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *large = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	time_t last = 0;

	setbuf(stdout, NULL);
	large += -(unsigned long)large % HUGE;
	madvise(large, HUGE, MADV_HUGEPAGE);
	memset(small, 's', SMALL_PAGES * PAGE);
	memset(large, 'l', HUGE);
	mprotect(small, SMALL_PAGES * PAGE, PROT_NONE);
	mprotect(large, HUGE, PROT_NONE);
	for (;;) {
		time_t now = time(NULL);

		count(&rounds);
		syscall(SYS_getpid);
		if (now != last) {
			/* What was there is there again, however the entries were kept. */
			mprotect(small, SMALL_PAGES * PAGE, PROT_READ);
			mprotect(large, HUGE, PROT_READ);
			printf("there %lx %lx %c%c\n", (unsigned long)small, (unsigned long)large,
			       small[SMALL_PAGES * PAGE - 1], large[HUGE - 1]);
			mprotect(small, SMALL_PAGES * PAGE, PROT_NONE);
			mprotect(large, HUGE, PROT_NONE);
		}
		last = now;
	}
}
