/*
 * Kind: an unprivileged program, container root (`unshare -Ur`), or, as `look PID`, a process of
 * Linux'. Files of /proc about a process that maps, unmaps, forks and executes all the while:
 * pagemap, PAGEMAP_SCAN, smaps, clear_refs. No frame's number is shown.
 *   onlookers SECONDS SEED [confined|look PID]
 */
#include "victim.h"
#include <sys/ioctl.h>

#define PRESENT (1UL << 63)
#define FRAME ((1UL << 55) - 1)

/* struct pm_scan_arg, and its number. */
struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN _IOWR('f', 16, struct scan)

/* Where the onlookers know that it changes, whatever the victim has executed. */
static char *const arena = (char *)0x200000000000;
#define ARENA (64 * PAGE)

static void change(void)
{
	char *at = arena + below(64) * PAGE;
	unsigned long bytes = (1 + below(8)) * PAGE;

	if (at + bytes > arena + ARENA)
		return;
	switch (below(10)) {
	case 0:
		munmap(at, bytes);
		break;
	case 1 ... 3:
		if (mmap(at, bytes, RW, ANON | MAP_FIXED, -1, 0) != MAP_FAILED)
			memset(at, 1, below(bytes));
		break;
	case 4:
		mmap(at, bytes, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 5:
		mprotect(at, bytes, below(2) ? PROT_READ : PROT_NONE);
		break;
	case 6:
		madvise(at, bytes, MADV_DONTNEED);
		break;
	case 7:
		mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, arena + below(64) * PAGE);
		break;
	case 8:
		if (!fork()) {
			memset(mmap(NULL, 4 * PAGE, RW, ANON, -1, 0), 1, 4 * PAGE);
			_exit(0);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		break;
	default:
		if (!below(40))
			execute_victim();
	}
}

static void be_victim(void)
{
	mmap(arena, ARENA, RW, ANON | MAP_FIXED, -1, 0);
	signal(SIGSEGV, SIG_DFL);
	for (;;)
		change();
}

static int open_of(const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", victim, name);
	return open(path, flags | O_CLOEXEC);
}

static void look_at_pages(int file)
{
	uint64_t entries[512];
	long got = tried(pread(file, entries, 8 * (1 + below(512)), below(3) ? ((unsigned long)arena / PAGE + below(80)) * 8 : below(1UL << 40) * 8));

	for (long i = 0; i < got / 8; i++)
		if (entries[i] & PRESENT && entries[i] & FRAME)
			wrong("a frame is shown", entries[i]);
}

static void scan(int file)
{
	uint64_t regions[300];
	struct scan scan = {
		.size = below(9) ? sizeof(scan) : below(200), .flags = below(4), .start = (unsigned long)arena & (below(9) ? -PAGE : -1),
		.end = (unsigned long)arena + below(200) * PAGE, .vec = (unsigned long)regions, .vec_len = below(100),
		.max_pages = below(50), .category_inverted = below(256), .category_mask = below(256),
		.category_anyof_mask = below(256), .return_mask = below(256),
	};

	tried(ioctl(file, SCAN, &scan));
}

static void look(void)
{
	static const char *const files[] = { "smaps", "maps", "numa_maps", "smaps_rollup", "status", "stat", "syscall" };
	char text[8192];
	int file;

	switch (below(6)) {
	case 0 ... 2:
		file = open_of("pagemap", O_RDONLY);
		for (int i = below(20); file >= 0 && i >= 0; i--)
			if (below(4))
				look_at_pages(file);
			else
				scan(file);
		break;
	case 3:
		file = open_of("clear_refs", O_WRONLY);
		for (int i = below(5); file >= 0 && i >= 0; i--)
			tried(write(file, &"012345678"[below(9)], 1));
		break;
	default:
		file = open_of(files[below(sizeof(files) / sizeof(*files))], O_RDONLY);
		while (file >= 0 && tried(read(file, text, sizeof(text))) > 0 && below(20))
			;
	}
	if (file >= 0)
		close(file);
}

static void *looker(void *unused)
{
	for (;;)
		look();
	return unused;
}

static void body(void)
{
	hunt(looker, 500, 1);
}

static int only_look(unsigned long seconds)
{
	uint64_t end = now_ms() + seconds * 1000;

	while (now_ms() < end && !kill(victim, 0) && !common->wrong)
		look();
	printf("%llu tried, %llu done, %llu wrong\n", (unsigned long long)common->tried, (unsigned long long)common->done,
	       (unsigned long long)common->wrong);
	return common->wrong ? 4 : 0;
}

int main(int argc, char **argv)
{
	continue_victim(argc, argv);
	if (argc > 4 && !strcmp(argv[3], "look")) {
		common = mmap(NULL, PAGE, RW, ANON, -1, 0);
		seed = atol(argv[2]);
		victim = atoi(argv[4]);
		return only_look(atol(argv[1]));
	}
	return attack(argc, argv, body, 4000);
}
