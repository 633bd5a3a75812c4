/*
 * What a thread whose code executes on Linux does to descriptors: others map the file that a
 * descriptor stands for by then, and what it has closed is closed, whatever was mapped of it
 * before. Linux says what is right.
 */
#include "utility.h"
#include <sys/file.h>

static volatile int is_ready, go_on, is_done;
static int fd, other, again;
static volatile long result;

static int file(char *name, char first)
{
	int made = mkstemp(name);

	pwrite(made, &first, 1, 0);
	return made;
}

/* No thread makes a call before this thread has said that it is done: it computes, or waits so. */
static void *replaces(void *unused)
{
	is_ready = 1;
	while (!go_on)
		;
	close(fd);
	result = fcntl(other, F_DUPFD, fd);
	is_done = 1;
	return unused;
}

static void *closes(void *unused)
{
	is_ready = 1;
	while (!go_on)
		;
	close(fd);
	result = flock(again, LOCK_EX | LOCK_NB);
	is_done = 1;
	return unused;
}

static char first_of(int of)
{
	char *map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, of, 0);
	char first = map == MAP_FAILED ? '-' : *map;

	if (map != MAP_FAILED)
		munmap(map, PAGE);
	return first;
}

static pthread_t begin(void *(*body)(void *))
{
	pthread_t thread;

	is_ready = go_on = is_done = 0;
	thread = outside(body, NULL);
	while (!is_ready)
		usleep(1000);
	return thread;
}

int main(void)
{
	char one[] = "/tmp/utility-descriptors-XXXXXX", two[] = "/tmp/utility-descriptors-XXXXXX";
	char before, after;
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = file(one, 'a');
	other = file(two, 'b');
	thread = begin(replaces);
	before = first_of(fd);
	go_on = 1;
	while (!is_done)
		;
	after = first_of(fd);
	pthread_join(thread, NULL);
	printf("the same number %d, first %c, then %c\n", result == fd, before, after);

	again = open(two, O_RDWR);
	TELL(flock(fd, LOCK_EX | LOCK_NB));
	close(other);
	thread = begin(closes);
	before = first_of(fd);
	go_on = 1;
	while (!is_done)
		;
	pthread_join(thread, NULL);
	printf("%c, locked again %ld\n", before, result);
	unlink(one);
	unlink(two);
	return 0;
}
