// SPDX-License-Identifier: GPL-2.0
/*
 * Forged pooled proxies, to which native tasks give their calls:
 *   forged-member SECONDS SEED MEMBERS TASKS PROGRAM [ARGUMENT...]
 * makes a pool, has MEMBERS of them join it, each again when it has died, and begins PROGRAM as a
 * native task as often as the time allows, TASKS at once. They answer with any result, page and
 * state, late, twice, or never, and write while the LWK reads. Prints what was tried. Exit status
 * 1: a task did not end within a minute or more of its time. Run it as a user whose processes may
 * all be killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

#define POOL 77
#define PAGE 4096UL
#define PACKED_BYTES (HANARE_PACKED_PAGES * PAGE)
/* Of 5 ms or more each, after the time is up: on a machine that stands still nothing is late. */
#define LATE_NAPS 12000
#define NAP_US 5000

enum kind { JOINED, ANSWERED, LIED, STATES, PAGES, RINGS, IOCTLS, TASKS, KINDS };

static const char *const kind_names[KINDS] = {
	"joined", "answered", "lied", "states", "words in pages", "rings", "ioctls", "tasks",
};

static uint64_t *counts; /* shared by all */
static uint64_t until_ms;
static __thread uint64_t chance;
static int device;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

static void count(enum kind kind)
{
	__atomic_fetch_add(&counts[kind], 1, __ATOMIC_RELAXED);
}

static uint64_t below(uint64_t limit)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return (chance >> 11) % limit;
}

static uint64_t value(void)
{
	static const uint64_t edges[] = { 0, 1, 4096, 0x7fffffff, 0xffffffff, 1ULL << 47, ~0ULL, ~0ULL >> 1, -4ULL, -512ULL, -4095ULL };

	switch (below(4)) {
	case 0:
		return edges[below(sizeof(edges) / sizeof(*edges))];
	case 1:
		return below(5000);
	case 2:
		return -below(5000);
	default:
		return chance;
	}
}

/* ---- a member ---- */

static struct hanare_slot *slot(void)
{
	return (struct hanare_slot *)HANARE_SLOT_BASE;
}

static volatile struct hanare_member *page(void)
{
	return (struct hanare_member *)HANARE_MEMBER_BASE;
}

static int map(uint32_t space, uint64_t start, uint64_t end)
{
	return mmap((void *)start, end - start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, device,
		    (off_t)((uint64_t)space << HANARE_SPACE_SHIFT | start)) == MAP_FAILED;
}

static void spoil_state(void)
{
	count(STATES);
	/* As if no task had it, mostly. */
	page()->state = below(4) ? HANARE_MEMBER_FREE : below(3) ? below(5) : value();
}

/*
 * Words that the LWK reads when it completes a call are at the beginning; the first pages are
 * there.
 */
static void spoil_pages(void)
{
	int words = 1 + below(64);

	count(PAGES);
	while (words--) {
		uint64_t at = below(4) ? below(160) : below(3 * PAGE);

		*(volatile uint64_t *)(HANARE_PACKED_BASE + (at & ~7ULL)) = value();
	}
}

static void spoil_ioctl(void)
{
	static const unsigned int commands[] = {
		HANARE_IOCTL_START, HANARE_IOCTL_SIGNAL, HANARE_IOCTL_SHARE, HANARE_IOCTL_SERVE, HANARE_IOCTL_USAGE, HANARE_IOCTL_EXECED,
		HANARE_IOCTL_RIGHTS, HANARE_IOCTL_CHILD, HANARE_IOCTL_SUCCEED, HANARE_IOCTL_SEND, HANARE_IOCTL_DUMP,
	};
	uint64_t argument[128];
	size_t i;

	count(IOCTLS);
	for (i = 0; i < sizeof(argument) / sizeof(*argument); i++)
		argument[i] = below(3) ? 0 : value();
	ioctl(device, commands[below(sizeof(commands) / sizeof(*commands))], argument);
}

static void spoil_ring(void)
{
	count(RINGS);
	ioctl(device, HANARE_IOCTL_RING, below(2) ? slot()->bell : below(64));
}

static void spoil(void)
{
	switch (below(16)) {
	case 0 ... 5:
		spoil_state();
		break;
	case 6 ... 11:
		spoil_pages();
		break;
	case 12:
		spoil_ioctl();
		break;
	case 13:
		slot()->state = below(2) ? 1u << below(6) : value();
		break;
	case 14:
		*(volatile uint64_t *)(HANARE_SLOT_BASE + (below(128) & ~7ULL)) = value();
		break;
	default:
		spoil_ring();
	}
}

static void *spoiler(void *seed)
{
	for (chance = (uintptr_t)seed | 1;; spoil())
		if (!below(8))
			usleep(below(2000));
	return NULL;
}

static void publish(uint32_t state, uint64_t result)
{
	slot()->result = result;
	__atomic_store_n(&slot()->state, state, __ATOMIC_SEQ_CST);
	if (slot()->lwk_wait != HANARE_WAIT_AWAKE)
		ioctl(device, HANARE_IOCTL_RING, slot()->bell);
}

static void answer(void)
{
	count(ANSWERED);
	if (below(4))
		page()->state = HANARE_MEMBER_BEGUN;
	if (below(3)) {
		/* A result, and 0: executed. */
		spoil_pages();
		publish(HANARE_SLOT_DONE, 0);
		return;
	}
	count(LIED);
	switch (below(6)) {
	case 0:
		publish(HANARE_SLOT_NOT_STARTED, value());
		break;
	case 1:
		usleep(below(200000));
		publish(HANARE_SLOT_DONE, 0);
		break;
	case 2:
		publish(HANARE_SLOT_DONE, 0);
		usleep(below(1000));
		publish(HANARE_SLOT_DONE, value());
		break;
	case 3: /* nothing, for a while */
		usleep(below(300000));
		break;
	default:
		publish(HANARE_SLOT_DONE, value());
	}
}

static void die(void)
{
	switch (below(5)) {
	case 0:
		kill(getpid(), SIGKILL);
		break;
	case 1:
		munmap((void *)HANARE_MESSAGES_BASE, HANARE_MESSAGES_END - HANARE_MESSAGES_BASE);
		close(device);
		break;
	case 2:
		execl("/bin/true", "true", NULL);
		break;
	case 3: /* a process with the same memory outlives it */
		if (!vfork()) {
			usleep(1000);
			_exit(0);
		}
	}
	_exit(0);
}

static void member(uint64_t seed)
{
	struct hanare_attach attach = { .kind = HANARE_ATTACH_MEMBER, .pool_fd = POOL };
	uint64_t end;
	pthread_t thread;

	chance = seed | 1;
	end = now_ms() + below(2000);
	device = open("/dev/hanare", O_RDWR | O_CLOEXEC);
	need(device >= 0, "/dev/hanare");
	attach.fd = device;
	if (ioctl(device, HANARE_IOCTL_ATTACH, &attach)) {
		usleep(10000);
		_exit(0);
	}
	count(JOINED);
	need(!map(attach.space, HANARE_CONTROL_BASE, HANARE_CONTROL_END), "window");
	need(!map(attach.space, HANARE_MESSAGES_BASE, HANARE_MESSAGES_END), "messages");
	if (below(3))
		pthread_create(&thread, NULL, spoiler, (void *)(uintptr_t)below(1 << 30));
	while (now_ms() < end) {
		if (__atomic_load_n(&slot()->state, __ATOMIC_ACQUIRE) & HANARE_SLOT_ASKED)
			answer();
		else
			usleep(below(300));
	}
	die();
}

/* ---- the pool ---- */

static void make_pool(uint32_t members)
{
	/* Tasks have honest ones made where there are too few; these leave soon. */
	struct hanare_pool_make pool = { .limit = members + 1, .idle_ms = 20 };
	int fd = open("/dev/hanare", O_RDWR);

	need(fd >= 0 && !ioctl(fd, HANARE_IOCTL_POOL, &pool), "pool");
	need(dup2(fd, POOL) == POOL, "dup2");
	close(fd);
}

/* Has a child do something again and again until the time is up; how many had to be killed. */
static int again(uint64_t seed, enum kind kind, char **argv)
{
	int killed = 0, status;

	for (; now_ms() < until_ms; seed += 1000) {
		pid_t pid = fork();
		int naps = 0;

		if (!pid) {
			if (kind == JOINED)
				member(seed * 2654435761u);
			dup2(open("/dev/null", O_RDWR), 1);
			execvp("hanare-proxy", argv);
			_exit(127);
		}
		if (kind == TASKS)
			count(TASKS);
		for (; !waitpid(pid, &status, WNOHANG); usleep(NAP_US)) {
			if (now_ms() < until_ms || ++naps < LATE_NAPS)
				continue;
			killed++;
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			break;
		}
	}
	return killed;
}

int main(int argc, char **argv)
{
	char *proxy[64] = { "hanare-proxy", "--native", "--pool-fd=77", "--", argv[5] };
	int i, status, failed = 0, members, tasks;

	if (argc < 6 || argc > 50)
		return 2;
	members = atoi(argv[3]);
	tasks = atoi(argv[4]);
	memcpy(proxy + 5, argv + 5, (argc - 5) * sizeof(*argv));
	counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(counts != MAP_FAILED, "mmap");
	until_ms = now_ms() + atoi(argv[1]) * 1000;
	make_pool(members);
	fflush(stdout);
	for (i = 0; i < members + tasks; i++)
		if (!fork())
			_exit(again(atoi(argv[2]) + i, i < members ? JOINED : TASKS, proxy));
	while (wait(&status) > 0)
		failed |= status;
	printf("seed %s:", argv[2]);
	for (i = 0; i < KINDS; i++)
		printf(" %lu %s%s", (unsigned long)counts[i], kind_names[i], i + 1 < KINDS ? "," : "\n");
	return !!failed;
}
