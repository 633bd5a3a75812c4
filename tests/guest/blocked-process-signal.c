/*
 * A signal for the process that all its threads block waits while they change what they block; the
 * thread that lets it in takes it. SIGBUS is the one that an LWK keeps itself.
 */
#include "guest.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t begin, took;
static volatile int handled;
static volatile pid_t by;

static void handler(int signal)
{
	handled = signal;
	by = syscall(SYS_gettid);
}

static void *takes(void *arg)
{
	sigset_t set;

	sem_wait(&begin);
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	printf("  handled %d by this thread: %d\n", handled, by == syscall(SYS_gettid));
	sem_post(&took);
	sem_wait(&begin);
	return arg;
}

int main(void)
{
	struct timespec none = {};
	pthread_t threads[2];
	sigset_t set, more, pending;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	sem_init(&begin, 0, 0);
	sem_init(&took, 0, 0);
	signal(SIGBUS, handler);
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, takes, NULL);
	TELL(kill(getpid(), SIGBUS));
	/* Each change of the mask looks for another thread that takes what waits. */
	for (int i = 0; i < 100; i++) {
		sigemptyset(&more);
		sigaddset(&more, SIGUSR1 + i % 2 * 2);
		pthread_sigmask(i % 4 < 2 ? SIG_BLOCK : SIG_UNBLOCK, &more, NULL);
	}
	sigpending(&pending);
	printf("  pending: %d, handled %d\n", sigismember(&pending, SIGBUS), handled);
	sem_post(&begin);
	sem_wait(&took);
	sigpending(&pending);
	printf("  pending: %d, handled %d\n", sigismember(&pending, SIGBUS), handled);
	handled = 0;
	TELL(sigtimedwait(&set, NULL, &none));
	for (int i = 0; i < 3; i++)
		sem_post(&begin);
	sem_wait(&took);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("  handled %d\n", handled);
	return 0;
}
