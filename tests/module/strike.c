// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a command under ptrace, its threads and children included, and strikes the thread that makes
 * the N-th stop (the entries and exits of system calls are counted) when it does:
 *   strike N ACTION SECONDS COMMAND...
 *     kill    SIGKILL to the process        crash   SIGSEGV to the thread
 *     parent  SIGKILL to its parent         first   SIGKILL to the command's first process
 *     stop    SIGSTOP, and SIGCONT 200 ms later
 *     term    SIGTERM to the process        delay   the thread waits for 200 ms
 * With N = 0 it only counts. Prints what was struck where and how many stops there were. Exit
 * status 3 if the command had not ended after SECONDS, else 0.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 4096

static pid_t seen[MOST];
static unsigned int seen_count;
static volatile sig_atomic_t late;

static void alarmed(int number)
{
	(void)number;
	late = 1;
}

/* A field of /proc/TID/status. */
static pid_t status_of(pid_t tid, const char *field)
{
	char path[64], line[256];
	pid_t value = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, strlen(field)))
			value = atoi(line + strlen(field));
	}
	fclose(file);
	return value;
}

static void wait_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&time, &time) && errno == EINTR && !late)
		;
}

static long ms_between(const struct timespec *from, const struct timespec *to)
{
	return (to->tv_sec - from->tv_sec) * 1000 + (to->tv_nsec - from->tv_nsec) / 1000000;
}

static pid_t stopped;

static void strike(pid_t tid, pid_t first, const char *action, unsigned long at)
{
	struct user_regs_struct regs = { 0 };
	pid_t process = status_of(tid, "Tgid:"), parent = status_of(tid, "PPid:");

	ptrace(PTRACE_GETREGS, tid, 0, &regs);
	printf("%s at %lu: call %lld (%llx, %llx), %s %s\n", action, at, regs.orig_rax, regs.rdi,
	       regs.rsi, process == tid ? "main thread" : "thread",
	       process == first ? "of the first process" : "of a child");
	fflush(stdout);
	if (!strcmp(action, "kill")) {
		kill(process, SIGKILL);
	} else if (!strcmp(action, "term")) {
		kill(process, SIGTERM);
	} else if (!strcmp(action, "crash")) {
		syscall(SYS_tgkill, process, tid, SIGSEGV);
	} else if (!strcmp(action, "first")) {
		kill(first, SIGKILL);
	} else if (!strcmp(action, "parent")) {
		/* The first one's parent is this program. */
		kill(process == first ? first : parent, SIGKILL);
	} else if (!strcmp(action, "stop")) {
		kill(process, SIGSTOP);
		stopped = process;
	} else if (!strcmp(action, "delay")) {
		wait_ms(200);
	} else {
		fprintf(stderr, "strike: no such action\n");
		exit(2);
	}
}

static int stop_signal(int number)
{
	return number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

int main(int argc, char **argv)
{
	unsigned long at = argc > 4 ? strtoul(argv[1], NULL, 0) : 0, stops = 0;
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
		       PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int go[2], status, first_status = -1, struck = 0, has_stopped = 0;
	struct timespec struck_at = { 0 }, now;
	pid_t first;

	if (argc < 5 || pipe(go))
		return 2;
	first = fork();
	if (first == 0) {
		char byte;

		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		close(go[0]);
		execvp(argv[4], argv + 4);
		_exit(127);
	}
	if (ptrace(PTRACE_SEIZE, first, 0, options)) {
		perror("strike: seize");
		return 2;
	}
	(void)!write(go[1], "g", 1);
	close(go[1]);
	close(go[0]);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = alarmed }, NULL);
	alarm(atoi(argv[3]));
	while (!late) {
		pid_t tid = waitpid(-1, &status, __WALL | (stopped ? WNOHANG : 0));
		int deliver = 0, event = status >> 16;
		enum __ptrace_request go_on = struck ? PTRACE_CONT : PTRACE_SYSCALL;

		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			break;
		if (stopped) {
			/* Counted from the stop: a SIGSTOP injected behind SIGCONT would last. */
			clock_gettime(CLOCK_MONOTONIC, &now);
			if (!struck_at.tv_sec)
				struck_at = now;
			if (ms_between(&struck_at, &now) > (has_stopped ? 200 : 30000)) {
				kill(stopped, SIGCONT);
				stopped = 0;
			}
			if (tid == 0) {
				wait_ms(2);
				continue;
			}
		}
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (tid == first)
				first_status = status;
			continue;
		}
		if (seen_count < MOST) {
			unsigned int n = 0;

			while (n < seen_count && seen[n] != tid)
				n++;
			if (n == seen_count)
				seen[seen_count++] = tid;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			if (++stops == at) {
				struck = 1;
				strike(tid, first, argv[2], at);
				go_on = PTRACE_CONT;
			}
		} else if (event == PTRACE_EVENT_STOP) {
			if (stop_signal(WSTOPSIG(status))) {
				go_on = PTRACE_LISTEN;
				if (stopped && !has_stopped) {
					has_stopped = 1;
					clock_gettime(CLOCK_MONOTONIC, &struck_at);
				}
			}
		} else if (!event) {
			deliver = WSTOPSIG(status);
		}
		ptrace(go_on, tid, 0, deliver);
	}
	if (late) {
		printf("not ended\n");
		for (unsigned int n = 0; n < seen_count; n++)
			kill(seen[n], SIGKILL);
	}
	printf("%lu stops, %s, first ended with %x\n", stops, struck ? "struck" : "not struck", first_status);
	return late ? 3 : 0;
}
