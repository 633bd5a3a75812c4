// SPDX-License-Identifier: GPL-2.0
/*
 * Bad input to every ioctl of /dev/hanare: the errno, and a message where
 * there is room for one. Run as root in a VM; the second half runs without
 * privileges. Takes CPU 1 for a moment. With HANARE_IMAGE set it also damages
 * a copy of that image in several ways.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"

static int fails, checks;

static int new_fd(void)
{
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		perror("/dev/hanare");
		exit(1);
	}
	return fd;
}

/* The call must fail with `want` (0: succeed), and say why where it can. */
static void check(int line, int fd, unsigned int cmd, void *arg, int want, const void *message)
{
	int got = ioctl(fd, cmd, arg) < 0 ? errno : 0;

	checks++;
	if (got != want) {
		printf("line %d: errno %d (%s), wanted %d: %s\n", line, got, strerror(got), want,
		       message ? (const char *)message : "");
		fails++;
	} else if (want && message && !*(const char *)message) {
		printf("line %d: no message\n", line);
		fails++;
	} else if (want && message && getenv("VERBOSE")) {
		printf("  %s\n", (const char *)message);
	}
}

#define CHECK(fd, cmd, arg, want) check(__LINE__, fd, HANARE_IOCTL_##cmd, arg, want, NULL)
#define CHECK_SAYS(fd, cmd, arg, want) \
	check(__LINE__, fd, HANARE_IOCTL_##cmd, arg, want, (arg)->message)

static void everyone(void)
{
	struct hanare_info info = {};
	struct hanare_status status = { .index = 1000 };
	struct hanare_log log = { .name = "nobody" };
	struct hanare_attach attach = { .name = "nobody" };
	struct hanare_serve serve = {};
	struct hanare_signal signal = { .signal = 1 };
	struct hanare_usage usage = {};
	struct hanare_child child = {};
	int fd = new_fd();

	CHECK(fd, INFO, &info, 0);
	if (info.magic != HANARE_MAGIC || info.version != HANARE_VERSION) {
		printf("info: wrong magic or version\n");
		fails++;
	}
	CHECK(fd, INFO, NULL, EFAULT);
	CHECK(fd, STATUS, &status, ENOENT);
	memset(status.name, 'x', sizeof(status.name));
	CHECK(fd, STATUS, &status, ENOENT);
	CHECK(fd, LOG, &log, ENOENT);
	CHECK_SAYS(fd, ATTACH, &attach, ENOENT);
	memset(attach.name, 'x', sizeof(attach.name));
	CHECK_SAYS(fd, ATTACH, &attach, ENOENT);
	memset(attach.name, 0, sizeof(attach.name));
	CHECK_SAYS(fd, ATTACH, &attach, ENOENT);
	/* Calls of a space on a descriptor that is none. */
	CHECK(fd, WAIT, NULL, EBADF);
	CHECK(fd, RING, NULL, EBADF);
	CHECK(fd, SERVE, &serve, EBADF);
	CHECK(fd, SIGNAL, &signal, EBADF);
	CHECK(fd, USAGE, &usage, EBADF);
	CHECK(fd, START, NULL, EBADF);
	CHECK(fd, CHILD, &child, EBADF);
	check(__LINE__, fd, 0x1234, NULL, ENOTTY, NULL);
	checks++;
	if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED || errno != EBADF) {
		printf("mmap without a space did not fail with EBADF\n");
		fails++;
	}
	close(fd);
}

static void unprivileged(void)
{
	struct hanare_create create = { .name = "mine" };
	struct hanare_add_memory memory = { .bytes = 2 << 20 };
	struct hanare_add_cpu cpu = { .cpu = 1 };
	struct hanare_boot boot = {};
	struct hanare_shutdown shutdown = { .name = "test" };
	struct hanare_debug debug = { .name = "test" };
	int fd = new_fd();

	CHECK(fd, CREATE, &create, EPERM);
	CHECK(fd, ADD_MEMORY, &memory, EPERM);
	CHECK(fd, ADD_CPU, &cpu, EPERM);
	CHECK(fd, BOOT, &boot, EPERM);
	CHECK(fd, SHUTDOWN, &shutdown, EPERM);
	CHECK(fd, DEBUG, &debug, EPERM);
	close(fd);
	everyone();
}

static void damaged_image(int fd, const void *image, size_t size, size_t at, const void *bytes,
			  size_t count, int line)
{
	struct hanare_boot boot = { .image_size = size };
	char *copy = malloc(size);

	memcpy(copy, image, size);
	if (at + count > size)
		return;
	memcpy(copy + at, bytes, count);
	boot.image = (unsigned long)copy;
	check(line, fd, HANARE_IOCTL_BOOT, &boot, ENOEXEC, boot.message);
	free(copy);
}

static void images(int fd)
{
	const char *path = getenv("HANARE_IMAGE");
	struct hanare_boot boot = {};
	Elf64_Ehdr *eh;
	Elf64_Phdr *ph;
	struct stat st;
	char *image;
	__u64 word = 1ULL << 63, small = 8;
	__u32 version = HANARE_VERSION + 1, one = 1;
	int file, i, cut;

	boot.image_size = 4;
	boot.image = (unsigned long)"abc";
	CHECK_SAYS(fd, BOOT, &boot, ENOEXEC);
	boot.image_size = 65 << 20;
	CHECK_SAYS(fd, BOOT, &boot, ENOEXEC);
	boot.image_size = 4096;
	boot.image = 0x123000;
	CHECK_SAYS(fd, BOOT, &boot, EFAULT);
	boot.reserved = 1;
	CHECK_SAYS(fd, BOOT, &boot, EINVAL);
	boot.reserved = 0;
	boot.timeout_ms = -1;
	CHECK_SAYS(fd, BOOT, &boot, EINVAL);
	boot.timeout_ms = 0;
	memset(boot.cmdline, 'x', sizeof(boot.cmdline));
	CHECK_SAYS(fd, BOOT, &boot, EINVAL);

	file = path ? open(path, O_RDONLY) : -1;
	if (file < 0 || fstat(file, &st)) {
		printf("no HANARE_IMAGE: damaged images were not tried\n");
		return;
	}
	image = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	eh = (void *)image;
	ph = (void *)(image + eh->e_phoff);
	for (i = 0; ph[i].p_type != PT_LOAD; i++)
		;
#define DAMAGE(field, value) damaged_image(fd, image, st.st_size, (char *)&(field) - image, \
					   &(value), sizeof(field), __LINE__)
	DAMAGE(eh->e_phoff, word);
	DAMAGE(eh->e_phentsize, small);
	DAMAGE(eh->e_machine, small);
	DAMAGE(eh->e_type, small);
	DAMAGE(eh->e_entry, small);
	DAMAGE(ph[i].p_offset, word);
	DAMAGE(ph[i].p_filesz, word);
	DAMAGE(ph[i].p_memsz, word);
	DAMAGE(ph[i].p_memsz, small);
	DAMAGE(ph[i].p_vaddr, word);
#define HEADER(field) (((struct hanare_image_header *)(image + ph[i].p_offset))->field)
	DAMAGE(HEADER(magic), word);
	DAMAGE(HEADER(version), version);
	DAMAGE(HEADER(header_size), one);
	version = 0x7fffffff;
	DAMAGE(HEADER(trampoline_offset), version);
	DAMAGE(HEADER(trampoline_size), version);
	DAMAGE(HEADER(args_offset), version);
	memset(&boot, 0, sizeof(boot));
	boot.image = (unsigned long)image;
	for (cut = 0; cut < 200; cut += 7) {
		boot.image_size = cut;
		CHECK_SAYS(fd, BOOT, &boot, ENOEXEC);
	}
	boot.image_size = ph[i].p_offset + ph[i].p_filesz - 1;
	CHECK_SAYS(fd, BOOT, &boot, ENOEXEC);
}

static void root(void)
{
	struct hanare_create create = {};
	struct hanare_add_memory memory = { .bytes = 64 << 20, .node = -1 };
	struct hanare_add_cpu cpu = { .cpu = 1 };
	struct hanare_boot boot = {};
	struct hanare_shutdown shutdown = { .name = "test" };
	struct hanare_debug debug = { .name = "test" };
	struct hanare_attach attach = { .name = "test" };
	struct hanare_cpu_status cpus[2];
	struct hanare_status status = { .name = "test", .cpus = (unsigned long)cpus,
					.cpu_count = 2 };
	int fd = new_fd(), other = new_fd();

	CHECK_SAYS(fd, ADD_MEMORY, &memory, EBADF);
	CHECK_SAYS(fd, ADD_CPU, &cpu, EBADF);
	CHECK_SAYS(fd, BOOT, &boot, EBADF);
	CHECK_SAYS(fd, CREATE, &create, EINVAL);
	strcpy((char *)create.name, "a/b");
	CHECK_SAYS(fd, CREATE, &create, EINVAL);
	memset(create.name, 'x', sizeof(create.name));
	CHECK_SAYS(fd, CREATE, &create, EINVAL);
	memset(create.name, 0, sizeof(create.name));
	strcpy((char *)create.name, "test");
	CHECK_SAYS(fd, CREATE, &create, 0);
	CHECK_SAYS(fd, CREATE, &create, EBUSY);
	CHECK_SAYS(other, CREATE, &create, EEXIST);
	CHECK_SAYS(fd, ATTACH, &attach, EBUSY);
	CHECK_SAYS(other, ATTACH, &attach, ENODEV);
	CHECK_SAYS(fd, BOOT, &boot, EINVAL);

	cpu.cpu = 0;
	CHECK_SAYS(fd, ADD_CPU, &cpu, EINVAL);
	cpu.cpu = 4000;
	CHECK_SAYS(fd, ADD_CPU, &cpu, EINVAL);
	cpu.cpu = -1;
	CHECK_SAYS(fd, ADD_CPU, &cpu, EINVAL);
	cpu.cpu = 1;
	cpu.check = 2;
	CHECK_SAYS(fd, ADD_CPU, &cpu, EINVAL);
	cpu.check = 1;
	CHECK_SAYS(fd, ADD_CPU, &cpu, 0);
	cpu.check = 0;
	CHECK_SAYS(fd, ADD_CPU, &cpu, 0);
	CHECK_SAYS(fd, ADD_CPU, &cpu, EBUSY);
	CHECK_SAYS(fd, BOOT, &boot, EINVAL);

	memory.bytes = 0;
	CHECK_SAYS(fd, ADD_MEMORY, &memory, EINVAL);
	memory.bytes = 12345;
	CHECK_SAYS(fd, ADD_MEMORY, &memory, EINVAL);
	memory.bytes = 1ULL << 62;
	CHECK_SAYS(fd, ADD_MEMORY, &memory, ENOMEM);
	memory.bytes = 64 << 20;
	memory.node = 99;
	CHECK_SAYS(fd, ADD_MEMORY, &memory, EINVAL);
	memory.node = -2;
	CHECK_SAYS(fd, ADD_MEMORY, &memory, EINVAL);
	memory.node = 0;
	CHECK_SAYS(fd, ADD_MEMORY, &memory, 0);

	images(fd);
	CHECK(other, STATUS, &status, 0);
	if (status.cpu_count != 1 || status.memory_bytes != 64 << 20 ||
	    status.state != HANARE_INSTANCE_CREATED || cpus[0].linux_cpu != 1) {
		printf("status: wrong answer\n");
		fails++;
	}
	status.cpus = 8;
	status.cpu_count = 2;
	CHECK(other, STATUS, &status, EFAULT);
	CHECK_SAYS(other, SHUTDOWN, &shutdown, EBUSY);
	shutdown.force = 2;
	CHECK_SAYS(other, SHUTDOWN, &shutdown, EINVAL);
	strcpy((char *)shutdown.name, "nobody");
	CHECK_SAYS(other, SHUTDOWN, &shutdown, ENOENT);
	CHECK(other, DEBUG, &debug, ENODEV);
	debug.cpu = 70;
	CHECK(other, DEBUG, &debug, EINVAL);
	close(fd);
	/* Closing the builder gave everything back, name included. */
	CHECK_SAYS(other, CREATE, &create, 0);
	cpu.check = 1;
	CHECK_SAYS(other, ADD_CPU, &cpu, 0);
	close(other);
}

int main(void)
{
	struct stat device;
	int status = 0;

	everyone();
	if (geteuid() == 0) {
		root();
		fflush(stdout);
		if (!fork()) {
			fails = 0;
			if (stat("/dev/hanare", &device) || setgroups(1, &device.st_gid) ||
			    setgid(65534) || setuid(65534))
				exit(1);
			unprivileged();
			exit(fails != 0);
		}
		wait(&status);
	} else {
		unprivileged();
	}
	printf("%d checks, %d failed%s\n", checks, fails, status ? ", unprivileged half failed" : "");
	return fails || status;
}
