/*
 * What attack programs have in common. Each is told for how many seconds and from which seed it
 * goes on, and whether to confine itself, and does its worst to its own processes, round after
 * round, each in a process of its own that is killed or ends by itself. Exit status 3: a round did
 * not end within a minute of SIGKILL. 4: something was seen that must not be.
 */
#ifndef ATTACK_H
#define ATTACK_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
#define LATE_S 60
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static struct common {
	uint64_t stream, tried, done, wrong;
	char what[200];
} *common;
static uint64_t seed;
static const char *program;
static __thread uint64_t state;

static inline uint64_t any(void)
{
	if (!state)
		state = (seed * 1000003 + __atomic_add_fetch(&common->stream, 1, __ATOMIC_RELAXED)) * 0x9e3779b97f4a7c15ULL | 1;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dULL;
}

static inline uint64_t below(uint64_t limit)
{
	return (any() >> 8) % limit;
}

static inline uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Counts what was tried, and what came of it. */
static inline long tried(long result)
{
	__atomic_add_fetch(&common->tried, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&common->done, result >= 0, __ATOMIC_RELAXED);
	return result;
}

/* Something must not be. */
static inline void wrong(const char *what, unsigned long number)
{
	if (!__atomic_fetch_add(&common->wrong, 1, __ATOMIC_RELAXED))
		snprintf(common->what, sizeof(common->what), "%s: %#lx", what, number);
}

static inline pid_t thread_id(void)
{
	return syscall(SYS_gettid);
}

static inline void rest_us(unsigned us)
{
	nanosleep(&(struct timespec){ 0, us * 1000L }, NULL);
}

/* A filter that forbids one call: all workers have it on Linux, too. */
static inline void confine(void)
{
	struct sock_filter all[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(all) / sizeof(*all), all };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
		_exit(5);
}

static inline void start(void *(*body)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_create(&thread, &attributes, body, argument);
	pthread_attr_destroy(&attributes);
}

/* A process that shares this one's memory. */
static inline pid_t start_process(int (*body)(void *), void *argument)
{
	enum { SIZE = 64 << 10 };
	char *stack = mmap(NULL, SIZE, RW, ANON, -1, 0);

	return stack == MAP_FAILED ? -1 : clone(body, stack + SIZE, CLONE_VM | SIGCHLD, argument);
}

/* Whether a child has ended, or is none any more; it stays one. */
static inline int has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/* Kills a child, or what is left of its group, and waits for its end: not for ever. */
static inline int end_child(pid_t pid)
{
	uint64_t late = now_ms() + LATE_S * 1000;

	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, WNOHANG | __WALL) == 0) {
		if (now_ms() > late)
			return -1;
		rest_us(2000);
	}
	return 0;
}

/* Rounds of `body`, each of `most_ms` at most, in a process that leads a group. */
static inline int attack(int argc, char **argv, void (*body)(void), unsigned most_ms)
{
	uint64_t end = now_ms() + 1000 * (argc > 1 ? atol(argv[1]) : 10);
	int is_confined = argc > 3 && !strcmp(argv[3], "confined"), rounds = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	program = argv[0];
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	common = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	for (; now_ms() < end && !common->wrong; rounds++) {
		uint64_t until = now_ms() + 50 + below(most_ms);
		pid_t pid = fork();

		if (pid < 0) {
			rest_us(20000);
			continue;
		}
		if (!pid) {
			setpgid(0, 0);
			if (is_confined)
				confine();
			state = 0;
			body();
			_exit(0);
		}
		setpgid(pid, pid);
		while (now_ms() < until && !has_ended(pid))
			rest_us(5000);
		if (end_child(pid)) {
			printf("a round did not end, seed %llu, round %d\n", (unsigned long long)seed, rounds);
			return 3;
		}
	}
	printf("%d rounds, %llu tried, %llu done, seed %llu\n", rounds, (unsigned long long)common->tried,
	       (unsigned long long)common->done, (unsigned long long)seed);
	if (common->wrong)
		printf("%llu wrong, the first %s\n", (unsigned long long)common->wrong, common->what);
	return common->wrong ? 4 : 0;
}

#endif
