/*
 * Memory calls of several threads at once: on Linux each takes effect as a whole. The LWK asks
 * Linux in between, and holds a thread there if it was booted with `hold_ms`.
 */
#include "guest.h"
#include <pthread.h>

static int pipes[2];

static char *map(long pages)
{
	return mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Linux writes to memory: it has the pages, and may write to them. */
static void receive(char *at, const char *text)
{
	write(pipes[1], text, strlen(text) + 1);
	if (read(pipes[0], at, strlen(text) + 1) != (long)strlen(text) + 1)
		printf("read: %s\n", strerrorname_np(errno));
}

static volatile int started;

/* Starts a thread, and lets it get to where it is held. */
static pthread_t start(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	started = 0;
	pthread_create(&thread, NULL, body, argument);
	while (!started)
		usleep(1000);
	usleep(50000);
	return thread;
}

static void *from, *to;
static long moved;

static void *mover(void *flags)
{
	started = 1;
	moved = syscall(SYS_mremap, from, 4 * PAGE, 4 * PAGE, flags, to);
	return NULL;
}

/* What is freed by mremap is another thread's; what is read there does not go into what moved. */
static void freed(void)
{
	char *block = map(4), *place = map(4), *again;
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		receive(block + i * PAGE, "block");
	from = block;
	to = place;
	thread = start(mover, (void *)(MREMAP_MAYMOVE | MREMAP_FIXED));
	do {
		again = mmap(block, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	} while (again == MAP_FAILED && errno == EEXIST);
	receive(block + PAGE, "other");
	pthread_join(thread, NULL);
	printf("freed: moved %d, there %s, here %s\n", moved == (long)place, place + PAGE, block + PAGE);
}

/* A mapping is replaced by a file's while mremap is at it: one comes after the other. */
static void replaced(void)
{
	int file = open("raced-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	char *block = map(4), *behind = map(4), text[8] = "", *new;
	pthread_t thread;

	ftruncate(file, 4 * PAGE);
	strcpy(block, "block");
	from = block;
	to = behind;
	thread = start(mover, (void *)(MREMAP_MAYMOVE | MREMAP_FIXED));
	new = mmap(block, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	printf("replaced: %d\n", new == block);
	new[0] = 'n';
	pthread_join(thread, NULL);
	printf("signals: %s, ", touch(block, 1));
	block[1] = 'w';
	pread(file, text, 2, 0);
	printf("file %s\n", text);
	/* It is the file's, and nothing else is: gone with the file's pages. */
	ftruncate(file, 0);
	printf("signals: %s, ", touch(block, 1));
	printf("%s\n", moved == (long)behind && strcmp(behind, "block") ? "moved the file's" : "fine");
}

static char *shared;

static void *writer(void *unused)
{
	started = 1;
	shared[0] = 'A';
	return unused;
}

/* A page that is copied when it is written: Linux reads the copy as soon as threads write there. */
static void copied(void)
{
	char text[3] = "";
	pthread_t thread;
	int go[2];
	pid_t pid;

	shared = map(1);
	strcpy(shared, "ab");
	pipe(go);
	pid = fork();
	if (!pid) {
		close(go[1]);
		_exit(read(go[0], text, 1) == 0 && !strcmp(shared, "ab") ? 3 : 4);
	}
	/* Linux has the page, to read. */
	write(pipes[1], shared, 2);
	read(pipes[0], text, 2);
	thread = start(writer, NULL);
	shared[1] = 'B';
	/* This thread's store is there; of the other one's that is certain when that has ended. */
	write(pipes[1], shared, 2);
	read(pipes[0], text, 2);
	printf("copied: %s\n", text + 1);
	pthread_join(thread, NULL);
	write(pipes[1], shared, 2);
	read(pipes[0], text, 2);
	printf("copied: %s\n", text);
	close(go[0]);
	close(go[1]);
	int status;
	waitpid(pid, &status, 0);
	printf("child: %x\n", status);
}

static void *forker(void *pages)
{
	char *last = (char *)pages + 99 * PAGE;
	int status = 0;
	pid_t pid;

	int file = open("/proc/self/exe", O_RDONLY);

	started = 1;
	pid = fork();
	if (!pid) {
		usleep(100000);
		/*
		 * Of what the other thread writes it has all up to some moment of the call, and
		 * nothing from after it.
		 */
		if (strcmp(last + 100, "before") && (strcmp(last + 100, "behind") || last[0] != 'S'))
			_exit(4);
		_exit(last[200] ? 5 : 3);
	}
	pread(file, last + 200, 4, 0);
	close(file);
	waitpid(pid, &status, 0);
	return (void *)(long)status;
}

/*
 * While another thread forks: what is read into a page that was just written is there, and the
 * child sees one moment.
 */
static void forked(void)
{
	char *pages = map(100), *last = pages + 99 * PAGE;
	void *status;
	pthread_t thread;

	for (int i = 0; i < 100; i++)
		receive(pages + i * PAGE, "seen");
	strcpy(last + 100, "before");
	thread = start(forker, pages);
	last[0] = 'S';
	receive(last + 100, "behind");
	printf("forked: %s %s\n", last, last + 100);
	pthread_join(thread, &status);
	printf("forked: %s %s, child %lx\n", last, last + 100, (long)status);
}

static volatile int forking;

static void *holder(void *ends)
{
	pid_t pid;

	started = 1;
	pid = fork();
	if (!pid)
		_exit(read(*(int *)ends, &pid, 1)); /* the pages are shared until then */
	forking = 0;
	return (void *)(long)pid;
}

/* Linux reads a page while another thread forks, and again: what is written to it then is read. */
static void reread(void)
{
	char *pages = map(100), *middle = pages + 50 * PAGE, text[6] = "";
	void *pid;
	pthread_t thread;
	int go[2];

	pipe(go);
	fcntl(go[1], F_SETFD, FD_CLOEXEC);
	for (int i = 0; i < 100; i++)
		if (i != 50)
			receive(pages + i * PAGE, "seen");
	strcpy(middle, "first");
	mprotect(middle, PAGE, PROT_READ);
	forking = 1;
	thread = start(holder, go);
	while (forking) {
		write(pipes[1], middle, 6);
		read(pipes[0], text, 6);
		usleep(5000);
	}
	pthread_join(thread, &pid);
	mprotect(middle, PAGE, PROT_READ | PROT_WRITE);
	strcpy(middle, "later");
	write(pipes[1], middle, 6);
	read(pipes[0], text, 6);
	printf("reread: %s\n", text);
	write(go[1], text, 1);
	waitpid((long)pid, NULL, 0);
	munmap(pages, 100 * PAGE);
	close(go[0]);
	close(go[1]);
}

static char *forgotten;

static void *copier(void *unused)
{
	started = 1;
	forgotten[0] = 'c';
	return unused;
}

/* Linux reads into a large page of which another thread has it forget a small one. */
static void joined(void)
{
	const long large = 2 << 20;
	char *block = map(2 * large / PAGE), text[2], *at = (char *)(((uintptr_t)block + large) & -large);
	pthread_t thread;
	pid_t pid;

	memset(at, 'j', large);
	receive(at + 100 * PAGE, "seen");
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	forgotten = at + 200 * PAGE;
	write(pipes[1], forgotten, 2);
	read(pipes[0], text, 2);
	thread = start(copier, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	usleep(20000);
	at[300 * PAGE] = 'w';
	receive(at + 190 * PAGE, "joined");
	pthread_join(thread, NULL);
	printf("joined: %.6s %.2s %.2s\n", at + 190 * PAGE, forgotten, at + 300 * PAGE);
	munmap(block, 2 * large);
}

/* Shared memory moves while another thread locks it: it is at one of the two places. */
static void shifted(void)
{
	char *block = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *at;
	pthread_t thread;

	strcpy(block + PAGE, "block");
	from = block;
	to = map(4);
	thread = start(mover, (void *)(MREMAP_MAYMOVE | MREMAP_FIXED));
	usleep(170000); /* it is held before Linux has moved it, and then after */
	syscall(SYS_mlock2, block, 2 * PAGE, 1 /* MLOCK_ONFAULT */);
	pthread_join(thread, NULL);
	at = moved == (long)to ? to : block;
	printf("shifted: %s, ", touch(at, 1));
	printf("%s, %s\n", touch(at + PAGE, 1), at + PAGE);
	receive(at, "still");
	printf("shifted: %s\n", at);
	munmap(at, 4 * PAGE);
}

static void *unmapper(void *block)
{
	started = 1;
	munmap(block, 4 * PAGE);
	return NULL;
}

/*
 * A child has what is mapped, not what another thread is about to unmap. (It has it where that
 * thread had not begun: once more.)
 */
static void inherited(void)
{
	int status = 0;

	for (int tries = 0; tries < 20 && status != 3 << 8; tries++) {
		char *block = map(4);
		pthread_t thread;
		pid_t pid;

		receive(block, "seen");
		thread = start(unmapper, block);
		pid = fork();
		if (!pid)
			_exit(mmap(block, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == block ? 3 : 4);
		waitpid(pid, &status, 0);
		pthread_join(thread, NULL);
	}
	printf("inherited: %x\n", status);
}

/* What is mapped where another thread is unmapping is the new one, for Linux, too. */
static void remapped(void)
{
	char *block = map(4), *new;
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		receive(block + i * PAGE, "block");
	thread = start(unmapper, block);
	new = mmap(block, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	receive(block + PAGE, "new");
	pthread_join(thread, NULL);
	printf("remapped: %d, %s\n", new == block, block + PAGE);
	munmap(block, 4 * PAGE);
}

/* A file is mapped where shared memory is moving away: each is whole. */
static void relocated(void)
{
	int file = open("raced-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	char *block = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *new, text[5] = "";
	pthread_t thread;

	ftruncate(file, 4 * PAGE);
	strcpy(block + PAGE, "block");
	from = block;
	to = map(4);
	thread = start(mover, (void *)(MREMAP_MAYMOVE | MREMAP_FIXED));
	usleep(170000); /* as in `shifted` */
	new = mmap(block, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	printf("relocated: %d, ", new == block);
	receive(new + PAGE, "file");
	pthread_join(thread, NULL);
	pread(file, text, 4, PAGE);
	printf("%d, %s, %s, %s\n", moved == (long)to, (char *)to + PAGE, new + PAGE, text);
	munmap(new, 4 * PAGE);
	munmap(to, 4 * PAGE);
	close(file);
}

/* At the most mappings there may be: what takes nothing more is not refused, or not half done. */
static void full(void)
{
	char *pages = map(32), *many;
	long count = 0;

	mprotect(pages + 16 * PAGE, 16 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	receive(pages + 15 * PAGE, "left");
	receive(pages + 16 * PAGE, "right");
	many = mmap(NULL, 140000 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	while (!mprotect(many + 2 * count * PAGE + PAGE, PAGE, PROT_READ))
		count++;
	/* Each takes two; now single ones as long as they go, unlike their neighbours. */
	while (mmap(NULL, PAGE, count++ % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		;
	printf("full: %s\n", strerrorname_np(errno));
	TELL_MAP(mmap(pages + 4 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	TOUCH(pages + 4 * PAGE, 1);
	TELL(munmap(pages + 15 * PAGE, 2 * PAGE));
	TOUCH(pages + 14 * PAGE, 1);
	TOUCH(pages + 15 * PAGE, 0);
	TOUCH(pages + 16 * PAGE, 0);
	TOUCH(pages + 17 * PAGE, 1);
	munmap(many, 140000 * PAGE);
	TELL_MAP(mmap(pages + 15 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	receive(pages + 15 * PAGE, "new");
	printf("full: %s %d\n", pages + 15 * PAGE, pages[16 * PAGE]);
}

#define REST 512
#define WATCHED by_tier(20, 100)

static pthread_barrier_t barrier;
static char *whole;

static void *unmaps_rest(void *unused)
{
	for (int i = 0; i < WATCHED; i++) {
		pthread_barrier_wait(&barrier);
		munmap(whole + PAGE, REST * PAGE);
		pthread_barrier_wait(&barrier);
	}
	return unused;
}

/*
 * Threads unmap the parts of a shared mapping, one maps another file, whose pages go with the
 * file's.
 */
static void watched(void)
{
	int file = open("raced-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	int other = open("raced-other", O_RDWR | O_CREAT | O_TRUNC, 0644), old = 0;
	pthread_t thread;
	char *new;

	ftruncate(file, (1 + REST) * PAGE);
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, unmaps_rest, NULL);
	for (int i = 0; i < WATCHED; i++) {
		whole = mmap(NULL, (1 + REST) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
		ftruncate(other, PAGE);
		pthread_barrier_wait(&barrier);
		munmap(whole, PAGE);
		new = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
		pthread_barrier_wait(&barrier);
		new[0] = 'n';
		ftruncate(other, 0);
		ftruncate(other, PAGE);
		old += new[0] != 0;
		munmap(new, PAGE);
	}
	pthread_join(thread, NULL);
	printf("watched: %s\n", old ? "pages that the file has no more" : "fine");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	pipe(pipes);
	full();
	freed();
	copied();
	forked();
	reread();
	joined();
	shifted();
	inherited();
	replaced();
	remapped();
	relocated();
	watched();
	return 0;
}
