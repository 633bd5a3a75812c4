/*
 * On which of two NUMA nodes pages lie: by the policy of the thread and of the mapping, touched by
 * the program, by system calls, after a fork. Told by get_mempolicy, move_pages and
 * /proc/self/numa_maps alike.
 *
 * `where` tells of the memory that the program has anyway, for numactl; `huge` of a MAP_HUGETLB
 * mapping bound to node 1; `fill NODE MIB` fills memory that is bound to a node.
 */
#include "guest.h"
#include <pthread.h>
#include <sched.h>

#define PAGES 64
#define LENGTH (PAGES * PAGE)
#define LARGE (2L << 20)
enum { DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL, PREFERRED_MANY, WEIGHTED };
#define STATIC (1 << 15)
#define RELATIVE (1 << 14)
enum { NODE = 1, ADDR = 2 };
enum { STRICT = 1 };

static char pages_of_program[LENGTH] __attribute__((aligned(LENGTH)));

static long thread_policy(int mode, unsigned long nodes)
{
	return syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL, nodes ? 64 : 0);
}

static long bind_to(void *at, unsigned long length, int mode, unsigned long nodes, unsigned int flags)
{
	return syscall(SYS_mbind, at, length, mode, nodes ? &nodes : NULL, nodes ? 64 : 0, flags);
}

static int node_of(void *at)
{
	int node = -1;

	return syscall(SYS_get_mempolicy, &node, NULL, 0, at, NODE | ADDR) ? -errno : node;
}

/* A mapping that does not become one with others. */
static char *map(unsigned long length)
{
	char *p = mmap(NULL, length + 2 * LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	p = (char *)(((uintptr_t)p + LARGE) & ~(LARGE - 1));
	mprotect(p, length, PROT_READ | PROT_WRITE);
	madvise(p, length, MADV_NOHUGEPAGE);
	return p;
}

static void write_pages(char *p, unsigned long length)
{
	for (unsigned long at = 0; at < length; at += PAGE)
		p[at] = 1;
}

/* The policy and the nodes in the line of numa_maps that begins with an address. */
static void tell_numa_maps(char *p)
{
	char line[4096], address[32], *word;
	FILE *file = fopen("/proc/self/numa_maps", "r");
	int found = 0;

	snprintf(address, sizeof(address), "%08lx ", (unsigned long)p);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, address, strlen(address)))
			continue;
		found = 1;
		printf("\tnuma_maps:");
		for (word = strtok(line + strlen(address), " \n"); word; word = strtok(NULL, " \n"))
			if (word == line + strlen(address) || (word[0] == 'N' && strchr(word, '=')))
				printf(" %s", word);
		printf("\n");
	}
	fclose(file);
	if (!found)
		printf("\tnuma_maps: not there\n");
}

/* How many pages lie where, and how often one lies elsewhere than the one before. */
static void tell(const char *what, char *p, unsigned long length)
{
	unsigned long count = length / PAGE;
	int on[2] = { 0, 0 }, changes = 0, differ = 0, others = 0;
	void **pages = calloc(count, sizeof(*pages));
	int *status = calloc(count, sizeof(*status));

	for (unsigned long i = 0; i < count; i++)
		pages[i] = p + i * PAGE;
	if (syscall(SYS_move_pages, 0, count, pages, NULL, status, 0))
		printf("move_pages: %s\n", strerrorname_np(errno));
	for (unsigned long i = 0; i < count; i++) {
		int node = node_of(pages[i]);

		if (node == 0 || node == 1)
			on[node]++;
		else
			others++;
		changes += i && status[i] != status[i - 1];
		differ += node != status[i];
	}
	printf("%s: %d on node 0, %d on node 1, %d elsewhere, %d changes, %d told otherwise by move_pages\n", what, on[0],
	       on[1], others, changes, differ);
	free(pages);
	free(status);
}

static void touch_and_tell(const char *what, int mode, unsigned long nodes)
{
	char *p = map(LENGTH);

	TELL(bind_to(p, LENGTH, mode, nodes, 0));
	write_pages(p, LENGTH);
	tell(what, p, LENGTH);
	tell_numa_maps(p);
}

/* The running thread goes to a CPU of a node. */
static void go_to(unsigned int node)
{
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof(all), &all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		unsigned int its = 9;

		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		syscall(SYS_getcpu, NULL, &its, NULL);
		if (its == node)
			return;
		sched_setaffinity(0, sizeof(all), &all);
	}
	printf("no CPU of node %u\n", node);
}

/* What is near is near to the CPU that touches it first. */
static void near(void)
{
	cpu_set_t all;

	sched_getaffinity(0, sizeof(all), &all);
	for (int node = 0; node < 2; node++) {
		sched_setaffinity(0, sizeof(all), &all);
		go_to(node);
		printf("on node %d\n", node);
		touch_and_tell("default", DEFAULT, 0);
		touch_and_tell("local", LOCAL, 0);
		touch_and_tell("bound to both", BIND, 3);
		touch_and_tell("both preferred", PREFERRED_MANY, 3);
		TELL(thread_policy(BIND, 2 >> node));
		touch_and_tell("local, of a thread that is bound", LOCAL, 0);
		touch_and_tell("default, of a thread that is bound", DEFAULT, 0);
		TELL(thread_policy(DEFAULT, 0));
	}
	sched_setaffinity(0, sizeof(all), &all);
}

static void *in_thread(void *where)
{
	write_pages(where, LENGTH);
	TELL(thread_policy(BIND, 1));
	write_pages((char *)where + LENGTH, LENGTH);
	return NULL;
}

static void threads(void)
{
	char *p = map(3 * LENGTH);
	pthread_t thread;

	TELL(thread_policy(BIND, 2));
	pthread_create(&thread, NULL, in_thread, p);
	pthread_join(thread, NULL);
	write_pages(p + 2 * LENGTH, LENGTH);
	tell("of a new thread", p, LENGTH);
	tell("of one with a policy of its own", p + LENGTH, LENGTH);
	tell("of its creator", p + 2 * LENGTH, LENGTH);
	TELL(thread_policy(DEFAULT, 0));
}

/* Linux makes pages that a call is the first to touch. */
static void calls(void)
{
	char *p = map(LENGTH), *q = map(LENGTH), *r = map(LENGTH);
	int zeros = open("/dev/zero", O_RDONLY);

	for (unsigned long node = 0; node < 2; node++) {
		p = map(LENGTH);
		q = map(LENGTH);
		TELL(bind_to(p, LENGTH, BIND, 1 << node, 0));
		TELL(read(zeros, p, LENGTH));
		tell("read into bound memory", p, LENGTH);
		TELL(thread_policy(BIND, 1 << node));
		TELL(read(zeros, q, LENGTH));
		tell("read by a bound thread", q, LENGTH);
		TELL(thread_policy(DEFAULT, 0));
	}
	TELL(bind_to(r, LENGTH, INTERLEAVE, 3, 0));
	TELL(read(zeros, r, LENGTH));
	tell("read in turns", r, LENGTH);
	close(zeros);
}

/* Pages of a file become the process' own when they are written. */
static void files(void)
{
	int fd = open("pages", O_RDWR | O_CREAT, 0600);

	TELL(write(fd, pages_of_program, LENGTH));

	for (unsigned long node = 0; node < 2; node++) {
		char *p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		TELL(bind_to(p, LENGTH, BIND, 1 << node, 0));
		write_pages(p, LENGTH);
		tell("written pages of a file", p, LENGTH);
	}
	close(fd);
}

static void children(void)
{
	char *p = map(2 * LENGTH);

	touch_and_tell("before", BIND, 1);
	write_pages(p, LENGTH);
	TELL(bind_to(p, LENGTH, BIND, 2, 0));
	fflush(stdout);
	if (fork() == 0) {
		write_pages(p, LENGTH);
		tell("copied by a child", p, LENGTH);
		TELL(thread_policy(BIND, 2));
		write_pages(p + LENGTH, LENGTH);
		tell("of the child's own", p + LENGTH, LENGTH);
		exit(0);
	}
	wait(NULL);
}

/* A piece with a policy of its own. */
static void pieces(void)
{
	char *p = map(LENGTH), *q;

	TELL(bind_to(p, LENGTH, BIND, 1, 0));
	TELL(bind_to(p + 16 * PAGE, 32 * PAGE, BIND, 2, 0));
	write_pages(p, LENGTH);
	tell("below", p, 16 * PAGE);
	tell("the piece", p + 16 * PAGE, 32 * PAGE);
	tell("above", p + 48 * PAGE, 16 * PAGE);
	tell_numa_maps(p);
	tell_numa_maps(p + 16 * PAGE);
	tell_numa_maps(p + 48 * PAGE);
	q = map(LENGTH);
	TELL(bind_to(q, LENGTH, BIND, 2, 0));
	q = mremap(q, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE);
	write_pages(q, 2 * LENGTH);
	tell("moved and grown", q, 2 * LENGTH);
}

/* Whether what lies elsewhere is an error. */
static void strict(void)
{
	char *p = map(LENGTH);

	TELL(bind_to(p, LENGTH, BIND, 1, 0));
	write_pages(p, 16 * PAGE);
	TELL(bind_to(p, LENGTH, BIND, 1, STRICT));
	TELL(bind_to(p, LENGTH, BIND, 3, STRICT));
	TELL(bind_to(p, LENGTH, BIND, 2, STRICT));
	tell_numa_maps(p);
	TELL(bind_to(p + PAGE * 32, LENGTH - PAGE * 32, BIND, 2, STRICT));
	TELL(bind_to(p, LENGTH, DEFAULT, 0, STRICT));
}

static void home(void)
{
	for (unsigned long node = 0; node < 2; node++) {
		char *p = map(LENGTH);

		TELL(syscall(SYS_set_mempolicy_home_node, p, LENGTH, node, 0));
		TELL(bind_to(p, LENGTH, node ? BIND : PREFERRED_MANY, 3, 0));
		TELL(syscall(SYS_set_mempolicy_home_node, p, LENGTH, node, 0));
		write_pages(p, LENGTH);
		tell("of a home node", p, LENGTH);
		TELL(syscall(SYS_set_mempolicy_home_node, p, LENGTH, node, 1));
		TELL(syscall(SYS_set_mempolicy_home_node, p, LENGTH, 999999, 0));
		TELL(syscall(SYS_set_mempolicy_home_node, p + 1, LENGTH, node, 0));
		TELL(syscall(SYS_set_mempolicy_home_node, p, 0, node, 0));
		TELL(bind_to(p, LENGTH, INTERLEAVE, 3, 0));
		TELL(syscall(SYS_set_mempolicy_home_node, p, LENGTH, node, 0));
	}
}

static void large(int mode, unsigned long nodes)
{
	char *p = map(8 * LARGE);

	madvise(p, 8 * LARGE, MADV_HUGEPAGE);
	TELL(bind_to(p, 8 * LARGE, mode, nodes, 0));
	for (int i = 0; i < 8; i++)
		p[i * LARGE] = 1;
	for (int i = 0; i < 8; i++)
		printf(" %d", node_of(p + i * LARGE) ^ (mode == INTERLEAVE ? node_of(p) : 0));
	printf("\n");
}

static void questions(void)
{
	char *p = map(LENGTH);
	void *pages[] = { p, p + PAGE * 32, (void *)PAGE, p + 1 };
	int status[4] = { 9, 9, 9, 9 };

	TELL(bind_to(p, PAGE, BIND, 2, 0));
	p[0] = 1;
	TELL(syscall(SYS_move_pages, 0, 4, pages, NULL, status, 0));
	printf("%d %d %d %d\n", status[0], status[1], status[2], status[3]);
	TELL(syscall(SYS_move_pages, getpid(), 1, pages, NULL, status, 0));
	TELL(syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0));
	TELL(syscall(SYS_move_pages, 0, 1, 8, NULL, status, 0));
	TELL(syscall(SYS_move_pages, 0, 1, pages, NULL, 8, 0));
	TELL(syscall(SYS_move_pages, 0, 1, pages, NULL, status, 1));
	TELL(syscall(SYS_move_pages, 0x7ffffff0, 1, pages, NULL, status, 0));
	fflush(stdout);
	if (fork() == 0) {
		TELL(syscall(SYS_move_pages, getppid(), 1, pages, NULL, status, 0));
		printf("of the parent: %d\n", status[0]);
		setresuid(65534, 65534, 65534);
		TELL(syscall(SYS_move_pages, getppid(), 1, pages, NULL, status, 0));
		exit(0);
	}
	wait(NULL);
}

/* Of the memory that a program has anyway. */
static void where(void)
{
	char on_stack[LENGTH] __attribute__((aligned(16 * PAGE)));
	const long bytes = 64 << 20;
	char *p = malloc(bytes);
	int on[2] = { 0, 0 };

	write_pages(pages_of_program, LENGTH);
	write_pages(on_stack, LENGTH);
	write_pages(p, bytes);
	tell("of the program", pages_of_program, LENGTH);
	tell("on the stack", on_stack, LENGTH);
	for (long at = 0; at < bytes; at += 1 << 20)
		on[node_of(p + at) & 1] = 1;
	printf("heap: on node 0 %d, on node 1 %d\n", on[0], on[1]);
}

static void huge(void)
{
	char *p;

	thread_policy(BIND, 2);
	p = mmap(NULL, 4 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	printf("%d %d\n", node_of(p), node_of(p + 3 * LARGE));
}

static void fill(unsigned long node, unsigned long bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	TELL(bind_to(p, bytes, BIND, 1 << node, 0));
	write_pages(p, bytes);
	printf("there\n");
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strcmp(argv[1], "where"))
		where();
	else if (argc > 1 && !strcmp(argv[1], "huge"))
		huge();
	else if (argc > 3 && !strcmp(argv[1], "fill"))
		fill(atoi(argv[2]), atol(argv[3]) << 20);
	if (argc > 1)
		return 0;
	for (unsigned long node = 0; node < 2; node++) {
		printf("node %lu\n", node);
		touch_and_tell("bound", BIND, 1 << node);
		touch_and_tell("preferred", PREFERRED, 1 << node);
		touch_and_tell("preferred among others", PREFERRED_MANY, 1 << node);
		touch_and_tell("static", BIND | STATIC, 4 | 1 << node);
		touch_and_tell("relative", BIND | RELATIVE, 4 << node);
		TELL(thread_policy(BIND, 1 << node));
		touch_and_tell("of a bound thread", DEFAULT, 0);
		TELL(thread_policy(PREFERRED, 1 << node));
		touch_and_tell("of a thread that prefers", DEFAULT, 0);
		TELL(thread_policy(DEFAULT, 0));
	}
	touch_and_tell("in turns", INTERLEAVE, 3);
	touch_and_tell("in turns, of one", INTERLEAVE, 2);
	TELL(thread_policy(INTERLEAVE, 3));
	touch_and_tell("of a thread whose pages take turns", DEFAULT, 0);
	TELL(thread_policy(DEFAULT, 0));
	if (TELL(bind_to(pages_of_program, LENGTH, WEIGHTED, 3, 0)) == 0) {
		write_pages(pages_of_program, LENGTH);
		tell("weighted", pages_of_program, LENGTH);
	}
	large(BIND, 1);
	large(PREFERRED, 2);
	large(INTERLEAVE, 3);
	near();
	threads();
	calls();
	files();
	children();
	pieces();
	strict();
	home();
	questions();
	return 0;
}
