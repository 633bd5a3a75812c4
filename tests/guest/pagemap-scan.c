/*
 * PAGEMAP_SCAN: the pages of a range by what they are, and what was written since clear_refs. Linux
 * 6.1 has none of it (ENOTTY).
 */
#include "pagemap.h"
#include <sys/ioctl.h>

/* PAGEMAP_SCAN, which Linux has since 6.7 (include/uapi/linux/fs.h). */
struct region {
	uint64_t start, end, categories;
};
struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof, wanted;
};
#define SCAN _IOWR('f', 16, struct scan)
#define IS_WPALLOWED 1
#define IS_WRITTEN 2
#define IS_FILE 4
#define IS_PRESENT 8
#define IS_SOFT_DIRTY 128
#define ALL_BUT_ZERO (0xff & ~32)

static void scan(const char *what, char *at, int count, struct scan s)
{
	struct region regions[8] = { 0 };
	long found, i;

	s.size = s.size ? s.size : sizeof(s);
	s.start = (uintptr_t)at + s.start;
	s.end = (uintptr_t)at + count * PAGE;
	s.vec = s.vec_len ? (uintptr_t)regions : 0;
	errno = 0;
	found = ioctl(own_map, SCAN, &s);
	printf("  %s: %ld %s, to page %ld\n", what, found, found < 0 ? strerrorname_np(errno) : "",
	       s.walk_end ? (long)(s.walk_end - (uintptr_t)at) / PAGE : -1);
	for (i = 0; i < found; i++)
		printf("    pages %ld to %ld: %#lx\n", (long)(regions[i].start - (uintptr_t)at) / PAGE,
		       (long)(regions[i].end - (uintptr_t)at) / PAGE, (long)regions[i].categories);
	fflush(stdout);
}

static void scans(void)
{
	int fd = data_file(), again;
	char *at = anonymous(12);

	mmap(at + 6 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
	mmap(at + 7 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	munmap(at + 10 * PAGE, PAGE);
	/* Alone, so that nothing around it is there on either kernel. */
	mprotect(at + 2 * PAGE, 2 * PAGE, PROT_NONE);
	at[0] = at[PAGE] = at[4 * PAGE] = at[5 * PAGE] = at[7 * PAGE] = at[9 * PAGE] = at[11 * PAGE] = 1;
	mprotect(at + 4 * PAGE, PAGE, PROT_NONE);
	(void)*(volatile char *)(at + 6 * PAGE);
	for (again = 0; again < 2; again++) {
		scan("all", at, 12, (struct scan){ .vec_len = 8, .wanted = ALL_BUT_ZERO });
		scan("present", at, 12, (struct scan){ .vec_len = 8, .mask = IS_PRESENT, .wanted = IS_PRESENT });
		scan("soft-dirty", at, 12, (struct scan){ .vec_len = 8, .mask = IS_SOFT_DIRTY, .wanted = IS_SOFT_DIRTY });
		scan("of files or soft-dirty", at, 12,
		     (struct scan){ .vec_len = 8, .anyof = IS_FILE | IS_SOFT_DIRTY, .wanted = IS_FILE });
		scan("not present", at, 12,
		     (struct scan){ .vec_len = 8, .mask = IS_PRESENT, .inverted = IS_PRESENT, .wanted = IS_PRESENT });
		scan("three pages", at, 12,
		     (struct scan){ .vec_len = 8, .max_pages = 3, .mask = IS_WRITTEN, .wanted = IS_WRITTEN | IS_PRESENT });
		scan("written", at, 12, (struct scan){ .vec_len = 8, .mask = IS_WRITTEN, .wanted = IS_WRITTEN });
		scan("two regions", at, 12, (struct scan){ .vec_len = 2, .mask = IS_PRESENT, .wanted = IS_PRESENT });
		scan("from the third on", at, 12, (struct scan){ .start = 3 * PAGE, .vec_len = 8, .wanted = IS_PRESENT });
		clear("4");
		at[PAGE] = at[8 * PAGE] = 2;
	}
	scan("nobody wants it", at, 12, (struct scan){ 0 });
	scan("none", at, 0, (struct scan){ .vec_len = 8, .wanted = ALL_BUT_ZERO });
	scan("write-protected", at, 12, (struct scan){ .vec_len = 8, .mask = IS_WPALLOWED, .wanted = ALL_BUT_ZERO });
	scan("to be write-protected", at, 12, (struct scan){ .flags = 1, .vec_len = 8, .wanted = ALL_BUT_ZERO });
	scan("all to be write-protected", at, 12, (struct scan){ .flags = 3, .vec_len = 8, .wanted = ALL_BUT_ZERO });
	scan("wrong size", at, 12, (struct scan){ .size = 88, .vec_len = 8 });
	scan("wrong flags", at, 12, (struct scan){ .flags = 4, .vec_len = 8 });
	scan("wrong category", at, 12, (struct scan){ .mask = 1 << 20, .vec_len = 8 });
	scan("wrong address", at, 12, (struct scan){ .start = 1, .vec_len = 8 });
	TELL(ioctl(own_map, SCAN, NULL));
	close(fd);
}

int main(void)
{
	own_map = open("/proc/self/pagemap", O_RDONLY);
	scans();
	unlink("pagemap.data");
	return 0;
}
