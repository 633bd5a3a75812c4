/* A program to be traced by `hanare trace`: see tests/groups/debug.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *thread(void *arg)
{
	write(-5, "thread", 6);
	return arg;
}

static void handler(int signal)
{
}

int main(int argc, char **argv)
{
	struct timespec nap = { 0, 1000000 };
	struct stat st;
	pthread_t t;
	char word[8] = "";
	int fds[2];

	open("/no-such-folder/file", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	pipe(fds);
	write(fds[1], "a\"\n\001", 4);
	read(fds[0], word, sizeof(word));
	fstat(fds[0], &st);
	mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	nanosleep(&nap, NULL);
	syscall(SYS_userfaultfd, 0);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	if (argc > 1) {
		pthread_create(&t, NULL, thread, NULL);
		pthread_join(t, NULL);
		if (!fork()) {
			write(-6, "child", 5);
			_exit(3);
		}
		wait(NULL);
	}
	return 7;
}
