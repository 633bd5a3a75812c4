/* Processes with one descriptor table and memory of their own each: clone with CLONE_FILES and
 * without CLONE_VM. What one opens or closes the others have or have not, until one of them
 * leaves the table by execve, unshare or its end. */
#include "guest.h"
#include <dirent.h>
#include <linux/close_range.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/resource.h>

#define CHILDREN 6
#define ROUNDS by_tier(50, 200)

static char self[PATH_MAX];

static pid_t make(long flags)
{
	return syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

static int finish(pid_t pid)
{
	int status = -1;

	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static int has(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

/* Open descriptors below 1000, as /proc names them, without the one that reads it. */
static const char *numbers(void)
{
	static char text[400];
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	char found[1000] = "";
	size_t length = 0;

	while (folder && (entry = readdir(folder))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd != dirfd(folder))
			fd < 1000 ? found[fd] = 1 : printf("stray %d ", fd);
	}
	closedir(folder);
	text[0] = 0;
	for (int fd = 3; fd < 1000; fd++)
		if (found[fd])
			length += snprintf(text + length, sizeof(text) - length, " %d", fd);
	return text;
}

/* ---- what is common and what is not ---- */

static int memory;

static void common(long flags)
{
	int given = open("/dev/null", O_RDONLY), status;
	pid_t pid = make(flags);

	if (pid == 0) {
		memory = 1;
		dup2(given, 70);
		close(given);
		_exit(syscall(SYS_kcmp, getpid(), getppid(), KCMP_FILES, 0, 0) ? 4 : 3);
	}
	status = finish(pid);
	printf("flags %#lx: %x, its 70 %d, given %d, memory %d, numbers%s\n", flags, status, has(70), has(given),
	       memory, numbers());
	close(70);
	close(given);
}

/* The child uses what the parent opens after the child began. */
static void later(void)
{
	int go[2], fd, status;
	char byte = 0;
	pid_t pid;

	if (pipe(go))
		return;
	pid = make(CLONE_FILES);
	if (pid == 0) {
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(write(byte, "from the child\n", 15) == 15 ? 5 : 6);
	}
	fd = fcntl(1, F_DUPFD, 40);
	byte = fd;
	if (write(go[1], &byte, 1) != 1)
		perror("write");
	status = finish(pid);
	printf("later: %x, numbers%s\n", status, numbers());
	close(fd);
	close(go[0]);
	close(go[1]);
}

/* ---- leaving the table ---- */

static void leaves_by(const char *what, void (*leave)(void))
{
	int kept = fcntl(1, F_DUPFD, 50), closed = fcntl(1, F_DUPFD_CLOEXEC, 51), status;
	pid_t pid = make(CLONE_FILES);

	if (pid == 0) {
		leave();
		close(kept);
		_exit(9);
	}
	status = finish(pid);
	printf("%s: %x, kept %d, closed %d, numbers%s\n", what, status, has(kept), has(closed), numbers());
	close(kept);
	close(closed);
}

static void by_execve(void)
{
	execl(self, self, "numbers", NULL);
}

static void by_failed_execve(void)
{
	execl("/nowhere", "nowhere", NULL);
	printf("still there: %d\n", has(51));
	_exit(8);
}

static void by_unshare(void)
{
	printf("unshare %d, ", unshare(CLONE_FILES));
	fflush(stdout);
}

static void by_close_range(void)
{
	printf("close_range %ld, ", syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_UNSHARE));
	printf("%d %d, ", has(50), has(51));
	fflush(stdout);
}

static void closing_all(void)
{
	printf("close_range %ld, ", syscall(SYS_close_range, 45, ~0u, 0));
	fflush(stdout);
	_exit(7);
}

static void killed(void)
{
	raise(SIGKILL);
}

/* ---- what such a child can do ---- */

static void *adds(void *number)
{
	return (void *)((long)number + 1);
}

static void children_of_its_own(void)
{
	char *argv[] = { self, "numbers", NULL };
	pthread_t thread;
	void *sum = NULL;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		dup2(1, 80);
		execv(self, argv);
		_exit(1);
	}
	printf("fork: %x, 80 %d\n", finish(pid), has(80));
	pid = vfork();
	if (pid == 0) {
		execv(self, argv);
		_exit(1);
	}
	printf("vfork: %x\n", finish(pid));
	if (posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0)
		printf("posix_spawn: %x\n", finish(pid));
	pid = make(CLONE_FILES);
	if (pid == 0)
		_exit(dup2(1, 81) == 81 ? 3 : 4);
	status = finish(pid);
	printf("the same: %x, 81 %d\n", status, has(81));
	close(81);
	pthread_create(&thread, NULL, adds, (void *)41L);
	pthread_join(thread, &sum);
	printf("thread: %ld\n", (long)sum);
	printf("system: %x\n", system("exit 5"));
}

static void files(void)
{
	int fd = open(self, O_RDONLY);
	char *map = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0), magic[4];

	printf("file: %d", map != MAP_FAILED && !memcmp(map, "\177ELF", 4));
	map[PAGE] = 1;
	printf(", %d", pread(fd, magic, 4, 0) == 4 && !memcmp(map, magic, 4));
	/* Linux reads and writes fresh memory of the child's. */
	map = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf(", %zd\n", pread(fd, map, 3 * PAGE, 0));
	close(fd);
	leaves_by("nested", by_execve);
}

static void within(const char *what, void (*body)(void))
{
	pid_t pid = make(CLONE_FILES);
	int status;

	if (pid == 0) {
		body();
		exit(0);
	}
	status = finish(pid);
	printf("%s: %x, numbers%s\n", what, status, numbers());
}

/* ---- which one goes first ---- */

/* The process that made the table ends, or execs, before its child, which goes on. */
static void first_goes(const char *what, int execs)
{
	char text[200] = "";
	size_t length = 0;
	ssize_t got;
	int end[2], status;
	pid_t pid;

	if (pipe(end))
		return;
	pid = fork();
	if (pid == 0) {
		pid_t first = getpid();

		close(end[0]);
		if (make(CLONE_FILES) == 0) {
			int grandchild, fd;

			while (!execs && getppid() == first)
				usleep(1000);
			usleep(execs ? 300000 : 50000);
			fd = open(self, O_RDONLY | O_CLOEXEC);
			grandchild = fork();
			if (grandchild == 0)
				execl("/bin/true", "true", NULL);
			dprintf(end[1], "fd %d, status %x, ", fd, finish(grandchild));
			dup2(end[1], 1);
			execl(self, self, "numbers", NULL);
			_exit(1);
		}
		if (execs)
			execl("/bin/true", "true", NULL);
		_exit(3);
	}
	close(end[1]);
	status = finish(pid);
	while ((got = read(end[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	printf("%s: %x, then %s", what, status, text);
	close(end[0]);
}

/* ---- many at once ---- */

static void crowd(void)
{
	pid_t pids[CHILDREN];
	int bad = 0;

	for (int i = 0; i < CHILDREN; i++) {
		pids[i] = make(CLONE_FILES);
		if (pids[i] == 0) {
			for (int round = 0; round < ROUNDS; round++) {
				int fd = open("/dev/zero", O_RDONLY), byte = 1;

				if (read(fd, &byte, 1) != 1 || byte & 255 || close(fd))
					_exit(1);
				if (round % 50 == i && finish(make(round % 100 < 50 ? CLONE_FILES : 0) ?: (_exit(0), 0)))
					_exit(2);
			}
			_exit(0);
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		bad += finish(pids[i]) != 0;
	for (int i = 0; i < 60; i++)
		bad += finish(make(CLONE_FILES) ?: (_exit(i), 0)) != i << 8;
	printf("crowd: %d bad, numbers%s\n", bad, numbers());
}

/* What a child used counts when it is waited for. */
static void usage(void)
{
	struct rusage before, after;
	pid_t pid;

	getrusage(RUSAGE_CHILDREN, &before);
	pid = make(CLONE_FILES);
	if (pid == 0) {
		struct timespec now = { 0 };

		while (now.tv_sec == 0 && now.tv_nsec < 300000000)
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
		_exit(0);
	}
	finish(pid);
	getrusage(RUSAGE_CHILDREN, &after);
	long used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
		    after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec;

	printf("usage: %s\n", used >= 290000 ? "counted" : "lost");
}

int main(int argc, char **argv)
{
	setbuf(stdout, NULL);
	if (argc > 1 && !strcmp(argv[1], "numbers")) {
		printf("program: numbers%s\n", numbers());
		return 6;
	}
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || syscall(SYS_close_range, 3, ~0u, 0))
		return 1;
	common(0);
	common(CLONE_FILES);
	common(CLONE_FILES | CLONE_FS);
	later();
	leaves_by("execve", by_execve);
	leaves_by("execve fails", by_failed_execve);
	leaves_by("unshare", by_unshare);
	leaves_by("close_range unshares", by_close_range);
	leaves_by("close_range", closing_all);
	leaves_by("killed", killed);
	within("children", children_of_its_own);
	within("files", files);
	first_goes("first ends", 0);
	first_goes("first execs", 1);
	usage();
	crowd();
	return 0;
}
