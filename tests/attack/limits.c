/*
 * Kind: an unprivileged or confined program. Limits of a process are set by others all the time,
 * beside its calls that they limit: mmap, brk, a stack that grows, threads, children, programs.
 *   limits SECONDS SEED [confined]
 */
#include "victim.h"

static volatile char sink;

static void grow_stack(unsigned depth)
{
	volatile char page[PAGE];

	page[0] = page[PAGE - 1] = depth;
	if (depth)
		grow_stack(depth - 1);
	sink = page[0];
}

static void *nothing(void *unused)
{
	return unused;
}

static void be_victim(void)
{
	for (;;) {
		char *at, *end;

		switch (below(8)) {
		case 0 ... 2: {
			unsigned long bytes = (1 + below(300)) * PAGE;

			at = mmap(NULL, bytes, RW, ANON | (below(4) ? 0 : MAP_LOCKED), -1, 0);
			if (tried(at == MAP_FAILED ? -1 : 0) == 0) {
				*at = 1;
				munmap(at, bytes);
			}
			break;
		}
		case 3:
			end = sbrk(0);
			tried(brk(end + below(64) * PAGE));
			tried(brk(end));
			break;
		case 4:
			grow_stack(below(600));
			break;
		case 5:
			start(nothing, NULL);
			break;
		case 6: {
			pid_t pid = fork();

			if (!pid)
				_exit(0);
			tried(pid);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			break;
		}
		default:
			if (!below(30))
				execute_victim();
		}
	}
}

static void *setter(void *unused)
{
	static const int kinds[] = { RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CPU, RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_NOFILE };
	static const rlim_t values[] = { 0, 1, PAGE, 1 << 20, 8 << 20, 64 << 20, 1UL << 40, 1UL << 63, -2UL, RLIM_INFINITY,
					 18446744073535926272UL, (64 << 20) - PAGE };

	for (;;) {
		int kind = kinds[below(sizeof(kinds) / sizeof(*kinds))];
		struct rlimit now, new;
		pid_t pid = victim;

		if (!pid || prlimit(pid, kind, NULL, &now)) {
			rest_us(500);
			continue;
		}
		new = now;
		new.rlim_cur = values[below(sizeof(values) / sizeof(*values))] + below(3);
		if (!below(40))
			new.rlim_max = new.rlim_cur;
		if (kind == RLIMIT_CPU && new.rlim_cur < 2)
			new.rlim_cur = 2;
		tried(prlimit(pid, kind, &new, below(2) ? &now : NULL));
	}
	return unused;
}

static void body(void)
{
	hunt(setter, 700, 0);
}

int main(int argc, char **argv)
{
	continue_victim(argc, argv);
	return attack(argc, argv, body, 4000);
}
