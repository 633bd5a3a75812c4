/*
 * MAP_HUGETLB in place of another such mapping, while threads use its pages: none of them is in the
 * way of the new ones.
 */
#include "guest.h"
#include <pthread.h>

#define LARGE (2L << 20)

enum { PAGES = 6, TOUCHERS = 4 };

static char *place;
static volatile int ends;

static void *touch_pages(void *seed)
{
	unsigned int state = (long)seed;

	while (!ends) {
		((volatile char *)place)[rand_r(&state) % PAGES * LARGE] = 1;
		if (rand_r(&state) % 16 == 0)
			usleep(100);
	}
	return NULL;
}

static void *map(int flags)
{
	return mmap(place, PAGES * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | flags, -1, 0);
}

int main(void)
{
	pthread_t users[TOUCHERS];

	alarm(300);
	place = TELL_MAP(map(0));
	if (place == MAP_FAILED)
		return 1;
	for (long i = 0; i < TOUCHERS; i++)
		pthread_create(&users[i], NULL, touch_pages, (void *)(i + 1));
	for (long round = 0; round < by_tier(30, 300); round++) {
		if (map(MAP_FIXED) == MAP_FAILED) {
			printf("round %ld: %s\n", round, strerrorname_np(errno));
			return 1;
		}
		usleep(100);
	}
	ends = 1;
	for (int i = 0; i < TOUCHERS; i++)
		pthread_join(users[i], NULL);
	printf("each time\n");
	return 0;
}
