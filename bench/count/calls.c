/* calls NUMBER COUNT: makes one system call so often. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long number = atol(argv[1]);

	for (long left = atol(argv[2]); left; left--)
		syscall(number, 0, 0, 0, 0, 0, 0);
	return 0;
}
