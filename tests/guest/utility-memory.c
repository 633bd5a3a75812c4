/*
 * Memory of threads whose code executes on a Linux CPU while others change it: rights taken away,
 * other things mapped at the same addresses, copies by fork. Linux says what is right.
 */
#include "utility.h"
#include <sched.h>
#include <sys/auxv.h>

static const unsigned char adds_42[] = { 0x8d, 0x47, 0x2a, 0xc3 }; /* lea eax, [rdi + 42]; ret */
static const unsigned char adds_43[] = { 0x8d, 0x47, 0x2b, 0xc3 };

/* ---- another thread asks, this one does ---- */

static volatile int wanted, done, result_of_step;
static unsigned char *volatile place;
static sigjmp_buf back;
static volatile int raised;

static void on_fault(int signal)
{
	raised = signal;
	siglongjmp(back, 1);
}

/* Calls, reads or writes what lies at `place` for the other thread, over and over. */
static void *serves(void *unused)
{
	struct sigaction action = { .sa_handler = on_fault };

	(void)unused;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	for (;;) {
		while (!wanted)
			;
		raised = 0;
		if (!sigsetjmp(back, 1)) {
			switch (wanted) {
			case 'c':
				result_of_step = ((int (*)(int))(void *)place)(1);
				break;
			case 'r':
				result_of_step = *(volatile unsigned char *)place;
				break;
			case 'w':
				*(volatile unsigned char *)place = 7;
				result_of_step = 7;
				break;
			case 'm': {
				unsigned char *from = place, *to = place + 100;
				long count = 50;

				asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) :: "memory");
				result_of_step = place[149];
				break;
			}
			default:
				return NULL;
			}
		}
		wanted = 0;
		done = 1;
	}
}

static void step(const char *what, int how)
{
	done = 0;
	wanted = how;
	while (!done)
		sched_yield();
	if (raised)
		printf("%s: %s\n", what, sigabbrev_np(raised));
	else
		printf("%s: %d\n", what, result_of_step);
}

static void *map(void *at, int protection)
{
	return mmap(at, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
}

static void rights(void)
{
	unsigned char *at = map(NULL, PROT_READ | PROT_WRITE);

	place = at;
	memcpy(at, adds_42, 4);
	mprotect(at, PAGE, PROT_READ | PROT_EXEC);
	step("executable", 'c');
	mprotect(at, PAGE, PROT_READ);
	step("only to read", 'c');
	step("read", 'r');
	mprotect(at, PAGE, PROT_READ | PROT_EXEC);
	step("executable again", 'c');
	mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	memcpy(at, adds_43, 4);
	step("to write", 'c');
	step("written", 'w');
	memcpy(at, adds_43, 4);
	step("still to write", 'c');
	mprotect(at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	step("all", 'c');
	memcpy(at, adds_42, 4);
	step("all, rewritten", 'c');
	mprotect(at, PAGE, PROT_NONE);
	step("none", 'c');
	step("none", 'r');
	mprotect(at, PAGE, PROT_READ | PROT_EXEC);
	step("executable", 'c');
	munmap(at, PAGE);
	step("unmapped", 'c');
	map(at, PROT_READ | PROT_WRITE);
	step("data", 'c');
	step("data", 'r');
	memcpy(at, adds_43, 4);
	mprotect(at, PAGE, PROT_READ | PROT_EXEC);
	step("other code", 'c');
	map(at, PROT_READ | PROT_EXEC);
	step("zeroes", 'c');
	munmap(at, PAGE);
}

/*
 * An instruction reads and writes a page that is shared with a child; one writes to the page on
 * which it lies.
 */
static void same_page(void)
{
	static const unsigned char writes_itself[] = { 0xc6, 0x05, 1, 0, 0, 0, 44, 0xb8, 42, 0, 0, 0, 0xc3 };
	/* movb $44, 1(%rip); mov $42, %eax; ret */
	unsigned char *at = map(NULL, PROT_READ | PROT_WRITE);
	unsigned char *code = map(NULL, PROT_READ | PROT_WRITE | PROT_EXEC);
	pid_t pid;

	memset(at, 9, PAGE);
	memcpy(code, writes_itself, sizeof(writes_itself));
	place = at;
	step("shared", 'w');
	pid = fork();
	if (!pid) {
		alarm(600);
		pause();
	}
	step("moved", 'm');
	place = code;
	step("changed itself", 'c');
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The pages of the vDSO are the kernel's, but their addresses are as all others. */
static void vdso(void)
{
	unsigned char *at = (unsigned char *)getauxval(AT_SYSINFO_EHDR);
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, size = 0;
	char line[256];

	/* All of it: Linux does not split it. */
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start == (unsigned long)at)
			size = end - start;
	fclose(maps);
	place = at;
	step("vDSO", 'r');
	step("vDSO", 'w');
	printf("known: %d, unmapped: %d\n", size != 0, munmap(at, size));
	step("unmapped vDSO", 'r');
	mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	step("in its place", 'r');
	step("in its place", 'w');
	step("in its place", 'r');
}

/*
 * The one thread writes as told, the other one takes pages away: no write is lost, no later one is
 * seen.
 */
static volatile unsigned long *words;
static volatile int over;

static void *writes(void *unused)
{
	unsigned long n = 0;

	(void)unused;
	while (!over) {
		n++;
		for (int i = 0; i < 64; i++)
			words[i * PAGE / 8 + 1] = n;
		for (int i = 0; i < 64; i++)
			if (words[i * PAGE / 8 + 1] != n)
				return (void *)1L;
	}
	return NULL;
}

static void copies(void)
{
	long wrong = 0;
	pthread_t thread;
	void *result;

	words = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	thread = outside(writes, NULL);
	for (int round = 0; round < by_tier(9, 30); round++) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			unsigned long before[64];
			int bad = 0;

			for (int i = 0; i < 64; i++)
				before[i] = words[i * PAGE / 8 + 1];
			usleep(2000);
			for (int i = 0; i < 64; i++) {
				bad |= words[i * PAGE / 8 + 1] != before[i];
				bad |= i && before[i] > before[i - 1];
			}
			_exit(bad);
		}
		waitpid(pid, &status, 0);
		wrong += status != 0;
		if (round % 3 == 0)
			mprotect((void *)words, 32 * PAGE, PROT_READ | PROT_WRITE);
	}
	over = 1;
	pthread_join(thread, &result);
	printf("copies: wrong %ld, lost %ld\n", wrong, (long)result);
}

/* A child of such a thread makes one of its own, and closes all descriptors, as servers do. */
static void *in_fork(void *unused)
{
	(void)unused;
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	printf("closed, reads: %zd\n", read(999, &unused, 1));
	return NULL;
}

static void *forks(void *unused)
{
	int status = -1;
	pid_t pid;

	(void)unused;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		go_out();
		in_fork(NULL);
		in_thread(in_fork, NULL);
		fflush(stdout);
		_exit(3);
	}
	waitpid(pid, &status, 0);
	printf("child of such a thread: status %#x\n", status);
	return NULL;
}

/*
 * A thread comes back from Linux for good, since Linux alone would not execute what it calls, and
 * computes for ever. That very moment another thread's execve ends it.
 */
static volatile int calls;

static void *calls_endless(void *unused)
{
	static const unsigned char code[] = { 0xeb, 0xfe }; /* jmp . */
	unsigned char *at = map(NULL, PROT_READ | PROT_WRITE);

	(void)unused;
	memcpy(at, code, sizeof(code));
	mprotect(at, PAGE, PROT_READ);
	calls += *(volatile unsigned char *)at; /* what Linux has seen so it cannot execute */
	mprotect(at, PAGE, PROT_READ | PROT_EXEC);
	getpid();
	calls = 1;
	((void (*)(void))(void *)at)();
	return NULL;
}

static void ends(void)
{
	int ended = 0;

	/* In `make test` the moments of the execve span as much time, but are fewer. */
	for (int round = 0; round < 60; round += by_tier(6, 1)) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			outside(calls_endless, NULL);
			while (calls != 1)
				;
			for (volatile int i = 0; i < round * 400; i++)
				;
			execl("/bin/true", "true", NULL);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		ended += status == 0;
		if (status)
			break;
	}
	printf("ended: %d\n", ended);
}

int main(void)
{
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(600);
	thread = outside(serves, NULL);
	rights();
	same_page();
	vdso();
	wanted = 'e';
	pthread_join(thread, NULL);
	copies();
	ends();
	in_thread(forks, NULL);
	return 0;
}
