/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Errors that come late, and in odd places: faults CASE, in a directory of tests/run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int file;
static char block[65536];

static void say(const char *what, long result)
{
	printf("%s %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
	fflush(stdout);
}

static int create(const char *name)
{
	return open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
}

/* Fills the filesystem: an error of each kind of call that comes next. */
static void full(const char *then)
{
	long result = 0;
	int errors = 0;
	/* Where nothing may be told by a write the last one is the first that does not fit: on a
	 * busy machine the worker may run before the program. */
	int most = (strcmp(then, "exit") && strcmp(then, "posted") ? 4 : 1) * (1 << 20) / sizeof(block) + 1;

	file = create("full");
	for (int i = 0; i < most && !errors; i++)
		errors += write(file, block, sizeof(block)) != sizeof(block);
	if (!strcmp(then, "write")) {
		lseek(file, 0, SEEK_CUR); /* waits, and tells no error */
		result = write(file, block, 10);
	} else if (!strcmp(then, "fsync")) {
		lseek(file, 0, SEEK_CUR);
		result = fsync(file);
	} else if (!strcmp(then, "close")) {
		lseek(file, 0, SEEK_CUR);
		result = close(file);
	} else if (!strcmp(then, "exit")) {
		exit(5);
	} else if (!strcmp(then, "posted")) {
		/* Where the worker was faster it tells of it, and the end does not. */
		if (close(file))
			fprintf(stderr, "told by close\n");
		exit(6);
	}
	printf("%s: %s\n", then, errors || result < 0 ? "told" : "not told");
	if (!strcmp(then, "fsync"))
		printf("again: %ld\n", (long)fsync(file));
}

static void *cancelled(void *path)
{
	int fds[2];
	char byte;

	(void)path;
	if (pipe(fds) == 0 && read(fds[0], &byte, 1) < 0)
		return NULL;
	return NULL;
}

static void clean_up(void *argument)
{
	say("cleaned", *(int *)argument);
}

static void *cleaning(void *argument)
{
	pthread_cleanup_push(clean_up, argument);
	cancelled(NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static sigjmp_buf jump;
static volatile int jumped;

static void leave(int signal)
{
	jumped++;
	siglongjmp(jump, signal);
}

static void *last(void *argument)
{
	usleep(20000);
	say("last", write(file, argument, 4));
	return NULL;
}

static void *many(void *argument)
{
	char line[64];

	for (int i = 0; i < 500; i++) {
		int size = sprintf(line, "%s %d\n", (char *)argument, i);

		if (write(file, line, (size_t)size) != size)
			abort();
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];
	int argument = 11;
	void *result;

	file = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, many, (char *[]){ "a", "b", "c", "d" }[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	pthread_create(&thread[0], NULL, cleaning, &argument);
	usleep(20000);
	say("write", write(file, "x", 1));
	pthread_cancel(thread[0]);
	pthread_join(thread[0], &result);
	say("cancelled", result == PTHREAD_CANCELED);
	pthread_create(&thread[0], NULL, last, "end\n");
	pthread_exit(NULL);
}

static void jumps(void)
{
	volatile long count = 0;
	struct sigaction action = { .sa_handler = leave };

	action.sa_flags = SA_NODEFER;
	struct itimerval timer = { { 0, 500 }, { 0, 500 } };

	file = create("jumps");
	sigaction(SIGALRM, &action, NULL);
	sigsetjmp(jump, 1);
	/* No handler may jump before there is a place to jump to. */
	if (!jumped)
		setitimer(ITIMER_REAL, &timer, NULL);
	/* So many jumps leave no time to count one where a write takes longer than the timer. */
	while (jumped < 1000)
		if (write(file, "0123456789", 10) == 10)
			count++;
	timer = (struct itimerval){ { 0, 0 }, { 0, 0 } };
	setitimer(ITIMER_REAL, &timer, NULL);
	/* A jump may come between a write and its count. */
	struct stat stat;

	fstat(file, &stat);
	say("jumps", stat.st_size % 10 == 0 && stat.st_size / 10 >= count);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)context;
	say("fault", signal);
	if (info->si_code > 0)
		say("address", (long)info->si_addr);
	say("code", info->si_code);
	siglongjmp(jump, 1);
}

static void handlers(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, old;
	stack_t stack;

	file = create("handled");
	sigaction(SIGSEGV, NULL, &old);
	say("default", old.sa_handler == SIG_DFL);
	sigaltstack(NULL, &stack);
	say("no stack", stack.ss_flags == SS_DISABLE);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGSEGV, NULL, &old);
	say("kept", old.sa_sigaction == on_fault && old.sa_flags == SA_SIGINFO);
	say("write", write(file, "before", 6));
	if (!sigsetjmp(jump, 1))
		*(volatile int *)48 = 1;
	say("write", write(file, "after", 5));
	if (!sigsetjmp(jump, 1))
		raise(SIGSEGV);
	if (!sigsetjmp(jump, 1))
		kill(getpid(), SIGSEGV);
	say("end", 0);
}

static void rights(void)
{
	file = create("rights");
	say("write", write(file, "one", 3));
	say("unshare", unshare(CLONE_NEWUSER));
	say("write", write(file, "two", 3));
	say("setuid", setuid(getuid()));
	say("write", write(file, "three", 5));
}

static void limit(void)
{
	struct rlimit limit = { 4096, 4096 };

	signal(SIGXFSZ, SIG_IGN);
	file = create("limit");
	say("write", write(file, block, 4000));
	say("limit", setrlimit(RLIMIT_FSIZE, &limit));
	say("write", write(file, block, 4000));
	say("write", write(file, block, 4000));
	say("size", lseek(file, 0, SEEK_CUR));
}

static void large(void)
{
	file = create("large");
	say("pwrite", pwrite(file, "x", 1, 0x7ffffffffffffff0));
	say("fsync", fsync(file));
	say("fsync", fsync(file));
}

/* A data file has the number of standard error: nothing but its data gets into it. */
static void reused(void)
{
	close(2);
	say("lowest", create("data"));
	file = create("large");
	/* An error that may come late, and is never told. */
	if (pwrite(file, "x", 1, 0x7ffffffffffffff0) == 1)
		close(file);
	say("write", write(2, "data", 4));
}

static void descriptors(void)
{
	file = create("one");
	say("lowest", file);
	say("close", close(file));
	say("closed", write(file, "x", 1));
	say("closed", close(file));
	say("lowest", create("two"));
	say("pipe", pipe((int[2]){ 0, 0 }));
	say("over", dup2(1, file));
	say("close_range", syscall(SYS_close_range, 3, ~0U, 0));
	say("lowest", create("three"));
	say("raw", syscall(SYS_write, 3, "raw", 3));
	say("vfork", 0);
	pid_t child = vfork();

	if (child == 0) {
		close(3);
		_exit(write(3, "child", 5) < 0 ? 4 : 5);
	}
	int status;

	waitpid(child, &status, 0);
	say("status", status);
	say("write", write(3, "parent", 6));
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} cases[] = { { "threads", threads }, { "jumps", jumps },   { "handlers", handlers }, { "rights", rights },
		      { "limit", limit },     { "large", large }, { "descriptors", descriptors },
		      { "reused", reused } };

	memset(block, 'b', sizeof(block));
	if (count == 3)
		full(arguments[2]);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (count == 2 && !strcmp(arguments[1], cases[i].name))
			cases[i].function();
	return 3;
}
