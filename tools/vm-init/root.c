// SPDX-License-Identifier: GPL-2.0
/* What a program finds in the VM: modules, the root file system, names, the network. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init.h"

void make_dirs(const char *path)
{
	char copy[4096], *p;

	snprintf(copy, sizeof(copy), "%s", path);
	for (p = copy + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(copy, 0755);
		*p = '/';
	}
	mkdir(copy, 0755);
}

/* Mount; a failure is fatal where the file system must be there and silent where it is a bonus. */
void mount_at(const char *type, const char *source, const char *path, unsigned long flags,
	      const char *options, int required)
{
	make_dirs(path);
	if (mount(source, path, type, flags, options) && required)
		die("mounting %s (%s) on %s", source, type, path);
}

void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		dprintf(2, "vm-init: writing %s: %s\n", path, strerror(errno));
	close(fd);
}

int load_module(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int result, saved;

	if (fd < 0)
		return -1;
	result = syscall(SYS_finit_module, fd, "", 0);
	saved = errno;
	close(fd);
	errno = saved;
	return result;
}

/* The initramfs lists its modules in an order in which they can be loaded. */
void load_boot_modules(void)
{
	FILE *list = fopen("/modules.list", "re");
	char line[256];

	if (!list)
		die("/modules.list");
	while (fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		if (load_module(line) && errno != EEXIST)
			die("loading %s", line);
		unlink(line);	/* its memory is better used otherwise */
	}
	fclose(list);
}

/*
 * What is written to a file is lost. stress-ng clears by `clear_warn_once` what was warned of. With
 * that Linux 6.1 forgets what else it has done once (DO_ONCE), while it is about to take the call
 * out of its code: the first connection of TCP then ends in `kernel BUG at lib/once.c:19`. From
 * 6.12 on they are apart (`.data..do_once`).
 */
static void hide(const char *path)
{
	mount("/new/dev/null", path, NULL, MS_BIND, NULL);	/* it may not be there */
}

void mount_root(void)
{
	mount_at("tmpfs", "tmpfs", "/overlay", 0, "size=75%,mode=755", 1);
	mkdir("/overlay/upper", 0755);
	mkdir("/overlay/work", 0755);
	mount_at("9p", "root", "/host", MS_RDONLY,
		 "trans=virtio,version=9p2000.L,msize=512000,cache=loose,noxattr", 1);
	mount_at("overlay", "overlay", "/new", 0,
		 "lowerdir=/host,upperdir=/overlay/upper,workdir=/overlay/work", 1);

	mount_at("proc", "proc", "/new/proc", 0, NULL, 1);
	mount_at("sysfs", "sysfs", "/new/sys", 0, NULL, 1);
	if (mount("/dev", "/new/dev", NULL, MS_MOVE, NULL))
		die("moving /dev");
	mount_at("devpts", "devpts", "/new/dev/pts", 0, "mode=620,gid=5,ptmxmode=666", 1);
	mount_at("tmpfs", "tmpfs", "/new/dev/shm", 0, "mode=1777,size=75%", 1);
	mount_at("mqueue", "mqueue", "/new/dev/mqueue", 0, NULL, 0);
	mount_at("hugetlbfs", "hugetlbfs", "/new/dev/hugepages", 0, NULL, 0);
	mount_at("tmpfs", "tmpfs", "/new/run", 0, "mode=755", 1);
	mount_at("cgroup2", "cgroup2", "/new/sys/fs/cgroup", 0, NULL, 0);
	mount_at("debugfs", "debugfs", "/new/sys/kernel/debug", 0, NULL, 0);
	mount_at("tracefs", "tracefs", "/new/sys/kernel/tracing", 0, NULL, 0);
	hide("/new/sys/kernel/debug/clear_warn_once");
	mkdir("/new/run/lock", 01777);
	mkdir("/new/run/hanare", 0755);
	if (symlink("/proc/self/fd", "/new/dev/fd") ||
	    symlink("/proc/self/fd/0", "/new/dev/stdin") ||
	    symlink("/proc/self/fd/1", "/new/dev/stdout") ||
	    symlink("/proc/self/fd/2", "/new/dev/stderr"))
		die("links in /dev");

	/* Kernel threads share this fs_struct, so request_module() finds modprobe in there, too. */
	if (chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		die("changing the root");
}

/* The group of /dev/hanare, as `make install` makes it; this /etc/group is the VM's own. */
void add_group(void)
{
	FILE *groups = fopen("/etc/group", "r+e");
	char line[4096];

	if (!groups)
		return;
	while (fgets(line, sizeof(line), groups))
		if (!strncmp(line, "hanare:", 7))
			goto close;
	fseek(groups, 0, SEEK_END);
	fputs("hanare:x:64064:\n", groups);
close:
	fclose(groups);
}

void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
}

/* The guest's name has to resolve; the host's /etc/hosts does not know it. */
void name_host(void)
{
	static const char line[] = "\n127.0.1.1 hanare-vm\n";
	int fd = open("/etc/hosts", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);

	if (sethostname("hanare-vm", 9) || fd < 0 || write(fd, line, sizeof(line) - 1) < 0)
		message("cannot set the host name: %s", strerror(errno));
	close(fd);
}
