// SPDX-License-Identifier: GPL-2.0
/*
 * Joining a pool of proxies by its descriptor alone:
 *   pool [COMMAND...] PROGRAM join    makes a pool, whose descriptor is 77, and runs the rest
 *   pool join                         attaches to the pool with descriptor 77; prints whether it
 *                                     may
 *   pool member                       is a pooled proxy, and prints what it is told that asks as a
 *                                     program's does
 *   pool wrong                        attaches in ways that there are not; prints what is said
 *   pool confined HOW                 makes a pool, has a child that is like it join, then one that
 *                                     is confined: by `nothing`, `landlock`, `filter` (of seccomp),
 *                                     `groups`, `root`, `umask`, `network` (namespace), `user`
 *                                     (namespace), `bounding` (set), `securebits`, `apparmor`
 *                                     (profile `hanare-pool`)
 *   pool later HOW                    a native task and a pooled proxy join; the task is confined;
 *                                     prints whether the proxy may make its calls, before and after
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

#define POOL 77

static void attach(__u32 kind, __u32 fd)
{
	struct hanare_attach attach = { .kind = kind, .pool_fd = fd };
	int device = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	need(device >= 0, "open");
	attach.fd = device;
	if (!ioctl(device, HANARE_IOCTL_ATTACH, &attach))
		puts("joined");
	else
		printf("%s: %s\n", strerrorname_np(errno), (char *)attach.message);
	close(device);
}

static void make(__u32 limit)
{
	struct hanare_pool_make pool = { .limit = limit };
	int device = open("/dev/hanare", O_RDWR);

	need(device >= 0, "open");
	if (ioctl(device, HANARE_IOCTL_POOL, &pool)) {
		printf("%s: %s\n", strerrorname_np(errno), (char *)pool.message);
		close(device);
		return;
	}
	need(dup2(device, POOL) == POOL, "dup2");
	close(device);
}

/* No program runs in its space. */
static void member(void)
{
	struct hanare_attach attach = { .kind = HANARE_ATTACH_MEMBER, .pool_fd = POOL };
	struct hanare_usage usage;
	struct hanare_child child = { 0 };
	struct hanare_debug debug = { 0 };
	struct hanare_process_status process = { 0 };

	make(1);
	attach.fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	need(!ioctl(attach.fd, HANARE_IOCTL_ATTACH, &attach), "attach");
	child.parent = attach.space;
	printf("%s", ioctl(attach.fd, HANARE_IOCTL_START, NULL) ? strerrorname_np(errno) : "started");
	printf(" %s", ioctl(attach.fd, HANARE_IOCTL_USAGE, &usage) ? strerrorname_np(errno) : "used");
	printf(" %s", ioctl(attach.fd, HANARE_IOCTL_CHILD, &child) ? strerrorname_np(errno) : "a child");
	/* Nor does it manage anything, or look at others, whichever its user is. */
	printf(" %s", ioctl(attach.fd, HANARE_IOCTL_DEBUG, &debug) ? strerrorname_np(errno) : "debugged");
	printf(" %s\n", ioctl(attach.fd, HANARE_IOCTL_PROCESS, &process) ? strerrorname_np(errno) : "looked");
}

/* The calling process may do less from now on. */
static void confine(const char *how)
{
	if (!strcmp(how, "landlock")) {
		struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE };
		int rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

		need(rules >= 0 && !syscall(SYS_landlock_restrict_self, rules, 0), "landlock");
		close(rules);
	} else if (!strcmp(how, "filter")) {
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fchmod, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

		need(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
	} else if (!strcmp(how, "groups")) {
		gid_t other = 12;

		need(!setgroups(1, &other), "setgroups");
	} else if (!strcmp(how, "root")) {
		need(!chroot("/tmp"), "chroot");
	} else if (!strcmp(how, "umask")) {
		umask(0777);
	} else if (!strcmp(how, "network")) {
		need(!unshare(CLONE_NEWNET), "unshare");
	} else if (!strcmp(how, "user")) {
		need(!unshare(CLONE_NEWUSER), "unshare");
	} else if (!strcmp(how, "bounding")) {
		need(!prctl(PR_CAPBSET_DROP, CAP_SYS_TIME), "bounding set");
	} else if (!strcmp(how, "securebits")) {
		need(!prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS), "securebits");
	} else if (!strcmp(how, "apparmor")) {
		static const char wanted[] = "changeprofile hanare-pool";
		int label = open("/proc/thread-self/attr/apparmor/current", O_WRONLY);

		need(label >= 0 && write(label, wanted, sizeof(wanted) - 1) == sizeof(wanted) - 1, "apparmor");
		close(label);
	}
}

/* Whether a child that is confined so may join. */
static void in_child(const char *how)
{
	struct hanare_attach attach = { .kind = HANARE_ATTACH_MEMBER, .pool_fd = POOL };
	/* Opened before: where files are is not the question. */
	int device = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	need(device >= 0, "open");
	fflush(stdout);
	if (!fork()) {
		confine(how);
		attach.fd = device;
		printf("%s: %s\n", how, ioctl(device, HANARE_IOCTL_ATTACH, &attach) ? strerrorname_np(errno) : "joined");
		fflush(stdout);
		_exit(0);
	}
	close(device);
	wait(NULL);
}

static void confined(const char *how)
{
	need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	make(4);
	in_child("nothing");
	in_child(how);
}

/* Whether the pooled proxy with this descriptor may make calls of the task with this space. */
static void serves(int device, unsigned long space)
{
	printf("%s\n", ioctl(device, HANARE_IOCTL_SERVES, space) ? strerrorname_np(errno) : "serves");
}

static void later(const char *how)
{
	struct hanare_attach task = { .kind = HANARE_ATTACH_NATIVE, .pool_fd = POOL };
	struct hanare_attach proxy = { .kind = HANARE_ATTACH_MEMBER, .pool_fd = POOL };
	int ask[2], answer[2], device;
	unsigned long space = 0;
	char word;

	need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	make(4);
	need(!pipe(ask) && !pipe(answer), "pipe");
	if (!fork()) {
		task.fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
		need(!ioctl(task.fd, HANARE_IOCTL_ATTACH, &task), "attach a task");
		space = task.space;
		need(write(answer[1], &space, sizeof(space)) == sizeof(space), "write");
		need(read(ask[0], &word, 1) == 1, "read");
		confine(how);
		need(write(answer[1], &space, sizeof(space)) == sizeof(space), "write");
		need(read(ask[0], &word, 1) == 1, "read");
		_exit(0);
	}
	device = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	proxy.fd = device;
	need(read(answer[0], &space, sizeof(space)) == sizeof(space), "read");
	need(!ioctl(device, HANARE_IOCTL_ATTACH, &proxy), "attach a proxy");
	serves(device, space);
	serves(device, proxy.space);
	serves(device, 0);
	serves(device, ~0UL);
	need(write(ask[1], "!", 1) == 1, "write");
	need(read(answer[0], &space, sizeof(space)) == sizeof(space), "read");
	serves(device, space);
	need(write(ask[1], "!", 1) == 1, "write");
	wait(NULL);
	printf("ended: %s\n", ioctl(device, HANARE_IOCTL_SERVES, space) ? "no" : "serves");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "join")) {
		attach(HANARE_ATTACH_MEMBER, POOL);
	} else if (!strcmp(argv[1], "member")) {
		member();
	} else if (!strcmp(argv[1], "confined") && argc > 2) {
		confined(argv[2]);
	} else if (!strcmp(argv[1], "later") && argc > 2) {
		later(argv[2]);
	} else if (!strcmp(argv[1], "wrong")) {
		make(0);
		make(HANARE_POOL_MAX + 1);
		make(1);
		attach(HANARE_ATTACH_MEMBER, 0);
		attach(HANARE_ATTACH_MEMBER, 1000);
		attach(HANARE_ATTACH_MEMBER + 1, POOL);
		attach(HANARE_ATTACH_MEMBER, POOL);
	} else {
		make(1);
		execv(argv[1], argv + 1);
		return 1;
	}
	return 0;
}
