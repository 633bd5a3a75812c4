/*
 * Kind: an unprivileged program. Processes and threads without end, with memory: some share it,
 * some are vforked and execute. Killed at once, all of them have to be gone from the LWK, and their
 * memory.
 *   bombs SECONDS SEED [confined]
 */
#include "attack.h"

enum { PROCESSES = 3000, SMALL = 64, LARGE = 256 };

static void fill(int pages)
{
	char *at = mmap(NULL, pages * PAGE, RW, ANON, -1, 0);

	for (int i = 0; at != MAP_FAILED && i < pages; i++)
		at[i * PAGE] = 1;
}

static void *idle(void *unused)
{
	fill(SMALL);
	for (;;)
		pause();
	return unused;
}

static int idle_process(void *unused)
{
	for (;;)
		pause();
	return unused != NULL;
}

static void bomb(void)
{
	for (;;) {
		switch (below(8)) {
		case 0:
			start(idle, NULL);
			break;
		case 1:
			start_process(idle_process, NULL);
			break;
		case 2:
			if (!vfork()) {
				execl(program, program, "again", NULL);
				_exit(0);
			}
			break;
		case 3:
			fill(LARGE);
			break;
		default:
			tried(fork());
			state = 0;
		}
	}
}

int main(int argc, char **argv)
{
	program = argv[0];
	if (argc > 1 && !strcmp(argv[1], "again")) {
		common = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		seed = getpid();
		bomb();
	}
	setrlimit(RLIMIT_NPROC, &(struct rlimit){ PROCESSES, PROCESSES });
	return attack(argc, argv, bomb, 8000);
}
