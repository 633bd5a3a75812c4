/*
 * Descriptors have the numbers that Linux gives them, and a program may close or replace all of
 * them, also those that Hanare uses.
 */
#include "guest.h"

int main(void)
{
	int null = open("/dev/null", O_RDWR), high, i, closed = 0;
	char buffer[10];

	TELL(null);
	TELL(dup(null));
	TELL(fcntl(null, F_DUPFD, 100));
	TELL(close(100));
	TELL(close(100));
	/* Close everything a daemon would close. */
	for (i = 3; i < 1024; i++)
		closed += close(i) == 0;
	TELL(closed);
	TELL(open("/dev/zero", O_RDONLY));
	TELL(read(3, buffer, 10));
	/* Every number the limit allows can be a target of dup2. */
	for (i = 4, closed = 0; i < 1024; i++)
		closed += dup2(3, i) == i;
	TELL(closed);
	for (i = 3; i < 1024; i++)
		if (read(i, buffer, 1) != 1)
			printf("%d cannot be read: %s\n", i, strerrorname_np(errno));
	TELL(syscall(SYS_close_range, 3, ~0U, 0));
	TELL(open("/dev/null", O_RDONLY));
	high = open(".", O_RDONLY | O_DIRECTORY);
	TELL(high);
	TELL(openat(high, "fds-file", O_CREAT | O_RDWR, 0600));
	TELL(fcntl(3, F_SETFD, FD_CLOEXEC));
	puts("alive");
	TELL(malloc(100 << 20) != NULL);
	TELL(access("fds-file", W_OK));
	return 0;
}
