/*
 * The state of a process in /proc/PID/stat: one that computes, makes calls that do not block, or
 * touches its memory is never shown asleep. (A test that waits until a process sleeps may then send
 * it a signal.)
 */
#include "guest.h"

static int looks;

static char state_of(pid_t pid)
{
	char name[40], text[200] = "";
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	fd = open(name, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return '?';
	close(fd);
	return strrchr(text, ')')[2];
}

static void calls(void)
{
	int fd = open("/dev/null", O_WRONLY);

	for (;;)
		write(fd, "", 1);
}

static void touches(void)
{
	for (;;) {
		char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		page[0] = 1;
		getppid();
		munmap(page, PAGE);
	}
}

static void sleeps(void)
{
	for (;;)
		pause();
}

/* Of so many looks a few come between two of the kernel's own. */
static void look(const char *what, void (*does)(void))
{
	pid_t pid;
	int asleep = 0, begun[2];
	char byte;

	pipe(begun);
	pid = fork();
	if (!pid) {
		write(begun[1], "x", 1);
		does();
	}
	read(begun[0], &byte, 1);
	close(begun[0]);
	close(begun[1]);
	usleep(300000);
	/* On a busy machine it may not have come to that yet. */
	for (int i = 0; i < 20000 && does == sleeps && state_of(pid) != 'S'; i++)
		usleep(10000);
	/*
	 * A CPU that stands still between two of the kernel's own steps is found there each time:
	 * once more, then.
	 */
	for (int tries = 0; tries < 20; tries++) {
		asleep = 0;
		for (int i = 0; i < looks; i++)
			asleep += state_of(pid) == 'S';
		if (does == sleeps ? asleep == looks : asleep < looks / 50)
			break;
		usleep(50000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (asleep < looks / 50)
		printf("%s: does not sleep\n", what);
	else if (asleep == looks)
		printf("%s: sleeps\n", what);
	else
		printf("%s: asleep %d times of %d\n", what, asleep, looks);
	fflush(stdout);
}

int main(void)
{
	looks = by_tier(200, 500);
	look("calls", calls);
	look("touches", touches);
	look("sleeps", sleeps);
	return 0;
}
