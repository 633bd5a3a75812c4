/*
 * A program with idle workers drops privileges in one of several ways; tests/groups/rights.py then
 * looks from Linux: no worker has privileges that no thread has.
 * Usage: dropped-privileges HOW first|last|then-exec
 */
#include "guest.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

static const char *how, *when;

static void *nothing(void *unused)
{
	return unused;
}

/* Threads that end leave workers behind. */
static void leave_workers(void)
{
	pthread_t threads[6];

	for (int i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, nothing, NULL);
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
}

/* Of the calling thread alone, as Linux has it. */
static long give_up(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct landlock_ruleset_attr rules = { .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE };
	gid_t group = 65534;
	int fd;

	if (!strcmp(how, "setuid"))
		return syscall(SYS_setuid, 65534);
	if (!strcmp(how, "setgid"))
		return syscall(SYS_setgid, 65534);
	if (!strcmp(how, "setreuid"))
		return syscall(SYS_setreuid, 65534, 65534);
	if (!strcmp(how, "setregid"))
		return syscall(SYS_setregid, 65534, 65534);
	if (!strcmp(how, "setresuid"))
		return syscall(SYS_setresuid, 65534, 65534, 65534);
	if (!strcmp(how, "setresgid"))
		return syscall(SYS_setresgid, 65534, 65534, 65534);
	if (!strcmp(how, "setfsuid"))
		return syscall(SYS_setfsuid, 65534);
	if (!strcmp(how, "setfsgid"))
		return syscall(SYS_setfsgid, 65534);
	if (!strcmp(how, "setgroups"))
		return syscall(SYS_setgroups, 1, &group);
	if (!strcmp(how, "capset"))
		return syscall(SYS_capset, &head, none);
	if (!strcmp(how, "bounding-set"))
		return prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0);
	if (!strcmp(how, "no-new-privs"))
		return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!strcmp(how, "securebits"))
		return prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0);
	if (!strcmp(how, "landlock")) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		fd = syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
		return syscall(SYS_landlock_restrict_self, fd, 0);
	}
	if (!strcmp(how, "seccomp")) {
		struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
		struct sock_fprog filter = { 1, &allow };

		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
	}
	if (!strcmp(how, "own-directory"))
		return unshare(CLONE_FS) ?: syscall(SYS_setresuid, 65534, 65534, 65534);
	return -1;
}

static void told(void)
{
	char byte;

	printf("given up: %ld\n", give_up());
	while (read(0, &byte, 1) > 0)
		;
	if (!strcmp(when, "then-exec")) {
		execl("/bin/echo", "echo", "exec works", NULL);
		_exit(1);
	}
	exit(0);
}

static void *last(void *first)
{
	pthread_join(*(pthread_t *)first, NULL);
	told();
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t first;
	pthread_t thread;

	if (argc < 3)
		return 1;
	how = argv[1];
	when = argv[2];
	setbuf(stdout, NULL);
	leave_workers();
	if (!strcmp(when, "first"))
		told();
	/* The first thread ends before another one gives its rights up. */
	first = pthread_self();
	pthread_create(&thread, NULL, last, &first);
	pthread_exit(NULL);
}
