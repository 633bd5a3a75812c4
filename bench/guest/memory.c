/* Address space calls and page faults. */
#define _GNU_SOURCE
#include "guest.h"

#include <stddef.h>
#include <sys/mman.h>

#define TOUCH_BYTES (8UL << 20)
#define MAP_BYTES (64UL << 10)
#define SMALL_PAGE 4096

static void *map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static void map_unmap(void *data)
{
	(void)data;
	munmap(map(MAP_BYTES), MAP_BYTES);
}

static void map_touch_unmap(void *data)
{
	volatile char *memory = map(SMALL_PAGE);

	(void)data;
	*memory = 1;
	munmap((void *)memory, SMALL_PAGE);
}

/* ns per KiB of the first write to each page of a large area. */
static double touch(const struct wish *wish, int small_pages)
{
	struct best best;

	for (best_begin(&best, wish); best_more(&best);) {
		volatile char *memory = map(TOUCH_BYTES);
		uint64_t start;

		if (small_pages)
			madvise((void *)memory, TOUCH_BYTES, MADV_NOHUGEPAGE);
		start = now_ns();
		for (size_t at = 0; at < TOUCH_BYTES; at += SMALL_PAGE)
			memory[at] = 1;
		best_add(&best, (double)(now_ns() - start) / (TOUCH_BYTES / 1024));
		munmap((void *)memory, TOUCH_BYTES);
	}
	return best.best;
}

void group_memory(const struct wish *wish)
{
	report("mm.map-unmap", best_ns(wish, 100, map_unmap, NULL));
	report("mm.map-touch-unmap", best_ns(wish, 50, map_touch_unmap, NULL));
	report("mm.touch", touch(wish, 0));
	report("mm.touch-4k", touch(wish, 1));
}
