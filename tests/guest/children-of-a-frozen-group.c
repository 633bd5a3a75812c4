/*
 * clone3 with CLONE_INTO_CGROUP into a frozen control group: the maker goes on at once, whatever
 * becomes of the child, which begins when the group is thawed and has the memory of the moment of
 * its making.
 */
#include "guest.h"
#include <linux/sched.h>

static char group[64];
static volatile int *shared;
static volatile int value;

static void put(const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		perror(path);
	close(fd);
}

static struct clone_args into_group(unsigned long flags)
{
	struct clone_args args = { .flags = flags | CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };

	args.cgroup = open(group, O_PATH | O_CLOEXEC);
	return args;
}

/* A child, with memory of its own, in the frozen group. */
static pid_t make(unsigned long flags)
{
	struct clone_args args = into_group(flags);
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));

	close(args.cgroup);
	return pid;
}

/* One that shares the memory, and begins in `begin` on a stack of its own. */
static pid_t make_sharer(void (*begin)(void))
{
	static char stack[16 * PAGE] __attribute__((aligned(16)));
	struct clone_args args = into_group(CLONE_VM);
	register void (*function)(void) asm("r8") = begin;
	long pid;

	args.stack = (uintptr_t)stack;
	args.stack_size = sizeof(stack);
	asm volatile("syscall\n\ttest %%eax, %%eax\n\tjnz 1f\n\tcall *%%r8\n1:"
		     : "=a"(pid)
		     : "a"(SYS_clone3), "D"(&args), "S"(sizeof(args)), "r"(function)
		     : "rcx", "r11", "memory");
	close(args.cgroup);
	return pid;
}

static void freeze(void)
{
	put("cgroup.freeze", "1");
}

static void thaw(void)
{
	put("cgroup.freeze", "0");
}

/* The end of a child, or of one that became ours. */
static void tell_end(const char *what, pid_t pid)
{
	int status = -1;
	pid_t ended = waitpid(pid, &status, 0);

	printf("%s: %s, status %x\n", what, ended > 0 ? "ended" : strerror(errno), status);
	fflush(stdout);
}

static void thawed(void)
{
	pid_t pid;

	freeze();
	value = 5;
	pid = make(0);
	if (!pid)
		_exit(value);
	value = 6;
	printf("not ended: %d\n", waitpid(pid, NULL, WNOHANG));
	thaw();
	tell_end("thawed", pid);
}

static void killed(void)
{
	pid_t pid;

	freeze();
	pid = make(0);
	if (!pid)
		_exit(1);
	kill(pid, SIGKILL);
	tell_end("killed while it was frozen", pid);
	thaw();
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void signalled(void)
{
	pid_t pid;

	signal(SIGTERM, handler);
	freeze();
	pid = make(0);
	if (!pid)
		_exit(7);
	raise(SIGTERM);
	printf("the maker has handled %d\n", handled);
	signal(SIGTERM, SIG_DFL);
	thaw();
	tell_end("of a maker that was signalled", pid);
}

/* The maker is gone, or has another program, when the child begins. */
static void orphaned(const char *how)
{
	char byte = 0;
	int ready[2];
	pid_t maker;

	freeze();
	value = 8;
	shared[0] = 0;
	if (pipe2(ready, O_CLOEXEC))
		perror("pipe2");
	maker = fork();
	if (!maker) {
		pid_t pid = make(0);

		if (!pid) {
			shared[0] = value;
			_exit(value);
		}
		value = 9;
		write(ready[1], "r", 1);
		if (!strcmp(how, "execve"))
			execl("/proc/self/exe", "again", "exits", NULL);
		if (!strcmp(how, "killed"))
			pause();
		_exit(0);
	}
	close(ready[1]);
	read(ready[0], &byte, 1);
	close(ready[0]);
	printf("%s: the maker goes on: %d\n", how, byte == 'r');
	if (!strcmp(how, "killed"))
		kill(maker, SIGKILL);
	tell_end("the maker", maker);
	printf("has begun: %d\n", shared[0]);
	thaw();
	tell_end("its child", -1);
	printf("has written %d\n", shared[0]);
}

static void orphan_killed(void)
{
	pid_t maker;

	freeze();
	maker = fork();
	if (!maker) {
		if (!make(0))
			_exit(1);
		_exit(0);
	}
	tell_end("the maker", maker);
	put("cgroup.kill", "1");
	tell_end("its child, killed", -1);
	thaw();
}

/* The maker of a child that it waits for is let go by SIGKILL. */
static void vforked(void)
{
	pid_t maker;

	freeze();
	value = 10;
	maker = fork();
	if (!maker) {
		pid_t pid = make(CLONE_VFORK);

		if (!pid)
			_exit(value);
		_exit(1);
	}
	usleep(300000);
	printf("the maker waits: %d\n", waitpid(maker, NULL, WNOHANG) == 0);
	kill(maker, SIGKILL);
	tell_end("the maker", maker);
	thaw();
	tell_end("its child", -1);
	freeze();
	maker = fork();
	if (!maker) {
		pid_t pid = make(CLONE_VFORK);

		if (!pid)
			_exit(value);
		_exit(3);
	}
	usleep(300000);
	thaw();
	tell_end("the maker of one that was thawed", maker);
	put("cgroup.kill", "1"); /* the group is empty */
}

static void share(void)
{
	value++;
	syscall(SYS_exit_group, 0);
}

static void sharing(void)
{
	pid_t pid;

	freeze();
	value = 11;
	pid = make_sharer(share);
	value = 12;
	thaw();
	tell_end("shares memory", pid);
	printf("value %d\n", value);
	freeze();
	pid = make_sharer(share);
	kill(pid, SIGKILL);
	tell_end("shares memory, killed", pid);
	printf("value %d\n", value);
	thaw();
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "exits"))
		return 33;
	setvbuf(stdout, NULL, _IONBF, 0);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(group, sizeof(group), "/sys/fs/cgroup/frozen-%d", getpid());
	if (mkdir(group, 0755))
		perror(group);
	thawed();
	killed();
	signalled();
	orphaned("exit");
	orphaned("execve");
	orphaned("killed");
	orphan_killed();
	vforked();
	sharing();
	if (rmdir(group))
		perror("rmdir");
	return 0;
}
