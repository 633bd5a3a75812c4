/* seccomp: modes, filters and what they answer, inheritance, synchronised threads. */
#include "guest.h"
#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ON(call, answer) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer)
#define ALWAYS(answer) BPF_STMT(BPF_RET | BPF_K, answer)
#define PROGRAM(...)                                                                        \
	(&(struct sock_fprog){                                                              \
		.len = sizeof((struct sock_filter[]){ __VA_ARGS__ }) / sizeof(struct sock_filter), \
		.filter = (struct sock_filter[]){ __VA_ARGS__ } })

static long filter(long flags, struct sock_fprog *program)
{
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
}

static long confine(struct sock_fprog *program)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return filter(0, program);
}

/* What a child does, and how it ends. */
static void child(const char *name, void (*act)(void))
{
	siginfo_t info = {};
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		signal(SIGALRM, SIG_DFL);
		alarm(600);
		act();
		fflush(stdout);
		_exit(0);
	}
	waitid(P_PID, pid, &info, WEXITED);
	printf("%s: code %d status %d\n", name, info.si_code == CLD_DUMPED ? CLD_KILLED : info.si_code,
	       info.si_status);
}

static void strict(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	write(1, "strict\n", 7);
	syscall(SYS_exit, 7);
}

static void strict_getpid(void)
{
	TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
	syscall(SYS_getpid);
}

static void answers(void)
{
	TELL(confine(PROGRAM(LOAD(nr), ON(SYS_getppid, SECCOMP_RET_ERRNO | 7),
			     ON(SYS_sched_yield, SECCOMP_RET_ERRNO | 0xffff),
			     ON(SYS_getpgrp, SECCOMP_RET_ERRNO), ON(SYS_getsid, SECCOMP_RET_TRACE),
			     ON(SYS_gettid, SECCOMP_RET_LOG), ALWAYS(SECCOMP_RET_ALLOW))));
	TELL(syscall(SYS_getppid));
	errno = 0;
	long yielded = syscall(SYS_sched_yield);
	printf("%ld %d\n", yielded, errno);
	TELL(syscall(SYS_getpgrp));
	TELL(syscall(SYS_getsid, 0));
	TELL(syscall(SYS_gettid) == getpid());
	TELL(prctl(PR_GET_SECCOMP));
	TELL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	/* The least permissive of several; of equal ones the latest. */
	TELL(filter(0, PROGRAM(LOAD(nr), ON(SYS_getppid, SECCOMP_RET_ERRNO | 8),
			       ON(SYS_gettid, SECCOMP_RET_ERRNO | 9), ALWAYS(SECCOMP_RET_ALLOW))));
	TELL(syscall(SYS_getppid));
	TELL(syscall(SYS_gettid));
	fflush(stdout);
	if (!fork()) { /* Inherited, and by exec. */
		TELL(syscall(SYS_getppid));
		execl("/bin/sh", "sh", "-c", "grep -c . /proc/self/comm; exec /bin/true", NULL);
		_exit(9);
	}
	wait(NULL);
}

static void arguments(void)
{
	int null = open("/dev/null", O_WRONLY);

	/* 64-bit arguments by halves, arithmetic, scratch memory. */
	confine(PROGRAM(LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
			ALWAYS(SECCOMP_RET_KILL), LOAD(nr),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 0, 8), LOAD(args[2]),
			BPF_STMT(BPF_ST, 3), BPF_STMT(BPF_LDX | BPF_MEM, 3), BPF_STMT(BPF_LD | BPF_IMM, 90),
			BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
			BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 99, 0, 2),
			BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO), BPF_STMT(BPF_RET | BPF_A, 0),
			ALWAYS(SECCOMP_RET_ALLOW)));
	for (long n = 8; n < 12; n++)
		TELL(pwrite(null, "123456789012", n, 0));
}

static void trapped(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	char text[200];
	int n = snprintf(text, sizeof(text), "SIGSYS %d code %d errno %d call %d arch %x rax %lld here %d\n",
			 signal, info->si_code, info->si_errno, info->si_syscall, info->si_arch,
			 u->uc_mcontext.gregs[REG_RAX],
			 info->si_call_addr == (void *)u->uc_mcontext.gregs[REG_RIP]);

	write(1, text, n);
	u->uc_mcontext.gregs[REG_RAX] = 4711;
}

static struct sock_fprog *trap(void)
{
	static struct sock_filter f[] = { LOAD(nr), ON(SYS_getppid, SECCOMP_RET_TRAP | 5), ALWAYS(SECCOMP_RET_ALLOW) };
	static struct sock_fprog program = { 4, f };

	return &program;
}

static void trap_handled(void)
{
	struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };

	sigaction(SIGSYS, &action, NULL);
	confine(trap());
	TELL(syscall(SYS_getppid));
	TELL(syscall(SYS_getppid));
}

static void trap_default(void)
{
	confine(trap());
	syscall(SYS_getppid);
}

static void trap_blocked(void)
{
	struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };
	sigset_t set;

	sigaction(SIGSYS, &action, NULL);
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	trap_default();
}

static void kill_process(void)
{
	confine(PROGRAM(LOAD(nr), ON(SYS_getppid, SECCOMP_RET_KILL_PROCESS), ALWAYS(SECCOMP_RET_ALLOW)));
	syscall(SYS_getppid);
}

static pthread_barrier_t barrier;

static void *calls(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&barrier); /* it is there */
	pthread_barrier_wait(&barrier); /* the filter is set */
	TELL(syscall(SYS_getppid) > 0);
	return NULL;
}

static void *own_filter(void *unused)
{
	(void)unused;
	TELL(filter(0, PROGRAM(ALWAYS(SECCOMP_RET_ALLOW))));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void *killed(void *unused)
{
	getpgrp();
	return unused;
}

/* Ends a thread, and waits until it is on no list of threads: TSYNC looks at those. */
static void join(pthread_t t)
{
	int tasks;

	pthread_join(t, NULL);
	do {
		DIR *folder = opendir("/proc/self/task");
		struct dirent *entry;

		for (tasks = 0; folder && (entry = readdir(folder));)
			tasks += entry->d_name[0] != '.';
		closedir(folder);
	} while (tasks > 1);
}

static void threads(void)
{
	struct sock_fprog *p = PROGRAM(LOAD(nr), ON(SYS_getppid, SECCOMP_RET_ERRNO | 3), ALWAYS(SECCOMP_RET_ALLOW));
	pthread_t t;

	pthread_barrier_init(&barrier, NULL, 2);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	pthread_create(&t, NULL, own_filter, NULL);
	pthread_barrier_wait(&barrier);
	printf("%d\n", filter(SECCOMP_FILTER_FLAG_TSYNC, p) > 0);
	TELL(filter(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH, p));
	TELL(prctl(PR_GET_SECCOMP));
	pthread_barrier_wait(&barrier);
	join(t);
	pthread_create(&t, NULL, calls, NULL);
	pthread_barrier_wait(&barrier);
	TELL(filter(0, PROGRAM(ALWAYS(SECCOMP_RET_ALLOW)))); /* of this thread only */
	TELL(filter(SECCOMP_FILTER_FLAG_TSYNC, p));
	pthread_barrier_wait(&barrier);
	join(t);
	pthread_create(&t, NULL, calls, NULL); /* inherits */
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	join(t);
	/* Of two threads one is killed. */
	TELL(filter(0, PROGRAM(LOAD(nr), ON(SYS_getpgrp, SECCOMP_RET_KILL_THREAD), ALWAYS(SECCOMP_RET_ALLOW))));
	pthread_create(&t, NULL, killed, NULL);
	join(t);
	puts("one left");
	fflush(stdout);
	getpgrp();
}

static void wrong(void)
{
	static struct sock_filter many[4096];
	struct sock_fprog large = { 4096, many };
	unsigned int action;

	for (int i = 0; i < 4096; i++)
		many[i] = (struct sock_filter)ALWAYS(SECCOMP_RET_ALLOW);
	if (getuid())
		TELL(filter(0, PROGRAM(ALWAYS(SECCOMP_RET_ALLOW))));
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	TELL(filter(0, NULL));
	TELL(filter(0, (void *)8));
	TELL(filter(0, &(struct sock_fprog){ 0, many }));
	TELL(filter(0, &(struct sock_fprog){ 4097, many }));
	TELL(filter(0, &(struct sock_fprog){ 1, (void *)8 }));
	TELL(filter(0, PROGRAM(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), ALWAYS(0))));
	TELL(filter(0, PROGRAM(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), ALWAYS(0))));
	TELL(filter(0, PROGRAM(BPF_STMT(BPF_LD | BPF_MEM, 0), ALWAYS(0))));
	TELL(filter(0, PROGRAM(BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0), ALWAYS(0))));
	TELL(filter(0, PROGRAM(BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 2), ALWAYS(0))));
	TELL(filter(0, PROGRAM(BPF_STMT(BPF_LD | BPF_IMM, 2))));
	TELL(filter(1 << 20, &large));
	TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
	TELL(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, many));
	TELL(syscall(SYS_seccomp, 77, 0, NULL));
	TELL(prctl(PR_SET_SECCOMP, 0));
	TELL(prctl(PR_SET_SECCOMP, 3));
	TELL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8));
	action = SECCOMP_RET_TRAP;
	TELL(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	action = 0x12340000;
	TELL(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	TELL(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 1, &action));
	TELL(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, NULL));
	TELL(prctl(PR_GET_SECCOMP));
	int set = 0;

	while (set < 100 && !filter(0, &large)) /* how many there is room for differs */
		set++;
	int full = errno == ENOMEM;

	TELL(set > 1 && set < 100 && full);
}

int main(void)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	TELL(prctl(PR_GET_SECCOMP));
	child("strict", strict);
	child("strict-getpid", strict_getpid);
	child("answers", answers);
	child("arguments", arguments);
	child("trap-handled", trap_handled);
	child("trap-default", trap_default);
	child("trap-blocked", trap_blocked);
	child("kill-process", kill_process);
	child("threads", threads);
	child("wrong", wrong);
	TELL(prctl(PR_GET_SECCOMP));
	return 0;
}
