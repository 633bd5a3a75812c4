/*
 * Arguments whose sums do not fit into 64 bits: ends of moved mappings, structures behind the last
 * address, offsets of pages of files, touches of the last page that there is, a tracer's, bases of
 * segments, and sizes of masks.
 */
#include "guest.h"
#include <sys/ptrace.h>

#define RW (PROT_READ | PROT_WRITE)

static void result(const char *what, long value)
{
	printf("%s: %s\n", what, value == -1 ? strerrorname_np(errno) : value ? "somewhere" : "0");
}

static long move(void *from, unsigned long old, unsigned long new, int flags, void *to)
{
	return syscall(SYS_mremap, from, old, new, flags, to);
}

/* Sizes as large as there are. The mapping stays. */
static void moves(void)
{
	static const unsigned long sizes[][2] = {
		{ -PAGE, -2 * PAGE }, { -PAGE, PAGE }, { -2 * PAGE, -PAGE }, { PAGE, -PAGE }, { 1UL << 63, 1UL << 62 },
		{ 1UL << 60, PAGE }, { 1UL << 47, PAGE }, { -1, -1 }, { PAGE, 1UL << 63 },
	};
	char *arena = mmap(NULL, 128 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *from = arena + 32 * PAGE, *to = arena + 64 * PAGE;
	char what[80];

	munmap(from + 2 * PAGE, 16 * PAGE);

	*from = 1;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int flags = 0; flags < 8; flags++) {
			long moved;

			if (sizes[i][0] == sizes[i][1])
				continue; /* of which Linux 6.1 and later ones do not say the same */
			moved = move(from, sizes[i][0], sizes[i][1], flags, to);
			/* Where the end wraps around, Linux 6.1 unmaps pages of the arena. */
			if ((unsigned long)from + sizes[i][0] < sizes[i][0] && sizes[i][0] > sizes[i][1] && !(flags & ~MREMAP_MAYMOVE))
				continue;
			snprintf(what, sizeof(what), "mremap %#lx to %#lx flags %d", sizes[i][0], sizes[i][1], flags);
			result(what, moved);
		}
	result("there is", mprotect(from, PAGE, RW));
	munmap(arena, 128 * PAGE);
}

static void timers(void)
{
	static const long places[] = { -8, -16, -24, -32, -1, 1L << 62 };
	char what[80];

	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++)
		for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
			snprintf(what, sizeof(what), "timer %d at %ld", which, places[i]);
			result(what, syscall(SYS_setitimer, which, places[i], 0L));
			result(what, syscall(SYS_getitimer, which, places[i]));
		}
}

static void file_pages(void)
{
	static const unsigned long pages[] = { 1UL << 51, (1UL << 51) - 1, (1UL << 52) - 1, 1UL << 52, 1UL << 63, -1 };
	int fd = memfd_create("pages", 0);
	char what[80], *at;

	ftruncate(fd, 2 * PAGE);
	at = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	for (unsigned i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
		snprintf(what, sizeof(what), "page %#lx of a file", pages[i]);
		result(what, syscall(SYS_remap_file_pages, at, 2 * PAGE, 0L, pages[i], 0L));
	}
	munmap(at, 2 * PAGE);
	close(fd);
}

static void touches(void)
{
	static const long places[] = { -1, -8, -PAGE, -PAGE - 8 };

	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++)
		for (int how = 0; how < 3; how++) {
			int status;
			pid_t pid = fork();

			if (!pid) {
				struct rlimit none = { 0, 0 };

				setrlimit(RLIMIT_CORE, &none);
				if (how == 0)
					(void)*(volatile char *)places[i];
				else if (how == 1)
					*(volatile char *)places[i] = 1;
				else
					((void (*)(void))places[i])();
				_exit(0);
			}
			waitpid(pid, &status, 0);
			printf("touch %d of %ld: signal %d\n", how, places[i], WTERMSIG(status));
		}
}

/* A tracer's words at the last addresses. */
static void words(void)
{
	static const long places[] = { -8, -1, -PAGE, -PAGE - 8, 1L << 47, 1L << 63 };
	pid_t pid = fork();
	long word;
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char what[80];

		snprintf(what, sizeof(what), "word at %ld", places[i]);
		result(what, syscall(SYS_ptrace, PTRACE_PEEKDATA, pid, places[i], &word));
		result(what, syscall(SYS_ptrace, PTRACE_POKEDATA, pid, places[i], 1L));
		result(what, syscall(SYS_ptrace, PTRACE_PEEKUSER, pid, places[i], &word));
		result(what, syscall(SYS_ptrace, PTRACE_POKEUSER, pid, places[i], 1L));
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

static void bases_and_masks(void)
{
	static const unsigned long bases[] = { 0x7ffffffff000, 0x7fffffffffff, 1UL << 47, ~0UL };
	unsigned long mask[16];

	for (int i = 0; i < 4; i++)
		result("base of gs", syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, bases[i]));
	syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
	result("mask of 2^32 bytes", syscall(SYS_sched_setaffinity, 0, 1UL << 32, mask));
	result("mask nowhere", syscall(SYS_sched_setaffinity, 0, sizeof(mask), 8));
	result("mask nowhere, for no thread", syscall(SYS_sched_setaffinity, 0x7fffffff, sizeof(mask), 8));
	result("mask for no thread", syscall(SYS_sched_setaffinity, 0x7fffffff, sizeof(mask), mask));
	if (!fork()) {
		setuid(65534);
		result("mask for a process of another user", syscall(SYS_sched_setaffinity, 1, sizeof(mask), mask));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

int main(void)
{
	moves();
	timers();
	file_pages();
	touches();
	words();
	fflush(stdout);
	bases_and_masks();
	return 0;
}
