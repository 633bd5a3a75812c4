/*
 * The child of a vfork shares its parent's memory: what it does to mappings is done to the
 * parent's.
 */
#define _GNU_SOURCE
#include "guest.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGES 5120

static char *stack, *page, *volatile mapped, *blocks[100];

/* A child on a stack of its own, and how it ends. */
static int child(int (*body)(void *), int flags, void *told)
{
	int status;
	pid_t pid = clone(body, stack + (1 << 20), CLONE_VM | CLONE_VFORK | SIGCHLD | flags, NULL, told);

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int allocates(void *unused)
{
	for (int i = 0; i < 100; i++) {
		blocks[i] = malloc(20000);
		memset(blocks[i], i, 20000);
	}
	_exit(1);
}

static int maps(void *unused)
{
	mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(mapped, "mapped by the child");
	_exit(2);
}

static int unmaps(void *unused)
{
	_exit(munmap(page, 4096) ? 9 : 3);
}

static int protects(void *unused)
{
	_exit(mprotect(page + 4096, 4096, PROT_READ) ? 9 : 4);
}

static int moves_break(void *unused)
{
	mapped = sbrk(1 << 20);
	memset(mapped, 7, 1 << 20);
	_exit(5);
}

static int writes_much(void *unused)
{
	for (long i = 0; i < PAGES; i++)
		page[i * 4096] = 5;
	_exit(6);
}

/* Beside what the kernel itself tells the parent. */
static struct {
	int told, error, tid;
} box __attribute__((aligned(4096)));

static int fails(void *unused)
{
	box.error = ENOENT;
	box.tid = getpid();
	_exit(7);
}

static int knows_itself(void *unused)
{
	_exit(box.told == getpid() ? 8 : 9);
}

/* A thread of the parent maps memory while the child does: neither gets what is the other's. */
#define ROOM (64 * 4096)

static int to_thread[2], to_child[2], program;
static char *own[4];

static int collides(void *unused)
{
	char byte = 0;

	for (int i = 0; i < 4; i++) {
		char *p = i == 3 ? mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE, program, 0) :
			mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(p, 'c', i == 3 ? 4096 : ROOM);
	}
	_exit(write(to_thread[1], &byte, 1) == 1 && read(to_child[0], &byte, 1) == 1 ? 10 : 9);
}

static void *maps_its_own(void *unused)
{
	char byte;

	if (read(to_thread[0], &byte, 1) != 1)
		return NULL;
	for (int i = 0; i < 4; i++)
		own[i] = mmap(NULL, ROOM, i == 1 ? PROT_READ : PROT_READ | PROT_WRITE,
			      MAP_ANONYMOUS | (i == 2 ? MAP_SHARED : MAP_PRIVATE), -1, 0);
	byte = own[1][0] + own[1][4096];
	return write(to_child[1], &byte, 1) == 1 ? own : NULL;
}

static void beside_a_thread(void)
{
	pthread_t thread;

	program = open("/proc/self/exe", O_RDONLY);
	if (pipe(to_thread) || pipe(to_child) || pthread_create(&thread, NULL, maps_its_own, NULL))
		return;
	printf("collides: %d\n", child(collides, 0, NULL));
	pthread_join(thread, NULL);
	for (int i = 0; i < 4; i++) {
		long foreign = 0;

		for (long at = 0; at < ROOM; at++)
			foreign += own[i][at] != 0;
		printf("bytes of the child in the thread's mapping %d: %ld\n", i, foreign);
	}
}

int main(void)
{
	long sum = 0;
	char *end;

	setvbuf(stdout, NULL, _IONBF, 0);
	stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("allocates: %d\n", child(allocates, 0, NULL));
	for (int i = 0; i < 100; i++) {
		sum += blocks[i][19999];
		free(blocks[i]);
	}
	memset(malloc(100000), 1, 100000);
	printf("allocated: %ld\n", sum);
	printf("maps: %d\n", child(maps, 0, NULL));
	printf("%s, %d\n", mapped, mapped[4096]);
	page = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page[0] = page[4096] = 1;
	printf("unmaps: %d\n", child(unmaps, 0, NULL));
	printf("gone: %d\n", msync(page, 4096, MS_ASYNC) == -1 && errno == ENOMEM);
	printf("protects: %d\n", child(protects, 0, NULL));
	printf("read only: %d\n", read(open("/dev/zero", O_RDONLY), page + 4096, 1) == -1 && errno == EFAULT);
	munmap(page, PAGES * 4096);
	end = sbrk(0);
	printf("moves its break: %d\n", child(moves_break, 0, NULL));
	printf("moved by %ld, %d\n", (char *)sbrk(0) - end, mapped[(1 << 20) - 1]);
	page = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("writes much: %d\n", child(writes_much, 0, NULL));
	sum = 0;
	for (long i = 0; i < PAGES; i++)
		sum += page[i * 4096];
	printf("written: %ld\n", sum / 5);
	box.told = -1;
	printf("fails: %d\n", child(fails, CLONE_PIDFD, &box.told));
	printf("descriptor %d, error %d, id %d\n", box.told >= 0, box.error, box.tid > 0);
	box.told = 0;
	printf("knows itself: %d\n", child(knows_itself, CLONE_PARENT_SETTID, &box.told));
	printf("its parent: %d\n", box.told > 0);
	beside_a_thread();
	return 0;
}
