/*
 * A program's view of itself in /proc: its executable (renamed, removed, in a memfd), its
 * descriptors, its filters. Also the CPU's number by rdtscp, lsl and getcpu, how long a mapped file
 * stays open, and files of a process that has ended.
 */
#include "guest.h"
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>

extern char **environ;

static char text[65536];

static void slurp(const char *path)
{
	int fd = open(path, O_RDONLY);
	ssize_t n, all = 0;

	while (fd >= 0 && (n = read(fd, text + all, sizeof(text) - 1 - all)) > 0)
		all += n;
	text[all] = 0;
	close(fd);
}

static long number_of(const char *key)
{
	char *at = strstr(text, key);

	return at ? atol(at + strlen(key)) : -9;
}

/* Field `n` of /proc/self/stat. */
static unsigned long long stat_field(int n)
{
	char *at;

	slurp("/proc/self/stat");
	at = strrchr(text, ')') + 2;
	for (; n > 3; n--)
		at = strchr(at, ' ') + 1;
	return strtoull(at, NULL, 10);
}

/* Whether /proc/self/exe leads to where the link says, and is told as removed. */
static void tell_exe(const char *when)
{
	char path[4096];
	struct stat by_link, by_open;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *name;
	int fd;

	path[n < 0 ? 0 : n] = 0;
	name = strrchr(path, '/');
	fd = open("/proc/thread-self/exe", O_RDONLY);
	printf("%s: %s, %d, opened %d\n", when, name ? name : path, stat("/proc/self/exe", &by_link),
	       fd >= 0 && !fstat(fd, &by_open) && by_link.st_ino == by_open.st_ino && by_open.st_nlink <= 1);
	close(fd);
	fflush(stdout);
}

static void copy_to(int out)
{
	int in = open("/proc/self/exe", O_RDONLY);
	char b[65536];
	ssize_t n;

	while ((n = read(in, b, sizeof(b))) > 0)
		write(out, b, n);
	close(in);
}

static void exe_link(void)
{
	struct stat s;
	char b[100];

	TELL(lstat("/proc/self/exe", &s) || !S_ISLNK(s.st_mode));
	TELL(fstatat(AT_FDCWD, "/proc/thread-self/exe", &s, AT_SYMLINK_NOFOLLOW) || !S_ISLNK(s.st_mode));
	TELL(open("/proc/self/exe", O_RDONLY | O_NOFOLLOW));
	TELL(open("/proc/self/exe", O_WRONLY));
	TELL(readlinkat(open("/proc/self/exe", O_PATH | O_NOFOLLOW), "", b, 3));
	TELL(syscall(SYS_readlink, "/proc/self/exe", b, 0));
	TELL(syscall(SYS_readlink, "/proc/self/exe", b, 3));
	TELL(readlink("/proc/self/exe/", b, sizeof(b)));
}

/* Renamed, removed, made of a memfd, and run again from there. */
static void exe_moves(const char *stage)
{
	char *argv[] = { "own", "memory", NULL };
	int fd;

	if (!strcmp(stage, "copy")) {
		tell_exe("copy");
		rename("own.copy", "own.renamed");
		tell_exe("renamed");
		close(open("own.copy", O_CREAT | O_WRONLY, 0700));
		tell_exe("the old name is another's");
		unlink("own.copy");
		unlink("own.renamed");
		tell_exe("removed");
		execl("/proc/self/exe", "own", "removed", NULL);
	} else if (!strcmp(stage, "removed")) {
		tell_exe("run once more");
		fd = memfd_create("program", MFD_CLOEXEC);
		copy_to(fd);
		fexecve(fd, argv, environ);
	} else if (!strcmp(stage, "memory")) {
		tell_exe("memfd");
		execl("/proc/self/exe", "own", "last", NULL);
	}
	tell_exe("last");
	_exit(0);
}

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void descriptors(void)
{
	char path[64];

	TELL(entries("/proc/self/fd") == entries("/proc/thread-self/fd"));
	snprintf(path, sizeof(path), "/proc/self/task/%ld/fdinfo", syscall(SYS_gettid));
	TELL(entries("/proc/self/fdinfo") == entries(path));
	snprintf(path, sizeof(path), "/proc/%d/fd", getppid());
	TELL(entries("/proc/thread-self/fd"));
	fflush(stdout);
	snprintf(path, sizeof(path), "/proc/%d/fd", getpid());
	if (!fork()) {
		/* The directory that is read is one more of the reader's. */
		TELL(entries("/proc/self/fd") - entries(path));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

static void filters(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &allow };
	int i;

	for (i = 0; i < 3; i++) {
		slurp("/proc/self/status");
		TELL(number_of("Seccomp:"));
		TELL(number_of("Seccomp_filters:"));
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	}
}

/* Files that show the machine are like any others of procfs and sysfs. */
static void shown(void)
{
	static const char *const paths[] = { "/proc/stat", "/proc/self/status", "/sys/devices/system/cpu/online" };
	struct epoll_event event = { EPOLLIN, { 0 } };
	int ep = epoll_create1(0), i, fd;

	for (i = 0; i < 3; i++) {
		fd = open(paths[i], O_RDONLY | O_NOFOLLOW | O_NOATIME | O_APPEND);
		TELL(fcntl(fd, F_GETFL));
		TELL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
		TELL(lseek(fd, -1, SEEK_SET));
		TELL(lseek(fd, 0, SEEK_END));
		close(fd);
	}
	fd = open("/proc/stat", O_RDWR);
	TELL(write(fd, "x", 1));
	close(fd);
	for (i = 0; i < 20; i++) {
		slurp("/proc/stat");
		if (number_of("procs_running ") < 1)
			printf("nobody runs\n");
	}
}

/* What the CPU says of its number, and Linux. */
static void cpu(void)
{
	unsigned int aux = 0, limit = 0, number, node;
	cpu_set_t set, old;
	int i;

	sched_getaffinity(0, sizeof(old), &old);
	for (i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &old))
			continue;
		CPU_ZERO(&set);
		CPU_SET(i, &set);
		sched_setaffinity(0, sizeof(set), &set);
		syscall(SYS_getcpu, &number, &node, NULL);
		__asm__ volatile("rdtscp" : "=c"(aux) : : "eax", "edx");
		__asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(0x7b));
		if (aux != (node << 12 | number) || limit != aux)
			printf("%u, node %u: rdtscp %x, lsl %x\n", number, node, aux, limit);
	}
	sched_setaffinity(0, sizeof(old), &old);
}

static int lock(void)
{
	int fd = open("/dev/shm/own.lock", O_RDWR), result = flock(fd, LOCK_EX | LOCK_NB), error = errno;

	close(fd);
	errno = error;
	return result;
}

/* An open file is there until its last mapping goes, and not longer. */
static void mapped(void)
{
	int fd = open("/dev/shm/own.lock", O_RDWR | O_CREAT, 0600), i;
	char *at;

	for (i = 0; i < 2; i++) {
		ftruncate(fd, 4096);
		flock(fd, LOCK_EX);
		at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		if (i)
			(void)*(volatile char *)at;
		close(fd);
		TELL(lock());
		if (i)
			munmap(at, 4096);
		else
			mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		TELL(lock());
		fd = open("/dev/shm/own.lock", O_RDWR);
	}
	TELL(fcntl(fd, F_SETLEASE, F_WRLCK));
	close(fd);
	unlink("/dev/shm/own.lock");
}

/* Files of a process, opened while it lived: when it has ended, and when it is gone. */
static void ended(void)
{
	static const char *const names[] = { "stat", "status", "maps", "cmdline" };
	char path[64], c, *state;
	int go[2], fds[4], i;
	siginfo_t info;
	pid_t pid;

	pipe(go);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(go[1]);
		read(go[0], &c, 1);
		_exit(7);
	}
	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, names[i]);
		fds[i] = open(path, O_RDONLY);
	}
	close(go[1]);
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	memset(text, 0, 4096);
	pread(fds[0], text, 4095, 0);
	state = strrchr(text, ')');
	printf("state %c\n", state ? state[2] : '-');
	for (i = 0; i < 4; i++)
		TELL(pread(fds[i], &c, 1, 0));
	waitpid(pid, NULL, 0);
	for (i = 0; i < 4; i++)
		TELL(pread(fds[i], &c, 1, 0));
	for (i = 0; i < 4; i++)
		close(fds[i]);
	close(go[0]);
}

int main(int argc, char **argv)
{
	int fd;

	if (argc > 1)
		exe_moves(argv[1]);
	TELL(stat_field(48) == (unsigned long)argv[0]);
	TELL(stat_field(50) == (unsigned long)environ[0]);
	exe_link();
	fd = open("own.copy", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0755);
	copy_to(fd);
	close(fd);
	fflush(stdout);
	if (!fork()) {
		execl("own.copy", "own", "copy", NULL);
		_exit(1);
	}
	wait(NULL);
	descriptors();
	shown();
	cpu();
	mapped();
	ended();
	filters();
	return 0;
}
