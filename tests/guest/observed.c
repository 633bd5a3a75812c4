/*
 * Says its process id and where a page of its own lies, which an observer may write to; then waits
 * to be killed.
 */
#include "guest.h"

static char page[4096] __attribute__((aligned(4096)));

int main(void)
{
	memset(page, 0x90, sizeof(page));
	printf("%d %p\n", getpid(), page);
	fflush(stdout);
	pause();
	return 0;
}
