/*
 * NUMA policies: which are accepted, what get_mempolicy then says, and pages that are to move
 * between nodes.
 */
#include "guest.h"
#include <pthread.h>

#define LENGTH (64 * PAGE)
enum { DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL };
#define STATIC (1 << 15)
#define RELATIVE (1 << 14)
enum { NODE = 1, ADDR = 2, ALLOWED = 4 };

static unsigned long nodes[16], got[16];

static long set(int mode, unsigned long *mask, unsigned long bits)
{
	return syscall(SYS_set_mempolicy, mode, mask, bits);
}

static long bind_to(void *at, unsigned long length, int mode, unsigned long *mask, unsigned long bits, unsigned int flags)
{
	return syscall(SYS_mbind, at, length, mode, mask, bits, flags);
}

static void show(const char *what, void *at, int flags)
{
	int mode = -1;
	long result;

	memset(got, 0x55, sizeof(got));
	errno = 0;
	result = syscall(SYS_get_mempolicy, &mode, got, 1024, at, flags);
	printf("%s: %ld %s, mode %#x, nodes %#lx %#lx\n", what, result, strerrorname_np(errno), mode, got[0], got[15]);
}

/* One node has nothing to move to. */
static void migrate(void)
{
	unsigned long here[16] = { 1 }, none[16] = { 0 }, far[16] = { 0, 1 };
	pid_t pid;

	TELL(syscall(SYS_migrate_pages, 0, 1024, here, here));
	TELL(syscall(SYS_migrate_pages, getpid(), 1024, none, here));
	TELL(syscall(SYS_migrate_pages, 0, 1024, NULL, here));
	TELL(syscall(SYS_migrate_pages, 0, 1024, here, none));
	TELL(syscall(SYS_migrate_pages, 0, 1024, here, far));
	TELL(syscall(SYS_migrate_pages, 0, 1024, far, here));
	TELL(syscall(SYS_migrate_pages, 0, 1024, 8, here));
	TELL(syscall(SYS_migrate_pages, 0, 1024, here, 8));
	TELL(syscall(SYS_migrate_pages, 0, 1 << 20, here, here));
	TELL(syscall(SYS_migrate_pages, 0x7ffffff0, 1024, here, here));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setresuid(65534, 65534, 65534);
		TELL(syscall(SYS_migrate_pages, getppid(), 1024, here, here));
		_exit(0);
	}
	wait(NULL);
}

static void *in_thread(void *argument)
{
	show("a thread", NULL, 0);
	set(BIND, nodes, 1024);
	return argument;
}

/* As many pieces as there may be. */
static void many(void)
{
	const unsigned long length = 140000 * PAGE;
	char *p = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long result = 0;

	for (unsigned long at = 0; at < length / 2 && result == 0; at += PAGE)
		result = bind_to(p + at, PAGE, BIND, nodes, 1024, 0);
	printf("one page after the other: %ld\n", result);
	TELL(bind_to(p, length, DEFAULT, NULL, 0, 0));
	for (unsigned long at = 0; at < length && result == 0; at += 2 * PAGE)
		result = bind_to(p + at, PAGE, BIND, nodes, 1024, 0);
	printf("every second page: %ld %s\n", result, strerrorname_np(errno));
	TELL(munmap(p, length));
	/* Nothing is left of it. */
	p = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	TELL(bind_to(p + PAGE, PAGE, BIND, nodes, 1024, 0));
	TELL(bind_to(p, length, DEFAULT, NULL, 0, 0));
	TELL(bind_to(p, length, BIND, nodes, 1024, 0));
}

/* A piece with a policy of its own is a mapping of its own. */
static void moved(void)
{
	char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	TELL(bind_to(p + 8 * PAGE, 8 * PAGE, BIND, nodes, 1024, 0));
	TELL(mremap(p, 9 * PAGE, 2 * LENGTH, MREMAP_MAYMOVE) == MAP_FAILED);
	TELL(mremap(p + 15 * PAGE, 2 * PAGE, 2 * LENGTH, MREMAP_MAYMOVE) == MAP_FAILED);
	q = mremap(p + 8 * PAGE, 8 * PAGE, LENGTH, MREMAP_MAYMOVE);
	TELL(q == MAP_FAILED);
	show("where it was", p + 8 * PAGE, ADDR);
	show("where it is", q, ADDR);
	show("to its end", q + LENGTH - 1, ADDR);
	TELL(mmap(p, LENGTH, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p);
	show("another", p + 8 * PAGE, ADDR);
}

int main(void)
{
	char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	nodes[0] = 1;
	show("at first", NULL, 0);
	show("allowed", NULL, ALLOWED);
	show("nonsense", NULL, ALLOWED | NODE);
	show("an address that is not asked for", p, 0);
	show("an address", p, ADDR);
	show("nothing there", (void *)PAGE, ADDR);
	show("the node of a page", p, ADDR | NODE);
	show("no turns", NULL, NODE);
	TELL(syscall(SYS_get_mempolicy, NULL, got, 0, NULL, 0));
	TELL(syscall(SYS_get_mempolicy, NULL, NULL, 0, NULL, 8));
	TELL(set(DEFAULT, nodes, 1024));
	TELL(set(BIND, NULL, 0));
	TELL(set(BIND, (unsigned long *)8, 1024));
	TELL(set(77, nodes, 1024));
	TELL(set(BIND | STATIC | RELATIVE, nodes, 1024));
	TELL(set(LOCAL, nodes, 1024));
	TELL(set(BIND, nodes, 1UL << 40));
	nodes[0] = 1UL << 40;
	TELL(set(BIND, nodes, 1024));
	TELL(set(BIND | STATIC, nodes, 1024));
	nodes[0] = 1;
	for (int mode = DEFAULT; mode <= LOCAL; mode++) {
		int none = mode == DEFAULT || mode == LOCAL;

		TELL(set(mode, none ? NULL : nodes, none ? 0 : 1024));
		show("set", NULL, 0);
	}
	TELL(set(PREFERRED, NULL, 0));
	show("preferred by nobody", NULL, 0);
	TELL(set(BIND | STATIC, nodes, 1024));
	show("static", NULL, 0);
	TELL(set(INTERLEAVE, nodes, 2));
	show("turns", NULL, NODE);
	if (fork() == 0) {
		show("a child", NULL, 0);
		_exit(0);
	}
	wait(&status);
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	show("its creator", NULL, 0);
	/* Memory. */
	TELL(bind_to(p + 8 * PAGE, 8 * PAGE, BIND, nodes, 1024, 0));
	show("before", p + 7 * PAGE, ADDR);
	show("bound", p + 8 * PAGE, ADDR);
	show("bound, too", p + 16 * PAGE - 1, ADDR);
	show("behind", p + 16 * PAGE, ADDR);
	TELL(bind_to(p + 10 * PAGE, PAGE, DEFAULT, NULL, 0, 0));
	show("as before", p + 10 * PAGE, ADDR);
	show("still bound", p + 11 * PAGE, ADDR);
	TELL(bind_to(p, LENGTH, PREFERRED, nodes, 1024, 3));
	show("preferred", p + 10 * PAGE, ADDR);
	if (fork() == 0) {
		show("in a child", p, ADDR);
		_exit(0);
	}
	wait(&status);
	mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	show("mapped again", p, ADDR);
	TELL(bind_to(p + 1, PAGE, BIND, nodes, 1024, 0));
	TELL(bind_to(p, 0, BIND, nodes, 1024, 0));
	TELL(bind_to(p, PAGE, BIND, NULL, 0, 0));
	TELL(bind_to(p, PAGE, BIND, (unsigned long *)8, 1024, 0));
	TELL(bind_to(p, PAGE, DEFAULT, NULL, 0, -1));
	munmap(p + PAGE, PAGE);
	TELL(bind_to(p, 3 * PAGE, BIND, nodes, 1024, 0));
	TELL(set(DEFAULT, NULL, 0));
	moved();
	many();
	migrate();
	return 0;
}
