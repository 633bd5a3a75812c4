/*
 * What /proc/PID/pagemap says of pages of each kind, and what becomes of that by clear_refs and by
 * writes, whichever side makes them: the program, Linux for it (read), a tracer, another process
 * (process_vm_writev, /proc/PID/mem).
 */
#include "pagemap.h"
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/utsname.h>

static void tell_in(int fd, const char *what, const void *page, uint64_t hidden)
{
	uint64_t e = entry_of(fd, page) & ~hidden;

	printf("  %-28s%s%s%s%s%s\n", what, e & PRESENT ? " present" : "", e & SWAP ? " swap" : "",
	       e & FILE_OR_SHARED ? " file" : "", e & EXCLUSIVE ? " exclusive" : "",
	       e & SOFT_DIRTY ? " soft-dirty" : "");
	fflush(stdout);
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

static volatile int wanted, done;
static char *volatile written_page;

/* Makes no call between two writes, so that its CPU keeps what it knows of the page. */
static void *write_when_wanted(void *unused)
{
	int number;

	while ((number = wanted) >= 0)
		if (number != done) {
			*written_page = number;
			done = number;
		}
	return unused;
}

static void *read_into(void *pipe)
{
	read(*(int *)pipe, written_page, 1);
	return NULL;
}

/*
 * A thread that runs on another CPU all the time, and one that is in a call while soft-dirty bits
 * are cleared.
 */
static void threads(void)
{
	int pipes[2], i, early = 0, missed = 0;
	pthread_t thread;

	written_page = anonymous(1);
	pthread_create(&thread, NULL, write_when_wanted, NULL);
	for (i = 1; i <= 40; i++) {
		wanted = 2 * i;
		while (done != wanted)
			;
		clear("4");
		early += count_dirty(written_page, 1);
		wanted = 2 * i + 1;
		while (done != wanted)
			;
		missed += !count_dirty(written_page, 1);
	}
	wanted = -1;
	pthread_join(thread, NULL);
	printf("  by another CPU: early %d, missed %d\n", early, missed);

	pipe(pipes);
	early = missed = 0;
	for (i = 0; i < 5; i++) {
		/* Linux can write to the page, and is in the call. */
		write(pipes[1], "x", 1);
		read(pipes[0], written_page, 1);
		pthread_create(&thread, NULL, read_into, pipes);
		usleep(20000);
		clear("4");
		early += count_dirty(written_page, 1);
		write(pipes[1], "y", 1);
		pthread_join(thread, NULL);
		missed += !count_dirty(written_page, 1) || *written_page != 'y';
	}
	printf("  by a call under way: early %d, missed %d\n", early, missed);
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

/* The number behind `key` of the mapping at `start`, or whether the word is among its flags. */
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

/* Frames are shown to openers of the file that may administer the machine. */
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

int main(void)
{
	own_map = open("/proc/self/pagemap", O_RDONLY);
	/* All pages of stdout's buffer are there. */
	printf("kinds\n");
	kinds();
	printf("writers\n");
	writers();
	printf("threads\n");
	threads();
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
	printf("frames\n");
	frames();
	unlink("pagemap.data");
	return 0;
}
