/*
 * Many threads asleep at once, each with a stack of the usual size, of which it uses little.
 * Usage: sleeping-threads [COUNT [wait]]      wait: until its input ends
 */
#include "guest.h"
#include <pthread.h>

static int asleep, over;

static void *sleep_on(void *unused)
{
	char deep[3 * PAGE]; /* glibc's stacks end a page behind a multiple of 2 MiB */

	memset(deep, 1, sizeof(deep));
	__asm__ volatile("" : : "r"(deep) : "memory");
	__atomic_add_fetch(&asleep, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		syscall(SYS_futex, &over, 0 /* FUTEX_WAIT */, 0, NULL, 0, 0);
	return unused;
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 200, made = 0, err = 0;
	pthread_t *threads = calloc(wanted, sizeof(*threads));

	while (made < wanted && !(err = pthread_create(&threads[made], NULL, sleep_on, NULL)))
		made++;
	while (__atomic_load_n(&asleep, __ATOMIC_RELAXED) < made)
		usleep(10000);
	printf("%d sleep%s%s\n", made, err ? ", then " : "", err ? strerrorname_np(err) : "");
	fflush(stdout);
	if (argc > 2)
		read(0, &over, 1);
	over = 1;
	syscall(SYS_futex, &over, 1 /* FUTEX_WAKE */, INT_MAX, NULL, 0, 0);
	for (int i = 0; i < made; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
