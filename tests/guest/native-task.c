/* A native task, as its first argument says; statically linked. Prints what the test compares. */
#include "guest.h"
#include <sys/prctl.h>
#include <sys/socket.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/times.h>

#define PR_HANARE_PROXY 0x484e5058

static long proxy(long what)
{
	return prctl(PR_HANARE_PROXY, what, 0, 0, 0);
}

static void line(char *buffer, size_t room)
{
	size_t length = 0;

	while (length + 1 < room && read(0, buffer + length, 1) == 1 && buffer[length] != '\n')
		length++;
	buffer[length] = 0;
}

/* What may be made by any proxy, and what may not. */
static void unkept(void)
{
	char name[64];
	struct stat st;

	TELL(proxy(2));
	TELL(getpgrp() > 0);
	TELL(getppid() > 0 && getppid() != getpid());
	TELL(mkdir("native-dir", 0755));
	TELL(stat("native-dir", &st));
	TELL(rmdir("native-dir"));
	TELL(open("/etc/passwd", O_RDONLY));
	TELL(socket(AF_INET, SOCK_STREAM, 0));
	TELL(chdir("/"));
	TELL(syscall(SYS_umask, 077));
	TELL(fcntl(1, F_DUPFD, 3));
	TELL(close(0));
	TELL(readlink("/proc/self/exe", name, sizeof(name)));
	TELL(readlink("//proc/./self/exe", name, sizeof(name)));
	/* A path at the end of memory. */
	char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(edge + 4096, 4096);
	strcpy(edge + 4096 - sizeof("/proc/self/exe"), "/proc/self/exe");
	TELL(readlink(edge + 4096 - sizeof("/proc/self/exe"), name, sizeof(name)));
}

/* What is not there. */
static void refused(void)
{
	TELL(fork());
	TELL(syscall(SYS_clone3, NULL, 0));
	TELL(execl("/bin/true", "true", NULL));
	TELL(kill(getpid(), 0));
	TELL(setuid(0));
	TELL(syscall(SYS_shmget, 1, 4096, 01600));
	TELL_MAP(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0));
	TELL(syscall(SYS_io_uring_setup, 1, NULL));
	TELL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TELL(proxy(3));
	sigset_t set;
	sigemptyset(&set);
	TELL(ppoll(NULL, 0, &(struct timespec){ 0 }, &set));
}

/* What a proxy keeps, and what is gone when it has been given back. */
static void kept(void)
{
	char here[64], before[64];
	mode_t mask;

	TELL(proxy(1));
	TELL(proxy(2));
	getcwd(before, sizeof(before));
	int fd = open("native-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	TELL(fd);
	TELL(write(fd, "kept", 4));
	TELL(lseek(fd, 0, SEEK_SET));
	TELL(read(fd, here, 4));
	TELL(memcmp(here, "kept", 4));
	TELL(dup2(fd, 0));
	TELL(chdir("/usr"));
	umask(0123);
	TELL(proxy(0));
	TELL(proxy(2));
	TELL(write(fd, "gone", 4));
	getcwd(here, sizeof(here));
	TELL(strcmp(here, before));
	TELL(proxy(1));
	mask = umask(022);
	TELL(mask == 022);
	TELL(open("/etc/passwd", O_RDONLY) == fd);
	TELL(proxy(0));
	TELL(unlink("native-file"));
	line(here, sizeof(here));
	printf("standard input is the command's again: %s\n", here);
}

/* Data of every length around the limits of a page and of a message, through a file. */
static void transfer(void)
{
	static const size_t lengths[] = { 1, 3991, 3992, 3993, 4064, 8128, 65536, 1036000, 1040384, 1048576, 3000000 };
	static unsigned char out[3000000], in[3000000];
	struct timespec tick;
	struct tms spent;
	long short_ones = 0;

	TELL(proxy(1));
	int fd = open("native-data", O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = i * 2654435761u >> 13;
	for (size_t n = 0; n < sizeof(lengths) / sizeof(*lengths); n++) {
		size_t done = 0;
		memset(in, 0, sizeof(in));
		while (done < lengths[n]) {
			long wrote = pwrite(fd, out + done, lengths[n] - done, done);
			if (wrote <= 0)
				break;
			short_ones += done + wrote < lengths[n];
			done += wrote;
		}
		for (done = 0; done < lengths[n];) {
			long got = pread(fd, in + done, lengths[n] - done, done);
			if (got <= 0)
				break;
			done += got;
		}
		printf("%zu bytes: %s\n", lengths[n], done == lengths[n] && !memcmp(in, out, lengths[n]) ? "same" : "other");
	}
	printf("shorter than asked for: %s\n", short_ones ? "some" : "none");
	unsigned char *volatile nowhere = (void *)8;
	TELL(pread(fd, nowhere, 100, 0));
	TELL(pread(fd, in, 100, 1 << 30));
	struct iovec list[3] = { { in, 10 }, { in + 4096, 20 }, { in + 9000, 30 } };
	TELL(preadv(fd, list, 3, 0));
	TELL(memcmp(in + 9000, out + 30, 30));
	/* The second page is not there: what is before it comes. */
	char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(edge + 4096, 4096);
	TELL(pread(fd, edge + 4000, 200, 0));
	TELL(pwrite(fd, edge + 4000, 200, 0));
	TELL(unlink("native-data"));
	TELL(syscall(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, &tick));
	TELL(tick.tv_nsec);
	TELL(times(&spent) > 0 && spent.tms_utime + spent.tms_stime < 1000);
}

static volatile sig_atomic_t goes_on;

static void go_on(int number)
{
	(void)number;
	goes_on = 1;
}

/* Loses its proxy between two calls: sleeps until SIGUSR1. */
static void loses(void)
{
	struct sigaction action = { .sa_handler = go_on };
	struct timespec time = { 0, 20000000 }; /* served by the LWK: the proxy is in no call */

	sigaction(SIGUSR1, &action, NULL);
	proxy(1);
	int fd = open("native-lost", O_RDWR | O_CREAT | O_APPEND, 0600);
	write(fd, "1", 1);
	puts("ready");
	fflush(stdout);
	while (!goes_on)
		nanosleep(&time, NULL);
	TELL(write(fd, "2", 1));
	TELL(write(fd, "3", 1));
	fd = open("native-lost", O_RDWR | O_APPEND);
	TELL(write(fd, "4", 1));
	TELL(lseek(fd, 0, SEEK_END));
}

/* Its proxy blocks in a call for ever. */
static void blocks(const char *fifo)
{
	char word[16];

	proxy(1);
	int fd = open(fifo, O_RDWR);
	puts("blocked");
	fflush(stdout);
	TELL(read(fd, word, 1));
	TELL(getpgrp() > 0);
}

/* Calls that any proxy may make, until it is told to end. */
static void calls(long count)
{
	for (long i = 0; i < count; i++)
		if (getpgrp() <= 0)
			exit(1);
	printf("%ld calls\n", count);
}

/* What daemons do first: closes all that it may have inherited. */
static void closes(void)
{
	int fd, closed = 0;

	proxy(1);
	for (fd = 3; fd < 1100; fd++)
		closed += !close(fd);
	TELL(closed);
	TELL(dup2(1, 1024));
	TELL(syscall(SYS_close_range, 3, ~0u, 0));
	TELL(syscall(SYS_close_range, 5, 4, 0));
	TELL(getpgrp() > 0);
	fd = open("/dev/null", O_RDONLY);
	TELL(fd);
	TELL(syscall(SYS_close_range, fd, fd, 0));
	TELL(close(fd));
	TELL(chdir("/usr"));
	TELL(proxy(0));
	TELL(getpgrp() > 0);
}

/* Calls whose results are anything, as proxies may have it that lie. */
static void believes(long ms)
{
	static char data[20000];
	struct iovec list[3] = { { data, 10 }, { data + 4096, 20 }, { data + 9000, 9000 } };
	struct timespec now, end;
	struct stat st;
	unsigned int n;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	for (n = 0; !clock_gettime(CLOCK_MONOTONIC, &now) && now.tv_sec < end.tv_sec; n++) {
		syscall(SYS_read, 0, data, sizeof(data));
		syscall(SYS_write, 1, data, n % sizeof(data));
		syscall(SYS_getppid);
		stat("/", &st);
		syscall(SYS_getcwd, data, sizeof(data));
		syscall(SYS_readv, 0, list, 3);
		syscall(SYS_readlink, "/proc/1/cwd", data, sizeof(data));
		syscall(SYS_recvfrom, 0, data, 100, 0, data + 1000, data + 2000);
		syscall(SYS_getdents64, 0, data, sizeof(data));
		if (n % 64 == 0)
			proxy(n / 64 % 2);
	}
}

/* Far from all that is read before. */
static const struct {
	char before[2 << 20];
	char text[16];
	char behind[2 << 20];
} apart = { .text = "comes late" };

/* Its proxy waits while what it is to write is read. */
static void waits_for_memory(void)
{
	proxy(1);
	puts("ready");
	fflush(stdout);
	TELL(write(1, apart.text, 10));
	TELL(getpgrp() > 0);
}

/* Keeps its proxy for a while. */
static void holds(const char *ms)
{
	proxy(1);
	printf("has one %d\n", open("/dev/null", O_RDONLY) >= 0);
	fflush(stdout);
	struct timespec time = { atoi(ms) / 1000, atoi(ms) % 1000 * 1000000L };
	nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "unkept"))
		unkept();
	else if (!strcmp(argv[1], "refused"))
		refused();
	else if (!strcmp(argv[1], "kept"))
		kept();
	else if (!strcmp(argv[1], "transfer"))
		transfer();
	else if (!strcmp(argv[1], "loses"))
		loses();
	else if (!strcmp(argv[1], "blocks"))
		blocks(argv[2]);
	else if (!strcmp(argv[1], "calls"))
		calls(atol(argv[2]));
	else if (!strcmp(argv[1], "closes"))
		closes();
	else if (!strcmp(argv[1], "waits-for-memory"))
		waits_for_memory();
	else if (!strcmp(argv[1], "believes"))
		believes(atol(argv[2]));
	else if (!strcmp(argv[1], "holds"))
		holds(argv[2]);
	else if (!strcmp(argv[1], "exits"))
		return atoi(argv[2]);
	else if (!strcmp(argv[1], "faults"))
		*(volatile int *)8 = 1;
	else
		return 2;
	return 0;
}
