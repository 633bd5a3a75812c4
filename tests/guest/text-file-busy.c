/*
 * ETXTBSY: the file of a running program cannot be opened for writing, and a file that is open for
 * writing cannot be run.
 */
#include "guest.h"

#define SAY 9

static const char *copy(const char *name)
{
	char buffer[65536];
	int from = open("/proc/self/exe", O_RDONLY), to = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0755);
	ssize_t n;

	while ((n = read(from, buffer, sizeof(buffer))) > 0)
		if (write(to, buffer, n) != n)
			exit(2);
	close(from);
	close(to);
	return name;
}

static pid_t run(const char *name, int pipe[2])
{
	char byte = 0;
	pid_t pid = fork();

	if (pid == 0) {
		dup2(pipe[1], SAY);
		execl(name, name, "wait", NULL);
		printf("exec of %s: %s\n", name, strerrorname_np(errno));
		fflush(stdout);
		write(pipe[1], "x", 1);
		_exit(1);
	}
	read(pipe[0], &byte, 1);
	printf("%s says %c\n", name, byte);
	fflush(stdout);
	return pid;
}

/* A program that execve refuses, for its interpreter or its header, may be written at once. */
static void refused(void)
{
	const char *name = copy("./busytext.refused");
	int fd = open(name, O_RDWR), busy = 0;
	char head[4096], *interpreter;

	if (read(fd, head, sizeof(head)) != sizeof(head))
		exit(2);
	interpreter = memmem(head, sizeof(head), "/lib64/ld", 9);
	if (interpreter)
		interpreter[1] = 'x';
	else
		head[54] = 0; /* e_phentsize */
	if (pwrite(fd, head, sizeof(head), 0) != sizeof(head))
		exit(2);
	close(fd);
	TELL(execl(name, name, NULL));
	for (int i = 0; i < 100; i++) {
		execl(name, name, NULL);
		fd = open(name, O_WRONLY);
		busy += fd < 0;
		close(fd);
	}
	printf("refused: %d times busy\n", busy);
	unlink(name);
}

int main(int argc, char **argv)
{
	int pipe_[2], fd, status;
	pid_t pid;
	const char *name;

	if (argc > 1) {
		write(SAY, "r", 1);
		pause();
	}
	pipe(pipe_);
	name = copy("./busytext.copy");
	fd = open(name, O_WRONLY);
	run(name, pipe_);
	close(fd);
	wait(&status);
	fd = open("./busytext.script", O_CREAT | O_WRONLY, 0755);
	write(fd, "#!/bin/true\n", 12);
	TELL(execl("./busytext.script", "script", NULL));
	close(fd);
	pid = run(name, pipe_);
	TELL(open(name, O_WRONLY));
	TELL(open(name, O_RDWR));
	TELL(truncate(name, 0));
	TELL(access(name, W_OK));
	kill(pid, SIGTERM);
	wait(&status);
	printf("status %x\n", status);
	TELL(open(name, O_WRONLY) >= 0);
	unlink(name);
	unlink("./busytext.script");
	refused();
	return 0;
}
