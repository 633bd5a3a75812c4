/*
 * Files of procfs and sysfs behave as files, and agree with system calls. Prints only what is the
 * same on Linux and on the LWK.
 */
#include "guest.h"

#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))

static char text[1 << 20];

static ssize_t slurp_at(int dir, const char *path) {
	int fd = openat(dir, path, O_RDONLY);
	ssize_t n, all = 0;
	if (fd < 0)
		return -1;
	while ((n = read(fd, text + all, sizeof(text) - 1 - all)) > 0)
		all += n;
	text[all] = 0;
	close(fd);
	return all;
}

static ssize_t slurp(const char *path) { return slurp_at(AT_FDCWD, path); }

static unsigned long value(const char *key) {
	char *at = text;
	size_t n = strlen(key);
	for (; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (!strncmp(at, key, n) && at[n] == ':')
			return strtoul(at + n + 1, NULL, 10);
	return ~0UL;
}

// The permissions of the mapping that holds `address`, or "none".
static const char *rights(void *address, char *name) {
	static char found[8];
	char *line = text, *next;
	for (; line && *line; line = next) {
		unsigned long start, end;
		int at = 0;
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %n", &start, &end, found, &at) >= 3 &&
		    start <= (unsigned long)address && (unsigned long)address < end) {
			strcpy(name, at ? line + at : "");
			return found;
		}
	}
	return "none";
}

static void map_of(const char *what, void *address, int show_name) {
	char name[4096];
	slurp("/proc/self/maps");
	const char *r = rights(address, name);
	SAY("%s %s %s\n", what, r, show_name ? name : "");
}

static void file_behaviour(void) {
	char a[64], b[64], link[256], path[64];
	struct stat by_path, by_fd;
	struct statfs fs;
	int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	SAY("cloexec %d flags %x\n", fcntl(fd, F_GETFD), fcntl(fd, F_GETFL) & ~O_CLOEXEC);
	stat("/proc/stat", &by_path);
	fstat(fd, &by_fd);
	SAY("same file %d mode %o size %ld\n",
	    by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino, by_fd.st_mode, by_fd.st_size);
	fstatfs(fd, &fs);
	SAY("fs %lx\n", (long)fs.f_type);
	sprintf(path, "/proc/self/fd/%d", fd);
	link[readlink(path, link, sizeof(link) - 1)] = 0;
	SAY("link %s\n", link);
	SAY("read %zd %.4s\n", read(fd, a, 4), a);
	SAY("seek %ld\n", lseek(fd, 0, SEEK_SET));
	SAY("pread %zd %.2s\n", pread(fd, b, 2, 1), b);
	SAY("again %zd %.4s\n", read(fd, b, 4), b);
	SAY("write %zd\n", write(fd, "x", 1));
	SAY("mmap %d\n", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	int again = open(path, O_RDONLY);
	SAY("reopened %d\n", again > fd && read(again, a, 4) == 4 && !memcmp(a, "cpu ", 4));
	close(again);
	int copy = dup(fd);
	SAY("dup %d %ld\n", fcntl(copy, F_GETFD), lseek(copy, 0, SEEK_CUR));
	close(copy);
	close(fd);
	int low = open("/proc/cpuinfo", O_RDONLY);
	SAY("same number %d\n", low == fd);
	close(low);
	SAY("to write %d %d\n", open("/proc/self/maps", O_WRONLY), errno);
	fd = open("/proc/self/status", O_PATH);
	SAY("path %d\n", fd >= 0 && read(fd, a, 1) == -1 && errno == EBADF);
	close(fd);
}

static void by_other_ways(void) {
	char name[64];
	int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
	sprintf(name, "Pid:\t%d\n", getpid());
	SAY("openat %d\n", slurp_at(dir, "status") > 0 && strstr(text, name));
	SAY("dots %d\n", slurp_at(dir, "task/../status") > 0 && strstr(text, "VmRSS"));
	SAY("thread-self %d\n", slurp("/proc/thread-self/stat") > 0 && atoi(text) == gettid());
	close(dir);
	unlink("pseudo-link");
	symlink("/proc/self/statm", "pseudo-link");
	SAY("symlink %d\n", slurp("pseudo-link") > 0);
	unlink("pseudo-link");
	SAY("bus %d\n", slurp("/sys/bus/cpu/devices/../../../devices/system/cpu/online") > 0);
	SAY("gone %zd %d\n", slurp("/proc/self/nothing"), errno);
}

static int counted(const char *directory, int (*wanted)(const char *)) {
	DIR *d = opendir(directory);
	struct dirent *e;
	int n = 0;
	while (d && (e = readdir(d)))
		n += wanted(e->d_name);
	if (d)
		closedir(d);
	return n;
}

static int is_cpu(const char *name) { return !strncmp(name, "cpu", 3) && isdigit(name[3]); }
static int is_number(const char *name) { return isdigit(*name) != 0; }

static void machine(void) {
	cpu_set_t set;
	struct sysinfo info;
	char line[128];
	int n, cpu, first = -1, lines = 0;
	sched_getaffinity(0, sizeof(set), &set);
	n = CPU_COUNT(&set);
	for (cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
		if (CPU_ISSET(cpu, &set))
			first = cpu;
	slurp("/proc/cpuinfo");
	for (char *at = text; (at = strstr(at, "processor\t:")); at++)
		lines++;
	sprintf(line, "processor\t: %d\n", first);
	SAY("cpuinfo %d first %d\n", lines == n, !strncmp(text, line, strlen(line)));
	slurp("/proc/stat");
	for (cpu = lines = 0; cpu < CPU_SETSIZE; cpu++) {
		sprintf(line, "\ncpu%d ", cpu);
		lines += (strstr(text, line) != NULL) == CPU_ISSET(cpu, &set);
	}
	SAY("stat %d\n", lines == CPU_SETSIZE);
	SAY("onln %d dir %d\n", sysconf(_SC_NPROCESSORS_ONLN) == n, counted("/sys/devices/system/cpu", is_cpu) >= n);
	sysinfo(&info);
	slurp("/proc/meminfo");
	SAY("total %d pages %d free %d\n", value("MemTotal") == info.totalram * info.mem_unit >> 10,
	    sysconf(_SC_PHYS_PAGES) == (long)(info.totalram * info.mem_unit >> 12),
	    value("MemFree") <= value("MemTotal") && value("MemAvailable") <= value("MemTotal"));
	sprintf(line, "/sys/devices/system/cpu/cpu%d/topology/core_id", first);
	SAY("topology %d\n", slurp(line) > 0);
	unsigned here = 99, node = 99;
	getcpu(&here, &node);
	sprintf(line, "/sys/devices/system/node/node%u/cpulist", node);
	SAY("node %d %d\n", CPU_ISSET(here, &set), slurp(line) > 0 && isdigit(*text));
}

static void *sleeper(void *unused) {
	prctl(PR_SET_NAME, "sleeper");
	pause();
	return NULL;
}

static void process(void) {
	struct rusage usage;
	pthread_t t[2];
	char path[64];
	int on_stack = 0, i;
	void *heap = sbrk(0);
	sbrk(4096);
	*(char *)heap = 1;
	void *three = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect((char *)three + 4096, 4096, PROT_NONE);
	int fd = open("pseudo-file", O_RDWR | O_CREAT, 0600);
	ftruncate(fd, 8192);
	void *shared = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	void *private = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096);
	map_of("stack", &on_stack, 1);
	map_of("heap", heap, 1);
	map_of("text", process, 0);
	map_of("data", text, 0);
	map_of("anonymous", three, 1);
	map_of("none", (char *)three + 4096, 1);
	map_of("shared", shared, 0);
	map_of("private", private, 0);
	slurp("/proc/self/maps");
	SAY("named %d\n", strstr(text, "/pseudo-file\n") != NULL);
	munmap(three, 3 * 4096);
	map_of("unmapped", three, 0);
	unlink("pseudo-file");
	slurp("/proc/self/maps");
	SAY("deleted %d\n", strstr(text, "/pseudo-file (deleted)\n") != NULL);
	slurp("/proc/self/smaps");
	SAY("smaps %d %d\n", strstr(text, "[stack]") != NULL, strstr(text, "VmFlags: rd wr") != NULL);
	SAY("rollup %d\n", slurp("/proc/self/smaps_rollup") > 0 && value("Rss") > 0);
	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, sleeper, NULL);
	usleep(300000);
	slurp("/proc/self/status");
	SAY("threads %lu tasks %d\n", value("Threads"), counted("/proc/self/task", is_number));
	SAY("sizes %d\n", value("VmSize") >= value("VmRSS") && value("VmRSS") > 0 && value("VmHWM") >= value("VmRSS"));
	signal(SIGUSR1, exit);
	signal(SIGUSR2, SIG_IGN);
	sigset_t block;
	sigemptyset(&block);
	sigaddset(&block, SIGWINCH);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR1);
	slurp("/proc/self/status");
	char *at;
	for (const char *keys[] = {"SigBlk", "SigIgn", "SigCgt"}, **k = keys; k < keys + 3; k++)
		if ((at = strstr(text, *k)))
			SAY("%.23s\n", at);
	unsigned long pending = 0, all = 0;
	if ((at = strstr(text, "SigPnd:")))
		pending = strtoul(at + 7, NULL, 16);
	if ((at = strstr(text, "ShdPnd:")))
		all = pending | strtoul(at + 7, NULL, 16);
	SAY("pending %lx\n", all);
	while (getrusage(RUSAGE_SELF, &usage), usage.ru_utime.tv_sec == 0 && usage.ru_utime.tv_usec < 200000)
		;
	unsigned long user = 0, state = 0;
	slurp("/proc/self/stat");
	sscanf(strrchr(text, ')'), ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", (char *)&state, &user);
	SAY("stat %c %d\n", (char)state, user >= 15 && user < 10000);
	sprintf(path, "/proc/self/task/%d/comm", gettid());
	slurp(path);
	SAY("comm %s", text);
	ssize_t n = slurp("/proc/self/environ");
	SAY("environ %d\n", n > 0 && memmem(text, n, "PATH=", 5) != NULL);
	fd = open("/proc/self/mem", O_RDWR);
	int cell = 4711, got = 0, put = 4712;
	pread(fd, &got, sizeof(got), (off_t)(unsigned long)&cell);
	pwrite(fd, &put, sizeof(put), (off_t)(unsigned long)&cell);
	SAY("mem %d %d\n", got, *(volatile int *)&cell);
	close(fd);
}

static void others(const char *program) {
	char path[64], link[4096];
	int ready[2], i;
	pipe(ready);
	pid_t child = fork();
	if (!child) {
		close(ready[0]);
		dup2(ready[1], 9);
		execl(program, "a name", "wait", "three words here", NULL);
		_exit(1);
	}
	close(ready[1]);
	read(ready[0], path, 1);
	sprintf(path, "/proc/%d/cmdline", child);
	ssize_t n = slurp(path);
	for (i = 0; i < n; i++)
		if (!text[i])
			text[i] = '|';
	SAY("cmdline %s\n", text);
	sprintf(path, "/proc/%d/exe", child);
	link[readlink(path, link, sizeof(link) - 1)] = 0;
	SAY("exe %s\n", strrchr(link, '/'));
	sprintf(path, "/proc/%d/maps", child);
	SAY("maps %d\n", slurp(path) > 0 && strstr(text, "[stack]") && strstr(text, strrchr(link, '/')));
	cpu_set_t mine, its;
	sched_getaffinity(0, sizeof(mine), &mine);
	SAY("affinity %d %d\n", sched_getaffinity(child, sizeof(its), &its), CPU_EQUAL(&mine, &its));
	sprintf(path, "/proc/%d/stat", child);
	int fd = open(path, O_RDONLY);
	kill(child, SIGKILL);
	wait(NULL);
	n = read(fd, path, 10);
	SAY("ended %zd %d\n", n, n < 0 ? errno : 0);
}

int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "wait")) {
		write(9, "x", 1);
		pause();
	}
	file_behaviour();
	by_other_ways();
	machine();
	others(argv[0]);
	process();
	return 0;
}
