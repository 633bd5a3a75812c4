/*
 * Memory calls with sizes that no mapping can have: zero, more than the address space, sums that
 * wrap around. At a mapping, beside it, and where no program can map. One line for each call and
 * address.
 */
#include "guest.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define LAST 0x7ffffffff000UL /* end of what a program can map */

static unsigned long p, hole;
static char *bytes;

struct named {
	const char *name;
	unsigned long value;
};

static void result(const char *name, long value)
{
	if (value == -1)
		printf(" %s:%s", name, strerrorname_np(errno));
	else if ((unsigned long)value >= p && (unsigned long)value < p + 64 * PAGE)
		printf(" %s:p+%#lx", name, value - p);
	else
		printf(" %s:%#lx", name, value);
}

typedef long call(unsigned long at, unsigned long size);

#define CALL(name, ...) \
	static long name##_(unsigned long at, unsigned long size) { return syscall(__VA_ARGS__); }
CALL(mincore, SYS_mincore, at, size, bytes)
CALL(mincore_nowhere, SYS_mincore, at, size, 0L)
CALL(madvise, SYS_madvise, at, size, MADV_NORMAL)
CALL(madvise_need, SYS_madvise, at, size, MADV_WILLNEED)
CALL(madvise_bad, SYS_madvise, at, size, 77)
CALL(msync, SYS_msync, at, size, MS_SYNC)
CALL(msync_bad, SYS_msync, at, size, MS_SYNC | MS_ASYNC)
CALL(mprotect, SYS_mprotect, at, size, RW)
CALL(mprotect_bad, SYS_mprotect, at, size, 0x40)
CALL(mlock, SYS_mlock, at, size)
CALL(munlock, SYS_munlock, at, size)
CALL(mbind, SYS_mbind, at, size, 0L, 0L, 0L, 0L)
CALL(remap_pages, SYS_remap_file_pages, at, size, 0L, 0L, 0L)
CALL(keys, SYS_pkey_mprotect, at, size, (long)RW, -1L)

/* Of the rest of the memory nothing may go: only what fails. */
static long munmap_(unsigned long at, unsigned long size)
{
	if (size && at <= LAST && size <= LAST - at && at != hole)
		return 0;
	return syscall(SYS_munmap, at, size);
}

static const struct {
	const char *name;
	call *call;
} calls[] = {
#define ENTRY(name) { #name, name##_ }
	ENTRY(mincore), ENTRY(mincore_nowhere), ENTRY(madvise), ENTRY(madvise_need), ENTRY(madvise_bad),
	ENTRY(msync), ENTRY(msync_bad), ENTRY(mprotect), ENTRY(mprotect_bad), ENTRY(mlock), ENTRY(munlock),
	ENTRY(mbind), ENTRY(remap_pages), ENTRY(keys), ENTRY(munmap),
};

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static void sizes(void)
{
	const struct named places[] = {
		{ "0", 0 }, { "p", p }, { "p+1", p + 1 }, { "hole", hole }, { "last", LAST },
		{ "2^47", LAST + PAGE }, { "high", 0xffff800000000000 }, { "-PAGE", -PAGE }, { "-1", -1 },
	};

	for (int c = 0; c < COUNT(calls); c++)
		for (int a = 0; a < COUNT(places); a++) {
			unsigned long at = places[a].value;
			const struct named sizes[] = {
				{ "0", 0 }, { "1", 1 }, { "PAGE", PAGE }, { "-1", -1 }, { "-PAGE", -PAGE },
				{ "-PAGE+1", -PAGE + 1 }, { "max", LONG_MAX }, { "2^47", 1UL << 47 },
				{ "-at", -at }, { "PAGE-at", PAGE - at },
			};

			printf("%s(%s)", calls[c].name, places[a].name);
			for (int s = 0; s < COUNT(sizes); s++) {
				errno = 0;
				result(sizes[s].name, calls[c].call(at, sizes[s].value));
			}
			puts("");
		}
}

static void moves(void)
{
	/* Not -p: Linux 6.1 takes away what is below p then, the program. */
	const struct named sizes[] = {
		{ "0", 0 }, { "1", 1 }, { "-1", -1 }, { "-PAGE", -PAGE }, { "-PAGE+1", -PAGE + 1 },
		{ "max", LONG_MAX }, { "2^47", 1UL << 47 }, { "last", LAST },
	};

	for (int flags = 0; flags < 2; flags++)
		for (int o = 0; o < COUNT(sizes); o++) {
			printf("mremap(p, %s, flags %d)", sizes[o].name, flags);
			for (int n = 0; n < COUNT(sizes); n++) {
				errno = 0;
				result(sizes[n].name, syscall(SYS_mremap, p, sizes[o].value, sizes[n].value, flags));
			}
			puts("");
		}
	for (int o = 0; o < COUNT(sizes); o++) {
		printf("mremap(p, %s, fixed)", sizes[o].name);
		for (int n = 2; n < COUNT(sizes); n++) {
			errno = 0;
			result(sizes[n].name, syscall(SYS_mremap, p, sizes[o].value, sizes[n].value,
						      MREMAP_MAYMOVE | MREMAP_FIXED, hole + 16 * PAGE));
		}
		puts("");
	}
	TELL(syscall(SYS_mremap, 0L, -1L, -1L, 0L));
	TELL(syscall(SYS_mremap, hole, -1L, -1L, 0L));
	TELL(syscall(SYS_mremap, hole, PAGE, PAGE, 0L));
	TELL(syscall(SYS_mremap, p + PAGE, 64 * PAGE, 64 * PAGE, 0L) == (long)p + PAGE); /* beyond the mapping */
	TELL(syscall(SYS_mremap, p, -2 * PAGE, -2 * PAGE, MREMAP_MAYMOVE) == (long)p);
	TELL(syscall(SYS_mremap, p, -p, -p, 0L) == (long)p);
}

int main(void)
{
	unsigned long around = (unsigned long)mmap(NULL, 64 * PAGE, PROT_NONE, ANON, -1, 0);

	bytes = mmap(NULL, PAGE, RW, ANON, -1, 0);
	p = around;
	hole = p + 8 * PAGE;
	munmap((void *)(p + 4 * PAGE), 60 * PAGE);
	mprotect((void *)p, 4 * PAGE, RW);
	memset((void *)p, 1, 4 * PAGE);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sizes();
	moves();
	/* Nothing of it is lost. */
	TELL(((char *)p)[0] + ((char *)p)[4 * PAGE - 1]);
	TELL(msync((void *)p, 4 * PAGE, MS_SYNC));
	return 0;
}
