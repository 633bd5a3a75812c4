// SPDX-License-Identifier: GPL-2.0
/*
 * Gives every ioctl of /dev/hanare nonsense: NULL, unmapped, read-only and random structures,
 * random counts and pointers inside them, unknown numbers. Nothing may succeed that leaves an
 * instance behind, and Linux has to live.
 *   fuzz [ROUNDS [SEED]]
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"

static const unsigned int calls[] = {
	HANARE_IOCTL_INFO, HANARE_IOCTL_CREATE, HANARE_IOCTL_ADD_MEMORY, HANARE_IOCTL_ADD_CPU,
	HANARE_IOCTL_BOOT, HANARE_IOCTL_SHUTDOWN, HANARE_IOCTL_STATUS, HANARE_IOCTL_LOG,
	HANARE_IOCTL_DEBUG, HANARE_IOCTL_ATTACH, HANARE_IOCTL_START, HANARE_IOCTL_WAIT,
	HANARE_IOCTL_RING, HANARE_IOCTL_SERVE, HANARE_IOCTL_SIGNAL, HANARE_IOCTL_USAGE,
	HANARE_IOCTL_CHILD, HANARE_IOCTL_WORKER, 0, ~0U, 0x4800 + 99, HANARE_IOCTL_INFO ^ 0x80000000,
};

static unsigned long long interesting(void)
{
	static const unsigned long long values[] = {
		0, 1, 2, 7, 63, 64, 4095, 4096, 1 << 20, 1 << 21, 0x7fffffff, 0x80000000, 0xffffffff,
		1ULL << 32, 1ULL << 40, 0x7fffffffffff, 0x800000000000, 0xffff888000000000,
		0xffffffff81000000, 1ULL << 63, ~0ULL, ~0ULL - 4095,
	};

	return values[rand() % (sizeof(values) / sizeof(*values))];
}

static unsigned int current, current_how;

static void late(int signal)
{
	(void)signal;
	/* To wait is what this one is for; the signal interrupts it. */
	if (current == HANARE_IOCTL_WAIT)
		return;
	printf("call %x did not return within 100 s (kind %u)\n", current, current_how);
	fflush(stdout);
	_exit(3);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? atoi(argv[1]) : 20000, n, i, good = 0;
	unsigned char *buffer = mmap(NULL, (1 << 16) + 4096, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *readonly = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	mprotect(buffer + (1 << 16), 4096, PROT_NONE);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = late }, NULL);
	srand(argc > 2 ? atoi(argv[2]) : 1);
	if (fd < 0)
		return perror("/dev/hanare"), 1;
	for (n = 0; n < rounds; n++) {
		unsigned int call = calls[rand() % (sizeof(calls) / sizeof(*calls))];
		void *argument = buffer;

		/* A descriptor remembers what it created: a new one now and then. */
		if (rand() % 16 == 0) {
			close(fd);
			fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);
		}
		memset(buffer, 0, 2048);
		current = call;
		switch (current_how = rand() % 8) {
		case 0:
			argument = (void *)interesting();
			break;
		case 1:
			argument = readonly;
			break;
		case 2:
			for (i = 0; i < 2048; i++)
				buffer[i] = rand();
			break;
		case 3:
			/* Ends at a page that cannot be read. */
			argument = buffer + (1 << 16) - rand() % 64;
			break;
		default:
			/* A sound name, nonsense behind it. */
			memcpy(buffer, "fuzz", 5);
			for (i = rand() % 2 ? 32 : 0; i < 512; i += 8)
				if (rand() % 3 == 0)
					*(unsigned long long *)(buffer + i) = interesting();
		}
		/* An empty name means the only instance: that one is not ours. */
		if ((call == HANARE_IOCTL_DEBUG || call == HANARE_IOCTL_SHUTDOWN) &&
		    (argument == readonly || (argument == buffer && !*buffer)))
			continue;
		if (call == HANARE_IOCTL_WAIT)
			ualarm(50000, 0);
		else
			alarm(100);
		good += ioctl(fd, call, argument) >= 0;
		alarm(0); /* no alarm of this call comes in the next one's name */
		if (rand() % 64 == 0) {
			void *map = mmap(NULL, interesting(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
					 interesting() & -4096);

			if (map != MAP_FAILED) {
				signal(SIGBUS, SIG_DFL);
				munmap(map, 4096);
			}
		}
	}
	printf("%u calls, %u accepted\n", rounds, good);
	return 0;
}
