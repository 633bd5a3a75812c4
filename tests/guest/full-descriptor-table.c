/*
 * With no free descriptor, and without /proc, fork, threads, execve and posix_spawn work as long as
 * the program itself needs no descriptor for them.
 */
#include "guest.h"
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/resource.h>

extern char **environ;

static char program[4096];

static void fill(void)
{
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
}

/* Runs `body` in a child and tells how it ended. */
static void in_child(const char *name, int (*body)(void))
{
	int status = 0;
	pid_t pid;

	printf("-- %s\n", name);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int code = body();

		fflush(stdout);
		_exit(code);
	}
	waitpid(pid, &status, 0);
	printf("ended: %x\n", status);
}

/* A static program needs no descriptor for its libraries; a dynamic one says so. */
static int executes(void)
{
	fill();
	execl(program, program, "again", NULL);
	TELL(-1);
	return 1;
}

static void *nothing(void *p)
{
	return p;
}

static int forks(void)
{
	char *argv[] = { program, "again", NULL };
	int status = -1;
	pthread_t t;
	pid_t pid;

	fill();
	pid = fork();
	if (!pid)
		_exit(5);
	TELL(waitpid(pid, &status, 0) == pid);
	TELL(status);
	pid = vfork();
	if (!pid)
		_exit(6);
	TELL(waitpid(pid, &status, 0) == pid);
	TELL(status);
	TELL(pthread_create(&t, NULL, nothing, NULL) ?: pthread_join(t, NULL));
	TELL(posix_spawn(&pid, program, NULL, NULL, argv, environ));
	TELL(waitpid(pid, &status, 0) == pid);
	TELL(status);
	return 0;
}

/* The user cannot raise the limit, which is below the number of any descriptor of Hanare's. */
static int as_user(void)
{
	if (setgid(65534) || setuid(65534))
		return 9;
	return forks();
}

/* The soft limit is below what is open; that is inherited, and closed by execve. */
static int lowered(void)
{
	struct rlimit limit = { 4, 20 };
	int fd = open("/dev/zero", O_RDONLY), status = -1;
	char b[4];

	dup3(fd, 14, O_CLOEXEC);
	dup2(fd, 15);
	close(fd);
	setrlimit(RLIMIT_NOFILE, &limit);
	if (!fork())
		_exit(read(15, b, 4));
	wait(&status);
	TELL(WEXITSTATUS(status));
	fflush(stdout);
	execl(program, program, "opened", NULL);
	return 1;
}

/* execveat by a descriptor. */
static int no_proc(void)
{
	char *argv[] = { program, "opened", NULL };
	int fd = open(program, O_PATH | O_CLOEXEC);

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return 9;
	umount2("/proc", MNT_DETACH);
	TELL(access("/proc/self", F_OK));
	TELL(syscall(SYS_execveat, fd, "below", argv, environ, 0));
	TELL(syscall(SYS_execveat, fd, "", argv, environ, 0));
	TELL(syscall(SYS_execveat, AT_FDCWD, "/proc/self/exe", argv, environ, 0));
	fflush(stdout);
	syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	return 1;
}

/* Names that are none of a program. */
static int wrong(void)
{
	char *argv[] = { program, "again", NULL };
	int root = open("/", O_RDONLY | O_DIRECTORY);

	symlink(program, "fulltable.link");
	mkfifo("fulltable.fifo", 0755);
	TELL(syscall(SYS_execveat, AT_FDCWD, "fulltable.link", argv, environ, AT_SYMLINK_NOFOLLOW));
	TELL(execv("fulltable.fifo", argv));
	TELL(execv("fulltable.link/", argv));
	TELL(execv("/", argv));
	TELL(execv("", argv));
	TELL(syscall(SYS_execveat, root, "", argv, environ, AT_EMPTY_PATH));
	TELL(syscall(SYS_execveat, 99, "x", argv, environ, 0));
	TELL(syscall(SYS_execveat, root, "nowhere/x", argv, environ, 0));
	unlink("fulltable.fifo");
	unlink("fulltable.link");
	fflush(stdout);
	syscall(SYS_execveat, root, program + 1, argv, environ, AT_SYMLINK_NOFOLLOW);
	return 1;
}

int main(int argc, char **argv)
{
	struct rlimit limit = { 20, 20 };

	if (argc > 1) {
		if (!strcmp(argv[1], "opened")) {
			TELL(fcntl(14, F_GETFD));
			TELL(fcntl(15, F_GETFD));
		}
		return 0;
	}
	program[readlink("/proc/self/exe", program, sizeof(program) - 1)] = 0;
	in_child("wrong names", wrong);
	in_child("no /proc", no_proc);
	close_range(3, ~0U, 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	in_child("exec", executes);
	in_child("fork", forks);
	in_child("lowered", lowered);
	in_child("fork, a user", as_user);
	return 0;
}
