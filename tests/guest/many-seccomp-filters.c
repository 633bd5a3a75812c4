/*
 * Seccomp filters beyond the memory that there is: threads with as many filters as they may have
 * are refused some (ENOMEM), and nothing worse happens.
 */
#include "guest.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>

enum { THREADS = 100, LEFT_MIB = 20 };

static pthread_barrier_t ready, eaten, attached;
static struct sock_filter program[4090];
static int refused, wrong;

static void *attaches(void *argument)
{
	struct sock_fprog filter = { sizeof(program) / sizeof(*program), program };

	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&eaten);
	for (int i = 0; i < 8; i++)
		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
			__atomic_fetch_add(errno == ENOMEM ? &refused : &wrong, 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(&attached);
	return argument;
}

static long free_mib(void)
{
	struct sysinfo info;

	return sysinfo(&info) ? 0 : (long)(info.freeram * info.mem_unit >> 20);
}

int main(void)
{
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < sizeof(program) / sizeof(*program); i++)
		program[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	pthread_barrier_init(&ready, NULL, THREADS + 1);
	pthread_barrier_init(&eaten, NULL, THREADS + 1);
	pthread_barrier_init(&attached, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(threads + i, NULL, attaches, NULL))
			return puts("no thread");
	pthread_barrier_wait(&ready);
	while (free_mib() > LEFT_MIB)
		if (mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
			break;
	pthread_barrier_wait(&eaten);
	pthread_barrier_wait(&attached);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("some refused %d, other errors %d\n", refused > 0, wrong);
	return 0;
}
