/*
 * Kind: an unprivileged or confined program. Eight threads access memory that others map anew at
 * the same place all the time: by MAP_FIXED, mremap, shmat with SHM_REMAP, shmdt; children are
 * forked, and readers of smaps keep Linux' lock of the map. In the first half a mapping is only
 * ever replaced by another one, so no access may find a hole.
 *   replaced SECONDS SEED [confined]
 */
#include "attack.h"
#include <setjmp.h>
#include <sys/shm.h>
#include <sys/uio.h>

#define PAGES 48
#define THREADS 8
#define HALF (PAGES * PAGE)

static char *whole, *rough;
static int file, segment;
static volatile long sink;
/*
 * A mapping to be moved may lie in a hole of the second half: so a round has holes, or moves into
 * the first half.
 */
static int has_holes;
static __thread sigjmp_buf back;
static __thread volatile char *touched;

static void on_fault(int number)
{
	if (!touched)
		_exit(number);
	siglongjmp(back, number);
}

/* Accesses; in the half without holes each succeeds. */
static void *toucher(void *unused)
{
	for (;;) {
		int is_whole = below(2), failed = sigsetjmp(back, 1);

		if (failed && touched < whole + HALF)
			wrong(failed == SIGBUS ? "no page" : "a hole", touched - whole);
		is_whole = below(2);
		for (int i = 0; i < 64; i++) {
			touched = (is_whole ? whole : rough) + below(PAGES) * PAGE + below(PAGE);
			if (below(2))
				*touched = i;
			else
				sink = *touched;
		}
		/* The same by Linux. */
		if (!below(16)) {
			struct iovec from = { (void *)touched, 1 }, to = { (void *)&sink, 1 };

			tried(process_vm_readv(getpid(), &to, 1, &from, 1, 0));
		}
		touched = NULL;
	}
	return unused;
}

static char *some(char *of, unsigned long *bytes)
{
	unsigned long first = below(PAGES), count = 1 + below(PAGES - first);

	*bytes = count * PAGE;
	return of + first * PAGE;
}

static void replace(char *of)
{
	unsigned long bytes;
	char *at = some(of, &bytes), *new;

	long made = 0;
	int what = below(6);

	switch (what) {
	case 0 ... 1:
		made = (long)mmap(at, bytes, RW, ANON | MAP_FIXED | (below(8) ? 0 : MAP_POPULATE), -1, 0);
		break;
	case 2:
		made = (long)mmap(at, bytes, RW, MAP_SHARED | MAP_FIXED, file, below(4) * PAGE);
		break;
	case 3:
		made = (long)mmap(at, bytes, RW, MAP_PRIVATE | MAP_FIXED, file, below(4) * PAGE);
		break;
	case 4:
		if (of == whole && has_holes)
			break;
		new = mmap(NULL, bytes, RW, below(2) ? ANON : MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (new != MAP_FAILED) {
			made = (long)mremap(new, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
			if (made == -1)
				munmap(new, bytes);
		}
		break;
	default:
		if (bytes >= 4 * PAGE)
			made = (long)shmat(segment, at, SHM_REMAP);
	}
	if (tried(made) == -1 && of == whole)
		wrong("refused", what << 16 | errno);
}

static void harm(void)
{
	unsigned long bytes;
	char *at = some(rough, &bytes);

	switch (below(8)) {
	case 0:
		tried(munmap(at, bytes));
		break;
	case 1:
		tried(shmdt(rough + below(PAGES) * PAGE));
		break;
	case 2:
		tried(mprotect(at, bytes, below(3)));
		break;
	case 3:
		tried(madvise(at, bytes, MADV_DONTNEED));
		break;
	case 4: {
		unsigned long more = (1 + below(PAGES)) * PAGE;
		char *new = mremap(at, bytes, more, MREMAP_MAYMOVE);

		if (new != MAP_FAILED && new != at)
			munmap(new, more);
		break;
	}
	default:
		replace(rough);
	}
}

static void *replacer(void *unused)
{
	for (;;) {
		if (!has_holes || below(2))
			replace(whole);
		else
			harm();
		if (!below(200)) {
			pid_t pid = fork();

			if (!pid) {
				sink = *whole;
				_exit(0);
			}
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		}
	}
	return unused;
}

/* Keeps the lock of Linux' map for reading. */
static void *reader(void *unused)
{
	static const char *const files[] = { "/proc/self/smaps", "/proc/self/maps", "/proc/self/numa_maps", "/proc/self/pagemap" };
	static char text[1 << 16];

	for (;;) {
		int from = open(files[below(4)], O_RDONLY | O_CLOEXEC);

		while (from >= 0 && read(from, text, sizeof(text)) > 0 && below(6))
			;
		close(from);
		if (!below(20)) {
			from = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
			tried(write(from, &"145"[below(3)], 1));
			close(from);
		}
	}
	return unused;
}

static void body(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	has_holes = below(2);
	whole = mmap(NULL, 4 * HALF, RW, ANON, -1, 0);
	rough = whole + 2 * HALF;
	file = memfd_create("replaced", 0);
	ftruncate(file, HALF + 8 * PAGE);
	segment = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	shmat(segment, NULL, 0);
	shmctl(segment, IPC_RMID, NULL);
	for (int i = 0; i < THREADS; i++)
		start(toucher, NULL);
	for (int i = 0; i < 3; i++)
		start(replacer, NULL);
	start(reader, NULL);
	for (;;)
		rest_us(900000);
}

int main(int argc, char **argv)
{
	return attack(argc, argv, body, 4000);
}
