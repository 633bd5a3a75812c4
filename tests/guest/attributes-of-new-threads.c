/*
 * What a new thread has from its maker, when threads have ended before: what the maker has changed
 * since, and what another thread has changed of the maker.
 */
#include "guest.h"
#include <linux/ioprio.h>
#include <pthread.h>
#include <sched.h>

static int go[2], come[2];
static pid_t maker_id;

static void say(const char *who)
{
	printf("%s: nice %d ioprio %ld policy %d mce %d flusher %d slack %d\n", who, getpriority(PRIO_PROCESS, 0),
	       syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0), sched_getscheduler(0), prctl(PR_MCE_KILL_GET, 0, 0, 0, 0),
	       prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0), prctl(PR_GET_TIMERSLACK));
}

static void *new_thread(void *who)
{
	if (who)
		say(who);
	return NULL;
}

static void make(const char *who)
{
	pthread_t thread;

	pthread_create(&thread, NULL, new_thread, (void *)who);
	pthread_join(thread, NULL);
}

static void *maker(void *name)
{
	char byte;

	maker_id = gettid();
	make(NULL);
	write(come[1], "x", 1);
	read(go[0], &byte, 1);
	say(name);
	make("its thread");
	write(come[1], "x", 1);
	read(go[0], &byte, 1);
	return NULL;
}

int main(void)
{
	static const struct sched_param none;
	pthread_t thread;
	char byte;

	pipe(go);
	pipe(come);
	make(NULL);
	TELL(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0));
	make("after PR_MCE_KILL");
	TELL(prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0));
	make("after PR_SET_IO_FLUSHER");
	TELL(prctl(PR_SET_TIMERSLACK, 77777));
	make("after PR_SET_TIMERSLACK");
	pthread_create(&thread, NULL, maker, "maker");
	read(come[0], &byte, 1);
	TELL(setpriority(PRIO_PROCESS, maker_id, 7));
	TELL(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, maker_id, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 6)));
	TELL(sched_setscheduler(maker_id, SCHED_BATCH, &none));
	write(go[1], "x", 1);
	read(come[0], &byte, 1);
	say("first thread");
	make("its thread");
	write(go[1], "x", 1);
	pthread_join(thread, NULL);
	return 0;
}
