/*
 * Uses up memory.
 * Usage: eat-memory [read] MIB [hold]    touches MIB (or has read(2) fill it), then ends or waits
 *                                        to be killed
 *        eat-memory small LARGE MIB      a child holds LARGE MiB; this process asks for MIB more
 *        eat-memory forget               has its own program's code read anew, then waits to be
 *                                        killed
 *        eat-memory mappings             as many processes as possible make as many mappings as
 *                                        possible
 */
#include "guest.h"

static void eat(long mib)
{
	for (long i = 0; i < mib; i++) {
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return;
		for (long at = 0; at < 1 << 20; at += PAGE)
			p[at] = 1;
	}
}

/* Cuts a mapping in more and more pieces; how many there are. */
static long cut(char *p, long from, long to)
{
	while (from < to && !munmap(p + (2 * from + 1) * PAGE, PAGE))
		from++;
	return from;
}

static void mappings(void)
{
	char *p = mmap(NULL, 131072L * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), byte;
	int start[2], children = 0;
	long had = cut(p, 0, 40000);

	pipe(start);
	eat(380); /* which all of them have in common: so the end comes soon */
	for (int pid; (pid = fork()) >= 0; children++) {
		if (pid == 0) {
			close(start[1]);
			read(start[0], &byte, 1);
			cut(p, had, 65000);
			sleep(1); /* the others want more at the same time */
			_exit(0);
		}
	}
	printf("%d children with %ld mappings: %s\n", children, had, strerrorname_np(errno));
	close(start[1]);
	while (wait(NULL) > 0)
		;
	munmap(p, 131072L * PAGE);
	puts("all ended");
}

int main(int argc, char **argv)
{
	int status, talk[2];
	char byte;

	if (argc > 1 && !strcmp(argv[1], "mappings")) {
		mappings();
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "forget")) {
		unsigned long code = (unsigned long)main & -PAGE;

		if (madvise((void *)code, PAGE, MADV_DONTNEED))
			return 1;
		puts("forgotten");
		fflush(stdout);
		pause();
	}
	if (argc > 1 && !strcmp(argv[1], "small")) {
		/* The large one stands still; the small one asks for the last page. */
		pipe(talk);
		int large = fork();

		if (!large) {
			eat(atoi(argv[2]));
			write(talk[1], "x", 1);
			pause();
		}
		read(talk[0], &byte, 1);
		puts("the other one has its memory");
		fflush(stdout);
		eat(atoi(argv[3]));
		puts("and so have we");
		kill(large, SIGKILL);
		waitpid(large, &status, 0);
		printf("large one: %s\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? "killed" : "not");
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "read")) {
		/* Linux fills untouched memory in a system call. */
		int zero = open("/dev/zero", O_RDONLY);
		long size = atol(argv[2]) << 20;
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		for (long at = 0; at < size; at += 1 << 20)
			if (read(zero, p + at, 1 << 20) < 0)
				return printf("read: %s\n", strerrorname_np(errno));
		return puts("read all");
	}
	eat(argc > 1 ? atoi(argv[1]) : 100);
	puts("eaten");
	fflush(stdout);
	if (argc > 2)
		pause();
	return 0;
}
