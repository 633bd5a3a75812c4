/*
 * Many processes that wait at the same time.
 * Usage: many-processes [COUNT]
 */
#include "guest.h"
#include <sys/wait.h>

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 200, ended = 0, count, gate[2], status;
	char c;

	if (pipe(gate))
		return 1;
	for (count = 0; count < wanted; count++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (!pid) {
			close(gate[1]);
			_exit(read(gate[0], &c, 1) == 0 ? 7 : 1);
		}
	}
	close(gate[1]);
	while (wait(&status) > 0)
		ended += status == 7 << 8;
	printf("started %d, ended well %d\n", count, ended);
	return 0;
}
