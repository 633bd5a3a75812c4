/* execve of a process with one thread: its errors, what a program keeps and what it does not. */
#include "guest.h"

int main(int argc, char **argv)
{
	char *empty[] = { "x", NULL };
	char *again[] = { argv[0], "second", "argument with spaces", NULL };
	char *environment[] = { "ONLY=this", NULL };
	char *big;
	char *huge[3] = { argv[0] };
	int fd, kept;
	stack_t stack;
	sigset_t mask;
	struct sigaction action;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc > 1) {
		sigprocmask(SIG_BLOCK, NULL, &mask);
		sigaction(SIGUSR2, NULL, &action);
		sigaltstack(NULL, &stack);
		printf("%s %s ONLY=%s HOME %d\n", argv[1], argv[2], getenv("ONLY"), getenv("HOME") != NULL);
		printf("blocked USR1 %d, USR2 default %d, HUP ignored %d, alternate stack %d\n",
		       sigismember(&mask, SIGUSR1), action.sa_handler == SIG_DFL,
		       signal(SIGHUP, SIG_DFL) == SIG_IGN, stack.ss_flags);
		TELL(fcntl(20, F_GETFD));
		TELL(fcntl(21, F_GETFD));
		TELL(sysconf(_SC_PAGESIZE));
		TELL(umask(0));
		return 33;
	}
	TELL(execve("/nonexistent", empty, NULL));
	TELL(execve("/", empty, NULL));
	TELL(execve("/etc/passwd", empty, NULL));
	TELL(execve("/etc/passwd/x", empty, NULL));
	fd = open("no-format", O_WRONLY | O_CREAT, 0755);
	write(fd, "neither ELF nor script", 22);
	close(fd);
	TELL(execve("./no-format", empty, NULL));
	fd = open("bad-script", O_WRONLY | O_CREAT, 0755);
	write(fd, "#!/nonexistent/interpreter\n", 27);
	close(fd);
	TELL(execve("./bad-script", empty, NULL));
	symlink("loop", "loop");
	TELL(execve("./loop", empty, NULL));
	big = malloc(200000);
	memset(big, 'a', 199999);
	big[199999] = 0;
	huge[1] = big;
	TELL(execve(argv[0], huge, NULL));
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR2, _exit);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	stack = (stack_t){ .ss_sp = big, .ss_size = 100000 };
	sigaltstack(&stack, NULL);
	kept = open("/dev/null", O_RDONLY);
	dup3(kept, 20, 0);
	dup3(kept, 21, O_CLOEXEC);
	umask(027);
	execve(argv[0], again, environment);
	perror("execve");
	return 1;
}
