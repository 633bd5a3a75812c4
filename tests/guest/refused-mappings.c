/*
 * A mapping that is refused leaves nothing behind: Linux reads into what is mapped at that address
 * next. Also: a child has its parent's mappings, while another thread makes one; a page is moved
 * very often. With an argument (the LWK holds threads at its hold points) the moves are left out.
 */
#include "guest.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>

/* Maps where something was refused; Linux is to write there. */
static void fill(char *at, long bytes)
{
	char *p = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
	int fd = open("/proc/self/exe", O_RDONLY);

	if (p == MAP_FAILED || (at && p != at))
		printf("mmap: %s\n", strerrorname_np(errno));
	for (long page = 0; page < bytes; page += PAGE)
		if (pread(fd, p + page, 4, 0) != 4 || memcmp(p + page, "\177ELF", 4))
			printf("page %ld: %s\n", page / PAGE, strerrorname_np(errno));
	printf("filled\n");
	munmap(p, bytes);
	close(fd);
}

static void refused(void)
{
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING), s = socket(AF_UNIX, SOCK_STREAM, 0);
	char *room = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ftruncate(fd, 8 * PAGE);
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
	munmap(room, 16 * PAGE);
	/* Where Linux likes: the next one of that size comes to the same place. */
	TELL_MAP(mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, s, 0));
	fill(NULL, 3 * PAGE);
	TELL_MAP(mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	fill(NULL, 5 * PAGE);
	TELL_MAP(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, s, 0));
	fill(NULL, 2 * PAGE);
	/* At an address. */
	TELL_MAP(mmap(room, 4 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, s, 0));
	fill(room, 4 * PAGE);
	TELL_MAP(mmap(room, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
	fill(room, 16 * PAGE);
	TELL_MAP(mmap(room, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0));
	fill(room, 4 * PAGE);
	close(fd);
	close(s);
}

/* A segment that may not be attached. */
static void segment(void)
{
	int id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	char *room = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(room, 4 * PAGE);
	printf("shmat: %s\n", shmat(id, room, SHM_EXEC | 0x100000) == (void *)-1 ? "refused" : "ok");
	shmdt(room);
	fill(room, 4 * PAGE);
	shmctl(id, IPC_RMID, NULL);
}

/* ---- a mapping that is made while another thread forks ---- */

static volatile int go, done;

static void *mapper(void *unused)
{
	int i, fd = memfd_create("mapped", 0);

	(void)unused;
	ftruncate(fd, PAGE);
	while (!go)
		;
	for (i = 0; i < 8 && !done; i++) {
		void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

		usleep(20000);
		munmap(p, PAGE);
	}
	close(fd);
	return NULL;
}

static void forked(void)
{
	int i, status, bad = 0;

	for (i = 0; i < 4; i++) {
		pthread_t thread;
		pid_t pid;

		go = done = 0;
		pthread_create(&thread, NULL, mapper, NULL);
		go = 1;
		pid = fork();
		if (!pid)
			_exit(7);
		done = 1;
		waitpid(pid, &status, 0);
		bad += status != 7 << 8;
		pthread_join(thread, NULL);
	}
	printf("children that failed: %d\n", bad);
}

/* ---- moved ---- */

static void moved(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t to = 0x100000000000;
	long i;

	at[0] = 'm';
	for (i = 0; i < 2000; i++) {
		char *new = mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + (i << 30));

		if (new == MAP_FAILED)
			break;
		at = new;
	}
	printf("moved %ld times, still %c\n", i, at[0]);
}

int main(int argc, char **argv)
{
	refused();
	segment();
	forked();
	/* Not where each call is held. */
	if (argc == 1)
		moved();
	return 0;
}
