// SPDX-License-Identifier: GPL-2.0
/*
 * Ids of threads are those that Linux has given to their workers, whatever the proxy writes into
 * its slots: getpid(2) and gettid(2) are compared with /proc/thread-self, a link of Linux'.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int wrong;

static void look(const char *of)
{
	char said[64], link[64] = "";
	int i;

	for (i = 0; i < 20; i++) {
		snprintf(said, sizeof(said), "%d/task/%ld", getpid(), syscall(SYS_gettid));
		if (readlink("/proc/thread-self", link, sizeof(link) - 1) < 0 || strcmp(said, link)) {
			printf("%s is %s to Linux and %s to the LWK\n", of, link, said);
			wrong = 1;
			return;
		}
		if (syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0)) {
			printf("%s does not find itself\n", of);
			wrong = 1;
			return;
		}
		usleep(2000);
	}
}

static void *other(void *unused)
{
	look("another thread");
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	int i, round;

	look("the first thread");
	/* The later ones get workers that those before them have left behind. */
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 2; i++)
			if (pthread_create(&threads[i], NULL, other, NULL)) {
				printf("no thread\n");
				return 1;
			}
		for (i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
	if (!wrong)
		printf("own ids\n");
	return wrong;
}
