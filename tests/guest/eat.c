/* Eats memory: "eat MIB [hold]" touches so much, says so and ends, or waits to be killed. "small"
   starts another program that eats all there is and goes on itself. */
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

int main(int argc, char **argv)
{
	int status, talk[2];
	char byte;

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
