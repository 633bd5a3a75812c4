/*
 * Numbers of CPUs and nodes: sysfs, /proc and system calls agree on the CPUs that are online and on
 * those that are not. Prints only what does not depend on which of them are online.
 */
#include "guest.h"

#include <ctype.h>
#include <dirent.h>
#include <linux/mempolicy.h>
#include <sched.h>

#define CPU "/sys/devices/system/cpu/"
#define NODE "/sys/devices/system/node/"
#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))

static char text[1 << 16];

/* The file's text; NULL: it cannot be opened. */
static const char *text_of(const char *path)
{
	int fd = open(path, O_RDONLY);
	ssize_t n, all = 0;

	if (fd < 0)
		return NULL;
	while ((n = read(fd, text + all, sizeof(text) - 1 - all)) > 0)
		all += n;
	text[all] = 0;
	close(fd);
	return text;
}

/* A list such as "0,2-3". */
static cpu_set_t list(const char *at)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	while (at && isdigit(*at)) {
		char *end;
		long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		for (; first <= last; first++)
			CPU_SET(first, &set);
		at = *end == ',' ? end + 1 : NULL;
	}
	return set;
}

static cpu_set_t list_of(const char *path) { return list(text_of(path)); }

/* Numbers of the entries `prefix`N of a directory. */
static cpu_set_t entries(const char *path, const char *prefix)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	cpu_set_t set;

	CPU_ZERO(&set);
	while (dir && (e = readdir(dir)))
		if (!strncmp(e->d_name, prefix, strlen(prefix)) && isdigit(e->d_name[strlen(prefix)]))
			CPU_SET(atoi(e->d_name + strlen(prefix)), &set);
	if (dir)
		closedir(dir);
	return set;
}

static int listed(const char *path, const char *name)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int found = 0;

	while (dir && (e = readdir(dir)))
		found |= !strcmp(e->d_name, name);
	if (dir)
		closedir(dir);
	return found;
}

static cpu_set_t possible, online;

static void lists(void)
{
	cpu_set_t present = list_of(CPU "present"), offline = list_of(CPU "offline"), own, there, both;

	possible = list_of(CPU "possible");
	online = list_of(CPU "online");
	sched_getaffinity(0, sizeof(own), &own);
	there = entries(CPU, "cpu");
	SAY("online as affinity %d\n", CPU_EQUAL(&online, &own));
	CPU_OR(&both, &online, &offline);
	SAY("offline are the others %d\n", CPU_EQUAL(&both, &possible));
	CPU_AND(&both, &online, &offline);
	SAY("none is both %d\n", CPU_COUNT(&both) == 0);
	SAY("first %d\n", CPU_ISSET(0, &possible) && CPU_ISSET(0, &present));
	SAY("directories %d\n", CPU_EQUAL(&there, &present));
	there = entries("/sys/bus/cpu/devices", "cpu");
	SAY("bus %d\n", CPU_EQUAL(&there, &present));
	SAY("conf %d onln %d\n", sysconf(_SC_NPROCESSORS_CONF) == CPU_COUNT(&possible),
	    sysconf(_SC_NPROCESSORS_ONLN) == CPU_COUNT(&online));
}

static void each_cpu(void)
{
	static const char *const names[] = { "topology", "cache" };
	int cpu, state = 0, links = 0, all = 0, of_online[2] = {}, of_offline[2] = {}, opened = 0, near = 0, seen = 0;
	struct stat info;
	char path[128];

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		const char *is;
		int on = CPU_ISSET(cpu, &online) != 0, i, fd;

		sprintf(path, CPU "cpu%d", cpu);
		if (access(path, F_OK))
			continue;
		all++;
		for (i = 0; i < 2; i++)
			(on ? of_online : of_offline)[i] += listed(path, names[i]);
		links += CPU_COUNT(&(cpu_set_t[]){ entries(path, "node") }[0]);
		sprintf(path, CPU "cpu%d/online", cpu);
		is = text_of(path);
		/* One that cannot go offline has no such file. */
		state += is ? *is == '0' + on && is[1] == '\n' : on;
		sprintf(path, CPU "cpu%d/topology/core_id", cpu);
		fd = open(path, O_RDONLY);
		opened += on ? fd >= 0 : fd < 0 && errno == ENOENT;
		close(fd);
		sprintf(path, CPU "cpu%d/topology", cpu);
		fd = open(path, O_PATH);
		seen += (fd >= 0) + !stat(path, &info) + !lstat(path, &info) + !access(path, F_OK) +
			!faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 5 * on;
		close(fd);
		sprintf(path, CPU "cpu%d/cache/index0/shared_cpu_list", cpu);
		near += on ? CPU_ISSET(cpu, &(cpu_set_t[]){ list_of(path) }[0]) : !text_of(path);
	}
	SAY("state %d opened %d seen %d near %d links %d\n", state == all, opened == all, seen == all, near == all,
	    links >= CPU_COUNT(&online));
	for (int i = 0; i < 2; i++)
		SAY("%s: of all online %d, of offline %d\n", names[i], of_online[i] == CPU_COUNT(&online), of_offline[i]);
}

static void caches(void)
{
	static const char *const names[] = { "type", "level", "size", "coherency_line_size", "number_of_sets",
					     "ways_of_associativity", "physical_line_partition" };
	char path[128];
	int cpu, i, n;

	for (cpu = 0; !CPU_ISSET(cpu, &online); cpu++)
		;
	for (i = 0;; i++) {
		sprintf(path, CPU "cpu%d/cache/index%d", cpu, i);
		if (access(path, F_OK))
			break;
		for (n = 0; n < 7; n++) {
			sprintf(path, CPU "cpu%d/cache/index%d/%s", cpu, i, names[n]);
			SAY("cache %d %s: %s", i, names[n], text_of(path) ?: "none\n");
		}
	}
}

static void affinity(void)
{
	unsigned char mask[512];
	cpu_set_t set, both;
	int cpu, refused = 1, len;

	for (len = 0; len <= 256; len += 4) {
		long got;

		memset(mask, 0xee, sizeof(mask));
		errno = 0;
		got = syscall(SYS_sched_getaffinity, 0, (long)len, mask);
		SAY("sched_getaffinity(%d): %ld %d behind %x\n", len, got, errno, mask[got < 0 ? 0 : got]);
	}
	text_of("/proc/self/status");
	set = list(strstr(text, "Cpus_allowed_list:\t") + 19);
	SAY("allowed at first: possible %d\n", CPU_EQUAL(&set, &possible));
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &online))
			continue;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		refused &= sched_setaffinity(0, sizeof(set), &set) == -1 && errno == EINVAL;
	}
	SAY("no others %d\n", refused);
	memset(&set, 0xff, sizeof(set));
	TELL(sched_setaffinity(0, sizeof(set), &set));
	text_of("/proc/self/status");
	set = list(strstr(text, "Cpus_allowed_list:\t") + 19);
	/* Linux 6.1 leaves out those that are offline; newer ones do not. */
	CPU_AND(&both, &set, &online);
	SAY("allowed then: online %d\n", CPU_EQUAL(&both, &online));
	CPU_OR(&both, &set, &possible);
	SAY("none impossible %d\n", CPU_EQUAL(&both, &possible));
	sched_getaffinity(0, sizeof(set), &set);
	SAY("affinity then: online %d\n", CPU_EQUAL(&set, &online));
}

static void nodes(void)
{
	cpu_set_t memory = list_of(NODE "has_memory"), on = list_of(NODE "online"), cpus = list_of(NODE "has_cpu");
	cpu_set_t could = list_of(NODE "possible"), there = entries(NODE, "node"), both, all, set;
	unsigned long mask[1024], max;
	int node, ids = 0, few = 0;
	char path[64];

	CPU_OR(&both, &memory, &cpus);
	SAY("nodes %d %d\n", CPU_EQUAL(&both, &on), CPU_EQUAL(&there, &on));
	CPU_ZERO(&all);
	for (node = 0; node < CPU_SETSIZE; node++) {
		if (CPU_ISSET(node, &could))
			ids = node + 1;
		if (!CPU_ISSET(node, &on))
			continue;
		sprintf(path, NODE "node%d/cpulist", node);
		set = list_of(path);
		few += (CPU_COUNT(&set) > 0) != (CPU_ISSET(node, &cpus) != 0);
		CPU_OR(&all, &all, &set);
	}
	SAY("CPUs of nodes %d %d\n", CPU_EQUAL(&all, &online), few);
	for (max = 0; max < 130; max++) {
		long result, words = (max - 1 + 63) / 64;

		memset(mask, 0xee, sizeof(mask));
		result = syscall(SYS_get_mempolicy, NULL, mask, max, NULL, MPOL_F_MEMS_ALLOWED);
		if (max < (unsigned long)ids ? result != -1 || errno != EINVAL :
			    result || mask[words] != 0xeeeeeeeeeeeeeeee || (words > 1 && mask[1]))
			SAY("get_mempolicy(%lu): %ld\n", max, result);
	}
	TELL(syscall(SYS_get_mempolicy, NULL, mask, 32769, NULL, MPOL_F_MEMS_ALLOWED));
	TELL(syscall(SYS_get_mempolicy, NULL, mask, 32770, NULL, MPOL_F_MEMS_ALLOWED));
	syscall(SYS_get_mempolicy, NULL, mask, 1024, NULL, MPOL_F_MEMS_ALLOWED);
	CPU_ZERO(&set);
	memcpy(&set, mask, sizeof(set));
	SAY("mems allowed: those with memory %d\n", CPU_EQUAL(&set, &memory));
	text_of("/proc/self/status");
	set = list(strstr(text, "Mems_allowed_list:\t") + 19);
	SAY("in status %d\n", CPU_EQUAL(&set, &memory));
}

int main(void)
{
	lists();
	each_cpu();
	caches();
	affinity();
	nodes();
	return 0;
}
