/* The first calls of a program, which the LWK makes by way of a scratch page: with bad pointers, at
 * the ends of memory, of sizes around the limits, and in the child of a fork. */
#include "guest.h"
#include <err.h>
#include <sys/random.h>

#define BAD ((void *)(uintptr_t)bad)

static volatile uintptr_t bad = 8;

static char *edge;	/* behind it nothing is mapped */
static char *readonly;
static int ends[2];

static void make_edges(void)
{
	char *at = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(at + 4096, 4096);
	edge = at + 4096;
	readonly = at + 2 * 4096;
	strcpy(readonly, "constant");
	mprotect(readonly, 4096, PROT_READ);
}

static void result(const char *what, long value)
{
	printf("%s: %ld %s\n", what, value, value < 0 ? strerror(errno) : "");
}

/* What a pipe has is not lost by a read into bad memory. */
static void bad_reads(void)
{
	char text[16] = "";

	result("write", write(ends[1], "0123456789", 10));
	result("read into nothing", read(ends[0], BAD, 4));
	result("read into constants", read(ends[0], readonly, 4));
	result("read at the edge", read(ends[0], edge - 2, 2));
	printf("%.2s\n", edge - 2);
	result("read of the rest", read(ends[0], text, sizeof(text)));
	printf("%s\n", text);
	result("read of nothing", read(ends[0], text, 0));
	result("write of nothing there", write(ends[1], BAD, 4));
	result("write across the edge", write(ends[1], edge - 4, 8));
	result("constants", write(ends[1], readonly, 8));
	result("read", read(ends[0], text, sizeof(text)));
	printf("%s\n", text);
}

static void paths(void)
{
	char text[5000], link[300];
	struct stat s;

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	result("open of a path too long", open(text, O_RDONLY));
	text[600] = 0;
	result("open of a name too long", open(text, O_RDONLY));
	text[255] = 0;
	result("open of a long name", open(text, O_RDONLY));
	result("open of nothing there", open(BAD, O_RDONLY));
	strcpy(edge - 10, "/dev/null");
	result("stat at the edge", stat(edge - 10, &s));
	printf("%d\n", S_ISCHR(s.st_mode));
	memcpy(edge - 5, "/dev/", 5);
	result("stat across the edge", stat(edge - 5, &s));
	result("stat into nothing", syscall(SYS_newfstatat, AT_FDCWD, "/dev/null", BAD, 0));
	result("stat into constants", syscall(SYS_newfstatat, AT_FDCWD, "/dev/null", readonly, 0));
	result("access", access("/dev/null", R_OK));
	result("access to what is not", access("/dev/nothing", R_OK));
	result("link of none", readlink("/dev/null", link, sizeof(link)));
	result("link into nothing", readlink("/proc/self/exe", BAD, 10));
	result("link shortened", readlink("/proc/self/exe", link, 3));
	result("link of no size", readlink("/proc/self/exe", link, 0));
	result("whole link", readlink("/proc/self/exe", text, sizeof(text)) > 3);
	printf("%d\n", memcmp(text, link, 3));
}

/* A link as long as the LWK's buffer, and longer. */
static void long_links(void)
{
	char target[3000], text[4096];

	for (size_t length = 2047; length <= 2900; length += length < 2049 ? 1 : 851) {
		char name[64];

		snprintf(name, sizeof(name), "/tmp/first-calls-%d-%zu", getpid(), length);
		memset(target, 'a' + length % 26, length);
		target[length] = 0;
		memset(text, 0, sizeof(text));
		if (symlink(target, name))
			err(1, "symlink");
		result("long link", readlink(name, text, sizeof(text)));
		printf("%d\n", strcmp(text, target));
		unlink(name);
	}
}

static void limits_and_bytes(void)
{
	struct rlimit limit, again;
	unsigned char bytes[64] = { 0 }, zeros[64] = { 0 };

	result("limit", syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &limit));
	limit.rlim_cur = 0;
	result("set", syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, &again));
	result("set from nothing", syscall(SYS_prlimit64, 0, RLIMIT_CORE, BAD, &again));
	result("read into constants", syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, readonly));
	result("no such limit", syscall(SYS_prlimit64, 0, 99, NULL, &again));
	result("getrlimit", syscall(SYS_getrlimit, RLIMIT_CORE, &again));
	printf("%d\n", again.rlim_cur == 0);
	result("random", getrandom(bytes, 8, GRND_NONBLOCK));
	printf("%d\n", memcmp(bytes, zeros, 8) != 0 && !memcmp(bytes + 8, zeros, 56));
	result("random into nothing", getrandom(BAD, 8, 0));
	result("no random bytes", getrandom(bytes, 0, 0));
	result("random, no such flag", getrandom(bytes, 8, 64));
	result("more random bytes", getrandom(bytes, 64, 0));
}

/* Two children of a fork have different random bytes, as has their parent. */
static void children(void)
{
	unsigned char bytes[3][8];

	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (!pid) {
			getrandom(bytes[i], 8, 0);
			_exit(write(ends[1], bytes[i], 8) != 8);
		}
		waitpid(pid, NULL, 0);
		result("from the child", read(ends[0], bytes[i], 8));
	}
	getrandom(bytes[2], 8, 0);
	printf("%d\n", memcmp(bytes[0], bytes[1], 8) && memcmp(bytes[0], bytes[2], 8) && memcmp(bytes[1], bytes[2], 8));
}

/* A mapping that is longer than its file: a refused write takes nothing out of the pipe. */
static void behind_the_file(void)
{
	int file = memfd_create("short", 0);
	char *at, text[8] = "";

	write(file, "x", 1);
	at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	write(ends[1], "abcd", 4);
	result("read behind the file", read(ends[0], at + PAGE, 4));
	result("read", read(ends[0], text, 4));
	printf("%s\n", text);
}

/* Files whose reads and writes fail with EIO, or do not though the memory cannot be accessed. */
static void memory_files(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte = 0;
	int memory = open("/proc/self/mem", O_RDWR);

	strcpy(page, "content");
	mprotect(page, PAGE, PROT_NONE);
	result("read of what is not accessible", pread(memory, &byte, 1, (off_t)(uintptr_t)page));
	printf("%d\n", byte);
	result("write to what is constant", pwrite(memory, "C", 1, (off_t)(uintptr_t)readonly));
	printf("%s\n", readonly);
	result("read of nothing there", pread(memory, &byte, 1, 8));
}

int main(int argc, char **argv)
{
	static void (*const parts[])(void) = { bad_reads, paths, long_links, limits_and_bytes, children, behind_the_file,
					       memory_files };
	int from = argc > 1 ? atoi(argv[1]) : 0;

	if (from == sizeof(parts) / sizeof(*parts))
		return 0;
	if (pipe(ends))
		err(1, "pipe");
	make_edges();
	/* Each part in a program of its own, so that its calls are among the first. */
	parts[from]();
	fflush(stdout);
	execl("/proc/self/exe", argv[0], (char[]){ '1' + from, 0 }, NULL);
	err(1, "execl");
}
