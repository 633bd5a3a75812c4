/*
 * Ten thousand vforks from eight threads, whose children write to their parents' pages: no write is
 * lost, however a child ends.
 * Usage: many-vforks [COUNT [PROGRAM]]    PROGRAM: what some of the children execute
 */
#include "guest.h"
#include <pthread.h>
#include <sched.h>

#define THREADS 8
#define PAGES 64
#define WORDS (PAGE / 8)

/* Word i of a page is thread i's, word THREADS + i its children's. */
static volatile long memory[PAGES][WORDS] __attribute__((aligned(4096)));
static const char *program = "/bin/true";
static int rounds;

struct work {
	long thread, round, handled, bad;
};

static __thread struct work *working;

static void handler(int signal)
{
	working->handled += signal == SIGUSR1;
}

static int child(void *told)
{
	struct work *work = told;

	for (int i = 0; i < 3; i++)
		memory[(work->round + i * 7) % PAGES][THREADS + work->thread]++;
	switch (work->round % 50) {
	case 7:
		execl(program, "program", NULL);
		_exit(99);
	case 17:
		execl("/nowhere/program", "program", NULL);
		_exit(errno == ENOENT ? 0 : 98);
	case 27:
		kill(getpid(), SIGKILL);
		_exit(97);
	case 37:
		raise(SIGUSR1);
		_exit(0);
	case 47:
		execl("/etc/passwd", "passwd", NULL);
		_exit(errno == EACCES ? 0 : 96);
	}
	_exit(0);
}

static void *runs(void *told)
{
	struct work *work = working = told;
	char *stack = malloc(32 << 10);
	int status;

	for (work->round = 0; work->round < rounds; work->round++) {
		memory[work->round % PAGES][work->thread]++;
		pid_t pid = clone(child, stack + (32 << 10), CLONE_VM | CLONE_VFORK | SIGCHLD, work);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != (work->round % 50 == 27 ? SIGKILL : 0))
			work->bad++;
	}
	free(stack);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	struct work work[THREADS] = {};
	long own = 0, of_children = 0, handled = 0, bad = 0;

	rounds = (argc > 1 ? atoi(argv[1]) : 10000) / THREADS;
	if (argc > 2)
		program = argv[2];
	signal(SIGUSR1, handler);
	for (int i = 0; i < THREADS; i++) {
		work[i].thread = i;
		pthread_create(&threads[i], NULL, runs, &work[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		handled += work[i].handled;
		bad += work[i].bad;
	}
	for (int page = 0; page < PAGES; page++)
		for (int word = 0; word < WORDS; word++)
			*(word < THREADS ? &own : &of_children) += memory[page][word];
	printf("written by threads %ld, by children %ld, signals handled %ld, wrong ends %ld\n", own, of_children,
	       handled, bad);
	return 0;
}
