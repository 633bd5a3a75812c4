/* Signals that are ignored and set back: in children, by system(3), while they are pending. */
#include "guest.h"

static volatile int count;

static void counting(int signal)
{
	count++;
}

static void tell(const char *what, int status)
{
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", what, WTERMSIG(status));
	else
		printf("%s: exit %d\n", what, WEXITSTATUS(status));
	fflush(stdout);
}

/* The child sets it back before its first call that Linux executes, and waits to be killed. */
static void in_child(void)
{
	int ready[2], status;
	char byte;
	pid_t child;

	pipe(ready);
	signal(SIGTERM, SIG_IGN);
	child = fork();
	if (!child) {
		signal(SIGTERM, SIG_DFL);
		write(ready[1], "", 1);
		for (;;)
			pause();
	}
	read(ready[0], &byte, 1);
	kill(child, SIGTERM);
	waitpid(child, &status, 0);
	signal(SIGTERM, SIG_DFL);
	tell("child", status);
}

/* SIG_IGN discards what waits, also if a handler follows at once. */
static void while_blocked(void)
{
	sigset_t set, pending;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGUSR1);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR1, counting);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("discarded: %d handled\n", count);

	/* One that comes while it is ignored and blocked stays. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGUSR1, SIG_IGN);
	kill(getpid(), SIGUSR1);
	sigpending(&pending);
	printf("pending %d\n", sigismember(&pending, SIGUSR1));
	signal(SIGUSR1, SIG_DFL);
	sigpending(&pending);
	printf("pending %d\n", sigismember(&pending, SIGUSR1));
	signal(SIGUSR1, counting);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("kept: %d handled\n", count);
}

int main(void)
{
	in_child();
	tell("system", system("kill -INT $$; echo still there"));
	signal(SIGQUIT, SIG_IGN);
	tell("system", system("kill -QUIT $$; echo ignored"));
	while_blocked();
	return 0;
}
