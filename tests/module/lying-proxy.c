// SPDX-License-Identifier: GPL-2.0
/*
 * A proxy that lies to the supervisor of its program's calls (SECCOMP_RET_USER_NOTIF): a proxy as
 * it is, whose calls a tracer on Linux changes.
 *   lying-proxy NAME token   of two threads in an execve the supervisor lets one go on; its new
 *                            image takes the other's token
 *   lying-proxy NAME pid     a thread's call is notified by another process that has the same
 *                            memory
 *   lying-proxy - WHAT       on the LWK: the program, and its supervisor
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../module/hanare_abi.h"
#include "need.h"

/* Arguments of getsid(2) by which the tracer knows whose worker it sees. */
#define CALLER 0x1111
#define SHARER 0x2222

static const char *self;
/* Programs that wait for their decision; shared with the supervisor. */
static volatile int *waiting;

/* ---- on the LWK ---- */

/* A filter whose listener is told of one call. */
static int listen_to(int number)
{
	struct sock_filter all[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(all) / sizeof(*all), all };
	int listener;

	need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	need(listener >= 0, "listener");
	return listener;
}

static void go_on(int listener, unsigned long long id)
{
	struct seccomp_notif_resp resp = { .id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

static void say(const char *text)
{
	write(1, text, strlen(text));
}

/* Lets /bin/true go on. About another program it never decides. */
static void decide_about_programs(int listener)
{
	for (;;) {
		struct seccomp_notif notif = {};
		char path[64], text[16] = "";
		int memory;

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notif))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/mem", notif.pid);
		memory = open(path, O_RDONLY);
		pread(memory, text, sizeof(text) - 1, notif.data.args[0]);
		close(memory);
		if (strcmp(text, "/bin/true"))
			*waiting = 1;
		else
			go_on(listener, notif.id);
	}
}

static void *executes(void *unused)
{
	execl(self, self, "-", "forbidden", NULL);
	return unused;
}

static int token(void)
{
	int listener = listen_to(SYS_execve);
	pthread_t thread;

	waiting = mmap(NULL, sizeof(*waiting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(waiting != MAP_FAILED, "mmap");
	if (!fork())
		decide_about_programs(listener);
	close(listener);
	pthread_create(&thread, NULL, executes, NULL);
	while (!*waiting)
		usleep(1000);
	execl("/bin/true", "true", NULL);
	return 1;
}

static pid_t caller;

/* Says which process a call is said to be of. */
static void decide_about_calls(int listener)
{
	for (;;) {
		struct seccomp_notif notif = {};

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notif))
			continue;
		say((pid_t)notif.pid == caller ? "of the caller\n" : "of another process\n");
		go_on(listener, notif.id);
	}
}

static int calls_beside(void *unused)
{
	(void)unused;
	for (;;)
		syscall(SYS_getsid, SHARER);
	return 0;
}

static int pid(void)
{
	int listener = listen_to(SYS_getppid);
	size_t bytes = 1 << 16;
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t sharer;

	caller = getpid();
	if (!fork())
		decide_about_calls(listener);
	close(listener);
	sharer = clone(calls_beside, stack + bytes, CLONE_VM | SIGCHLD, NULL);
	need(sharer > 0, "clone");
	syscall(SYS_getsid, CALLER);
	syscall(SYS_getppid);
	kill(sharer, SIGKILL);
	return 0;
}

/* ---- the tracer ---- */

static struct user_regs_struct registers(pid_t tid)
{
	struct user_regs_struct regs = {};

	ptrace(PTRACE_GETREGS, tid, 0, &regs);
	return regs;
}

static void set(pid_t tid, struct user_regs_struct regs)
{
	ptrace(PTRACE_SETREGS, tid, 0, &regs);
}

static size_t copy(pid_t tid, void *text, unsigned long at, size_t bytes, int to_there)
{
	struct iovec here = { text, bytes }, there = { (void *)at, bytes };
	ssize_t done = to_there ? process_vm_writev(tid, &here, 1, &there, 1, 0) : process_vm_readv(tid, &here, 1, &there, 1, 0);

	return done < 0 ? 0 : done;
}

/* What a new image of the proxy goes on with stands in the environment of the execve. */
static void exchange_tokens(pid_t tid, int is_entry)
{
	static const char begins[] = "HANARE_RESUME=";
	static char first[320];
	static int execves;
	struct user_regs_struct regs = registers(tid);
	unsigned long strings[1] = {}, at = regs.orig_rax == SYS_execve ? regs.rdx : regs.r10;
	char text[320] = "";

	if (!is_entry || (regs.orig_rax != SYS_execve && regs.orig_rax != SYS_execveat))
		return;
	copy(tid, strings, at, sizeof(strings), 0);
	for (size_t i = 0; i < sizeof(text) - 1 && copy(tid, text + i, strings[0] + i, 1, 0) && text[i]; i++)
		;
	if (strncmp(text, begins, strlen(begins)))
		return;
	/* The program's own, then that of the one that waits, and of the one that goes on. */
	if (++execves == 2) {
		strcpy(first, text);
	} else if (execves == 3) {
		need(copy(tid, first, strings[0], strlen(first) + 1, 1) == strlen(first) + 1, "write");
		say("lied\n");
	}
}

/* The caller's worker waits at the beginning of a call while the sharer's makes it. */
static void exchange_callers(pid_t tid, int is_entry)
{
	static pid_t lender, borrower;
	static struct user_regs_struct lent, own;
	static enum { BEGINS, IDLE, WAITS, MADE, RETURNS, OVER } state;
	static int has_lied;
	struct user_regs_struct regs = registers(tid);

	if (is_entry && regs.orig_rax == SYS_getsid && regs.rdi == CALLER) {
		lender = tid;
		state = IDLE;
	} else if (state == IDLE && is_entry && tid == lender &&
		   (regs.orig_rax == HANARE_NR_NOTIFY ||
		    (regs.orig_rax == SYS_ioctl && (unsigned)regs.rsi == HANARE_IOCTL_SERVE))) {
		lent = regs;
		state = WAITS;
		return; /* where it is, for now */
	} else if (state == WAITS && is_entry && regs.orig_rax == SYS_getsid && regs.rdi == SHARER) {
		borrower = tid;
		own = regs;
		regs.orig_rax = lent.orig_rax;
		regs.rdi = lent.rdi;
		regs.rsi = lent.rsi;
		regs.rdx = lent.rdx;
		set(tid, regs);
		state = MADE;
	} else if (state == MADE && !is_entry && tid == borrower) {
		struct user_regs_struct skipped = lent;

		own.rax = 0;
		own.rcx = regs.rcx;
		own.r11 = regs.r11;
		set(tid, own);
		has_lied |= lent.orig_rax == HANARE_NR_NOTIFY;
		lent.rax = regs.rax;
		skipped.orig_rax = -1;
		set(lender, skipped);
		state = RETURNS;
		ptrace(PTRACE_SYSCALL, lender, 0, 0);
	} else if (state == RETURNS && !is_entry && tid == lender) {
		lent.orig_rax = -1;
		set(tid, lent);
		state = has_lied ? OVER : IDLE;
		if (has_lied)
			say("lied\n");
	}
	ptrace(PTRACE_SYSCALL, tid, 0, 0);
}

static int lie(const char *name, const char *what)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
			     PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int about_pid = !strcmp(what, "pid"), status;
	pid_t child = fork();

	if (!child) {
		need(!ptrace(PTRACE_TRACEME, 0, 0, 0), "TRACEME");
		raise(SIGSTOP);
		execlp("hanare", "hanare", "run", "--on", name, "--", self, "-", what, NULL);
		need(0, "hanare");
	}
	waitpid(child, &status, 0);
	need(!ptrace(PTRACE_SETOPTIONS, child, 0, options), "SETOPTIONS");
	ptrace(PTRACE_SYSCALL, child, 0, 0);
	for (;;) {
		struct __ptrace_syscall_info info = {};
		pid_t tid = waitpid(-1, &status, __WALL);
		int given = 0;

		if (tid < 0 || (tid == child && !WIFSTOPPED(status)))
			break;
		if (!WIFSTOPPED(status))
			continue;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info);
			if (about_pid) {
				exchange_callers(tid, info.op == PTRACE_SYSCALL_INFO_ENTRY);
				continue;
			}
			exchange_tokens(tid, info.op == PTRACE_SYSCALL_INFO_ENTRY);
		} else if (WSTOPSIG(status) != SIGSTOP && !(status >> 16)) {
			given = WSTOPSIG(status);
		}
		ptrace(PTRACE_SYSCALL, tid, 0, given);
	}
	say("ended\n");
	return 0;
}

int main(int argc, char **argv)
{
	need(argc == 3, "NAME and WHAT");
	self = argv[0];
	if (strcmp(argv[1], "-"))
		return lie(argv[1], argv[2]);
	if (!strcmp(argv[2], "forbidden")) {
		say("what is forbidden runs\n");
		return 0;
	}
	return strcmp(argv[2], "token") ? pid() : token();
}
