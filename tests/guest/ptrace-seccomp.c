/*
 * A tracee's filters of system calls: the tracer decides about calls (SECCOMP_RET_TRACE), reads
 * filters, and suspends them.
 */
#include "tracer.h"
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#ifndef PTRACE_O_SUSPEND_SECCOMP
#define PTRACE_O_SUSPEND_SECCOMP (1 << 21)
#endif
#define GET_FILTER 0x420c
#define GET_METADATA 0x420d
#define EVENT (SIGTRAP | 7 << 8)

#define ON(number, answer) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer)

static struct sock_filter tracing[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	ON(SYS_getppid, SECCOMP_RET_TRACE | 0x1234),
	ON(SYS_getpid, SECCOMP_RET_TRACE | 0xffff),
	ON(SYS_openat, SECCOMP_RET_TRACE),
	ON(SYS_getpgrp, SECCOMP_RET_ERRNO | EBADSLT),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static void confine(struct sock_filter *filter, size_t count, int flags)
{
	struct sock_fprog program = { count, filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program))
		printf("  filter: %s\n", strerrorname_np(errno));
}

static long made(long number)
{
	errno = 0;
	return syscall(number) == -1 ? -errno : 0;
}

static void untraced_run(void)
{
	confine(tracing, sizeof(tracing) / sizeof(*tracing), 0);
	_exit(made(SYS_getppid) == -ENOSYS && made(SYS_getpid) == -ENOSYS && made(SYS_getpgrp) == -EBADSLT ? 1 : 2);
}

static void untraced(void)
{
	pid_t pid;

	puts("without a tracer");
	pid = forked();
	if (!pid)
		untraced_run();
	next(pid);
	pid = start("with one who does not want to know", untraced_run);
	go(PTRACE_CONT, pid, 0);
	next(pid);
}

/* What a stop is about. */
static void event(pid_t pid)
{
	struct __ptrace_syscall_info what = {};
	struct user_regs_struct regs;
	unsigned long message = 0;
	long size;

	info(pid);
	ptrace(PTRACE_GETEVENTMSG, pid, 0, &message);
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	size = ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(what), &what);
	printf("  message %#lx, call %lld: %s; %ld bytes, op %d", message, (long long)regs.orig_rax,
	       regs.rax == -(unsigned long long)ENOSYS ? "ENOSYS" : "a result", size, what.op);
	if (what.op == 3)
		printf(", number %lld, data %#x", (long long)what.seccomp.nr, what.seccomp.ret_data);
	puts("");
}

static void change(pid_t pid, long long number, long long result)
{
	struct user_regs_struct regs;

	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	regs.orig_rax = number;
	regs.rax = result;
	TELL(ptrace(PTRACE_SETREGS, pid, 0, &regs));
}

static void decided_run(void)
{
	pid_t parent = getppid(), own = getpid();
	int right = 0;

	confine(tracing, sizeof(tracing) / sizeof(*tracing), 0);
	right |= syscall(SYS_getppid) == parent;
	right |= (syscall(SYS_getpid) == own) << 1;
	/*
	 * The number is another one: one that is decided about, too, one that is not, one that is
	 * forbidden, none.
	 */
	right |= (syscall(SYS_getppid) == own) << 2;
	right |= (syscall(SYS_getpid) == syscall(SYS_getsid, 0)) << 3;
	right |= (made(SYS_getppid) == -EBADSLT) << 4;
	right |= (syscall(SYS_getppid) == 77) << 5;
	right |= (made(SYS_getpid) == -ENOSYS) << 6;
	_exit(right);
}

static void decided(void)
{
	pid_t pid = start("calls that are decided about", decided_run);

	TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP));
	for (int i = 0; i < 7; i++) {
		go(PTRACE_CONT, pid, 0);
		if (next(pid) >> 8 != EVENT)
			return;
		event(pid);
		switch (i) {
		case 2:
			change(pid, SYS_getpid, -ENOSYS);
			break;
		case 3:
			change(pid, SYS_getsid, -ENOSYS);
			break;
		case 4:
			change(pid, SYS_getpgrp, -ENOSYS);
			break;
		case 5:
			change(pid, -1, 77);
			break;
		case 6:
			change(pid, -1, -ENOSYS);
		}
	}
	go(PTRACE_CONT, pid, 0);
	next(pid);
}

static volatile int handled;

static void handler(int signal)
{
	handled = signal;
}

static void among_run(void)
{
	pid_t parent = getppid();
	int fd, status;
	pid_t pid;

	signal(SIGUSR1, handler);
	confine(tracing, sizeof(tracing) / sizeof(*tracing), 0);
	if (syscall(SYS_getppid) != parent || handled)
		_exit(1);
	fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
	if (fd < 0)
		_exit(2);
	pid = syscall(SYS_fork);
	if (!pid)
		_exit(syscall(SYS_openat, AT_FDCWD, "/nowhere", O_RDONLY) == -1 && errno == ENOENT ? 4 : 5);
	if (waitpid(pid, &status, 0) != pid)
		_exit(3);
	_exit(WEXITSTATUS(status) + 10);
}

/*
 * Beside the stops at calls; a signal that is given at such a stop is none. A child has the option,
 * too.
 */
static void among(void)
{
	pid_t pid = start("among other stops", among_run), got;
	int status, children = 0, events = 0;

	TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD));
	to_call(pid, SYS_seccomp, 1);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK);
	for (int i = 0; i < 3; i++) {
		go(PTRACE_SYSCALL, pid, i == 2 ? SIGUSR1 : 0);
		next(pid);
		event(pid);
	}
	go(PTRACE_CONT, pid, 0);
	while ((got = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (got == pid)
				printf("  exited: %d\n", WEXITSTATUS(status));
			continue;
		}
		children += got != pid && status >> 8 == SIGSTOP;
		events += status >> 8 == EVENT;
		ptrace(PTRACE_CONT, got, 0, 0);
	}
	printf("  %d children, %d events\n", children, events);
}

static struct sock_filter instructions[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EBADSLT),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static void filters_run(void)
{
	long first;

	confine(instructions, 4, 0);
	confine(instructions + 3, 1, SECCOMP_FILTER_FLAG_LOG);
	raise(SIGSTOP);
	first = made(SYS_getppid);
	raise(SIGSTOP);
	_exit(first == -EBADSLT ? made(SYS_getppid) == 0 : 2);
}

static void filters(void)
{
	struct { uint64_t offset, flags; } about = {};
	struct sock_filter read[8];
	pid_t pid = start("filters", filters_run);

	TELL(ptrace(GET_METADATA, pid, sizeof(about), &about));
	TELL(ptrace(GET_FILTER, pid, 0, NULL));
	go(PTRACE_CONT, pid, 0);
	next(pid);
	for (about.offset = 0; about.offset < 3; about.offset++) {
		TELL(ptrace(GET_METADATA, pid, sizeof(about), &about));
		TELL(about.flags);
		TELL(ptrace(GET_FILTER, pid, about.offset, NULL));
	}
	about.offset = 0;
	TELL(ptrace(GET_METADATA, pid, 4, &about));
	TELL(ptrace(GET_METADATA, pid, 8, &about));
	TELL(ptrace(GET_METADATA, pid, 100, &about));
	TELL(ptrace(GET_METADATA, pid, sizeof(about), NULL));
	TELL(ptrace(GET_FILTER, pid, 0, read));
	TELL(memcmp(read, instructions, sizeof(instructions)));
	TELL(ptrace(GET_FILTER, pid, 1, read));
	TELL(memcmp(read, instructions + 3, sizeof(*instructions)));
	TELL(ptrace(GET_FILTER, pid, 0, 8));
	go(PTRACE_CONT, pid, 0);
	next(pid);
	TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_SUSPEND_SECCOMP));
	go(PTRACE_CONT, pid, 0);
	next(pid);
}

static void nothing_run(void)
{
}

static void not_allowed(const char *what)
{
	struct { uint64_t offset, flags; } about = {};
	pid_t pid = start(what, nothing_run);

	TELL(ptrace(GET_METADATA, pid, sizeof(about), &about));
	TELL(ptrace(GET_FILTER, pid, 0, NULL));
	TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_SUSPEND_SECCOMP));
	go(PTRACE_CONT, pid, 0);
	next(pid);
}

static void makes_run(void)
{
	int status;
	pid_t pid = forked();

	if (!pid)
		_exit(4);
	waitpid(pid, &status, 0);
	_exit(WEXITSTATUS(status) + 1);
}

/*
 * A child is the tracer's, with the option that suspends filters, though the tracer has lost the
 * right to set it.
 */
static void without_right(void)
{
	const long options = PTRACE_O_SUSPEND_SECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL;

	for (int seized = 0; seized < 2; seized++) {
		struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
		struct __user_cap_data_struct caps[2];
		unsigned long child = 0;
		pid_t pid;

		pid = start("children of one whose right has gone", makes_run);
		if (seized) {
			go(PTRACE_DETACH, pid, SIGSTOP);
			waitpid(pid, NULL, WUNTRACED);
			TELL(ptrace(PTRACE_SEIZE, pid, 0, options));
			next(pid);
		} else {
			TELL(ptrace(PTRACE_SETOPTIONS, pid, 0, options));
		}
		syscall(SYS_capget, &head, caps);
		caps[0].effective &= ~(1 << CAP_SYS_ADMIN);
		syscall(SYS_capset, &head, caps);
		if (seized)
			kill(pid, SIGCONT);
		do
			go(PTRACE_CONT, pid, 0);
		while ((next(pid) >> 16) != PTRACE_EVENT_FORK);
		ptrace(PTRACE_GETEVENTMSG, pid, 0, &child);
		next(child);
		go(PTRACE_CONT, child, 0);
		next(child);
		go(PTRACE_CONT, pid, 0);
		next(pid);
		go(PTRACE_CONT, pid, 0);
		next(pid);
		caps[0].effective |= 1 << CAP_SYS_ADMIN;
		syscall(SYS_capset, &head, caps);
	}
}

int main(void)
{
	pid_t pid;

	setvbuf(stdout, NULL, _IONBF, 0);
	alarm(600);
	untraced();
	decided();
	among();
	filters();
	without_right();
	pid = forked();
	if (!pid) {
		confine(instructions + 3, 1, 0);
		not_allowed("by one that is confined");
		_exit(0);
	}
	next(pid);
	if (!setresuid(65534, 65534, 65534))
		not_allowed("without the right");
	return 0;
}
