/*
 * What /proc/PID/pagemap says of pages of each kind, and what becomes of that by clear_refs and by writes, whoever makes
 * them: the program, Linux for it (read), a tracer, another process (process_vm_writev, /proc/PID/mem).
 */
#include "guest.h"
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/utsname.h>

#define PRESENT (1ULL << 63)
#define SWAP (1ULL << 62)
#define FILE_OR_SHARED (1ULL << 61)
#define EXCLUSIVE (1ULL << 56)
#define SOFT_DIRTY (1ULL << 55)
#define FRAME ((1ULL << 55) - 1)

static int own_map;

static uint64_t entry_of(int fd, const void *page)
{
	uint64_t entry = 0;

	pread(fd, &entry, 8, (uintptr_t)page / PAGE * 8);
	return entry;
}

static int open_of(pid_t pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags);
}

static void tell_in(int fd, const char *what, const void *page, uint64_t hidden)
{
	uint64_t e = entry_of(fd, page) & ~hidden;

	printf("  %-28s%s%s%s%s%s\n", what, e & PRESENT ? " present" : "", e & SWAP ? " swap" : "",
	       e & FILE_OR_SHARED ? " file" : "", e & EXCLUSIVE ? " exclusive" : "",
	       e & SOFT_DIRTY ? " soft-dirty" : "");
	fflush(stdout);
}

static int count_dirty(const char *pages, int count)
{
	int dirty = 0, i;

	for (i = 0; i < count; i++)
		dirty += !!(entry_of(own_map, pages + i * PAGE) & SOFT_DIRTY);
	return dirty;
}

static long clear_of(pid_t pid, const char *type)
{
	int fd = open_of(pid, "clear_refs", O_WRONLY);
	long done = write(fd, type, strlen(type));
	int error = errno;

	close(fd);
	errno = error;
	return done;
}

static void clear(const char *type)
{
	if (clear_of(getpid(), type) != (long)strlen(type))
		printf("cannot clear: %m\n");
}

/* Pages of a mapping of their own, far from others, so that nothing is merged with it. */
static char *lone(int pages, int flags, int fd, int first)
{
	char *at = mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return mmap(at + PAGE, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, first * PAGE);
}

static char *anonymous(int pages)
{
	return lone(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int data_file(void)
{
	static char page[PAGE] = "data";
	int fd = open("pagemap.data", O_RDWR | O_CREAT | O_TRUNC, 0600), i;

	for (i = 0; i < 4; i++)
		write(fd, page, PAGE);
	return fd;
}

enum { UNTOUCHED, READ, WRITTEN, FILE_READ, FILE_WRITTEN, SHARED_FILE, SHARED_ANONYMOUS, SHARED_UNTOUCHED, HUGE_PAGE, NONE,
       LOCKED, HEAP, WITH_CHILD, VDSO, HOLE, KINDS };
static const char *const names[KINDS] = {
	"untouched", "only read", "written", "private file, read", "private file, written", "shared file, written",
	"shared anonymous, written", "shared anonymous, untouched", "large, written", "PROT_NONE after a write", "locked",
	"heap", "shared with a child", "vdso", "no mapping",
};
static char *pages[KINDS];

static void tell_all(const char *when)
{
	char here = 0;
	int i;

	printf("%s\n", when);
	for (i = 0; i < KINDS; i++)
		tell_in(own_map, names[i], pages[i], 0);
	tell_in(own_map, "stack", &here, 0);
}

static char *large_page(void)
{
	const size_t size = 2 << 20;
	char *at = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	at = (char *)(((uintptr_t)at + size) & ~(size - 1));
	madvise(at, size, MADV_HUGEPAGE);
	return at;
}

static void kinds(void)
{
	int fd = data_file(), go[2], i;
	char c;
	pid_t child;

	pages[UNTOUCHED] = anonymous(1);
	pages[READ] = anonymous(1);
	pages[WRITTEN] = anonymous(1);
	pages[FILE_READ] = lone(1, MAP_PRIVATE, fd, 0);
	pages[FILE_WRITTEN] = lone(1, MAP_PRIVATE, fd, 1);
	pages[SHARED_FILE] = lone(1, MAP_SHARED, fd, 2);
	pages[SHARED_ANONYMOUS] = lone(1, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pages[SHARED_UNTOUCHED] = lone(1, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pages[HUGE_PAGE] = large_page();
	pages[NONE] = anonymous(1);
	pages[LOCKED] = anonymous(1);
	pages[HEAP] = (char *)(((uintptr_t)sbrk(4 * PAGE) + PAGE) & -PAGE);
	pages[WITH_CHILD] = anonymous(1);
	pages[VDSO] = (char *)getauxval(AT_SYSINFO_EHDR);
	pages[HOLE] = anonymous(1);
	munmap(pages[HOLE], PAGE);

	for (i = 0; i < KINDS; i++) {
		if (i == READ || i == FILE_READ || i == VDSO)
			c = *(volatile char *)pages[i];
		else if (i != UNTOUCHED && i != SHARED_UNTOUCHED && i != HOLE && i != LOCKED)
			*(volatile char *)pages[i] = 1;
	}
	mlock(pages[LOCKED], PAGE);
	mprotect(pages[NONE], PAGE, PROT_NONE);
	/* It keeps only this one page. */
	for (i = 0; i < KINDS; i++)
		if (i != WITH_CHILD && i != VDSO && i != HOLE && i != HEAP)
			madvise(pages[i], PAGE, MADV_DONTFORK);
	pipe(go);
	fflush(stdout);
	child = fork();
	if (!child) {
		close(go[1]);
		read(go[0], &c, 1);
		_exit(*pages[WITH_CHILD] - 1);
	}
	tell_all("with a child");
	close(go[1]);
	waitpid(child, NULL, 0);
	tell_all("without it");
	clear("4");
	tell_all("cleared");
	for (i = 0; i < KINDS; i++)
		if (i != VDSO && i != HOLE && i != NONE)
			c += *(volatile char *)pages[i];
	tell_all("read");
	for (i = 0; i < KINDS; i++)
		if (i != VDSO && i != HOLE && i != NONE)
			*(volatile char *)pages[i] = 2;
	mprotect(pages[NONE], PAGE, PROT_READ | PROT_WRITE);
	tell_all("written");
	clear("4");
	*(volatile char *)pages[NONE] = 2;
	tell_all("cleared again, one written");
	close(fd);
	close(go[0]);
}

/* Of a mapping of sixteen pages exactly those are soft-dirty that were written, by whomever. */
static void writers(void)
{
	char *at = anonymous(16), *bss = anonymous(16);
	int pipes[2], mem;
	struct iovec from = { "xyz", 3 }, to = { at + 9 * PAGE, 3 };

	pipe(pipes);
	at[0] = 1;
	bss[3 * PAGE] = 1;
	clear("4");
	TELL(count_dirty(at, 16));
	at[2 * PAGE] = 1;
	TELL(count_dirty(at, 16));
	write(pipes[1], "abc", 3);
	TELL(read(pipes[0], at + 5 * PAGE, PAGE));
	TELL(count_dirty(at, 16));
	/* Into a page that is there, and is written once more. */
	write(pipes[1], "abc", 3);
	TELL(read(pipes[0], at, 3));
	TELL(count_dirty(at, 16));
	TELL(process_vm_writev(getpid(), &from, 1, &to, 1, 0));
	TELL(count_dirty(at, 16));
	mem = open("/proc/self/mem", O_RDWR);
	TELL(pwrite(mem, "m", 1, (uintptr_t)at + 11 * PAGE));
	TELL(count_dirty(at, 16));
	close(mem);
	/* Linux reads it: that is no write. */
	TELL(write(pipes[1], at + 13 * PAGE, 2));
	TELL(count_dirty(at, 16));
	clear("4");
	/* Linux could write to these pages before. */
	TELL(count_dirty(at, 16));
	TELL(read(pipes[0], at + 5 * PAGE, 1));
	TELL(count_dirty(at, 16));
	TELL(read(pipes[0], at + 5 * PAGE, 1));
	clear("4");
	TELL(count_dirty(at, 16));
	TELL(clock_gettime(CLOCK_REALTIME, (void *)(at + 5 * PAGE)));
	TELL(syscall(SYS_getcpu, at + 9 * PAGE, NULL, NULL));
	TELL(uname((void *)(at + 11 * PAGE)));
	TELL(count_dirty(at, 16));
	TELL(count_dirty(bss, 16));
	TELL(memcmp(at + 9 * PAGE + 1, "\0\0", 2) || at[5 * PAGE] == 'a');
	close(pipes[0]);
	close(pipes[1]);
}

/* What moves, is mapped anew, loses and gets rights, is given up. */
static void changes(void)
{
	char *at = anonymous(8), *place = anonymous(1), *moved;

	memset(at, 1, 8 * PAGE);
	*place = 1;
	clear("4");
	munmap(place, PAGE);
	moved = mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	tell_in(own_map, "moved", moved, 0);
	mprotect(at + PAGE, PAGE, PROT_READ);
	mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE);
	tell_in(own_map, "mprotect", at + PAGE, 0);
	at[PAGE] = 2;
	tell_in(own_map, "mprotect, written", at + PAGE, 0);
	madvise(at + 3 * PAGE, PAGE, MADV_DONTNEED);
	tell_in(own_map, "given up", at + 3 * PAGE, 0);
	at[3 * PAGE] = 1;
	tell_in(own_map, "given up, written", at + 3 * PAGE, 0);
	tell_in(own_map, "beside it", at + 4 * PAGE, 0);
	mmap(at + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	tell_in(own_map, "mapped anew", at + 5 * PAGE, 0);
	tell_in(own_map, "beside it", at + 6 * PAGE, 0);
	mlock(at + 6 * PAGE, PAGE);
	tell_in(own_map, "locked", at + 6 * PAGE, 0);
}

/* A child has what its parent had; then each its own. */
static void forks(void)
{
	char *at = anonymous(3);
	pid_t child;
	int fd;

	memset(at, 1, 3 * PAGE);
	clear("4");
	at[0] = 2;
	fflush(stdout);
	child = fork();
	if (!child) {
		fd = open("/proc/self/pagemap", O_RDONLY);
		tell_in(fd, "child: written before", at, EXCLUSIVE);
		tell_in(fd, "child: not written", at + PAGE, EXCLUSIVE);
		at[PAGE] = 2;
		tell_in(fd, "child: written", at + PAGE, EXCLUSIVE);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	tell_in(own_map, "parent: written before", at, 0);
	tell_in(own_map, "parent: written by child", at + PAGE, 0);
	at[2 * PAGE] = 2;
	tell_in(own_map, "parent: written", at + 2 * PAGE, 0);
}

/* Another process, which is cleared and written to from outside. */
static void others(void)
{
	char *at = anonymous(6);
	int i, map, mem, status;
	struct iovec from = { "xyz", 3 }, to = { at + PAGE, 3 };
	pid_t child;

	memset(at, 1, 6 * PAGE);
	fflush(stdout);
	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		memset(at, 3, 6 * PAGE);
		raise(SIGSTOP);
		at[4 * PAGE] = 4;
		raise(SIGSTOP);
		_exit(at[0] * 64 + at[PAGE] + at[2 * PAGE]);
	}
	waitpid(child, &status, 0);
	map = open_of(child, "pagemap", O_RDONLY);
	mem = open_of(child, "mem", O_RDWR);
	TELL(clear_of(child, "4"));
	for (i = 0; i < 6; i++)
		tell_in(map, "cleared", at + i * PAGE, 0);
	TELL(ptrace(PTRACE_POKEDATA, child, at, 1));
	TELL(process_vm_writev(child, &from, 1, &to, 1, 0));
	TELL(pwrite(mem, "m", 1, (uintptr_t)at + 2 * PAGE));
	TELL(ptrace(PTRACE_CONT, child, 0, 0));
	waitpid(child, &status, 0);
	for (i = 0; i < 6; i++)
		tell_in(map, "written", at + i * PAGE, 0);
	TELL(ptrace(PTRACE_CONT, child, 0, 0));
	waitpid(child, &status, 0);
	TELL(status);
	TELL(entry_of(map, at));
	close(map);
	close(mem);
}

static char smaps[1 << 20];

/* The number behind `key`, or whether the word is among its flags, of the mapping that begins at `start`. */
static long smaps_of(const void *start, const char *key, const char *flag)
{
	int fd = open("/proc/self/smaps", O_RDONLY);
	ssize_t n, all = 0;
	char wanted[32], *at, *line;

	while ((n = read(fd, smaps + all, sizeof(smaps) - 1 - all)) > 0)
		all += n;
	smaps[all] = 0;
	close(fd);
	snprintf(wanted, sizeof(wanted), "%lx-", (long)start);
	at = strstr(smaps, wanted);
	line = at ? strstr(at, key) : NULL;
	if (!line)
		return -9;
	if (!flag)
		return atol(line + strlen(key));
	*strchr(line, '\n') = 0;
	return !!strstr(line, flag);
}

static void referenced(void)
{
	int fd = data_file(), i;
	char *at[2] = { anonymous(1), lone(1, MAP_PRIVATE, fd, 0) };

	for (i = 0; i < 2; i++)
		*at[i] = 1;
	for (i = 0; i < 3; i++) {
		static const char *const types[] = { "2", "3", "1" };
		int j;

		for (j = 0; j < 2; j++) {
			/* The CPU may know the page still, and not look whether it was accessed. */
			mprotect(at[j], PAGE, PROT_READ);
			mprotect(at[j], PAGE, PROT_READ | PROT_WRITE);
			*(volatile char *)at[j] = 1;
		}
		TELL(smaps_of(at[0], "Referenced:", NULL));
		TELL(smaps_of(at[1], "Referenced:", NULL));
		clear(types[i]);
		printf("cleared %s\n", types[i]);
		TELL(smaps_of(at[0], "Referenced:", NULL));
		TELL(smaps_of(at[1], "Referenced:", NULL));
	}
	/* Linux accesses it for the program. */
	TELL(pwrite(fd, at[0], 1, 0));
	TELL(smaps_of(at[0], "Referenced:", NULL));
	TELL(smaps_of(at[0], "VmFlags:", " sd"));
	clear("4");
	TELL(smaps_of(at[0], "VmFlags:", " sd"));
	TELL(smaps_of(at[0], "Referenced:", NULL));
	close(fd);
}

static long peak(void)
{
	static char text[8192];
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	close(fd);
	return atol(strstr(text, "VmHWM:") + 6);
}

static void refused(void)
{
	static const char *const texts[] = { "0", "6", "-1", "x", "", " 4", "4\n", "0x4", "4 4", "1234567890123", "4          \n" };
	uint64_t entry[3];
	long before;
	char *at;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		printf("'%s' ", texts[i]);
		TELL(clear_of(getpid(), texts[i]));
	}
	TELL(open("/proc/self/clear_refs", O_RDONLY) < 0);
	TELL(read(own_map, entry, 7));
	TELL(pread(own_map, entry, 8, 4));
	TELL(pread(own_map, entry, 24, 0));
	TELL(pread(own_map, entry, 24, (1L << 47) / PAGE * 8));
	TELL(pread(own_map, entry, 24, ((1L << 47) / PAGE - 2) * 8));
	TELL(syscall(SYS_pread64, own_map, NULL, 8, 0));
	TELL(lseek(own_map, 80, SEEK_SET));
	TELL(lseek(own_map, 8, SEEK_CUR));
	TELL(read(own_map, entry, 16));
	TELL(lseek(own_map, 0, SEEK_CUR));
	TELL(lseek(own_map, 0, SEEK_END));
	TELL(write(own_map, entry, 8));
	TELL(ioctl(own_map, 0x6601, entry));
	at = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(at, 1, 16 << 20);
	munmap(at, 16 << 20);
	before = peak();
	clear("5");
	TELL(before - peak() > 12 << 10);
}

/* Frames are shown to who may administer the machine when the file is opened. */
static void frames(void)
{
	char *at = anonymous(1);
	int fd;

	*at = 1;
	TELL(!(entry_of(own_map, at) & FRAME));
	TELL(seteuid(65534));
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	TELL(!(entry_of(own_map, at) & FRAME));
	fd = open("/proc/self/pagemap", O_RDONLY);
	TELL(!!(entry_of(fd, at) & PRESENT));
	TELL(!(entry_of(fd, at) & FRAME));
	TELL(seteuid(0));
	TELL(!(entry_of(fd, at) & FRAME));
	close(fd);
	fd = open("/proc/thread-self/pagemap", O_RDONLY);
	TELL(!(entry_of(fd, at) & FRAME));
	close(fd);
}

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
	/* All pages of stdout's buffer are there. */
	printf("kinds\n");
	kinds();
	printf("writers\n");
	writers();
	printf("changes\n");
	changes();
	printf("forks\n");
	forks();
	printf("others\n");
	others();
	printf("referenced\n");
	referenced();
	printf("refused\n");
	refused();
	printf("scans\n");
	scans();
	printf("frames\n");
	frames();
	unlink("pagemap.data");
	return 0;
}
