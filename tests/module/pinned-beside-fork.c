// SPDX-License-Identifier: GPL-2.0
/*
 * On the LWK, or on Linux: a read of descriptor 3's file past the page cache has its buffer pinned,
 * and waits; meanwhile the process forks, and writes to the buffer. Then what was read is in the
 * parent's memory, and not in its children's.
 *   pinned-beside-fork - HOW...   a process for each:
 *     few         next to nothing else was read into
 *     many        much else was
 *     large       the buffer is a part of a large page
 *     protected   the buffer was read-only meanwhile
 *     moved       it is somewhere else by now
 *     twice       it is the second fork
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "need.h"

enum { PAGE = 4096, SIZE = 16 * PAGE, LARGE = 2 << 20, OTHERS = 64 * PAGE, RW = PROT_READ | PROT_WRITE };

static char *buffer, *around;

static char *map(size_t size)
{
	char *at = mmap(NULL, size, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(at != MAP_FAILED, "mmap");
	return at;
}

static void *reader(void *at)
{
	return (void *)pread(3, at, SIZE, 0);
}

/* How many bytes of these are not as they should be. */
static int others(const char *at, size_t size, char byte)
{
	int count = 0;

	while (size--)
		count += *at++ != byte;
	return count;
}

/* Looks at its memory when the pipe ends. */
static pid_t forked(const int *ends)
{
	pid_t pid = fork();
	char byte;

	need(pid >= 0, "fork");
	if (pid)
		return pid;
	close(ends[1]);
	if (read(ends[0], &byte, 1))
		_exit(2);
	_exit((others(buffer, SIZE, 'a') ? 1 : 0) + (around && others(around, LARGE, 'a') ? 2 : 0));
}

/* In a process of its own; it goes on when the pipe `go` ends. */
static void run(const char *how, const int *go)
{
	int ends[2], zero = open("/dev/zero", O_RDONLY), status, i;
	pid_t children[2] = { 0, 0 };
	pthread_t thread;
	char byte;
	void *done;

	close(go[1]);
	need(!pipe(ends) && zero >= 0, "files");
	if (!strcmp(how, "large")) {
		around = map(2 * LARGE);
		around = (char *)(((unsigned long)around + LARGE - 1) & -(unsigned long)LARGE);
		madvise(around, LARGE, MADV_HUGEPAGE);
		memset(around, 'a', LARGE);
		buffer = around + LARGE / 2;
	} else {
		buffer = map(SIZE);
		memset(buffer, 'a', SIZE);
	}
	if (!strcmp(how, "many") || !strcmp(how, "twice"))
		need(read(zero, map(OTHERS), OTHERS) == OTHERS, "read");
	need(!pthread_create(&thread, NULL, reader, buffer), "thread");
	need(!read(go[0], &byte, 1), "go");
	if (!strcmp(how, "protected"))
		need(!mprotect(buffer, SIZE, PROT_READ) && !mprotect(buffer, SIZE, RW), "mprotect");
	if (!strcmp(how, "moved")) {
		buffer = mremap(buffer, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, map(SIZE));
		need(buffer != MAP_FAILED, "mremap");
	}
	if (!strcmp(how, "twice"))
		children[1] = forked(ends);
	children[0] = forked(ends);
	for (i = 0; i < SIZE; i += PAGE)
		((volatile char *)buffer)[i + 8] = 'b';
	printf("forked\n");
	fflush(stdout);
	pthread_join(thread, &done);
	close(ends[1]);
	printf("%s: %ld of %d bytes read, %d of them lost;", how, (long)done, SIZE, others(buffer, SIZE, 'F'));
	for (i = 0; i < 2; i++)
		if (children[i])
			printf(" child: %d", waitpid(children[i], &status, 0) == children[i] ? status : -1);
	printf("\n");
	exit(0);
}

int main(int argc, char **argv)
{
	char line[100];
	int go[2], i;

	need(!pipe(go) && !fcntl(3, F_SETFL, O_DIRECT), "files");
	for (i = 2; i < argc; i++)
		if (!fork())
			run(argv[i], go);
	printf("ready 0\n");
	fflush(stdout);
	need(read(0, line, sizeof(line)) > 0, "go");
	close(go[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
