#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <time.h>
#include <pthread.h>
#include <fcntl.h>
#include <sys/sysinfo.h>
#include <errno.h>
#include <signal.h>
#define MAGIC 0x5354414cUL
#define PAGE 4096UL
extern char __data_start, _end;

static void touch_own(void)
{
	volatile char stack[64 << 10];
	volatile char *at;
	unsigned long i;

	for (i = 0; i < sizeof(stack); i += 1024)
		stack[i] = 1;
	for (at = &__data_start; at < &_end; at += 1024)
		*at = *at;
}

static int victim(void)
{
	unsigned long i, size = 190UL << 20;
	unsigned long *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(p, size, MADV_NOHUGEPAGE);
	for (i = 0; i < size / 8; i += 4) {
		p[i] = 0x214d49544349560aUL;
	}
	printf("filled\n");
	fflush(stdout);
	char byte;
	long bad = 0, which = 0;
	read(0, &byte, 1);
	for (i = 0; i < size / 8; i += 4)
		if (p[i] != 0x214d49544349560aUL)
			bad++, which = p[i];
	printf("victim: %ld words changed by another user, one is %#lx\n", bad, which);
	return 0;
}

static int attacker(void)
{
	int go[2];
	char byte;
	pid_t child;
	char *p;
	long first, got;

	setvbuf(stdout, NULL, _IONBF, 0);
	malloc(200000);
	p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, 64 * PAGE, MADV_NOHUGEPAGE);
	memset(p, 0xaa, 64 * PAGE);
	pipe(go);
	child = fork();
	if (!child) {
		read(go[0], &byte, 1);
		munmap(p, 64 * PAGE);
		write(1, "freed\n", 6);
		read(go[0], &byte, 1);
		_exit(0);
	}
	touch_own();
	syscall(SYS_getpriority, 0, 0);
	write(1, "begins\n", 7);
	touch_own();
	first = syscall(SYS_getpriority, MAGIC, p, 0);
	if (first) {
		write(1, "too fast\n", 9), kill(child, 9);
		return 1;
	}
	write(go[1], "x", 1);
	read(0, &byte, 1);
	got = syscall(SYS_getpriority, MAGIC, 0, 0);
	kill(child, 9);
	return got > 0 ? 42 : 0;
}

/* Makes as few pages as can be known to Linux. */
static int attacker_writes(long delay)
{
	char byte, *p;
	long got;

	p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, 8 * PAGE, MADV_NOHUGEPAGE);
	memset(p, 0xaa, 8 * PAGE);
	if (syscall(SYS_getpriority, MAGIC, p, delay))
		return 1;
	if (!syscall(SYS_fork)) {
		syscall(SYS_pause);
		_exit(0);
	}
	write(1, "forked\n", 7);
	read(0, &byte, 1);
	got = syscall(SYS_getpriority, MAGIC, 1, delay);
		return got > 0 ? 42 : 0;
}

/* migrate_pages with many pages. */
static int pages_of_node(void)
{
	unsigned long from = 1, to = 0;
	char *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, 64 << 20);
	printf("migrate_pages: %ld\n", syscall(SYS_migrate_pages, 0, 64, &from, &to));
	return 0;
}

static volatile int stop;
static char *shared_page;

static void *hammer(void *unused)
{
	while (!stop)
		mprotect(shared_page, PAGE, PROT_READ | PROT_WRITE);
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int hammered(int hammers)
{
	pthread_t thread;
	int i, zero = open("/dev/zero", O_RDONLY);
	double worst = 0, sum = 0;

	shared_page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*shared_page = 1;
	for (i = 0; i < hammers; i++)
		pthread_create(&thread, NULL, hammer, NULL);
	for (i = 0; i < 50; i++) {
		double before, took;
		pid_t child = fork();

		if (!child) {
			pause();
			_exit(0);
		}
		before = now();
		read(zero, shared_page, 1);
		took = now() - before;
		sum += took;
		worst = took > worst ? took : worst;
		kill(child, 9);
		waitpid(child, NULL, 0);
	}
	stop = 1;
	printf("%d hammers: mean %.3f ms, worst %.3f ms\n", hammers, sum / 50 * 1e3, worst * 1e3);
	return 0;
}

static void bind_to(int node)
{
	unsigned long nodes = 1UL << node;

	if (syscall(SYS_set_mempolicy, 2, &nodes, 64))
		perror("set_mempolicy");
}

struct part { char *from, *to; };

static void *touch_part(void *argument)
{
	struct part *part = argument;
	char *at;

	bind_to(1);
	for (at = part->from; at < part->to; at += PAGE)
		*at = 1;
	return NULL;
}

/* So many pages on each node, the second ones by so many threads. */
static int hold(long on_0, long on_1, int threads)
{
	char *p = mmap(NULL, 2UL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_t thread[8];
	struct part parts[8];
	int i;

	madvise(p, 2UL << 30, MADV_NOHUGEPAGE);
	bind_to(0);
	for (i = 0; i < on_0; i++, p += PAGE)
		*p = 1;
	for (i = 0; i < threads; i++) {
		parts[i] = (struct part){ p, p + on_1 / threads * PAGE };
		p += on_1 / threads * PAGE;
		pthread_create(&thread[i], NULL, touch_part, &parts[i]);
	}
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("held\n");
	fflush(stdout);
	pause();
	return 0;
}

static unsigned long free_bytes(unsigned long *total)
{
	struct sysinfo info;

	sysinfo(&info);
	*total = info.totalram * info.mem_unit;
	return info.freeram * info.mem_unit;
}

static int split(int processes, long vmas)
{
	int ready[2], go[2], i;
	char byte;
	unsigned long total, nodes = 1, left;

	setvbuf(stdout, NULL, _IONBF, 0);
	pipe(ready);
	pipe(go);
	printf("free %lu\n", free_bytes(&total) >> 10);
	for (i = 0; i < processes; i++) {
		if (!fork()) {
			char *p = mmap(NULL, vmas * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			long at, failed = 0;

			for (at = 0; at < vmas; at += 2)
				failed += mprotect(p + at * PAGE, PAGE, PROT_READ) != 0;
			at = syscall(SYS_mbind, p, vmas * PAGE, 1, &nodes, 64, 0);
			printf("%ld not cut, mbind %ld, errno %d\n", failed, at, errno);
			write(ready[1], "x", 1);
			read(go[0], &byte, 1);
			for (at = failed = 0; at < vmas; at += 2)
				failed += munmap(p + at * PAGE, PAGE) != 0;
			printf("%ld not unmapped\n", failed);
			write(ready[1], "x", 1);
			read(go[0], &byte, 1);
			_exit(0);
		}
	}
	for (i = 0; i < processes; i++)
		read(ready[0], &byte, 1);
	left = free_bytes(&total);
	printf("total %lu KiB, free %lu KiB\n", total >> 10, left >> 10);
	char *fill = mmap(NULL, 1UL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	madvise(fill, 1UL << 30, MADV_NOHUGEPAGE);
	while (free_bytes(&total) > total / 64 + (600 << 10)) {
		*fill = 1;
		fill += 16 * PAGE;
	}
	printf("free %lu KiB\n", free_bytes(&total) >> 10);
	for (i = 0; i < processes; i++) {
		write(go[1], "x", 1);
		read(ready[0], &byte, 1);
		printf("free %lu KiB\n", free_bytes(&total) >> 10);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "victim"))
		return victim();
	if (!strcmp(argv[1], "attacker"))
		return attacker();
	if (!strcmp(argv[1], "writer"))
		return attacker_writes(atol(argv[2]));
	if (!strcmp(argv[1], "migrate"))
		return pages_of_node();
	if (!strcmp(argv[1], "hammer"))
		return hammered(atoi(argv[2]));
	if (!strcmp(argv[1], "hold"))
		return hold(atol(argv[2]), atol(argv[3]), atoi(argv[4]));
	return split(atoi(argv[2]), atol(argv[3]));
}
