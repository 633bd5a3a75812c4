/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A call that lasts for seconds does not hold up a thread that waits for an earlier one: hung
 * LIBRARY KINDS. The program writes a file, reads another one in order, so that readahead is posted
 * behind the writes, and waits for the writes. A filter of system calls holds that readahead.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * The held call is let go once the program has waited for its writes: only a wait for more takes so
 * long.
 */
#define HOLD_MS 60000

static long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Tells the parent, past the library: a write to a pipe waits for all that was posted. */
static void tell(int fd)
{
	long result = SYS_write;

	__asm__ volatile("syscall" : "+a"(result) : "D"(fd), "S"("x"), "d"(1) : "rcx", "r11", "memory");
}

static int program(int told)
{
	static char bytes[768 << 10];
	int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644), in = open("in", O_RDONLY);
	long start;

	/* Readahead is posted at the second read, and when half of what was read ahead is read. */
	for (int i = 0; i < 2; i++)
		if (read(in, bytes, 4096) != 4096)
			return 1;
	for (int i = 0; i < 30; i++)
		if (write(out, "text\n", 5) != 5)
			return 1;
	if (read(in, bytes, sizeof(bytes)) != sizeof(bytes))
		return 1;
	start = now_ms();
	printf("at %ld\n", (long)lseek(out, 0, SEEK_CUR));
	printf("%s\n", now_ms() - start < HOLD_MS / 2 ? "in time" : "late");
	tell(told);
	return 0;
}

static int hold_readahead(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readahead, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { sizeof(filter) / sizeof(*filter), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &all);
}

int main(int argc, char **argv)
{
	struct seccomp_notif held;
	struct seccomp_notif_resp answer;
	struct pollfd either[2];
	int file, listener, status, told[2];
	char number[12];
	pid_t child;

	if (argc == 2)
		return program(atoi(argv[1]));
	file = open("in", O_WRONLY | O_CREAT, 0644);
	if (ftruncate(file, 8 << 20) || close(file))
		return 2;
	if (pipe(told))
		return 2;
	snprintf(number, sizeof(number), "%d", told[1]);
	listener = hold_readahead();
	if (listener < 0) {
		printf("no filter: %s\n", strerror(errno));
		return 3;
	}
	child = fork();
	if (child == 0) {
		setenv("LD_PRELOAD", argv[1], 1);
		setenv("HANARE_ASYNC", argv[2], 1);
		execl("/proc/self/exe", argv[0], number, NULL);
		_exit(4);
	}
	either[0] = (struct pollfd){ .fd = told[0], .events = POLLIN };
	either[1] = (struct pollfd){ .fd = listener, .events = POLLIN };
	/* The first goes through; the second may not have begun when the program tells. */
	for (int i = 0; i < 2 && poll(either, 2, HOLD_MS) > 0 && !either[0].revents; i++) {
		memset(&held, 0, sizeof(held));
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &held))
			break;
		if (i == 1)
			poll(either, 1, HOLD_MS);
		answer = (struct seccomp_notif_resp){ .id = held.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	close(listener);
	waitpid(child, &status, 0);
	return 0;
}
