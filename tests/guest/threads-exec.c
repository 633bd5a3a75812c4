/* execve and exit where there are several threads; execveat. Linked with -pthread by way of libc. */
#include "guest.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <poll.h>

static int pipes[2], go;

static void *in_read(void *unused)
{
	char c;
	read(pipes[0], &c, 1);
	printf("not here\n");
	return NULL;
}

static void *in_poll(void *unused)
{
	struct pollfd p = { pipes[0], POLLIN };
	poll(&p, 1, -1);
	return NULL;
}

static void *in_sleep(void *unused)
{
	sleep(1000);
	return NULL;
}

static void *in_futex(void *unused)
{
	syscall(SYS_futex, &go, 0, 0, NULL, NULL, 0);
	return NULL;
}

static void *computing(void *unused)
{
	for (;;)
		*(volatile int *)&go;
	return NULL;
}

/* Waits in Linux with every signal blocked, by the mask that is for the call alone. */
static sigset_t all;

static void *in_ppoll(void *unused)
{
	struct pollfd p = { pipes[0], POLLIN };
	sigfillset(&all);
	ppoll(&p, 1, NULL, &all);
	return NULL;
}

static void *in_pselect(void *unused)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	sigfillset(&all);
	pselect(pipes[0] + 1, &set, NULL, NULL, NULL, &all);
	return NULL;
}

static void *in_sigsuspend(void *unused)
{
	sigfillset(&all);
	sigsuspend(&all);
	return NULL;
}

static void *in_epoll(void *unused)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);
	epoll_ctl(fd, EPOLL_CTL_ADD, pipes[0], &event);
	sigfillset(&all);
	epoll_pwait(fd, &event, 1, -1, &all);
	return NULL;
}

static char **arguments;

static void *executing(void *unused)
{
	char *again[] = { arguments[0], "second", NULL };

	prctl(PR_SET_NAME, "other");
	execv(arguments[0], again);
	perror("execve");
	return NULL;
}

static int tasks(void)
{
	return getpid() == gettid();
}

static void start(void)
{
	static void *(*const each[])(void *) = { in_read, in_poll, in_ppoll, in_pselect, in_epoll,
						  in_sigsuspend, in_sleep, in_futex, computing };
	pthread_t thread;

	for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++)
		pthread_create(&thread, NULL, each[i], NULL);
	usleep(50000);
}

static void as_child(const char *name, void (*body)(void))
{
	int status, pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		body();
		_exit(99);
	}
	waitpid(pid, &status, 0);
	printf("%s: exited %d with %d, signal %d\n", name, WIFEXITED(status), WEXITSTATUS(status),
	       WTERMSIG(status));
}

static void from_first(void)
{
	start();
	executing(NULL);
}

static void from_other(void)
{
	pthread_t thread;

	start();
	pthread_create(&thread, NULL, executing, NULL);
	pthread_join(thread, NULL);
}

static void *leave_later(void *unused)
{
	usleep(100000);
	syscall(SYS_exit, 7);
	return NULL;
}

static void first_leaves(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, leave_later, NULL);
	syscall(SYS_exit, 5);
}

static void *execute_later(void *unused)
{
	usleep(100000);
	return executing(NULL);
}

static void first_left(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, execute_later, NULL);
	syscall(SYS_exit, 5);
}

static void *group_later(void *unused)
{
	usleep(100000);
	exit(9);
}

static void first_left_group(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, group_later, NULL);
	syscall(SYS_exit, 5);
}

static void failing(void)
{
	char *none[] = { "x", NULL };

	start();
	TELL(execv("/nonexistent", none));
	TELL(execv("/etc/passwd", none));
	fflush(stdout);
	_exit(getpid() == gettid() ? 3 : 4);
}

static void *two(void *path)
{
	char *again[] = { arguments[0], "second", NULL };

	execv(arguments[0], again);
	return NULL;
}

static void at_once(void)
{
	pthread_t thread;

	start();
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, two, NULL);
	pause();
}

#define PIECES 500
static char *const fixed = (char *)0x200000000;

static void *unmapping(void *unused)
{
	*(volatile int *)&go = 1;
	munmap(fixed, 2 * PIECES * PAGE);
	return unused;
}

/* A thread unmaps many pieces of a file while the program is replaced. */
static void half_unmapped(void)
{
	char *again[] = { arguments[0], "second", "reads", NULL };
	int file = open("pieces", O_RDWR | O_CREAT | O_TRUNC, 0644);
	pthread_t thread;

	ftruncate(file, PIECES * PAGE);
	for (int i = 0; i < PIECES; i++)
		mmap(fixed + 2 * i * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, i * PAGE);
	pthread_create(&thread, NULL, unmapping, NULL);
	while (!*(volatile int *)&go)
		;
	usleep(1000);
	execv(arguments[0], again);
}

/* What is read where the pieces were is there, and not in the file. */
static void read_there(void)
{
	int program = open("/proc/self/exe", O_RDONLY), missing = 0;

	mmap(fixed, 2 * PIECES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (int i = 0; i < PIECES; i++)
		missing += pread(program, fixed + 2 * i * PAGE, 4, 0) != 4 || memcmp(fixed + 2 * i * PAGE, "\177ELF", 4);
	printf("%s\n", missing ? "what was read is elsewhere" : "what was read is there");
}

static void *id(void *slot)
{
	*(int *)slot = gettid();
	return NULL;
}

static void ids(void)
{
	int a, b;
	pthread_t thread;

	pthread_create(&thread, NULL, id, &a);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, id, &b);
	pthread_join(thread, NULL);
	printf("threads have ids of their own: %d %d\n", a != getpid(), b != getpid());
	fflush(stdout);
	_exit(0);
}

static void *name_of(void *name)
{
	prctl(PR_GET_NAME, name);
	return NULL;
}

static void *named(void *name)
{
	prctl(PR_SET_NAME, "worker");
	return name_of(name);
}

static void names(void)
{
	char one[16], two[16], own[16];
	pthread_t thread;

	prctl(PR_SET_NAME, "first");
	pthread_create(&thread, NULL, named, one);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, name_of, two);
	pthread_join(thread, NULL);
	prctl(PR_GET_NAME, own);
	printf("%s %s %s\n", one, two, own);
	fflush(stdout);
	_exit(0);
}

static void *user(void *id)
{
	*(int *)id = syscall(SYS_geteuid);
	FILE *f = fopen("/etc/shadow", "r");
	((int *)id)[1] = f != NULL;
	if (f)
		fclose(f);
	return NULL;
}

static void *drop(void *unused)
{
	syscall(SYS_setresuid, -1, 65534, -1);
	pthread_t thread;
	int id[2];
	pthread_create(&thread, NULL, user, id);
	pthread_join(thread, NULL);
	printf("made by a thread without rights: reads /etc/shadow %d\n", id[1]);
	return NULL;
}

/* A thread has the credentials of the one that made it, whoever had its worker before. */
static void rights(void)
{
	pthread_t thread;
	int id[2];

	pthread_create(&thread, NULL, user, id);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, drop, NULL);
	pthread_join(thread, NULL);
	fflush(stdout);
	_exit(0);
}

static void at(void)
{
	char *again[] = { "at", "second", NULL }, *none[] = { NULL };
	int fd = open(arguments[0], O_RDONLY | O_CLOEXEC), script, dir;
	int pid, status;

	TELL(syscall(SYS_execveat, 77, "x", again, none, 0));
	TELL(syscall(SYS_execveat, 77, "", again, none, AT_EMPTY_PATH));
	TELL(syscall(SYS_execveat, fd, "", again, none, 0));
	TELL(syscall(SYS_execveat, fd, "", again, none, 0x8000));
	TELL(syscall(SYS_execveat, fd, "x", again, none, 0));
	symlink(arguments[0], "link");
	TELL(syscall(SYS_execveat, AT_FDCWD, "link", again, none, AT_SYMLINK_NOFOLLOW));
	script = open("script", O_WRONLY | O_CREAT, 0755);
	write(script, "#!/bin/echo\n", 12);
	close(script);
	script = open("script", O_RDONLY | O_CLOEXEC);
	TELL(syscall(SYS_execveat, script, "", again, none, AT_EMPTY_PATH));
	fflush(stdout);
	if ((pid = fork()) == 0) {
		fcntl(script, F_SETFD, 0);
		syscall(SYS_execveat, script, "", again, none, AT_EMPTY_PATH);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	dir = open(".", O_RDONLY);
	if ((pid = fork()) == 0) {
		syscall(SYS_execveat, dir, "script", again, none, 0);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	if ((pid = fork()) == 0) {
		fexecve(fd, again, environ);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	syscall(SYS_execveat, AT_FDCWD, "link", again, none, 0);
	_exit(1);
}

int main(int argc, char **argv)
{
	char name[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	arguments = argv;
	if (argc > 1) {
		prctl(PR_GET_NAME, name);
		printf("again, by the first thread %d, named %s\n", tasks(), strchr(name, '-') ? "as the program" : name);
		if (argc > 2)
			read_there();
		return 33;
	}
	pipe(pipes);
	as_child("execve by the first thread", from_first);
	as_child("execve by another thread", from_other);
	as_child("several at once", at_once);
	as_child("while memory is unmapped", half_unmapped);
	as_child("execve that fails", failing);
	as_child("exit of the first thread", first_leaves);
	as_child("exit of the first thread, then execve", first_left);
	as_child("exit of the first thread, then exit_group", first_left_group);
	as_child("ids", ids);
	as_child("names", names);
	if (!getuid())
		as_child("rights", rights);
	as_child("execveat", at);
	return 0;
}
