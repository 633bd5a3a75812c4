/* A program to be debugged by gdb: see tests/groups/debug.py. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

volatile int counter;
volatile double fraction = 1.5;
static const char *const words[] = { "one", "two", "three" };
static pthread_barrier_t barrier;
/* One at a time: no update of counter is lost, and a debugger sees each value. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) int work(int number, const char *word)
{
	int twice = number * 2;

	counter += twice;
	return twice + word[0];
}

static long in_turn(long number)
{
	long result;

	pthread_mutex_lock(&turn);
	result = work(number, words[number]);
	pthread_mutex_unlock(&turn);
	return result;
}

static void *thread(void *arg)
{
	pthread_barrier_wait(&barrier);
	return (void *)in_turn((long)arg);
}

static void handler(int signal)
{
	fraction += 1;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	long i;

	signal(SIGUSR1, handler);
	if (argc > 1) {
		sigset_t usr1, none;

		/* A signal that comes before it waits is not lost. */
		sigemptyset(&none);
		sigemptyset(&usr1);
		sigaddset(&usr1, SIGUSR1);
		sigprocmask(SIG_BLOCK, &usr1, NULL);
		puts("waiting");
		fflush(stdout);
		sigsuspend(&none);
		sigprocmask(SIG_UNBLOCK, &usr1, NULL);
	}
	pthread_barrier_init(&barrier, NULL, 3);
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, thread, (void *)(i + 1));
	pthread_barrier_wait(&barrier);
	in_turn(0);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	raise(SIGUSR1);
	printf("counter %d fraction %.1f\n", counter, fraction);
	return 5;
}
