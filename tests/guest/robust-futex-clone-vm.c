/*
 * The owner of a robust futex is a process that shares its parent's memory (CLONE_VM), and ends or
 * calls execve: its waiter in the parent is woken, and the child's thread id in that memory is
 * cleared.
 */
#include "guest.h"
#include <linux/futex.h>
#include <sched.h>

static struct {
	struct robust_list entry;
	int word;
} lock;
static struct robust_list_head head;
static volatile int ready;
static int id;

static int owner(void *how)
{
	head.list.next = &lock.entry;
	lock.entry.next = &head.list;
	head.futex_offset = (char *)&lock.word - (char *)&lock.entry;
	syscall(SYS_set_robust_list, &head, sizeof(head));
	lock.word = gettid();
	ready = 1;
	/* Until the parent waits: a requeue to where it waits counts it. */
	while (syscall(SYS_futex, &lock.word, FUTEX_CMP_REQUEUE, 0, (void *)9L, &lock.word, *(volatile int *)&lock.word) != 1)
		usleep(1000);
	if (!strcmp(how, "exec"))
		execl("/bin/true", "true", NULL);
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	return 3;
}

static void ends_by(char *how)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct timespec limit = { 200, 0 };
	int status, value;
	pid_t pid;
	long woken;

	ready = 0;
	lock.word = 0;
	id = -1;
	pid = clone(owner, stack + sizeof(stack), CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, how, NULL, NULL, &id);
	while (!ready)
		usleep(1000);
	value = __atomic_or_fetch(&lock.word, FUTEX_WAITERS, __ATOMIC_SEQ_CST);
	woken = syscall(SYS_futex, &lock.word, FUTEX_WAIT, value, &limit, NULL, 0);
	printf("%s: %s, word %#x, ", how, woken ? strerrorname_np(errno) : "woken", lock.word);
	status = -1;
	waitpid(pid, &status, 0);
	printf("status %#x, id %d\n", status, id);
	fflush(stdout);
}

static int sleeper(void *unused)
{
	(void)unused;
	ready = 1;
	pause();
	return 0;
}

/* When wait tells of a killed child that shares memory, the child's thread id is cleared there. */
static void cleared_when_waited_for(int children)
{
	static char stack[65536] __attribute__((aligned(16)));
	int i, cleared = 0;
	pid_t pid;

	for (i = 0; i < children; i++) {
		ready = 0;
		id = -1;
		pid = clone(sleeper, stack + sizeof(stack), CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, NULL, NULL, NULL, &id);
		while (!ready)
			usleep(1000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		cleared += id == 0;
	}
	printf("cleared when waited for: %d of %d\n", cleared, children);
}

int main(void)
{
	cleared_when_waited_for(20);
	ends_by("exec");
	ends_by("kill");
	ends_by("exit");
	return 0;
}
