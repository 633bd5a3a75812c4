/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Calls: arguments and results, flags, batches, chains, keys, cancellation, refusals. */
#include "harness.h"

#include <sys/resource.h>

static void arguments_and_results_are_those_of_the_call(void)
{
	hanare_queue *queue = queue_of(NULL);
	char from[64] = "what was written", to[64] = "";
	int fd = fresh_file();
	off_t copied = 0;

	HOLDS(result_of(queue, hanare_submit(queue, SYS_pwrite64, fd, from, sizeof(from), 100)) == 64);
	HOLDS(result_of(queue, hanare_submit(queue, SYS_pread64, fd, to, sizeof(to), 100)) == 64);
	HOLDS(strcmp(from, to) == 0);
	HOLDS(result_of(queue, hanare_submit(queue, SYS_lseek, fd, -4, SEEK_END)) == 160);
	HOLDS(result_of(queue, hanare_submit(queue, SYS_fallocate, fd, 0, 4096, 4096)) == 0);
	/* Six arguments. */
	HOLDS(result_of(queue, hanare_submit(queue, SYS_copy_file_range, fd, &copied, fd, (off_t[]){ 8192 }, 100, 0)) == 100);
	HOLDS(copied == 100);
	errno = 77;
	HOLDS(result_of(queue, hanare_submit(queue, SYS_close, -1)) == -EBADF);
	HOLDS(result_of(queue, hanare_submit(queue, SYS_read, fd, (char *)8, 1)) == -EFAULT);
	HOLDS(errno == 77);
	hanare_queue_destroy(queue);
}

static void a_descriptor_that_a_call_opened_can_be_mapped(void)
{
	hanare_queue *queue = queue_of(NULL);
	int64_t fd = result_of(queue, hanare_submit(queue, SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY));
	char *bytes = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, (int)fd, 0);

	HOLDS(fd >= 0 && bytes != MAP_FAILED && memcmp(bytes, "\177ELF", 4) == 0);
	HOLDS(result_of(queue, hanare_submit(queue, SYS_close, fd)) == 0);
	HOLDS(bytes[1] == 'E' && munmap(bytes, 4096) == 0);
	hanare_queue_destroy(queue);
}

static void bad_submissions_are_refused(void)
{
	hanare_queue *queue = queue_of(NULL);

	HOLDS(hanare_submit(queue, 100000) == -EINVAL);
	HOLDS(hanare_submit(queue, 511) == -EINVAL);
	HOLDS(hanare_submit(queue, SYS_getppid | 1u << 21) == -EINVAL);
	HOLDS(hanare_submit(queue, SYS_getppid | UINT64_C(1) << 40) == -EINVAL);
	HOLDS(hanare_submit(queue, SYS_getppid | HANARE_DETACH | HANARE_NEXT) == -EINVAL);
	HOLDS(hanare_call(queue, SYS_getppid, abort) == -EINVAL);
	HOLDS(hanare_call(queue, 0, NULL) == -EINVAL);
	HOLDS(hanare_submit_chain(queue, 0, NULL, 1) == -EINVAL);
	HOLDS(hanare_submit_chain(queue, 0, (struct hanare_link[1]){ 0 }, 0) == -EINVAL);
	hanare_queue_destroy(queue);
}

static void local_calls_are_refused_with_the_reason(void)
{
	hanare_queue *queue = queue_of(NULL);
	static const int local[] = { SYS_mmap, SYS_munmap, SYS_brk, SYS_clone, SYS_execve, SYS_exit_group, SYS_rt_sigaction,
				     SYS_futex, SYS_nanosleep, SYS_clock_gettime, SYS_getpid, SYS_prctl, SYS_ptrace };

	for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++) {
		HOLDS(hanare_submit(queue, local[i]) == -EINVAL);
		HOLDS(hanare_why(local[i]) && strlen(hanare_why(local[i])) > 10);
		HOLDS(hanare_may_submit(local[i]) == 0);
	}
	HOLDS(hanare_why(SYS_write) == NULL && hanare_may_submit(SYS_write) == 2);
	HOLDS(hanare_why(SYS_ioctl) == NULL && hanare_why(SYS_fcntl) == NULL && hanare_why(SYS_fsync) == NULL);
	HOLDS(hanare_why(SYS_setuid) && hanare_may_submit(SYS_setuid) == 1);
	HOLDS(hanare_why(-1) && hanare_why(1000) && hanare_may_submit(-1) == 0 && hanare_may_submit(1000) == 0);
	hanare_queue_destroy(queue);
}

/* Such calls are made by the thread that posts them. */
static void calls_that_act_on_the_caller_do(void)
{
	hanare_queue *queue = queue_of(NULL);
	struct hanare_completion next;
	int error = 0, before = (int)syscall(SYS_setfsuid, -1);

	HOLDS(result_of(queue, hanare_submit(queue, SYS_setfsuid, -1)) == before);
	HOLDS(result_of(queue, hanare_submit(queue, SYS_umask, 0123)) >= 0);
	HOLDS(umask(022) == 0123);
	HOLDS(hanare_submit(queue, SYS_getpriority | HANARE_NEXT, PRIO_PROCESS, 0) > 0);
	HOLDS(hanare_next(queue, &next, LATE) == 0 && next.result >= 1 && next.result <= 40);
	HOLDS(hanare_submit(queue, SYS_chdir | HANARE_DETACH, "/no such") == 0);
	HOLDS(hanare_errors(queue, &error) == 1 && error == ENOENT);
	hanare_queue_destroy(queue);
}

static void errors_without_ticket_are_counted(void)
{
	hanare_queue *queue = queue_of(NULL);
	int error = 0;

	HOLDS(hanare_errors(queue, &error) == 0 && error == 0);
	for (int i = 0; i < 1000; i++)
		HOLDS(hanare_submit(queue, SYS_close | HANARE_DETACH | HANARE_BLOCK, i % 2 ? -1 : dup(0)) == 0);
	HOLDS(hanare_drain(queue, LATE) == 0);
	HOLDS(hanare_errors(queue, &error) == 500 && error == EBADF);
	hanare_queue_destroy(queue);
}

static void a_batch_posts_as_many_as_there_is_room_for(void)
{
	for (uint32_t flags = 0; flags <= HANARE_MULTI_PRODUCER; flags++) {
		struct hanare_attributes attributes = attributes_of(8, 1);
		struct hanare_request requests[12];
		hanare_ticket tickets[12];
		hanare_queue *queue;
		int fd = fresh_file();
		char bytes[13] = "";

		attributes.flags = flags;
		queue = queue_of(&attributes);
		for (int i = 0; i < 12; i++)
			requests[i] = (struct hanare_request){ SYS_pwrite64, { (uint64_t)fd, (uint64_t)&"abcdefghijkl"[i], 1, (uint64_t)i } };
		HOLDS(hanare_submit_batch(queue, requests, 12, tickets) == 8);
		HOLDS(hanare_submit_batch(queue, requests + 8, 4, tickets + 8) == -EAGAIN);
		for (int i = 0; i < 8; i++)
			HOLDS(result_of(queue, tickets[i]) == 1);
		requests[8].what |= HANARE_DETACH;
		requests[10].what = SYS_brk;
		HOLDS(hanare_submit_batch(queue, requests + 8, 4, tickets + 8) == 2);
		HOLDS(tickets[8] == 0 && result_of(queue, tickets[9]) == 1);
		HOLDS(hanare_submit_batch(queue, requests + 10, 2, tickets + 10) == -EINVAL);
		HOLDS(hanare_submit_batch(queue, requests, 0, NULL) == 0);
		HOLDS(hanare_drain(queue, LATE) == 0);
		HOLDS(pread(fd, bytes, 12, 0) == 10 && strcmp(bytes, "abcdefghij") == 0);
		hanare_queue_destroy(queue);
	}
}

/* The first call waits for the second one, and the poster wakes one worker for both. */
static void a_batch_wakes_as_many_workers_as_it_needs(void)
{
	struct hanare_attributes attributes = attributes_of(8, 2);
	hanare_ticket tickets[2];
	hanare_queue *queue;
	int pipes[2];
	char byte;

	attributes.spin_ns = 0;
	queue = queue_of(&attributes);
	HOLDS(pipe(pipes) == 0);
	for (int round = 0; round < 20; round++) {
		struct hanare_request requests[2] = {
			{ SYS_read, { (uint64_t)pipes[0], (uint64_t)&byte, 1 } },
			{ SYS_write, { (uint64_t)pipes[1], (uint64_t)"x", 1 } },
		};

		nap(10000000);
		HOLDS(hanare_submit_batch(queue, requests, 2, tickets) == 2);
		for (int i = 0; i < 2; i++)
			HOLDS(result_of(queue, tickets[i]) == 1);
	}
	hanare_queue_destroy(queue);
}

static void a_chain_hands_results_on(void)
{
	hanare_queue *queue = queue_of(NULL);
	char bytes[5] = "";
	struct hanare_link links[] = {
		{ .nr = SYS_openat, .args = { (uint64_t)AT_FDCWD, (uint64_t)"/proc/self/exe", O_RDONLY } },
		{ .nr = SYS_read, .from = { 1 }, .args = { 0, (uint64_t)bytes, 4 } },
		{ .nr = SYS_close, .from = { 1 }, .flags = HANARE_LINK_ALWAYS },
	};

	HOLDS(result_of(queue, hanare_submit_chain(queue, 0, links, 3)) == 0);
	HOLDS(links[0].result >= 0 && links[1].result == 4 && links[2].result == 0);
	HOLDS(memcmp(bytes, "\177ELF", 4) == 0 && fcntl((int)links[0].result, F_GETFD) == -1);
	/* A middle one fails: the next are not made, but for those that are always made. */
	links[1].args[1] = 8;
	HOLDS(result_of(queue, hanare_submit_chain(queue, 0, links, 3)) == -EFAULT);
	HOLDS(links[1].result == -EFAULT && links[2].result == 0 && fcntl((int)links[0].result, F_GETFD) == -1);
	links[2].flags = 0;
	HOLDS(result_of(queue, hanare_submit_chain(queue, 0, links, 3)) == -EFAULT);
	HOLDS(links[2].result == -ECANCELED && close((int)links[0].result) == 0);
	/* The first fails: what takes its result is not made either. */
	links[0].args[1] = (uint64_t)"/no such";
	links[2].flags = HANARE_LINK_ALWAYS;
	HOLDS(result_of(queue, hanare_submit_chain(queue, 0, links, 3)) == -ENOENT);
	HOLDS(links[1].result == -ECANCELED && links[2].result == -ECANCELED);
	/* Results of later links, calls that workers do not make. */
	links[1].from[0] = 2;
	HOLDS(hanare_submit_chain(queue, 0, links, 3) == -EINVAL);
	links[1].from[0] = 1;
	links[1].nr = SYS_setuid;
	HOLDS(hanare_submit_chain(queue, 0, links, 3) == -EINVAL);
	links[1].nr = SYS_mmap;
	HOLDS(hanare_submit_chain(queue, 0, links, 3) == -EINVAL);
	hanare_queue_destroy(queue);
}

static void calls_of_one_key_are_made_in_order(void)
{
	struct hanare_attributes attributes = attributes_of(256, 4);
	static char bytes[4][5001];
	const int each = ROUNDS(5000);
	hanare_queue *queue;
	int fds[4];

	attributes.flags = HANARE_BLOCKING;
	queue = queue_of(&attributes);
	for (int i = 0; i < 4; i++)
		fds[i] = fresh_file();
	for (int i = 0; i < 4 * each; i++) {
		const char *byte = &"0123456789"[i / 4 % 10];

		HOLDS(hanare_submit(queue, SYS_write | HANARE_DETACH | HANARE_KEY(fds[i % 4]), fds[i % 4], byte, 1) == 0);
	}
	HOLDS(hanare_drain(queue, 3 * LATE) == 0);
	for (int i = 0; i < 4; i++) {
		HOLDS(pread(fds[i], bytes[i], 5001, 0) == each);
		for (int j = 0; j < each; j++)
			HOLDS(bytes[i][j] == '0' + j % 10);
	}
	hanare_queue_destroy(queue);
}

static void what_is_queued_and_cancelled_never_begins(void)
{
	for (uint32_t flags = 0; flags <= HANARE_MULTI_PRODUCER; flags++) {
		struct hanare_attributes attributes = attributes_of(4, 1);
		hanare_queue *queue;
		hanare_ticket first, second, third;
		struct hanare_completion next;
		int fd = fresh_file(), pipes[2];
		int64_t result;
		char byte;

		attributes.flags = flags;
		queue = queue_of(&attributes);
		HOLDS(pipe(pipes) == 0);
		first = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
		second = hanare_submit(queue, SYS_write, fd, "x", 1);
		third = hanare_submit(queue, SYS_write | HANARE_NEXT, fd, "x", 1);
		HOLDS(hanare_cancel(queue, second) == 0 && hanare_cancel(queue, second) == 0);
		HOLDS(hanare_cancel(queue, third) == 0);
		HOLDS(hanare_wait(queue, second, &result, 0) == 0 && result == -ECANCELED);
		HOLDS(hanare_poll(queue, second, &result) == -EINVAL);
		HOLDS(write(pipes[1], "x", 1) == 1 && result_of(queue, first) == 1);
		HOLDS(hanare_next(queue, &next, LATE) == 0 && next.ticket == third && next.result == -ECANCELED);
		HOLDS(hanare_drain(queue, LATE) == 0 && lseek(fd, 0, SEEK_END) == 0);
		/* All credits are there again. */
		for (int i = 0; i < 4; i++)
			HOLDS(hanare_submit(queue, SYS_getppid) > 0);
		HOLDS(hanare_submit(queue, SYS_getppid) == -EAGAIN);
		hanare_queue_destroy(queue);
	}
}

static void a_call_that_waits_is_interrupted(void)
{
	hanare_queue *queue = queue_of(NULL);
	int pipes[2];
	char byte;

	HOLDS(pipe(pipes) == 0);
	for (int i = 0; i < ROUNDS(300); i++) {
		hanare_ticket ticket = hanare_submit(queue, SYS_read, pipes[0], &byte, 1), next;
		int64_t result;
		int cancelled;

		if (i % 3 == 0)
			nap(100000);
		cancelled = hanare_cancel(queue, ticket);
		HOLDS(cancelled == 0 || cancelled == -EINPROGRESS);
		next = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
		HOLDS(hanare_wait(queue, ticket, &result, LATE) == 0);
		HOLDS(result == (cancelled ? -EINTR : -ECANCELED));
		/* The next call is not. */
		HOLDS(hanare_wait(queue, next, &result, 300000) == -ETIMEDOUT);
		HOLDS(write(pipes[1], "x", 1) == 1 && result_of(queue, next) == 1);
		HOLDS(hanare_cancel(queue, next) == -EINVAL);
	}
	hanare_queue_destroy(queue);
}

static void what_is_done_is_not_cancelled(void)
{
	hanare_queue *queue = queue_of(NULL);
	hanare_ticket ticket = hanare_submit(queue, SYS_getppid);

	HOLDS(hanare_drain(queue, LATE) == 0 && hanare_cancel(queue, ticket) == -EALREADY);
	HOLDS(result_of(queue, ticket) == getppid());
	hanare_queue_destroy(queue);
}

static void *cancel_later(void *argument)
{
	void **pair = argument;

	nap(SECOND / 20);
	HOLDS(hanare_cancel(pair[0], (hanare_ticket)pair[1]) == 0);
	return NULL;
}

static void who_waits_for_what_is_cancelled_is_woken(void)
{
	struct hanare_attributes attributes = attributes_of(8, 1);
	hanare_queue *queue;
	int pipes[2];
	char byte;
	void *pair[2];
	pthread_t thread;
	int64_t result;
	hanare_ticket first;

	attributes.flags = HANARE_MULTI_PRODUCER;
	queue = queue_of(&attributes);
	HOLDS(pipe(pipes) == 0);
	first = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
	pair[0] = queue;
	pair[1] = (void *)hanare_submit(queue, SYS_getppid);
	HOLDS(pthread_create(&thread, NULL, cancel_later, pair) == 0);
	HOLDS(hanare_wait(queue, (hanare_ticket)pair[1], &result, HANARE_FOREVER) == 0 && result == -ECANCELED);
	pthread_join(thread, NULL);
	HOLDS(write(pipes[1], "x", 1) == 1 && result_of(queue, first) == 1);
	hanare_queue_destroy(queue);
}

static void write_to_nobody(void *unused)
{
	hanare_queue *queue = queue_of(NULL);
	int pipes[2];

	(void)unused;
	HOLDS(pipe(pipes) == 0 && close(pipes[0]) == 0);
	result_of(queue, hanare_submit(queue, SYS_write, pipes[1], "x", 1));
}

static void ignore_and_write(void *unused)
{
	hanare_queue *queue;
	int pipes[2];

	(void)unused;
	signal(SIGPIPE, SIG_IGN);
	queue = queue_of(NULL);
	HOLDS(pipe(pipes) == 0 && close(pipes[0]) == 0);
	HOLDS(result_of(queue, hanare_submit(queue, SYS_write, pipes[1], "x", 1)) == -EPIPE);
}

static void sigpipe_acts_as_in_any_thread(void)
{
	int status = status_of(write_to_nobody, NULL);

	HOLDS(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
	HOLDS(status_of(ignore_and_write, NULL) == 0);
}

static atomic_int handled;

static void handle(int signal)
{
	(void)signal;
	atomic_fetch_add(&handled, 1);
}

static void signals_of_the_program_do_not_interrupt_posted_calls(void)
{
	struct sigaction action = { .sa_handler = handle };
	hanare_queue *queue = queue_of(NULL);
	int pipes[2];
	hanare_ticket ticket;
	int64_t result;
	char byte;

	sigaction(SIGUSR1, &action, NULL);
	HOLDS(pipe(pipes) == 0);
	ticket = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
	for (int i = 0; i < 50; i++) {
		kill(getpid(), SIGUSR1);
		HOLDS(hanare_wait(queue, ticket, &result, 1000000) == -ETIMEDOUT);
	}
	HOLDS(atomic_load(&handled) > 0);
	HOLDS(write(pipes[1], "x", 1) == 1 && result_of(queue, ticket) == 1);
	hanare_queue_destroy(queue);
}

static void the_signal_can_be_chosen_before_the_first_queue(void)
{
	hanare_queue *queue;

	HOLDS(hanare_set_signal(SIGUSR1) == -EINVAL && hanare_set_signal(1000) == -EINVAL);
	HOLDS(hanare_set_signal(SIGRTMIN + 3) == 0);
	queue = queue_of(NULL);
	HOLDS(hanare_set_signal(SIGRTMIN + 4) == -EBUSY);
	hanare_queue_destroy(queue);
	a_call_that_waits_is_interrupted();
}

#define TEST(name) { #name, name }

const struct test call_tests[] = {
	TEST(arguments_and_results_are_those_of_the_call),
	TEST(a_descriptor_that_a_call_opened_can_be_mapped),
	TEST(bad_submissions_are_refused),
	TEST(local_calls_are_refused_with_the_reason),
	TEST(calls_that_act_on_the_caller_do),
	TEST(errors_without_ticket_are_counted),
	TEST(a_batch_posts_as_many_as_there_is_room_for),
	TEST(a_batch_wakes_as_many_workers_as_it_needs),
	TEST(a_chain_hands_results_on),
	TEST(calls_of_one_key_are_made_in_order),
	TEST(what_is_queued_and_cancelled_never_begins),
	TEST(a_call_that_waits_is_interrupted),
	TEST(what_is_done_is_not_cancelled),
	TEST(who_waits_for_what_is_cancelled_is_woken),
	TEST(sigpipe_acts_as_in_any_thread),
	TEST(signals_of_the_program_do_not_interrupt_posted_calls),
	TEST(the_signal_can_be_chosen_before_the_first_queue),
	{ 0 },
};
