/* Ways to end, for the status that the parent sees. */
#include "guest.h"

static int overflow(volatile char *p)
{
	volatile char frame[4096];

	frame[0] = *p;
	return overflow(frame) + frame[100];
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	volatile int zero = 0;

	printf("%s: ", how);
	fflush(stdout);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "null"))
		*(volatile int *)NULL = 1;
	if (!strcmp(how, "null-call"))
		((void (*)(void))(uintptr_t)zero)();
	if (!strcmp(how, "illegal"))
		asm volatile("ud2");
	if (!strcmp(how, "privileged"))
		asm volatile("hlt");
	if (!strcmp(how, "breakpoint"))
		asm volatile("int3");
	if (!strcmp(how, "division"))
		asm volatile("xor %%edx, %%edx; mov $1, %%eax; divl %0" : : "m"(zero) : "eax", "edx");
	if (!strcmp(how, "overflow"))
		return overflow((volatile char *)&zero);
	if (!strcmp(how, "text"))
		*(volatile char *)main = 1;
	if (!strcmp(how, "exit"))
		exit(atoi(argv[2]));
	if (!strcmp(how, "_exit"))
		_exit(atoi(argv[2]));
	if (!strcmp(how, "raise"))
		raise(atoi(argv[2]));
	if (!strcmp(how, "blocked-segv")) {
		sigset_t all;

		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		*(volatile int *)NULL = 1;
	}
	if (!strcmp(how, "ignored-segv")) {
		signal(SIGSEGV, SIG_IGN);
		*(volatile int *)NULL = 1;
	}
	if (!strcmp(how, "spin")) {
		printf("ready\n");
		fflush(stdout);
		for (;;)
			zero = 0;
	}
	if (!strcmp(how, "atexit"))
		atexit((void (*)(void))abort);
	if (!strcmp(how, "memory")) {
		/* Until there is no more. Linux' answer depends on the machine. */
		for (long i = 0;; i++) {
			char *p = malloc(1 << 20);

			if (!p) {
				puts("no memory left: ENOMEM");
				return 9;
			}
			memset(p, 1, 1 << 20);
		}
	}
	if (!strcmp(how, "pause")) {
		puts("ready");
		fflush(stdout);
		for (;;)
			pause();
	}
	if (!strcmp(how, "spin")) {
		puts("ready");
		fflush(stdout);
		for (;;)
			;
	}
	if (!strcmp(how, "write")) {
		/* One huge write to standard output. */
		char *p = mmap(NULL, 1L << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		fprintf(stderr, "ready\n");
		return write(1, p, 1L << 30) == 1L << 30 ? 0 : 1;
	}
	puts("end");
	return 0;
}
