/* Reading /proc/PID/pagemap, writing clear_refs, and mappings far from others. */
#include "guest.h"

#define PRESENT (1ULL << 63)
#define SWAP (1ULL << 62)
#define FILE_OR_SHARED (1ULL << 61)
#define EXCLUSIVE (1ULL << 56)
#define SOFT_DIRTY (1ULL << 55)
#define FRAME ((1ULL << 55) - 1)

/* /proc/self/pagemap. */
static int own_map;

static inline uint64_t entry_of(int fd, const void *page)
{
	uint64_t entry = 0;

	pread(fd, &entry, 8, (uintptr_t)page / PAGE * 8);
	return entry;
}

static inline int open_of(pid_t pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags);
}

static inline int count_dirty(const char *pages, int count)
{
	int dirty = 0, i;

	for (i = 0; i < count; i++)
		dirty += !!(entry_of(own_map, pages + i * PAGE) & SOFT_DIRTY);
	return dirty;
}

static inline long clear_of(pid_t pid, const char *type)
{
	int fd = open_of(pid, "clear_refs", O_WRONLY);
	long done = write(fd, type, strlen(type));
	int error = errno;

	close(fd);
	errno = error;
	return done;
}

static inline void clear(const char *type)
{
	if (clear_of(getpid(), type) != (long)strlen(type))
		printf("cannot clear: %m\n");
}

/* Pages of a mapping of their own, far from others, so that nothing is merged with it. */
static inline char *lone(int pages, int flags, int fd, int first)
{
	char *at = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return mmap(at + PAGE, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, first * PAGE);
}

static inline char *anonymous(int pages)
{
	return lone(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static inline int data_file(void)
{
	static char page[PAGE] = "data";
	int fd = open("pagemap.data", O_RDWR | O_CREAT | O_TRUNC, 0600), i;

	for (i = 0; i < 4; i++)
		write(fd, page, PAGE);
	return fd;
}
