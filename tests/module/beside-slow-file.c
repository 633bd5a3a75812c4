// SPDX-License-Identifier: GPL-2.0
/*
 * On the LWK: threads wait for pages of descriptor 3's file, which do not come; another one takes
 * memory away that Linux has seen, maps, and forks.
 *   beside-slow-file - beside     some threads; one of them waits for a page-cache frame
 *   beside-slow-file - crowd      more threads than a space has service entries of a CPU
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "need.h"

#define PAGE 4096

static volatile char *slow_file;
static volatile int slow_byte;

static int touch_apart(void *number)
{
	slow_byte = slow_file[(size_t)number << 20];
	for (;;)
		syscall(SYS_nanosleep, &(struct timespec){ .tv_sec = 1000 }, NULL);
	return 0;
}

/* Takes memory that Linux has seen away, forks, and maybe maps what is Linux' own. */
static void change_memory(int round, int zero, int file)
{
	enum { SIZE = 16 * PAGE };
	int status = -1;
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	need(memory != MAP_FAILED && read(zero, memory, SIZE) == SIZE && !munmap(memory, SIZE), "memory");
	if (file >= 0) {
		memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		need(memory != MAP_FAILED, "mmap");
		memory[PAGE] = round;
		need(memory[PAGE] == round && !munmap(memory, SIZE), "munmap");
	}
	pid = fork();
	if (!pid)
		_exit(7);
	need(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7, "fork");
}

static void wait_beside(size_t waiting, int shares)
{
	enum { MOST = 24, FILE_SIZE = 64 << 20 };
	static char stacks[MOST][16384] __attribute__((aligned(16)));
	char line[8], *common = NULL;
	int round, zero = open("/dev/zero", O_RDONLY), file = shares ? memfd_create("memory", 0) : -1;
	size_t i;

	slow_file = mmap(NULL, FILE_SIZE, PROT_READ, MAP_PRIVATE, 3, 0);
	if (shares)
		common = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, 3, 0);
	need(slow_file != MAP_FAILED && common != MAP_FAILED && zero >= 0, "mmap");
	need(!shares || !ftruncate(file, 16 * PAGE), "memfd");
	change_memory(0, zero, file); /* its own pages are there from now on */
	printf("ready %lx\n", (unsigned long)slow_file);
	fflush(stdout);
	for (i = 0; i < waiting; i++) {
		if (shares && i == waiting - 1)
			slow_file = common;
		need(clone(touch_apart, stacks[i] + sizeof(stacks[i]), CLONE_VM | CLONE_FS | CLONE_FILES |
			   CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, (void *)(i * 2)) > 0, "clone");
		usleep(20000); /* it has read where the file is */
	}
	read(0, line, sizeof(line));
	for (round = 1; round < 20; round++)
		change_memory(round, zero, file);
	printf("went on\n");
	fflush(stdout);
	read(0, line, sizeof(line));
}

int main(int argc, char **argv)
{
	int is_crowd = argc > 2 && !strcmp(argv[2], "crowd");

	wait_beside(is_crowd ? 24 : 8, !is_crowd);
	return 0;
}
