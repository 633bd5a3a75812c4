// SPDX-License-Identifier: GPL-2.0
/*
 * Forged proxies: each attaches to the instance, starts a program, and serves it, truthfully for
 * the most part, so that it gets far, while threads and other processes spoil what they can reach:
 * answers, slots, start block, scratch pages, mappings, the descriptor, every ioctl in any order,
 * signals. One after the other, each with odds of its own, until the time is up; at the end of each
 * no process of it is left.
 *   forged SECONDS SEED FOLDER [HOW]          FOLDER: the programs (tests/guest/static). HOW: box:
 *                                             all of them go by the request box, and most of what
 *                                             is spoiled is that, slots, and bells; registers:
 *                                             their threads go to Linux, and are given back with
 *                                             any
 *   forged corrupt SECONDS SEED               writes into the control windows of other proxies of
 *                                             its user
 *   forged serve PROGRAM [ARGUMENT...]        serves a program and spoils nothing; with FORGED_BOX
 *                                             in the environment it goes by the request box
 * Prints what was tried, by kind. Exit status 3: a call or an end took more than 60 s.
 * Run it as a user whose processes may all be killed.
 */
#include "forged.h"
#include "spoil.h"
#include "lies.h"
#include "programs.h"

/* ---- serving, and lying ---- */

static void on_fault(int number)
{
	if (is_armed)
		siglongjmp(back, 1);
	_exit(123);
}

static void on_interrupt(int number)
{
}

static void publish_state(struct hanare_slot *slot, uint32_t state)
{
	__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&slot->lwk_wait, __ATOMIC_RELAXED) == HANARE_WAIT_AWAKE)
		return;
	call_module(HANARE_IOCTL_RING, (void *)(unsigned long)slot->bell);
}

static void publish(struct hanare_slot *slot, long result)
{
	slot->result = result;
	publish_state(slot, HANARE_SLOT_DONE);
}

/* Waits until the worker is asked; gives the slot's state. */
static uint32_t take_request(struct hanare_slot *slot, uint32_t number)
{
	for (;;) {
		int looks;

		for (looks = 0; looks < 20; looks++) {
			uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

			if (state & HANARE_SLOT_ASKED)
				return state;
			sched_yield();
		}
		slot->worker_wait = HANARE_WAIT_ASLEEP;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) & HANARE_SLOT_ASKED) &&
		    call_module(HANARE_IOCTL_WAIT, (void *)(unsigned long)number) && errno != EINTR) {
			if (errno == EIO)
				_exit(122);
			usleep(10000); /* the descriptor is not what it was */
		}
		slot->worker_wait = HANARE_WAIT_AWAKE;
	}
}

/* A lie about a request; `result`: what would be true. */
static void lie(struct hanare_slot *slot, long result)
{
	count(LIES);
	switch (below(8)) {
	case 0:
		publish_state(slot, HANARE_SLOT_NOT_STARTED);
		break;
	case 1:
		publish(slot, -(long)below(140));
		break;
	case 2:
		count(DOUBLES);
		publish(slot, result);
		usleep(below(2000));
		publish(slot, value());
		break;
	case 3:
		count(SILENCES);
		usleep(below(300000));
		publish(slot, result);
		break;
	case 4:
		slot->state = value();
		usleep(below(1000));
		publish(slot, value());
		break;
	case 5:
		slot->nr = value();
		slot->args[below(6)] = value();
		publish(slot, result);
		break;
	case 6:
		publish(slot, thread_id() + below(3) - 1);
		break;
	default:
		publish(slot, value());
	}
}

/* Serves a slot; returns where its worker ends. */
static void serve(uint32_t number)
{
	static char more[64];
	volatile int faults = 0;

	my_slot = number;
	snprintf(more, sizeof(more), "FORGED=%s", folder);
	if (sigsetjmp(back, 1)) {
		is_armed = 0;
		faults = faults + 1;
		if (faults > 50)
			_exit(121);
		/* A thread took the window away: here it is again. */
		usleep(below(20000));
		map_device(HANARE_CONTROL_BASE, HANARE_CONTROL_END);
	}
	for (;;) {
		struct hanare_slot *slot = slot_at(my_slot);
		uint64_t args[6];
		enum after after;
		int lies, i, is_call;
		uint32_t nr;
		long result;

		is_armed = 1;
		is_call = take_request(slot, my_slot) != HANARE_SLOT_CONTROL;
		nr = slot->nr;
		memcpy(args, slot->args, sizeof(args));
		apply_mask(slot->sigmask);
		count(SERVED);
		for (i = 0; i < 6; i++)
			if (args[i] > PAGE && args[i] < HANARE_CONTROL_END && !below(4))
				remember(args[i]);
		if (!is_call && (nr == HANARE_CONTROL_FORK || nr == HANARE_CONTROL_EXEC))
			shared->tokens[below(8)] = args[0];
		lies = shared->lies_one_in && !below(shared->lies_one_in);
		if (lies && !below(4)) {
			lie(slot, value()); /* without having done it */
			continue;
		}
		if (is_call && nr == HANARE_NR_MESSAGE && lies) {
			spoil_message((unsigned char *)args[0], args[1]);
			publish(slot, 0); /* executed, it says */
			continue;
		}
		if (is_call && nr == HANARE_NR_UTILITY) {
			count(UTILITIES);
			if (shared->lies_one_in && !below(4))
				publish(slot, spoil_registers(args));
			else
				publish(slot, -ENOSYS);
			continue;
		}
		after = execute(my_slot, is_call, nr, args, more, &result);
		if (after == ENDS)
			return;
		if (after == IS_CHILD) {
			count(CHILDREN);
			shared->spaces[below(8)] = space;
			if (below(2))
				start_thread(spoiler, NULL);
			continue;
		}
		if (lies)
			lie(slot, result);
		else
			publish(slot, result);
	}
}

/* A server has taken a call. */
static void answer_boxed(struct hanare_slot *slot, uint32_t nr, const uint64_t *args)
{
	int lies = shared->lies_one_in && !below(shared->lies_one_in);
	long result;

	count(BOXED);
	if (lies && !below(4)) {
		lie(slot, value());
		return;
	}
	if (nr == HANARE_NR_MESSAGE && lies) {
		spoil_message((unsigned char *)args[0], args[1]);
		publish(slot, 0);
		return;
	}
	result = linux_call(nr, args);
	slot->ended_by_signal = lies ? below(2) : result == -EINTR;
	slot->server = lies ? below(1 << 16) : 0;
	if (lies)
		lie(slot, result);
	else
		publish(slot, result);
}

static void *server(void *argument)
{
	uint32_t own = (uintptr_t)argument, number = (uintptr_t)argument >> 32;
	volatile int faults = 0;

	count(SERVERS);
	my_slot = own;
	apply_mask(~0ULL);
	servers[number].tid = thread_id();
	slot_at(own)->tid = thread_id();
	if (sigsetjmp(back, 1)) {
		/* A thread took the window away: here it is again. */
		is_armed = 0;
		faults = faults + 1;
		if (faults > 1000)
			_exit(121);
		usleep(below(20000));
		map_device(HANARE_CONTROL_BASE, HANARE_CONTROL_END);
	}
	is_armed = 1;
	serve_box(own, number);
	is_armed = 0;
	return NULL;
}

static void *worker(void *argument)
{
	uint32_t number = (uintptr_t)argument;

	if (sigsetjmp(back, 1))
		return NULL;
	is_armed = 1;
	serve_as_worker(number);
	if ((uintptr_t)argument >> 32)
		publish(slot_at(number), 0);
	serve(number);
	is_armed = 0;
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

/* ---- a proxy ---- */

static void limit(int what, unsigned long value)
{
	struct rlimit limit = { value, value };

	setrlimit(what, &limit);
}

static void prepare(void)
{
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	struct sigaction interrupt = { .sa_handler = on_interrupt };

	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGUSR1, &interrupt, NULL);
	signal(SIGPIPE, SIG_IGN);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 1 << 20);
	limit(RLIMIT_NPROC, 600);
	find_own();
}

static void damage_start(void)
{
	volatile uint64_t *block = (void *)HANARE_START_BASE;
	int words;

	count(BAD_STARTS);
	for (words = 1 + below(3); words; words--)
		switch (below(3)) {
		case 0:
			block[below(5)] = value();
			break;
		case 1:
			((volatile uint32_t *)block)[below(sizeof(struct hanare_start_block) / 4)] = value();
			break;
		default:
			block[below(64)] = value();
		}
}

static void proxy(void)
{
	struct hanare_attach how = { .fd = DEVICE_FD };
	int i;

	int null = open("/dev/null", O_RDWR);

	state = 0;
	setsid();
	prctl(PR_SET_DUMPABLE, 1);
	for (i = 0; i < 3; i++)
		dup2(null, i);
	close(null);
	prepare();
	start_flags = shared->spoils_box || !below(3) ? HANARE_START_BOX : 0;
	if (!below(12)) {
		count(BAD_ATTACHES);
		make_plausible(HANARE_IOCTL_ATTACH, buffers);
		how = buffers->attach;
		for (i = below(3); i; i--)
			((volatile uint64_t *)&how)[below(sizeof(how) / 8)] = value();
	}
	if (open_device())
		_exit(119);
	attach(&how);
	shared->spaces[below(8)] = space;
	is_armed = 1;
	if (sigsetjmp(back, 1))
		map_around(HANARE_USER_MIN, HANARE_CONTROL_END);
	else if (below(10))
		map_around(HANARE_USER_MIN, HANARE_CONTROL_END);
	else if (below(2))
		map_around(HANARE_CONTROL_BASE, HANARE_CONTROL_END);
	choose_program();
	for (i = 0; i < SPOILERS; i++)
		start_thread(spoiler, NULL);
	slot_at(0)->tid = thread_id();
	if (!below(5))
		damage_start();
	if (!call_module(HANARE_IOCTL_START, NULL))
		count(PROGRAMS);
	serve(0);
	_exit(0);
}

/* The proxy goes on as another image, which Linux has loaded in place of a program. */
static void go_on(const char *option)
{
	prepare();
	if (resume(option))
		_exit(118);
	count(IMAGES);
	shared->spaces[below(8)] = space;
	is_armed = 0;
	if (below(2))
		start_thread(spoiler, NULL);
	worker(NULL);
	_exit(0);
}

/* Writes into the slots of the first page that their worker is the task `argument`. */
static void *pretend(void *argument)
{
	uint32_t number;

	for (;;)
		for (number = 0; number < PAGE / sizeof(struct hanare_slot); number++)
			if (slot_at(number)->tid)
				slot_at(number)->tid = (uintptr_t)argument;
	return NULL;
}

static int serve_well(char **argv)
{
	const char *pretended = getenv("FORGED_TID");
	struct hanare_attach how = { .fd = DEVICE_FD };

	shared->pace_us = UINT32_MAX;
	prepare();
	if (open_device() || attach(&how) || map_around(HANARE_USER_MIN, HANARE_CONTROL_END)) {
		perror((char *)how.message);
		return 1;
	}
	start_flags = getenv("FORGED_BOX") ? HANARE_START_BOX : 0;
	write_start(argv, environment);
	slot_at(0)->tid = thread_id();
	if (pretended)
		start_thread(pretend, (void *)strtoul(pretended, NULL, 10));
	if (call_module(HANARE_IOCTL_START, NULL)) {
		perror("START");
		return 1;
	}
	if (pretended && !stranger_is_refused()) {
		fprintf(stderr, "a process that the LWK does not know has named a worker\n");
		return 1;
	}
	serve(0);
	return 1;
}

/* ---- the supervisor ---- */

static int stat_of(const char *pid, char *kind, int *parent, int *session)
{
	char path[64], text[512] = "", *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	read(fd, text, sizeof(text) - 1);
	close(fd);
	at = strrchr(text, ')');
	return at && sscanf(at + 1, " %c %d %*d %d", kind, parent, session) == 3;
}

/* Kills all that the proxy has left, in its session or orphaned; answers how many are there. */
static int kill_left(int tells)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	int left = 0, parent, session;
	char kind;

	while ((entry = readdir(processes))) {
		int pid = atoi(entry->d_name);

		if (pid <= 0 || pid == getpid() || !stat_of(entry->d_name, &kind, &parent, &session))
			continue;
		if (session != shared->leader && parent != getpid())
			continue;
		left++;
		kill(pid, SIGKILL);
		if (tells)
			printf("process %d is still there, state %c, parent %d\n", pid, kind, parent);
	}
	closedir(processes);
	return left;
}

static void name_late(uint64_t now)
{
	int i;
	size_t at;

	for (i = 0; i < MARKS; i++) {
		struct mark mark = shared->marks[i];

		if (!mark.since_ms || now < mark.since_ms + LATE_MS || mark.command == HANARE_IOCTL_WAIT)
			continue;
		for (at = 0; at < COMMANDS - 1 && commands[at] != mark.command; at++)
			;
		printf("%s (%x) of thread %d has not returned in %lu ms\n", command_names[at], mark.command, mark.tid,
		       (unsigned long)(now - mark.since_ms));
	}
}

/* One proxy from its beginning until nothing of it is left; answers how long its end took. */
static uint64_t one(uint64_t life_ms)
{
	static const uint32_t odds[] = { 0, 300, 100, 30, 10 }, paces[] = { 20000, 5000, 1000, 200, 50 };
	uint64_t began, told = 0;
	pid_t leader;

	/* Of boxes rather what is written into them. */
	shared->lies_one_in = odds[below(shared->spoils_box ? 2 : 5)];
	shared->pace_us = paces[below(5)];
	if (shared->spoils_registers) {
		shared->lies_one_in = 10000;
		shared->pace_us = 1000000;
	}
	shared->until_ms = now_ms() + life_ms;
	memset(shared->marks, 0, sizeof(shared->marks));
	fflush(stdout);
	leader = fork();
	if (!leader)
		proxy();
	shared->leader = leader;
	/* Often without its first process, too. */
	while (now_ms() < shared->until_ms + 300 && (waitpid(leader, NULL, WNOHANG | __WALL) != leader || !below(4)))
		usleep(10000);
	began = now_ms();
	do {
		uint64_t now = now_ms();
		int tells = now > began + LATE_MS && now > told + LATE_MS;

		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			;
		if (!kill_left(tells) && waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD)
			return now - began;
		if (tells) {
			told = now;
			name_late(now);
			fflush(stdout);
		}
		usleep(5000);
	} while (now_ms() < began + TOO_LATE_MS);
	printf("no end in %d ms\n", TOO_LATE_MS);
	fflush(stdout);
	_exit(3);
}

static void report(unsigned int proxies, uint64_t slowest)
{
	size_t i;

	printf("seed %lu: %u proxies, slowest end %lu ms", (unsigned long)shared->seed, proxies, (unsigned long)slowest);
	for (i = 0; i < KINDS; i++)
		printf(", %lu %s", (unsigned long)shared->counts[i], kind_names[i]);
	printf("\nioctls of seed %lu:", (unsigned long)shared->seed);
	for (i = 0; i < COMMANDS; i++)
		printf(" %s %lu", command_names[i], (unsigned long)shared->ioctls[i]);
	printf("\n");
}

static void share_with_all(int fd)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		_exit(117);
}

static void supervise(uint64_t seconds)
{
	uint64_t slowest = 0, end, took;
	unsigned int proxies = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* No process of this user may stop or trace it. */
	prctl(PR_SET_DUMPABLE, 0);
	for (end = now_ms() + 1000 * seconds; now_ms() < end; proxies++) {
		took = one(500 + below(shared->spoils_registers ? 500 : below(4) ? 3000 : 8000));
		slowest = took > slowest ? took : slowest;
	}
	report(proxies, slowest);
}

static void corrupt(uint64_t seconds)
{
	uint64_t end = now_ms() + 1000 * seconds;

	while (now_ms() < end) {
		spoil_window_of_others();
		usleep(below(20000));
	}
	printf("seed %lu: %lu words in windows of others\n", (unsigned long)shared->seed,
	       (unsigned long)shared->counts[WINDOWS_OF_OTHERS]);
}

int main(int argc, char **argv)
{
	int fd, corrupts = argc == 4 && !strcmp(argv[1], "corrupt");

	if (getenv("HANARE_RESUME")) {
		share_with_all(SHARED_FD);
		folder = getenv("FORGED") ? getenv("FORGED") : "";
		go_on(getenv("HANARE_RESUME"));
	}
	if (argc < 3) {
		fprintf(stderr, "usage: see the head of forged.c\n");
		return 2;
	}
	fd = memfd_create("forged", MFD_ALLOW_SEALING);
	ftruncate(fd, sizeof(*shared));
	/* The programs inherit it, and a random ftruncate(2) would end the supervisor by SIGBUS. */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	dup2(fd, SHARED_FD);
	share_with_all(SHARED_FD);
	shared->seed = atol(argv[2]);
	shared->supervisor = getpid();
	if (!strcmp(argv[1], "serve"))
		return serve_well(argv + 2);
	if (corrupts) {
		shared->seed = atol(argv[3]);
		corrupt(atol(argv[2]));
		return 0;
	}
	folder = argv[3];
	shared->spoils_box = argc == 5 && !strcmp(argv[4], "box");
	shared->spoils_registers = argc == 5 && !strcmp(argv[4], "registers");
	supervise(atol(argv[1]));
	return 0;
}
