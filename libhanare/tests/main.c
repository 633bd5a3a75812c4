/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Runs the tests whose names contain one of the arguments, or all, and prints "ok NAME" or "FAIL
 * NAME" for each. --list: names only.
 */
#include "harness.h"

int factor = 1;
int tasks = TASKS_MAX;

static const struct test *const lists[] = { queue_tests, call_tests, function_tests, process_tests, fault_tests, cost_tests };

#define DEADLINE_S 60

struct hanare_attributes attributes_of(uint32_t depth, uint32_t workers)
{
	struct hanare_attributes attributes;

	hanare_attributes_init(&attributes);
	attributes.depth = depth;
	attributes.workers_min = attributes.workers_max = workers;
	return attributes;
}

hanare_queue *queue_of(struct hanare_attributes *attributes)
{
	hanare_queue *queue;

	HOLDS(hanare_queue_create(&queue, attributes) == 0);
	return queue;
}

int64_t result_of(hanare_queue *queue, hanare_ticket ticket)
{
	int64_t result = 0;

	HOLDS(ticket > 0);
	HOLDS(hanare_wait(queue, ticket, &result, LATE) == 0);
	return result;
}

int status_of(void (*run)(void *), void *argument)
{
	int status;
	pid_t pid = fork();

	HOLDS(pid >= 0);
	if (pid == 0) {
		run(argument);
		_exit(0);
	}
	HOLDS(waitpid(pid, &status, 0) == pid);
	return status;
}

void nap(long ns)
{
	struct timespec time = { ns / SECOND, ns % SECOND };

	nanosleep(&time, NULL);
}

int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

int fresh_file(void)
{
	FILE *file = tmpfile();
	int fd = file ? dup(fileno(file)) : memfd_create("test", 0);

	if (file)
		fclose(file);
	HOLDS(fd >= 0);
	return fd;
}

static int is_wanted(const char *name, char **argv)
{
	if (!argv[1])
		return 1;
	for (argv++; *argv; argv++)
		if (strstr(name, *argv))
			return 1;
	return 0;
}

/* 0: it failed. */
static int run(const struct test *test)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		alarm(DEADLINE_S * (unsigned)factor);
		test->run();
		_exit(0);
	}
	status = waitpid(pid, &status, 0) == pid ? status : -1;
	/* Its children, if it has left any. */
	kill(-pid, SIGKILL);
	if (status == 0) {
		printf("ok %s\n", test->name);
		return 1;
	}
	printf("FAIL %s: %s %d\n", test->name, WIFSIGNALED(status) ? "signal" : "status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return 0;
}

int main(int argc, char **argv)
{
	const char *given = getenv("HANARE_TEST_FACTOR");
	int failed = 0, count = 0, is_list = argc == 2 && !strcmp(argv[1], "--list");

	if (given && atoi(given) > 0)
		factor = atoi(given);
	given = getenv("HANARE_TEST_TASKS");
	if (given && atoi(given) > 0 && atoi(given) <= TASKS_MAX && atoi(given) % 32 == 0)
		tasks = atoi(given);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		for (const struct test *test = lists[i]; test->name; test++)
			if (is_list) {
				puts(test->name);
			} else if (is_wanted(test->name, argv)) {
				count++;
				failed += !run(test);
			}
	if (is_list)
		return 0;
	printf("%d tests, %d failed\n", count, failed);
	return failed || !count;
}
