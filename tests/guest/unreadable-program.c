/*
 * A program that its user may execute and not read: what that user may still open of its process in
 * /proc.
 */
#include "guest.h"

#include <sys/prctl.h>

static void tell_open(const char *path, int flags)
{
	int fd = open(path, flags);

	printf("%s: %s\n", path, fd < 0 ? strerrorname_np(errno) : "ok");
	if (fd >= 0)
		close(fd);
}

static void look(const char *who)
{
	printf("%s\n", who);
	TELL(prctl(PR_GET_DUMPABLE));
	tell_open("/proc/self/exe", O_RDONLY);
	tell_open("/proc/self/mem", O_RDWR);
	tell_open("/proc/self/maps", O_RDONLY);
	tell_open("/proc/self/environ", O_RDONLY);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	pid_t child;

	look(argc > 1 ? argv[1] : "first");
	if (argc > 1)
		return 0;
	child = fork();
	if (!child) {
		look("child");
		execl(argv[0], argv[0], "execed", NULL);
		perror(argv[0]);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	return 0;
}
