/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Threads beside a program that changes its rights: rights NAME..., in a directory of its own. Each
 * NAME is done in a child: it writes a file, makes the call or opens the file that NAME says, and
 * prints what threads there are besides before and after, whether they have its rights, and whether
 * the file is what was written.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS 20
#define RECORD "0123456789abcde\n"
#define NOBODY 65534
/* Numbers that older headers do not have. */
#define LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_RESTRICT_SELF 446
#define LSM_SET_SELF_ATTR 460
#define OPENAT2 437

static struct sock_filter instructions[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
static struct sock_fprog allow_all = { 1, instructions };
static struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
static struct __user_cap_data_struct none[2];

static int own_space(void)
{
	return open("/proc/self/ns/uts", O_RDONLY);
}

static int ruleset(void)
{
	unsigned long long handled = 1; /* LANDLOCK_ACCESS_FS_EXECUTE */

	return syscall(LANDLOCK_CREATE_RULESET, &handled, sizeof(handled), 0);
}

/* Calls, with arguments that are taken where the caller may, and with others. */
static const struct {
	const char *name;
	long number, taken[4], refused[4];
	int (*first)(void);
} calls[] = {
	{ "setuid", SYS_setuid, { NOBODY }, { -1 }, NULL },
	{ "setgid", SYS_setgid, { NOBODY }, { -1 }, NULL },
	{ "setreuid", SYS_setreuid, { NOBODY, NOBODY }, { -1, -1 }, NULL },
	{ "setregid", SYS_setregid, { NOBODY, NOBODY }, { -1, -1 }, NULL },
	{ "setgroups", SYS_setgroups, { 0, 0 }, { -1, 0 }, NULL },
	{ "setresuid", SYS_setresuid, { NOBODY, NOBODY, NOBODY }, { -1, -1, -1 }, NULL },
	{ "setresgid", SYS_setresgid, { NOBODY, NOBODY, NOBODY }, { -1, -1, -1 }, NULL },
	{ "setfsuid", SYS_setfsuid, { NOBODY }, { -1 }, NULL },
	{ "setfsgid", SYS_setfsgid, { NOBODY }, { -1 }, NULL },
	{ "capset", SYS_capset, { (long)&header, (long)none }, { 0, 0 }, NULL },
	{ "iopl", SYS_iopl, { 0 }, { 4 }, NULL },
	{ "ioperm", SYS_ioperm, { 0x80, 1, 0 }, { 0x10000, 1, 1 }, NULL },
	{ "keyctl", SYS_keyctl, { 1, 0 }, { 99 }, NULL },
	{ "unshare", SYS_unshare, { CLONE_NEWUSER }, { 1 }, NULL },
	{ "setns", SYS_setns, { 0, CLONE_NEWUTS }, { -1, 0 }, own_space },
	{ "seccomp", SYS_seccomp, { SECCOMP_SET_MODE_FILTER, 0, (long)&allow_all }, { 99, 0, 0 }, NULL },
	{ "landlock_restrict_self", LANDLOCK_RESTRICT_SELF, { 0, 0 }, { -1, 0 }, ruleset },
	{ "lsm_set_self_attr", LSM_SET_SELF_ATTR, { 101, 0, 0, 0 }, { 0, 0, 0, 0 }, NULL },
	{ "PR_SET_KEEPCAPS", SYS_prctl, { PR_SET_KEEPCAPS, 1 }, { PR_SET_KEEPCAPS, 2 }, NULL },
	{ "PR_SET_SECCOMP", SYS_prctl, { PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&allow_all }, { PR_SET_SECCOMP, 9, 0 }, NULL },
	{ "PR_CAPBSET_DROP", SYS_prctl, { PR_CAPBSET_DROP, CAP_SYS_TIME }, { PR_CAPBSET_DROP, 999 }, NULL },
	{ "PR_SET_SECUREBITS", SYS_prctl, { PR_SET_SECUREBITS, 1 }, { PR_SET_SECUREBITS, 1 << 20 }, NULL },
	{ "PR_SET_NO_NEW_PRIVS", SYS_prctl, { PR_SET_NO_NEW_PRIVS, 1 }, { PR_SET_NO_NEW_PRIVS, 0 }, NULL },
	{ "PR_CAP_AMBIENT", SYS_prctl, { PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL }, { PR_CAP_AMBIENT, 99 }, NULL },
};

/* What /proc says of a thread's rights. */
static void rights_of(const char *thread, char *text, size_t size)
{
	static const char *const kinds[] = { "Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp" };
	char path[64], line[256];
	FILE *status;

	*text = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	status = fopen(path, "r");
	while (status && fgets(line, sizeof(line), status))
		for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			if (!strncmp(line, kinds[i], strlen(kinds[i])))
				strncat(text, line, size - strlen(text) - 1);
	if (status)
		fclose(status);
}

/* Threads besides the caller; `differ`: how many of them have other rights. */
static int others(int *differ)
{
	char own[2048], text[2048], id[16];
	DIR *directory = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	*differ = 0;
	snprintf(id, sizeof(id), "%ld", (long)syscall(SYS_gettid));
	rights_of(id, own, sizeof(own));
	while (directory && (entry = readdir(directory))) {
		if (*entry->d_name == '.' || !strcmp(entry->d_name, id))
			continue;
		rights_of(entry->d_name, text, sizeof(text));
		count++;
		*differ += !!strcmp(text, own);
	}
	if (directory)
		closedir(directory);
	return count;
}

static void write_records(int file)
{
	for (int i = 0; i < RECORDS; i++)
		if (write(file, RECORD, sizeof(RECORD) - 1) != sizeof(RECORD) - 1)
			printf("write: %s\n", strerror(errno));
}

/* Whether all that was written is in the file, once and in order. */
static int is_whole(int file)
{
	char text[sizeof(RECORD) * RECORDS * 3];
	long size = pread(file, text, sizeof(text), 0), each = sizeof(RECORD) - 1;

	if (size != each * RECORDS * 2)
		return 0;
	for (long i = 0; i < size; i += each)
		if (memcmp(text + i, RECORD, each))
			return 0;
	return 1;
}

static long made(const char *name, int is_refused)
{
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		const long *given = is_refused ? calls[i].refused : calls[i].taken;
		long first = given[0];

		if (strcmp(calls[i].name, name))
			continue;
		if (!is_refused && calls[i].first)
			first = calls[i].first();
		return syscall(calls[i].number, first, given[1], given[2], given[3], 0);
	}
	printf("%s is not known here: add it\n", name);
	exit(3);
}

static long opened(const char *how)
{
	unsigned long long in_root[3] = { O_WRONLY, 0, 0x10 }, plain[3] = { O_WRONLY, 0, 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%ld/attr/exec", getpid(), (long)syscall(SYS_gettid));
	if (!strcmp(how, "self"))
		return open("/proc/self/attr/exec", O_WRONLY);
	if (!strcmp(how, "thread-self"))
		return open("/proc/thread-self/attr/current", O_RDWR);
	if (!strcmp(how, "number"))
		return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!strcmp(how, "created"))
		return creat("/proc/self/attr/fscreate", 0600);
	if (!strcmp(how, "relative"))
		return chdir("/proc/self/attr") ? -1 : open("exec", O_WRONLY);
	if (!strcmp(how, "folder"))
		return openat(open("/proc/self", O_RDONLY | O_DIRECTORY), "attr/exec", O_WRONLY);
	if (!strcmp(how, "link"))
		return symlink("/proc/self/attr", "link") ? -1 : open("link/exec", O_WRONLY);
	if (!strcmp(how, "openat2"))
		return syscall(OPENAT2, AT_FDCWD, "/proc/self/attr/exec", plain, sizeof(plain));
	if (!strcmp(how, "in-root"))
		return syscall(OPENAT2, open("/proc/self", O_PATH), "/attr/exec", in_root, sizeof(in_root));
	if (!strcmp(how, "again")) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", open("/proc/self/attr/exec", O_RDONLY));
		return open(path, O_WRONLY);
	}
	/* These change nothing. */
	if (!strcmp(how, "to-read"))
		return open("/proc/self/attr/exec", O_RDONLY);
	if (!strcmp(how, "no-attribute"))
		return open("/proc/self/comm", O_WRONLY);
	if (!strcmp(how, "for-all")) {
		umask(0);
		close(open("for-all", O_WRONLY | O_CREAT, 0666));
		return open("for-all", O_WRONLY);
	}
	printf("%s is not known here\n", how);
	exit(3);
}

static void *idle(void *none)
{
	for (;;)
		pause();
	return none;
}

static void child(char *name)
{
	int file = open("data", O_WRONLY | O_CREAT | O_TRUNC, 0644), seen = open("data", O_RDONLY);
	char *rest = strchr(name, ' ');
	int before, after, differ;
	pthread_t thread;
	long result;

	printf("%s: ", name);
	if (rest)
		*rest++ = 0;
	if (!strcmp(name, "beside"))
		pthread_create(&thread, NULL, idle, NULL);
	write_records(file);
	before = others(&differ);
	write_records(file);
	errno = 0;
	if (!strcmp(name, "open"))
		result = opened(rest);
	else if (!strcmp(name, "refused"))
		result = made(rest, 1);
	else if (!strcmp(name, "beside") && !strcmp(rest, "library"))
		result = setuid(NOBODY); /* of the C library: it has all threads make it */
	else
		result = made(!strcmp(name, "beside") ? rest : name, 0);
	printf("%s, ", result < 0 ? strerror(errno) : "made"); /* keyctl(2) returns a number that is never the same */
	after = others(&differ);
	printf("%s, before %d, after %d, differ %d\n", is_whole(seen) ? "whole" : "not whole", before, after, differ);
	fflush(stdout);
	_exit(0);
}

int main(int count, char **names)
{
	int status, errors = 0;

	for (int i = 1; i < count; i++) {
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0)
			child(names[i]);
		if (waitpid(pid, &status, 0) != pid || status) {
			printf("%s: status %x\n", names[i], status);
			errors++;
		}
	}
	return !!errors;
}
