/* Threads of one process on several CPUs: memory that goes, changes rights or is copied
 * under another thread's feet, futexes and signals across CPUs, affinity.
 * Few rounds of those that wait for each other: where CPUs are threads of a busy machine, each
 * takes a time slice. */
#include "guest.h"
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* Polls at first; then leaves the CPU to the thread it waits for, if both share a core. */
#define WAIT_WHILE(c) do { for (int n_ = 0; c; n_++) if (n_ > 5000) usleep(50); } while (0)
#define CHECK(c) do { if (!(c)) { printf("line %d: %s (errno %d)\n", __LINE__, #c, errno); exit(1); } } while (0)

static cpu_set_t all;
static int first_cpu, second_cpu;

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
	CHECK(sched_getcpu() == cpu);
}

/* Two CPUs must be there at the same time: neither goes on without the other. */
static int rallies;
static atomic_int turn;
static void *opponent(void *arg)
{
	pin(second_cpu);
	for (int i = 0; i < rallies; i++) {
		WAIT_WHILE(atomic_load(&turn) != 2 * i + 1);
		atomic_store(&turn, 2 * i + 2);
	}
	CHECK(sched_getcpu() == second_cpu);
	return arg;
}
static void rally(void)
{
	pthread_t t;
	rallies = by_tier(100, 500);
	CHECK(!pthread_create(&t, NULL, opponent, NULL));
	WAIT_WHILE(atomic_load(&turn) != 0);
	for (int i = 0; i < rallies; i++) {
		atomic_store(&turn, 2 * i + 1);
		WAIT_WHILE(atomic_load(&turn) != 2 * i + 2);
	}
	CHECK(sched_getcpu() == first_cpu);
	CHECK(!pthread_join(t, NULL));
	puts("two CPUs at once");
}

/* A page is unmapped (or loses write access) while the other CPU writes to it. */
static char *volatile target;
static atomic_int writing, stop, faults, rounds;
static __thread sigjmp_buf back;
static void on_fault(int sig)
{
	(void)sig;
	atomic_fetch_add(&faults, 1);
	siglongjmp(back, 1);
}
static void *writer(void *arg)
{
	pin(second_cpu);
	while (!atomic_load(&stop)) {
		atomic_fetch_add(&rounds, 1);
		if (sigsetjmp(back, 1) == 0) {
			char *p = target;
			for (int i = 0; i < 1000 && p; i++) {
				++*(volatile char *)p;
				atomic_fetch_add(&writing, 1);
			}
		}
	}
	return arg;
}
static void until_written(void)
{
	int before = atomic_load(&writing);
	WAIT_WHILE(atomic_load(&writing) == before);
}
static void until_faulted(void)
{
	int before = atomic_load(&faults);
	WAIT_WHILE(atomic_load(&faults) == before);
}
static void shootdown(void)
{
	pthread_t t;
	struct sigaction sa = { .sa_handler = on_fault };
	sigaction(SIGSEGV, &sa, NULL);
	CHECK(!pthread_create(&t, NULL, writer, NULL));
	for (int i = 0; i < by_tier(12, 40); i++) {
		int large = i % 4 == 3;
		size_t size = large ? 4 << 20 : 3 * PAGE;
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(p != MAP_FAILED);
		memset(p, 0, size);
		target = p + PAGE;
		until_written();
		CHECK(mprotect(p, size, PROT_READ) == 0);
		/*
		 * The other CPU, which counts there, must write no more: the page stays as it is.
		 */
		char old = *(volatile char *)(p + PAGE);
		until_faulted();
		CHECK(*(volatile char *)(p + PAGE) == old);
		CHECK(mprotect(p, size, PROT_READ | PROT_WRITE) == 0);
		until_written();
		CHECK(munmap(p, size) == 0);
		until_faulted();
		/* What was freed belongs to others now: zero, whatever the writer does. */
		target = NULL;
		int before = atomic_load(&rounds);
		WAIT_WHILE(atomic_load(&rounds) < before + 2); /* the writer may have read the old target */
		char *q = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(q != MAP_FAILED);
		for (int k = 0; k < 64 * PAGE; k += PAGE)
			CHECK(q[k] == 0 && q[k + 1] == 0);
		munmap(q, 64 * PAGE);
	}
	atomic_store(&stop, 1);
	CHECK(!pthread_join(t, NULL));
	signal(SIGSEGV, SIG_DFL);
	puts("shootdown");
}

/* fork while the other CPU counts: the child's copy stands still, the parent's goes on. */
static void *counter(void *arg)
{
	atomic_long *n = arg;
	pin(second_cpu);
	while (!atomic_load(&stop))
		atomic_fetch_add(n, 1);
	return NULL;
}
static void fork_copies(void)
{
	pthread_t t;
	atomic_long *n = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	atomic_store(&stop, 0);
	CHECK(!pthread_create(&t, NULL, counter, n));
	for (int i = 0; i < by_tier(6, 20); i++) {
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			long a = atomic_load(n);
			for (volatile int k = 0; k < 100000; k++)
				;
			_exit(a == atomic_load(n) ? 0 : 1);
		}
		long before = atomic_load(n);
		WAIT_WHILE(atomic_load(n) == before);
		int status;
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	atomic_store(&stop, 1);
	CHECK(!pthread_join(t, NULL));
	puts("fork copies");
}

/* Mutex, condition variable, and many threads that create and join others. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long shared_count;
static int ball, rounds_of_ball;
static void *adder(void *arg)
{
	for (int i = 0; i < 5000; i++) {
		pthread_mutex_lock(&lock);
		shared_count++;
		pthread_mutex_unlock(&lock);
		if (i % 1000 == 0)
			sched_yield();
	}
	return arg;
}
static void *player(void *arg)
{
	int mine = (int)(long)arg;
	for (int i = 0; i < rounds_of_ball; i++) {
		pthread_mutex_lock(&lock);
		while (ball % 2 != mine)
			pthread_cond_wait(&cond, &lock);
		ball++;
		pthread_cond_broadcast(&cond);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}
static void *mapper(void *arg)
{
	for (int i = 0, maps = by_tier(50, 200); i < maps; i++) {
		char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(p != MAP_FAILED);
		for (int k = 0; k < 8; k++)
			CHECK(p[k * PAGE] == 0);
		memset(p, (int)(long)arg, 8 * PAGE);
		char *q = malloc(100000);
		memset(q, (int)(long)arg, 100000);
		for (int k = 0; k < 8; k++)
			CHECK(p[k * PAGE + 5] == (char)(long)arg);
		CHECK(q[99999] == (char)(long)arg);
		free(q);
		CHECK(munmap(p, 8 * PAGE) == 0);
	}
	return arg;
}
static void crowd(void)
{
	pthread_t t[8];
	rounds_of_ball = by_tier(100, 500);
	sched_setaffinity(0, sizeof(all), &all);
	for (long i = 0; i < 8; i++)
		CHECK(!pthread_create(&t[i], NULL, adder, NULL));
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(shared_count == 40000);
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, player, (void *)i));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(ball == 2 * rounds_of_ball);
	for (long i = 0; i < 8; i++)
		CHECK(!pthread_create(&t[i], NULL, mapper, (void *)(i + 1)));
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_join(t[i], NULL));
	puts("crowd");
}

/* Two threads that change places, at the same time. */
static atomic_int meeting;
static void *dancer(void *arg)
{
	for (int i = 0, dances = by_tier(40, 200); i < dances; i++) {
		/* Together, and from different sides. */
		atomic_fetch_add(&meeting, 1);
		WAIT_WHILE(atomic_load(&meeting) < 2 * (i + 1));
		pin((i + (long)arg) % 2 ? first_cpu : second_cpu);
	}
	return NULL;
}
static void places(void)
{
	pthread_t t[2];
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, dancer, (void *)i));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
	puts("changed places");
}

/* A signal for a thread that computes on the other CPU. */
static atomic_int got, where;
static void on_usr(int sig)
{
	(void)sig;
	atomic_store(&where, sched_getcpu());
	atomic_fetch_add(&got, 1);
}
static void *busy(void *arg)
{
	pin(second_cpu);
	atomic_store(&turn, -1);
	while (!atomic_load(&stop))
		;
	return arg;
}
static void signals(void)
{
	pthread_t t;
	struct sigaction sa = { .sa_handler = on_usr };
	sigaction(SIGUSR1, &sa, NULL);
	atomic_store(&stop, 0);
	pin(first_cpu);
	CHECK(!pthread_create(&t, NULL, busy, NULL));
	WAIT_WHILE(atomic_load(&turn) != -1);
	int signals = by_tier(15, 50);

	for (int i = 0; i < signals; i++) {
		CHECK(!pthread_kill(t, SIGUSR1));
		WAIT_WHILE(atomic_load(&got) != i + 1);
		CHECK(atomic_load(&where) == second_cpu);
	}
	CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
	CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
	/* Moved from outside while it computes. */
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(first_cpu, &set);
	CHECK(!pthread_setaffinity_np(t, sizeof(set), &set));
	CHECK(!pthread_kill(t, SIGUSR1));
	WAIT_WHILE(atomic_load(&got) != signals + 1);
	CHECK(atomic_load(&where) == first_cpu);
	atomic_store(&stop, 1);
	CHECK(!pthread_join(t, NULL));
	puts("signals and affinity");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	CHECK(CPU_COUNT(&all) >= 2);
	first_cpu = second_cpu = -1;
	for (int i = 0; i < CPU_SETSIZE && second_cpu < 0; i++)
		if (CPU_ISSET(i, &all)) {
			if (first_cpu < 0)
				first_cpu = i;
			else
				second_cpu = i;
		}
	pin(first_cpu);
	rally();
	shootdown();
	fork_copies();
	crowd();
	places();
	signals();
	return 0;
}
