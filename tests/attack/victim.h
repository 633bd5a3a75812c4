/*
 * Attacks on processes that change all the while: one victim after the other, and threads of
 * another process that reach it by its number. The program that includes this says what a victim
 * does.
 */
#ifndef VICTIM_H
#define VICTIM_H

#include "attack.h"

static volatile pid_t victim;

static void be_victim(void);

/* The running victim goes on as another program, which is this one. */
static inline void execute_victim(void)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)any());
	execl("/proc/self/exe", program, "victim", number, NULL);
}

/* What that begins with; any other program goes on. */
static inline void continue_victim(int argc, char **argv)
{
	program = argv[0];
	if (argc <= 2 || strcmp(argv[1], "victim"))
		return;
	common = mmap(NULL, PAGE, RW, ANON, -1, 0);
	seed = strtoull(argv[2], NULL, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	be_victim();
}

/*
 * Has threads reach victims, each of which lives for `most_ms` at most. `while_it_ends`: also while
 * it ends, and when its number may be another process' by then, which must do no harm.
 */
static inline void hunt(void *(*hunter)(void *), unsigned most_ms, int while_it_ends)
{
	for (int i = 0; i < 4; i++)
		start(hunter, NULL);
	for (;;) {
		uint64_t end = now_ms() + below(most_ms);
		pid_t pid = fork();

		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_victim();
		}
		victim = pid;
		while (pid > 0 && now_ms() < end && !has_ended(pid))
			rest_us(1000);
		if (!while_it_ends)
			victim = 0;
		if (pid > 0)
			end_child(pid);
	}
}

#endif
