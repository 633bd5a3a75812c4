/*
 * A program whose GS base is an address of the kernel enters the kernel by system calls and page
 * faults all the time. It prints a line a second; tests/vm/entry.py stops it at each instruction of
 * the entry code.
 */
#include "guest.h"

#define BASE 0xffff888000001000

static void set_gs(unsigned long base)
{
	__asm__ volatile("wrgsbase %0" :: "r"(base));
}

static unsigned long gs(void)
{
	unsigned long base;

	__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

int main(void)
{
	unsigned long wrong = 0;
	time_t last = 0;

	setbuf(stdout, NULL);
	set_gs(BASE);
	for (;;) {
		volatile char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		time_t now = time(NULL);

		wrong += *page != 0;
		*page = 1;
		wrong += syscall(SYS_getpid) <= 0;
		munmap((void *)page, PAGE);
		wrong += gs() != BASE;
		if (now != last)
			printf("there, wrong %lu\n", wrong);
		last = now;
	}
}
