/* Memory anywhere in the address space is Linux', too: in a program, in children, behind execve. */
#include "guest.h"

/* Lowest TiB, between it and where programs are, there, behind that, highest TiB. */
static const uintptr_t places[] = {
	0x200000000, 0x30000000000, 0x100000000000, 0x54fffffff000, 0x550000010000, 0x567fffffe000, 0x600000000000,
	0x7bfffffff000, 0x7c1000000000,
};

/* Has Linux read and write two pages at each place: in some on both sides of a border. */
static void use(int flags)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char *at = mmap((void *)places[i], 2 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
		int ends[2];

		TELL((uintptr_t)at == places[i]);
		TELL(pipe(ends));
		memset(at, 'a' + i, 2 * PAGE);
		TELL(write(ends[1], at + PAGE - 8, 16));
		memset(at, 0, 2 * PAGE);
		TELL(read(ends[0], at + PAGE - 8, 16));
		TELL(at[PAGE - 8] == (char)('a' + i) && at[PAGE + 7] == (char)('a' + i));
		close(ends[0]);
		close(ends[1]);
	}
}

static void shared(void)
{
	char *at = mmap((void *)0x200000000000, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	pid_t pid = fork();

	if (!pid) {
		char *own = mmap((void *)0x580000000000, PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		memcpy(own, "/proc/self/exe", 15);
		at[1] = readlink(own, at + 2, 100) > 0;
		at[0] = 'c';
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	TELL(at[0]);
	TELL(at[1]);
}

/* Mappings that move to another part of the addresses, or grow into it. */
static void moved(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *low = mmap((void *)0x54fffff00000, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	char *edge = mmap((void *)(0x10000000000 - PAGE), PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	at = mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x700000000000);
	TELL((uintptr_t)at == 0x700000000000);
	TELL(gethostname(at, PAGE));
	TELL(gethostname(low, PAGE));
	TELL((uintptr_t)mremap(edge, PAGE, 2 * PAGE, 0) == (uintptr_t)edge);
	TELL(gethostname(edge + PAGE, PAGE));
}

static void in_child(void (*what)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		what();
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	TELL(status);
}

static void fixed(void)
{
	use(MAP_FIXED);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		use(0);
		return 0;
	}
	in_child(fixed);
	in_child(moved);
	in_child(shared);
	use(MAP_FIXED);
	in_child(fixed);
	fflush(stdout);
	execl("/proc/self/exe", argv[0], "again", NULL);
	return 1;
}
