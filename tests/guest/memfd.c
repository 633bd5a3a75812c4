/* memfd, shared memory objects, shared anonymous memory across fork and exec. */
#include "guest.h"

static void child(const char *what, char *p, int value)
{
	int status;

	fflush(stdout);
	if (!fork()) {
		p[1] = p[0] + value;
		p[3 * PAGE] = value;
		exit(p[0]);
	}
	wait(&status);
	printf("%s: child saw %d, left %d %d\n", what, WEXITSTATUS(status), p[1], p[3 * PAGE]);
}

int main(int argc, char **argv)
{
	int fd = memfd_create("name", MFD_CLOEXEC | MFD_ALLOW_SEALING), plain, shm, status;
	char *p, *q, link[100] = "";
	struct stat stat;

	if (argc > 1) {
		p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
		p[2] = p[0] + p[1];
		return 0;
	}
	TELL(ftruncate(fd, 4 * PAGE));
	p = TELL_MAP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	p[0] = 1;
	TELL(pread(fd, link, 1, 0) + link[0]);
	TELL(pwrite(fd, "\5", 1, PAGE));
	TELL(p[PAGE]);
	child("memfd", p, 7);
	TELL(fcntl(fd, F_GET_SEALS));
	TELL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	TELL(ftruncate(fd, PAGE));
	TELL(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	TELL(munmap(p, 4 * PAGE));
	TELL(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	TELL(pwrite(fd, "x", 1, 0));
	TELL_MAP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	p = TELL_MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0));
	TELL(mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	q = TELL_MAP(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
	q[0] = 9;
	TELL(p[0] * 10 + q[0]);
	TELL(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
	TELL(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
	TELL(memfd_create("bad", 0x100));
	TELL(memfd_create(NULL, 0));
	plain = memfd_create("plain", 0);
	TELL(fcntl(plain, F_ADD_SEALS, F_SEAL_GROW));
	TELL(ftruncate(plain, 4 * PAGE));
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, plain, 0);
	/* Two mappings of one page, in one process. */
	q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, plain, 0);
	p[0] = 40;
	TELL(q[0]);
	q[1] = 2;
	TELL(p[1]);
	TELL(mprotect(q, PAGE, PROT_READ));
	TOUCH(q, 1);
	TOUCH(p, 1);
	/* Across exec. */
	fflush(stdout);
	if (!fork()) {
		sprintf(link, "%d", plain);
		execl("/proc/self/exe", argv[0], link, NULL);
		perror("exec");
		exit(1);
	}
	wait(&status);
	TELL(status);
	TELL(p[2]);
	/* Truncated: SIGBUS behind the end; it comes back with a longer file. */
	p[3 * PAGE] = 1;
	TELL(ftruncate(plain, 2 * PAGE));
	TOUCH(p + 3 * PAGE, 0);
	TOUCH(p + PAGE, 1);
	TELL(ftruncate(plain, 4 * PAGE));
	TOUCH(p + 3 * PAGE, 1);
	TELL(p[3 * PAGE]);
	TELL(fallocate(plain, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
	TELL(p[0]);
	TELL(fstat(plain, &stat) ?: stat.st_size);
	/* Shared anonymous memory. */
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	p[0] = 3;
	child("anonymous", p, 4);
	child("anonymous again", p, 5);
	/* A grandchild, and a mapping made before that was not touched. */
	q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fflush(stdout);
	if (!fork()) {
		child("grandchild", q, 6);
		exit(q[1]);
	}
	wait(&status);
	TELL(WEXITSTATUS(status));
	TELL(q[1] * 10 + q[3 * PAGE]);
	/* /dev/shm and /dev/zero. */
	sprintf(link, "/hanare-memfd-%d", getpid());
	shm = open("/dev/shm/hanare-guest", O_RDWR | O_CREAT | O_TRUNC, 0600);
	TELL(shm >= 0 && !ftruncate(shm, 4 * PAGE));
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shm, 0);
	unlink("/dev/shm/hanare-guest");
	p[0] = 8;
	child("/dev/shm", p, 9);
	shm = open("/dev/zero", O_RDWR);
	p = TELL_MAP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shm, 0));
	p[0] = 1;
	child("/dev/zero shared", p, 2);
	p = TELL_MAP(mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, shm, 0));
	if (p != MAP_FAILED) {
		p[0] = 1;
		child("/dev/zero private", p, 2);
	}
	return 0;
}
