/*
 * Kind: an unprivileged program. It writes to words of its own by process_vm_writev(2), which has
 * Linux pin their pages, while a thread forks and another one writes to the words beside them: each
 * write that was reported as done has to be there, and no child may see one that comes after its
 * fork.
 *   pinned-writes SECONDS SEED [confined]
 */
#include "attack.h"
#include <sys/uio.h>

enum { PAGES = 64 };

static char *area;

static volatile uint64_t *word(int page, int number)
{
	return (uint64_t *)(area + page * PAGE) + number;
}

static void *neighbour(void *unused)
{
	for (uint64_t n = 0;; n++)
		for (int i = 0; i < PAGES; i++)
			*word(i, 1) = n;
	return unused;
}

/* No thread writes to the memory of a child. */
static void look(void)
{
	uint64_t seen[PAGES];

	for (int i = 0; i < PAGES; i++)
		seen[i] = *word(i, 128);
	rest_us(200);
	for (int i = 0; i < PAGES; i++)
		if (*word(i, 128) != seen[i])
			wrong("a child sees a write from after its fork", *word(i, 128));
	_exit(0);
}

static void *forker(void *unused)
{
	for (;;) {
		pid_t pid = fork();

		if (!pid)
			look();
		tried(pid);
		while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		rest_us(below(300));
	}
	return unused;
}

static void body(void)
{
	static uint64_t next[PAGES];
	struct iovec from[PAGES], to[PAGES];

	area = mmap(NULL, PAGES * PAGE, RW, ANON, -1, 0);
	for (int i = 0; i < PAGES; i++) {
		from[i] = (struct iovec){ &next[i], sizeof(next[i]) };
		to[i] = (struct iovec){ (void *)word(i, 128), sizeof(next[i]) };
	}
	start(neighbour, NULL);
	start(forker, NULL);
	for (uint64_t n = 1;; n++) {
		for (int i = 0; i < PAGES; i++)
			next[i] = n;
		if (process_vm_writev(getpid(), from, PAGES, to, PAGES, 0) != sizeof(next))
			continue;
		for (int i = 0; i < PAGES; i++)
			if (*word(i, 128) != n)
				wrong("a write that was done is lost, there is", *word(i, 128));
		tried(0);
	}
}

int main(int argc, char **argv)
{
	return attack(argc, argv, body, 3000);
}
