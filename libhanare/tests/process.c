/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What becomes of what was posted when the process forks, executes another program, or ends. */
#include "harness.h"

#include <sys/uio.h>

static int ended_with(int status, int code)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

/* Three calls of the parent's in flight: one runs, one is done, one is queued. */
struct flight {
	hanare_queue *queue;
	hanare_ticket done, running, queued;
	int pipes[2], fd;
	char byte;
};

static void take_off(struct flight *flight, uint32_t flags)
{
	struct hanare_attributes attributes = attributes_of(8, 1);

	attributes.flags = flags;
	flight->queue = queue_of(&attributes);
	flight->fd = fresh_file();
	HOLDS(pipe(flight->pipes) == 0);
	flight->done = hanare_submit(flight->queue, SYS_getppid);
	HOLDS(hanare_drain(flight->queue, LATE) == 0);
	flight->running = hanare_submit(flight->queue, SYS_read, flight->pipes[0], &flight->byte, 1);
	flight->queued = hanare_submit(flight->queue, SYS_write, flight->fd, "x", 1);
	nap(SECOND / 100);
}

static void use_in_child(void *argument)
{
	struct flight *flight = argument;
	int64_t result;

	HOLDS(hanare_poll(flight->queue, flight->queued, &result) == -EINVAL);
	HOLDS(hanare_wait(flight->queue, flight->running, &result, 0) == -EINVAL);
	HOLDS(hanare_cancel(flight->queue, flight->running) == -EINVAL);
	/* It is empty, and works: with workers of the child. */
	for (int i = 0; i < 100; i++)
		HOLDS(result_of(flight->queue, hanare_submit(flight->queue, SYS_getppid)) == getppid());
	HOLDS(result_of(flight->queue, hanare_submit(flight->queue, SYS_getppid | HANARE_KEY(3))) == getppid());
	for (int i = 0; i < 8; i++)
		HOLDS(hanare_submit(flight->queue, SYS_getppid) > 0);
	HOLDS(hanare_submit(flight->queue, SYS_getppid) == -EAGAIN);
	HOLDS(hanare_queue_destroy(flight->queue) == 0);
}

static void destroy_in_child(void *argument)
{
	struct flight *flight = argument;

	HOLDS(hanare_queue_destroy(flight->queue) == 0);
}

static void fork_again(void *argument)
{
	struct flight *flight = argument;

	HOLDS(result_of(flight->queue, hanare_submit(flight->queue, SYS_getppid)) == getppid());
	HOLDS(status_of(use_in_child, argument) == 0);
	HOLDS(result_of(flight->queue, hanare_submit(flight->queue, SYS_getppid)) == getppid());
}

static void after_a_fork_what_was_posted_is_the_parents(void)
{
	for (uint32_t flags = 0; flags <= HANARE_MULTI_PRODUCER; flags++) {
		struct flight flight;

		take_off(&flight, flags);
		HOLDS(status_of(use_in_child, &flight) == 0);
		HOLDS(status_of(destroy_in_child, &flight) == 0);
		HOLDS(status_of(fork_again, &flight) == 0);
		HOLDS(lseek(flight.fd, 0, SEEK_END) == 0);
		HOLDS(result_of(flight.queue, flight.done) == getppid());
		HOLDS(write(flight.pipes[1], "y", 1) == 1);
		HOLDS(result_of(flight.queue, flight.running) == 1 && flight.byte == 'y');
		HOLDS(result_of(flight.queue, flight.queued) == 1 && lseek(flight.fd, 0, SEEK_END) == 1);
		hanare_queue_destroy(flight.queue);
	}
}

static void sleep_in_child(void *argument)
{
	hanare_queue *queue = argument;
	char byte;
	int pipes[2];
	int64_t result;
	hanare_ticket ticket;

	HOLDS(pipe(pipes) == 0);
	ticket = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
	HOLDS(hanare_wait(queue, ticket, &result, SECOND / 20) == -ETIMEDOUT);
	HOLDS(hanare_submit(queue, SYS_getppid | HANARE_NEXT) > 0);
	HOLDS(hanare_eventfd(queue) >= 0);
	HOLDS(write(pipes[1], "x", 1) == 1 && result_of(queue, ticket) == 1);
	HOLDS(hanare_next(queue, &(struct hanare_completion){ 0 }, LATE) == 0);
}

static void parent_and_child_do_not_wake_each_other(void)
{
	struct hanare_attributes attributes = attributes_of(8, 1);
	hanare_queue *queue;

	attributes.spin_ns = attributes.wait_spin_ns = 1000;
	queue = queue_of(&attributes);
	HOLDS(hanare_eventfd(queue) >= 0);
	sleep_in_child(queue);
	HOLDS(status_of(sleep_in_child, queue) == 0);
	sleep_in_child(queue);
	hanare_queue_destroy(queue);
}

static void execute_true(void *argument)
{
	struct flight flight;

	(void)argument;
	take_off(&flight, 0);
	execl("/bin/sh", "sh", "-c", "exit 7", NULL);
}

static void execve_ends_calls_in_flight(void)
{
	HOLDS(ended_with(status_of(execute_true, NULL), 7));
}

static void exit_in_flight(void *argument)
{
	struct flight flight;

	take_off(&flight, *(uint32_t *)argument);
	exit(8);
}

static void exit_does_not_wait(void)
{
	uint32_t flags = 0;

	HOLDS(ended_with(status_of(exit_in_flight, &flags), 8));
	flags = HANARE_MULTI_PRODUCER;
	HOLDS(ended_with(status_of(exit_in_flight, &flags), 8));
}

static void write_and_exit(void *argument)
{
	struct hanare_attributes attributes = attributes_of(1024, 1);
	hanare_queue *queue = queue_of(&attributes);
	struct timespec pause = { 0, 20000000 };

	HOLDS(hanare_call(queue, HANARE_DETACH, nanosleep, &pause, NULL) == 0);
	for (int i = 0; i < 1000; i++)
		HOLDS(hanare_submit(queue, SYS_write | HANARE_DETACH | HANARE_AT_EXIT, *(int *)argument, "x", 1) == 0);
	exit(9);
}

static void write_and_end_at_once(void *argument)
{
	struct hanare_attributes attributes = attributes_of(1024, 1);
	hanare_queue *queue = queue_of(&attributes);
	struct timespec pause = { 1000, 0 };

	HOLDS(hanare_call(queue, HANARE_DETACH, nanosleep, &pause, NULL) == 0);
	for (int i = 0; i < 1000; i++)
		HOLDS(hanare_submit(queue, SYS_write | HANARE_DETACH | HANARE_AT_EXIT, *(int *)argument, "x", 1) == 0);
	_exit(9);
}

static void exit_waits_for_what_says_so(void)
{
	int fd = fresh_file();

	HOLDS(ended_with(status_of(write_and_exit, &fd), 9));
	HOLDS(lseek(fd, 0, SEEK_END) == 1000);
	HOLDS(ended_with(status_of(write_and_end_at_once, &fd), 9));
	HOLDS(lseek(fd, 0, SEEK_END) == 1000);
}

static long forks(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(11);
	return waitpid(pid, &status, 0) == pid && ended_with(status, 11);
}

/* Where the function returns in the child, that ends, though it has workers of its own. */
static long returns_in_the_child(hanare_queue *queue)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		return result_of(queue, hanare_submit(queue, SYS_getppid)) == getppid() ? 0 : 1;
	return waitpid(pid, &status, 0) == pid && ended_with(status, 0);
}

static void a_function_may_fork(void)
{
	hanare_queue *queue = queue_of(NULL);

	for (int i = 0; i < 20; i++) {
		HOLDS(result_of(queue, hanare_call(queue, 0, forks)) == 1);
		HOLDS(result_of(queue, hanare_call(queue, 0, returns_in_the_child, queue)) == 1);
	}
	hanare_queue_destroy(queue);
}

static void call_in_function(void *function)
{
	hanare_queue *queue = queue_of(NULL);
	int64_t result;

	hanare_wait(queue, hanare_call(queue, 0, function), &result, LATE);
	_exit(99);
}

static void executes(void)
{
	execl("/bin/sh", "sh", "-c", "exit 12", NULL);
}

static void exits(void)
{
	exit(13);
}

static void exits_with_work_to_do(hanare_queue *queue)
{
	(void)queue;
	exit(14);
}

static void exit_with_flag(void *argument)
{
	hanare_queue *queue = queue_of(NULL);

	(void)argument;
	hanare_call(queue, HANARE_AT_EXIT | HANARE_DETACH, exits_with_work_to_do, queue);
	pause();
}

static void a_function_may_execute_or_exit(void)
{
	HOLDS(ended_with(status_of(call_in_function, executes), 12));
	HOLDS(ended_with(status_of(call_in_function, exits), 13));
	HOLDS(ended_with(status_of(exit_with_flag, NULL), 14));
}

static void a_function_may_give_up_rights_of_the_process(void)
{
	hanare_queue *queue = queue_of(NULL);

	/* glibc's changes all threads, which are the worker and this one. */
	if (getuid() == 0) {
		HOLDS(result_of(queue, hanare_call(queue, 0, setuid, 12345)) == 0);
		HOLDS(getuid() == 12345);
		HOLDS(result_of(queue, hanare_submit(queue, SYS_openat, AT_FDCWD, "/etc/shadow", O_RDONLY)) < 0);
	}
	hanare_queue_destroy(queue);
}

static void memory_that_is_gone_is_efault(void)
{
	hanare_queue *queue = queue_of(NULL);
	int pipes[2];
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	hanare_ticket ticket;

	HOLDS(pipe(pipes) == 0 && page != MAP_FAILED);
	page[0] = 1;
	ticket = hanare_submit(queue, SYS_read, pipes[0], page, 1);
	nap(SECOND / 100);
	HOLDS(munmap(page, 4096) == 0 && write(pipes[1], "x", 1) == 1);
	HOLDS(result_of(queue, ticket) == -EFAULT);
	hanare_queue_destroy(queue);
}

/*
 * That the worker is in the call cannot be seen: a call that finds no descriptor may not have
 * begun, and there is another try, later.
 */
static void descriptors_closed_in_flight_stay_open_for_the_call(void)
{
	hanare_queue *queue = queue_of(NULL);
	int64_t result = -EBADF;

	signal(SIGPIPE, SIG_IGN);
	for (int tries = 1; tries <= 5 && result == -EBADF; tries++) {
		int pipes[2];
		char byte;
		hanare_ticket ticket;

		HOLDS(pipe(pipes) == 0);
		ticket = hanare_submit(queue, SYS_read, pipes[0], &byte, 1);
		nap(tries * SECOND / 20);
		HOLDS(close(pipes[0]) == 0 && (write(pipes[1], "x", 1) == 1 || errno == EPIPE));
		result = result_of(queue, ticket);
		close(pipes[1]);
	}
	HOLDS(result == 1);
	hanare_queue_destroy(queue);
}

#define TEST(name) { #name, name }

const struct test process_tests[] = {
	TEST(after_a_fork_what_was_posted_is_the_parents),
	TEST(parent_and_child_do_not_wake_each_other),
	TEST(execve_ends_calls_in_flight),
	TEST(exit_does_not_wait),
	TEST(exit_waits_for_what_says_so),
	TEST(a_function_may_fork),
	TEST(a_function_may_execute_or_exit),
	TEST(a_function_may_give_up_rights_of_the_process),
	TEST(memory_that_is_gone_is_efault),
	TEST(descriptors_closed_in_flight_stay_open_for_the_call),
	{ 0 },
};
