/* What the programs share whose memory devices keep. */

#define RW (PROT_READ | PROT_WRITE)

static void must(int done, const char *what)
{
	if (done)
		return;
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(3);
}

static char *fresh(size_t length)
{
	char *at = mmap(NULL, length, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "mmap");
	return at;
}

/* A child that has written to both pages. */
static pid_t with_child(char *one, char *other)
{
	int written[2];
	pid_t child;
	char byte;

	must(!pipe(written), "pipe");
	child = fork();
	if (!child) {
		memset(one, 0xff, PAGE);
		memset(other, 0xff, PAGE);
		must(write(written[1], "", 1) == 1, "write");
		pause();
	}
	must(read(written[0], &byte, 1) == 1, "read");
	close(written[0]);
	close(written[1]);
	return child;
}
