/*
 * A page of memory that the hardware reports bad (a machine check) ends only its user.
 * Usage: poisoned-page handle small|large    catches SIGBUS and tells what is left of the page
 *        poisoned-page end                   does not catch it
 * tests/vm/machinecheck.py injects the machine check.
 */
#include "guest.h"
#include <linux/futex.h>
#include <stdbool.h>

#define LARGE (2L << 20)

static sigjmp_buf back;
static siginfo_t seen;

static void on_bus(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	seen = *info;
	siglongjmp(back, 1);
}

static void wait_for_it(volatile char *page)
{
	struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

	sigaction(SIGBUS, &action, NULL);
	printf("at %p\n", page);
	fflush(stdout);
	if (!sigsetjmp(back, 1))
		for (;;)
			page[8];
	printf("signal %d code %d lsb %d address %s\n", seen.si_signo, seen.si_code, seen.si_addr_lsb,
	       seen.si_addr == page ? "right" : "wrong");
}

/* What happens where it is used again. */
static void again(volatile char *page)
{
	struct iovec here = { (char *)page, 16 };
	int ends[2], status;

	if (!sigsetjmp(back, 1)) {
		page[8];
		printf("again: no signal\n");
	} else {
		printf("again: code %d\n", seen.si_code);
	}
	if (pipe(ends))
		return;
	TELL(write(ends[1], (void *)page, 16));
	TELL(write(ends[1], "0123456789abcdef", 16));
	TELL(readv(ends[0], &here, 1));
	TELL(syscall(SYS_futex, page, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	TELL(syscall(SYS_futex, page, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
	fflush(stdout);
	if (!fork()) {
		signal(SIGBUS, SIG_DFL);
		page[8];
		_exit(0);
	}
	wait(&status);
	printf("child ended by %d\n", WTERMSIG(status));
	TELL(mprotect((void *)page, PAGE, PROT_NONE));
	TELL(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
	if (!sigsetjmp(back, 1)) {
		page[8] = 1;
		printf("after mprotect: no signal\n");
	} else {
		printf("after mprotect: code %d\n", seen.si_code);
	}
}

int main(int argc, char **argv)
{
	char *area = mmap(NULL, 3 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool large = argc > 2 && !strcmp(argv[2], "large");
	char *start = (char *)(((long)area + LARGE - 1) & -LARGE), *page = start + 5 * PAGE;
	int i, wrong = 0;

	if (!large)
		madvise(area, 3 * LARGE, MADV_NOHUGEPAGE);
	for (i = 0; i < 512; i++)
		start[i * PAGE] = i % 100 + 1;
	if (argc > 1 && !strcmp(argv[1], "end")) {
		printf("at %p\n", page);
		fflush(stdout);
		for (;;)
			*(volatile char *)page;
	}
	wait_for_it(page);
	for (i = 0; i < 512; i++)
		wrong += i != 5 && start[i * PAGE] != i % 100 + 1;
	printf("others wrong: %d\n", wrong);
	again(page);
	munmap(page, PAGE);
	page = mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	printf("new page: %d\n", *page);
	return 0;
}
