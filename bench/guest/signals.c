/* A signal that the program sends to itself and catches. */
#define _GNU_SOURCE
#include "guest.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long caught, sent;
static volatile char *page;

static void on_signal(int signal)
{
	(void)signal;
	caught++;
}

static void catch_one(void *data)
{
	(void)data;
	sent++;
	syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
}

static void on_fault(int signal)
{
	(void)signal;
	mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
}

static void fault_one(void *data)
{
	(void)data;
	mprotect((void *)page, 4096, PROT_READ);
	*page = 1;
}

void group_signals(const struct wish *wish)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	report("signal.catch", best_ns(wish, 50, catch_one, NULL));
	if (caught != sent)
		fail("signals were lost");

	action.sa_handler = on_fault;
	sigaction(SIGSEGV, &action, NULL);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		fail("mmap");
	*page = 1;
	report("signal.fault", best_ns(wish, 50, fault_one, NULL));
}
