// SPDX-License-Identifier: GPL-2.0
/*
 * Drives /dev/hanare by its ioctls alone, for tests of the module:
 *   boot up NAME CPU,CPU,... MIB IMAGE [OPTIONS]
 *   boot status NAME | log NAME | down NAME [force] | debug NAME CPU OP
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"

static int fd;

static int report(const char *what, int ret, const void *message)
{
	if (ret < 0)
		fprintf(stderr, "%s: %s: %s\n", what, strerror(errno), (const char *)message);
	return ret < 0;
}

static int up(char **argv)
{
	struct hanare_create create = {};
	struct hanare_add_memory memory = { .node = -1 };
	struct hanare_boot boot = {};
	struct stat st;
	int image;
	char *cpu;

	snprintf((char *)create.name, sizeof(create.name), "%s", argv[0]);
	if (report("create", ioctl(fd, HANARE_IOCTL_CREATE, &create), create.message))
		return 1;
	for (cpu = strtok(argv[1], ","); cpu; cpu = strtok(NULL, ",")) {
		struct hanare_add_cpu add = { .cpu = atoi(cpu) };

		if (report("cpu", ioctl(fd, HANARE_IOCTL_ADD_CPU, &add), add.message))
			return 1;
	}
	memory.bytes = (unsigned long long)atol(argv[2]) << 20;
	if (report("memory", ioctl(fd, HANARE_IOCTL_ADD_MEMORY, &memory), memory.message))
		return 1;
	image = open(argv[3], O_RDONLY);
	if (image < 0 || fstat(image, &st))
		return report(argv[3], -1, "cannot be opened");
	boot.image_size = st.st_size;
	boot.image = (unsigned long long)mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, image, 0);
	if (getenv("BOOT_TIMEOUT_MS"))
		boot.timeout_ms = atoi(getenv("BOOT_TIMEOUT_MS"));
	if (argv[4])
		snprintf((char *)boot.cmdline, sizeof(boot.cmdline), "%s", argv[4]);
	if (report("boot", ioctl(fd, HANARE_IOCTL_BOOT, &boot), boot.message))
		return 1;
	printf("booted: load %.1f ms, first CPU %.1f ms, others %.1f ms\n", boot.load_ns / 1e6,
	       boot.first_cpu_ns / 1e6, boot.other_cpus_ns / 1e6);
	return 0;
}

static int status(const char *name)
{
	struct hanare_cpu_status cpus[64];
	struct hanare_status s = { .ping = 1, .cpus = (unsigned long long)cpus, .cpu_count = 64 };
	unsigned int i;

	snprintf((char *)s.name, sizeof(s.name), "%s", name);
	if (report("status", ioctl(fd, HANARE_IOCTL_STATUS, &s), name))
		return 1;
	printf("%s: state %u spaces %u memory %llu MiB in %u chunks up %.1f s ping %.1f us log %llu\n",
	       s.name, s.state, s.spaces, s.memory_bytes >> 20, s.chunks, s.uptime_ns / 1e9,
	       s.ping_ns / 1e3, s.log_head);
	for (i = 0; i < s.cpu_count; i++)
		printf("  cpu %u state %u heartbeat %llu interrupts %llu\n", cpus[i].linux_cpu,
		       cpus[i].state, cpus[i].heartbeat, cpus[i].interrupts);
	return 0;
}

static int show_log(const char *name)
{
	static char text[65536];
	struct hanare_log log = { .buffer = (unsigned long long)text };

	snprintf((char *)log.name, sizeof(log.name), "%s", name);
	do {
		log.size = sizeof(text);
		if (report("log", ioctl(fd, HANARE_IOCTL_LOG, &log), name))
			return 1;
		fwrite(text, 1, log.size, stdout);
	} while (log.size);
	return 0;
}

static int down(const char *name, int force)
{
	struct hanare_shutdown s = { .force = force };

	snprintf((char *)s.name, sizeof(s.name), "%s", name);
	return report("shutdown", ioctl(fd, HANARE_IOCTL_SHUTDOWN, &s), s.message);
}

static int debug(char **argv)
{
	struct hanare_debug d = { .cpu = atoi(argv[1]), .op = atoi(argv[2]) };

	snprintf((char *)d.name, sizeof(d.name), "%s", argv[0]);
	if (report("debug", ioctl(fd, HANARE_IOCTL_DEBUG, &d), argv[0]))
		return 1;
	printf("%llu %llu %llu %llu\n", d.args[0], d.args[1], d.args[2], d.args[3]);
	return 0;
}

int main(int argc, char **argv)
{
	fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return perror("/dev/hanare"), 1;
	if (argc >= 6 && !strcmp(argv[1], "up"))
		return up(argv + 2);
	if (argc == 3 && !strcmp(argv[1], "status"))
		return status(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "log"))
		return show_log(argv[2]);
	if (argc >= 3 && !strcmp(argv[1], "down"))
		return down(argv[2], argc > 3);
	if (argc == 5 && !strcmp(argv[1], "debug"))
		return debug(argv + 2);
	fprintf(stderr, "usage: see the head of boot.c\n");
	return 2;
}
