/* Utility threads: their code executes on a Linux CPU (prctl PR_HANARE_RUN_ON). */
#include "guest.h"
#include <pthread.h>

#define AREA (64 << 10)

static __thread char *own_area;

/* From here on the calling thread's code executes on Linux, if it runs on an LWK. */
static inline long go_out(void)
{
	own_area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own_area == MAP_FAILED)
		return -1;
	return prctl(PR_HANARE_RUN_ON, 1, own_area, AREA, -1L);
}

/* Whether the calling thread executes on Linux: 1, or 0; -1 where Linux is all that there is. */
static inline int is_out(void)
{
	return prctl(PR_HANARE_RUN_ON, 2, 0, 0, 0);
}

struct begin {
	void *(*body)(void *);
	void *argument;
};

static inline void *begin_outside(void *begin)
{
	struct begin own = *(struct begin *)begin;

	free(begin);
	go_out();
	return own.body(own.argument);
}

/* Begins such a thread. */
static inline pthread_t outside(void *(*body)(void *), void *argument)
{
	struct begin *begin = malloc(sizeof(*begin));
	pthread_t thread;

	*begin = (struct begin){ body, argument };
	if (pthread_create(&thread, NULL, begin_outside, begin)) {
		perror("pthread_create");
		exit(1);
	}
	return thread;
}

/* Runs `body` in such a thread, to its end. */
static inline void *in_thread(void *(*body)(void *), void *argument)
{
	void *result = NULL;

	pthread_join(outside(body, argument), &result);
	return result;
}

/* The same in a process of its own, and says how that ended. */
static inline void in_child(const char *what, void *(*body)(void *))
{
	struct rlimit none = { 0, 0 };
	int status = -1;
	pid_t pid;

	printf("%s\n", what);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		in_thread(body, NULL);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("  status %#x\n", status);
	fflush(stdout);
}
