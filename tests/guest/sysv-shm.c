/*
 * System V shared memory.
 * Usage: sysv-shm [hold ID]    hold: attaches to a segment, adds one to its first word, waits for
 *                              the other side
 */
#include "guest.h"
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/sem.h>

static int id;

/* nattch counts what this process and its children have attached. */
static long attached(void)
{
	struct shmid_ds ds;

	return shmctl(id, IPC_STAT, &ds) ? -1 : (long)ds.shm_nattch;
}

static int hold(int segment)
{
	volatile int *p = shmat(segment, NULL, 0);

	if (p == (void *)-1)
		return 1;
	p[1] = p[0] + 1;
	for (int i = 0; i < 200000 && p[2] == 0; i++)
		usleep(1000);
	return p[2];
}

int main(int argc, char **argv)
{
	char *p, *q, *r, *place;
	struct shmid_ds ds;
	int status, file = open("/dev/zero", O_RDONLY), second;

	if (argc > 2)
		return hold(atoi(argv[2]));
	TELL(shmget(IPC_PRIVATE, 0, IPC_CREAT | 0600));
	TELL(shmget(0x4e455645, PAGE, 0600));
	id = shmget(IPC_PRIVATE, 3 * PAGE + 100, IPC_CREAT | 0600);
	TELL(id >= 0);
	TELL(attached());
	p = TELL_MAP(shmat(id, NULL, 0));
	TELL(attached());
	TELL((uintptr_t)p % PAGE);
	strcpy(p, "segment");
	strcpy(p + 3 * PAGE, "end");
	TOUCH(p + 4 * PAGE - 1, 1);
	/* A second time, readable only. */
	q = TELL_MAP(shmat(id, NULL, SHM_RDONLY));
	TELL(q != p);
	puts(q);
	TOUCH(q, 1);
	TELL(attached());
	p[0] = 'S';
	puts(q);
	TELL(mprotect(q, PAGE, PROT_READ | PROT_WRITE));
	/* Linux reads and writes it. */
	TELL(read(file, p + 1, 2));
	TELL(write(1, q + 3, 4) - write(1, "\n", 1));
	TELL(read(file, q + PAGE, 1));
	/* At given addresses. */
	place = mmap(NULL, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TELL_MAP(shmat(id, place, 0));
	TELL_MAP(shmat(id, place + 1, 0));
	TELL_MAP(shmat(id, NULL, SHM_REMAP));
	TELL(shmat(id, place + 100, SHM_REMAP | SHM_RND) == place);
	puts(place + 3 * PAGE);
	TELL(attached());
	TOUCH(place + 4 * PAGE, 0);
	munmap(place + 8 * PAGE, 8 * PAGE);
	TELL(shmat(id, place + 8 * PAGE + 5, SHM_RND) == place + 8 * PAGE);
	TELL(attached());
	TELL_MAP(shmat(id, place + 6 * PAGE, 0));
	TELL_MAP(shmat(-1, NULL, 0));
	TELL_MAP(shmat(0x7fffffff, NULL, 0));
	TELL(shmdt(place + PAGE));
	TELL(shmdt(place + 1));
	TELL(shmdt(NULL));
	TELL(shmdt(place));
	TELL(attached());
	TOUCH(place, 0);
	TELL(shmdt(place));
	/* A part of it unmapped, a part replaced, then detached. */
	r = place + 8 * PAGE;
	TELL(munmap(r + PAGE, PAGE));
	TELL(attached());
	TELL(mmap(r + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == r + PAGE);
	TELL(shmdt(r));
	TELL(attached());
	TOUCH(r, 0);
	TOUCH(r + PAGE, 0);
	TOUCH(r + 2 * PAGE, 0);
	/* fork: the child has it too; wait for its end. */
	fflush(stdout);
	if (!fork()) {
		TELL(attached());
		strcpy(p + 2 * PAGE, "child");
		TELL(shmdt(q));
		TELL(attached());
		p[PAGE] = 1;
		exit(0);
	}
	wait(&status);
	TELL(status);
	puts(p + 2 * PAGE);
	TELL(attached());
	fflush(stdout);
	if (!fork()) {
		char number[20];

		p[0] = 41, p[1] = p[2] = p[3] = 0;
		p[8] = 7;
		sprintf(number, "%d", id);
		execl("/proc/self/exe", argv[0], "hold", number, NULL);
		exit(1);
	}
	wait(&status);
	TELL(WEXITSTATUS(status));
	TELL(p[4]);
	TELL(attached());
	/* mremap: the address that shmdt takes goes along. */
	munmap(place + 20 * PAGE, 8 * PAGE);
	r = TELL_MAP(mremap(p, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + 20 * PAGE));
	TELL(r[4]);
	TELL(attached());
	TELL(shmdt(p));
	/* Marked for removal: gone with the last one. */
	TELL(shmctl(id, IPC_RMID, NULL));
	TELL(shmctl(id, IPC_STAT, &ds) ?: ds.shm_nattch);
	TELL(ds.shm_perm.mode & SHM_DEST);
	TELL_MAP(shmat(id, NULL, 0));
	TELL(attached());
	TELL(shmdt(place + 20 * PAGE));
	TELL(shmctl(id, IPC_STAT, &ds) ?: ds.shm_nattch);
	while (shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_nattch > 1)
		shmdt(q);
	TELL(shmdt(q));
	TELL(shmctl(id, IPC_STAT, &ds));
	/* Sizes: many, and a large one. */
	second = shmget(IPC_PRIVATE, 8 << 20, IPC_CREAT | 0600);
	p = TELL_MAP(shmat(second, NULL, 0));
	for (int i = 0; i < 8 << 20; i += PAGE)
		p[i] = i / PAGE;
	long sum = 0;
	for (int i = 0; i < 8 << 20; i += PAGE)
		sum += p[i];
	TELL(sum);
	TELL(shmctl(second, IPC_RMID, NULL));
	/* The end of a process detaches. */
	if (!fork()) {
		for (int i = 0; i < 50; i++) {
			int one = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);

			*(int *)shmat(one, NULL, 0) = i;
			shmctl(one, IPC_RMID, NULL);
		}
		exit(0);
	}
	wait(&status);
	TELL(status);
	/* Rights. */
	id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0400);
	fflush(stdout);
	if (!fork()) {
		TELL(setuid(65534));
		TELL_MAP(shmat(id, NULL, 0));
		TELL_MAP(shmat(id, NULL, SHM_RDONLY));
		exit(0);
	}
	wait(&status);
	TELL(shmctl(id, IPC_RMID, NULL));
	/* Semaphores and messages are Linux' own. */
	second = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
	struct sembuf up = { 0, 1, 0 }, down = { 0, -1, 0 };
	if (!fork()) {
		usleep(50000);
		semop(second, &up, 1);
		exit(0);
	}
	TELL(semop(second, &down, 1));
	wait(&status);
	TELL(semctl(second, 0, IPC_RMID));
	return 0;
}
