/*
 * What confines a program: Landlock, fanotify permission events, PR_SET_TSC, ownership of files in
 * /proc, membarrier.
 */
#include "guest.h"
#include <linux/landlock.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/fanotify.h>
#include <sys/prctl.h>

#define membarrier(command) syscall(SYS_membarrier, command, 0)

static int ended(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return status;
}

static void *without_counter(void *arg)
{
	_exit(__builtin_ia32_rdtsc() == 0);
}

/* A process that may not read the counter: its child and thread may not, either, the parent may. */
static void counter(void)
{
	int mode = 0, i;

	for (i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (!pid) {
			pthread_t thread;

			TELL(prctl(PR_SET_TSC, i ? PR_TSC_SIGSEGV : PR_TSC_ENABLE));
			TELL(prctl(PR_GET_TSC, &mode));
			TELL(mode);
			if (i == 1 && !fork())
				without_counter(NULL);
			else if (i == 1)
				_exit(ended(-1));
			pthread_create(&thread, NULL, without_counter, NULL);
			pthread_join(thread, NULL);
		}
		TELL(ended(pid));
		TELL(__builtin_ia32_rdtsc() != 0);
	}
	TELL(prctl(PR_SET_TSC, 3));
	TELL(prctl(PR_GET_TSC, 8));
}

/* Nothing may be executed, and nothing read but what is open; children there may be. */
static void landlocked(void)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE };
	int rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	int writes;

	attr.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE;
	writes = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	TELL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TELL(syscall(SYS_landlock_restrict_self, rules, 0));
	TELL(execl("/bin/true", "true", NULL));
	TELL(open("/etc/passwd", O_RDONLY) >= 0);
	TELL(syscall(SYS_landlock_restrict_self, writes, 0));
	TELL(open("/etc/passwd", O_RDONLY) >= 0);
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(i ? 5 : ended(fork() ?: (_exit(6), 0)) >> 8);
		TELL(ended(pid));
	}
	_exit(0);
}

/* A watcher of executions sees the program, and its interpreter. */
static void watched(void)
{
	static const char *const files[] = { "./program", "/bin/sh" };
	int notify = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);
	struct fanotify_event_metadata events[16];
	int script = open("./program", O_WRONLY | O_CREAT | O_TRUNC, 0755), count;
	pid_t pid;

	dprintf(script, "#!/bin/sh\nexit 3\n");
	close(script);
	for (int i = 0; i < 2; i++)
		TELL(fanotify_mark(notify, FAN_MARK_ADD, FAN_OPEN_EXEC, AT_FDCWD, files[i]));
	pid = fork();
	if (!pid) {
		close(open("./program", O_RDONLY)); /* no execution */
		execl("./program", "program", NULL);
		_exit(9);
	}
	TELL(ended(pid));
	count = read(notify, events, sizeof(events)) / (int)sizeof(*events);
	for (int i = 0; i < count; i++)
		printf("event %llx of the child: %d\n", (unsigned long long)events[i].mask, events[i].pid == pid);
	close(notify);
}

/* What setuid has made root's in /proc is the user's again in another program. */
static void user(char *self)
{
	TELL(setgid(65534));
	TELL(setuid(65534));
	TELL(prctl(PR_GET_DUMPABLE));
	TELL(open("/proc/self/mem", O_RDWR) >= 0);
	fflush(stdout);
	execl(self, self, "user", NULL);
	_exit(9);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc > 1) {
		TELL(prctl(PR_GET_DUMPABLE));
		TELL(open("/proc/self/mem", O_RDWR) >= 0);
		TELL(open("/proc/self/environ", O_RDONLY) >= 0);
		return 0;
	}
	counter();
	TELL(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
	TELL(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE));
	TELL(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
	TELL(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
	TELL(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE));
	TELL(membarrier(MEMBARRIER_CMD_GLOBAL));
	TELL(membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		TELL(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
		landlocked();
	}
	TELL(ended(pid));
	if (getuid() == 0) {
		watched();
		fflush(stdout);
		pid = fork();
		if (!pid)
			user(argv[0]);
		status = ended(pid);
		TELL(status);
	}
	return 0;
}
