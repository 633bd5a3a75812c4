/*
 * Calls that must not be made twice (writes of records) by more threads than a request box has
 * servers, while some of those are blocked: signals come for the writers, threads end in calls that
 * wait, other threads fork, and one executes another program. Each record is there once.
 *   calls-made-once                   all of that
 *   calls-made-once endless FILE      appends records, in calls that wait for servers, until it is
 *                                     killed
 *   calls-made-once check FILE        says whether each thread's records are there, each once
 *   calls-made-once waits             reads from its input, and says what that returned
 */
#include "guest.h"
#include <pthread.h>

#define WRITERS 6
#define MOST_RECORDS 150
#define BLOCKED 4
#define FORKS 8
#define MARK 0x5ec0de00

struct record {
	uint32_t writer, number;
};

static int pipe_fds[2], never[2], file, is_endless;
static volatile int stop, tids[WRITERS];
static char seen[WRITERS + FORKS][MOST_RECORDS];
/* Of each writer; and threads that end in calls. */
static uint32_t records = MOST_RECORDS, ending = 40;

static void on_signal(int number)
{
	(void)number;
}

static void ends_thread(int number)
{
	(void)number;
	syscall(SYS_exit, 0);
}

static void install(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
}

/* Writes a record to a descriptor, until that has been done once. */
static int put(int fd, uint32_t writer, uint32_t number)
{
	struct record record = { MARK | writer, number };

	for (;;) {
		ssize_t done = write(fd, &record, sizeof(record));

		if (done == sizeof(record))
			return 1;
		if (done != -1 || errno != EINTR)
			return 0;
	}
}

static void *writes(void *arg)
{
	long writer = (long)arg, ok = 0;
	uint32_t i;

	tids[writer] = syscall(SYS_gettid);
	for (i = 0; is_endless || i < records; i++) {
		ok += put(file, writer, i);
		if (!is_endless)
			ok += put(pipe_fds[1], writer, i);
	}
	tids[writer] = 0;
	return (void *)ok;
}

static void *blocks(void *arg)
{
	char c;

	read(never[0], &c, 1);
	return arg;
}

static void *signals_writers(void *arg)
{
	int i;

	for (i = 0; !stop; i++) {
		int tid = tids[i % WRITERS];

		if (tid)
			syscall(SYS_tgkill, getpid(), tid, i % 4 ? SIGUSR2 : SIGUSR1);
		usleep(500);
	}
	return arg;
}

/* Threads that end in calls which wait, or are executed. */
static void *ends_readers(void *arg)
{
	pthread_t thread;
	long ended = 0;
	uint32_t i;

	for (i = 0; i < ending; i++) {
		if (pthread_create(&thread, NULL, blocks, NULL))
			break;
		usleep(200 * (i % 30));
		pthread_kill(thread, SIGRTMIN);
		pthread_join(thread, NULL);
		ended++;
	}
	return (void *)ended;
}

/* Children, each with a record of its own. */
static int forks(void)
{
	int i, status, ok = 0;

	for (i = 0; i < FORKS; i++) {
		pid_t child = fork();

		if (!child)
			_exit(put(file, WRITERS + i, 0) && put(pipe_fds[1], WRITERS + i, 0) ? 40 + i : 1);
		while (waitpid(child, &status, 0) != child)
			if (errno != EINTR)
				return -1;
		ok += WIFEXITED(status) && WEXITSTATUS(status) == 40 + i;
	}
	return ok;
}

static void *reads(void *arg)
{
	static struct record got_records[64];
	long right = 0;
	ssize_t got;
	int i;

	while ((got = read(pipe_fds[0], got_records, sizeof(got_records))) > 0 || (got < 0 && errno == EINTR)) {
		for (i = 0; i < got / (ssize_t)sizeof(*got_records); i++) {
			uint32_t writer = got_records[i].writer & 0xff, number = got_records[i].number;

			if ((got_records[i].writer & ~0xff) == MARK && writer < WRITERS + FORKS && number < records)
				right += !seen[writer][number]++;
		}
		usleep(200); /* so that writers wait */
	}
	return (void *)right;
}

/* The number of records in a file, each writer's in turn, or -1 where one is doubled or missing. */
static long check(const char *path)
{
	uint32_t next[WRITERS + FORKS] = { 0 };
	struct record record;
	FILE *from = fopen(path, "r");
	long count = 0;

	if (!from)
		return -1;
	while (fread(&record, sizeof(record), 1, from) == 1) {
		uint32_t writer = record.writer & 0xff;

		if ((record.writer & ~0xff) != MARK || writer >= WRITERS + FORKS || record.number != next[writer]++) {
			printf("record %ld: writer %x, number %u\n", count, record.writer, record.number);
			return -1;
		}
		count++;
	}
	fclose(from);
	return count;
}

static int start_all(pthread_t *writers)
{
	pthread_t blocked;
	long i;

	for (i = 0; i < BLOCKED; i++)
		if (pthread_create(&blocked, NULL, blocks, NULL))
			return -1;
	for (i = 0; i < WRITERS; i++)
		if (pthread_create(&writers[i], NULL, writes, (void *)i))
			return -1;
	return 0;
}

static void once(const char *path)
{
	pthread_t writers[WRITERS], reader, signaller, ender;
	long i, ok = 0, forked;
	void *result;

	fcntl(pipe_fds[1], F_SETPIPE_SZ, 4096);
	pthread_create(&reader, NULL, reads, NULL);
	start_all(writers);
	pthread_create(&signaller, NULL, signals_writers, NULL);
	pthread_create(&ender, NULL, ends_readers, NULL);
	forked = forks();
	for (i = 0; i < WRITERS; i++) {
		pthread_join(writers[i], &result);
		ok += (long)result;
	}
	stop = 1;
	pthread_join(signaller, NULL);
	pthread_join(ender, &result);
	printf("written: %ld, children: %ld, threads that ended in calls: %ld\n", ok, forked, (long)result);
	close(pipe_fds[1]);
	pthread_join(reader, &result);
	printf("records once: %ld in the pipe, %ld in the file\n", (long)result, check(path));
}

int main(int argc, char **argv)
{
	pthread_t writers[WRITERS];
	char path[64], text[16];
	long count;

	if (argc == 2 && !strcmp(argv[1], "waits")) {
		/* A program's first calls need no server. */
		for (count = 0; count < 300; count++)
			access("/", F_OK);
		printf("ready\n");
		fflush(stdout);
		count = read(0, text, sizeof(text));
		printf("read: %ld %s\n", count, count < 0 ? strerrorname_np(errno) : "right");
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "check")) {
		count = check(argv[2]);
		printf("records once: %d\n", count > 0);
		if (!strncmp(argv[2], "/tmp/once-", 10))
			unlink(argv[2]);
		return count <= 0;
	}
	alarm(600);
	records = by_tier(60, MOST_RECORDS);
	ending = by_tier(16, 40);
	if (pipe(pipe_fds) || pipe(never))
		return 2;
	is_endless = argc == 3;
	snprintf(path, sizeof(path), "/tmp/once-%d", getpid());
	if (is_endless)
		snprintf(path, sizeof(path), "%s", argv[2]);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	install(SIGUSR1, on_signal, 0);
	install(SIGUSR2, on_signal, SA_RESTART);
	install(SIGRTMIN, ends_thread, 0);
	if (!is_endless) {
		once(path);
		if (ftruncate(file, 0))
			return 2;
		is_endless = 1;
	}
	fflush(stdout);
	if (start_all(writers))
		return 2;
	if (argc == 3) {
		printf("ready\n");
		fflush(stdout);
		pause();
	}
	usleep(200000);
	/* Some have written by then, however late. */
	while (lseek(file, 0, SEEK_END) < (off_t)(WRITERS * sizeof(struct record)))
		usleep(1000);
	execl(argv[0], argv[0], "check", path, NULL);
	return 3;
}
