/*
 * Programs whose seccomp filter allows exactly the calls that they make: Hanare makes no other call
 * on Linux on their behalf, which would kill them.
 */
#include "guest.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

extern char **environ;

static const short basic[] = {
	SYS_read, SYS_write, SYS_close, SYS_fstat, SYS_newfstatat, SYS_brk, SYS_exit, SYS_exit_group,
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_gettid, SYS_getpid, SYS_tgkill,
	SYS_kill, -1,
};
static const short memory[] = { SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_msync, SYS_mlock, SYS_munlock, SYS_memfd_create, SYS_ftruncate, -1 };
static const short threads[] = {
	SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_clone, SYS_clone3, SYS_futex, SYS_set_robust_list,
	SYS_rseq, SYS_sched_yield, SYS_clock_nanosleep, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_getuid, -1,
};
static const short children[] = { SYS_clone, SYS_clone3, SYS_fork, SYS_vfork, SYS_wait4, SYS_set_robust_list, SYS_rseq, SYS_dup2, SYS_pipe2, SYS_getuid, -1 };
/* What a program and its dynamic linker need from the beginning. */
static const short programs[] = {
	SYS_execve, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_arch_prctl, SYS_set_tid_address, SYS_set_robust_list,
	SYS_rseq, SYS_prlimit64, SYS_getrandom, SYS_openat, SYS_access, SYS_pread64, SYS_readlink, SYS_readlinkat, SYS_futex,
	SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getppid, SYS_stat, SYS_ioctl, SYS_fcntl, SYS_lseek,
	SYS_getcwd, SYS_uname, SYS_fadvise64, SYS_sysinfo, SYS_writev, SYS_sendfile, SYS_copy_file_range, -1,
};

static void confine_with(const short *lists[], unsigned flags)
{
	static struct sock_filter all[200];
	struct sock_fprog program = { 0, all };
	int n = 0;

	all[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4);
	all[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	all[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	all[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
	for (; *lists; lists++)
		for (const short *number = *lists; *number >= 0; number++) {
			all[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *number, 0, 1);
			all[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
		}
	all[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	program.len = n;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program))
		_exit(40);
}

#define CONFINE(...) confine_with((const short *[]){ basic, __VA_ARGS__, NULL }, 0)

static volatile int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void *adds(void *sum)
{
	__atomic_add_fetch((int *)sum, 1, __ATOMIC_RELAXED);
	return sum;
}

static void run_threads(void)
{
	pthread_t all[8];
	int sum = 0;

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 8; i++)
			pthread_create(&all[i], NULL, adds, &sum);
		for (int i = 0; i < 8; i++)
			pthread_join(all[i], NULL);
	}
	printf("threads: %d\n", sum);
}

static void with_threads(void)
{
	CONFINE(threads);
	run_threads();
}

static void with_memory(void)
{
	char *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	int fd;

	CONFINE(memory);
	memset(p, 1, 64 * PAGE);
	p = mremap(p, 64 * PAGE, 128 * PAGE, MREMAP_MAYMOVE);
	TELL(mprotect(p, PAGE, PROT_READ));
	TELL(madvise(p + PAGE, PAGE, MADV_DONTNEED));
	TELL(mlock(p, PAGE));
	TELL(munlock(p, PAGE));
	fd = memfd_create("shared", 0);
	TELL(ftruncate(fd, 4 * PAGE));
	q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q[5] = 7;
	TELL(msync(q, 4 * PAGE, MS_SYNC));
	q = mremap(q, 4 * PAGE, 2 * PAGE, 0);
	printf("%d %d\n", q[5], p[PAGE]);
	TELL(munmap(q, 2 * PAGE));
	TELL(mprotect(p + 2 * PAGE, PAGE, PROT_READ | PROT_EXEC));
}

static atomic_int taken;

static void *waits(void *unused)
{
	sigset_t set;
	siginfo_t info;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	for (int i = 0; i < 20; i++) {
		while (sigwaitinfo(&set, &info) < 0)
			;
		if (info.si_value.sival_int != i || info.si_pid != getpid())
			printf("wrong: %d, not %d\n", info.si_value.sival_int, i);
		taken = i + 1;
	}
	return NULL;
}

static void with_signals(void)
{
	sigset_t set;
	pthread_t thread;
	struct timespec little = { 0, 2000000 };

	CONFINE(threads);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	kill(getpid(), SIGUSR1);
	printf("handled %d\n", handled);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_create(&thread, NULL, waits, NULL);
	for (int i = 0; i < 20; i++) {
		if (i % 2)
			sigqueue(getpid(), SIGUSR2, (union sigval){ .sival_int = i });
		else
			pthread_sigqueue(thread, SIGUSR2, (union sigval){ .sival_int = i });
		/*
		 * While one SIGUSR2 is pending the next is dropped; the thread's own comes first.
		 */
		while (taken == i)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &little, NULL);
	}
	pthread_join(thread, NULL);
}

static void with_children(void)
{
	int status, fds[2];
	pid_t pid;

	CONFINE(children, programs);
	pipe2(fds, 0);
	for (int i = 0; i < 3; i++) {
		pid = i == 1 ? vfork() : fork();
		if (!pid) {
			write(fds[1], "x", 1);
			if (i == 2)
				raise(SIGTERM);
			_exit(i);
		}
		TELL(waitpid(pid, &status, 0) == pid);
		printf("status %#x\n", status);
	}
	fflush(stdout);
	if (!posix_spawn(&pid, "/bin/echo", NULL, NULL, (char *[]){ "echo", "spawned", NULL }, environ))
		TELL(waitpid(pid, &status, 0) == pid);
	printf("status %#x\n", status);
}

static void *execs(void *unused)
{
	(void)unused;
	CONFINE(threads, programs);
	execl("/bin/echo", "echo", "from a thread with a filter of its own", NULL);
	_exit(41);
}

static void *yields(void *unused)
{
	for (;;)
		sched_yield();
	return unused;
}

/* Its execve is Linux': the first thread's worker has no filter. */
static void with_exec_of_a_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, yields, NULL);
	pthread_create(&thread, NULL, execs, NULL);
	yields(NULL);
}

static void *ends_first(void *first)
{
	pthread_join(*(pthread_t *)first, NULL);
	CONFINE(threads, programs);
	run_threads();
	fflush(stdout);
	execl("/bin/echo", "echo", "the first thread had ended", NULL);
	_exit(41);
}

static void with_first_gone(void)
{
	static pthread_t first;
	pthread_t thread;

	first = pthread_self();
	pthread_create(&thread, NULL, ends_first, &first);
	pthread_exit(NULL);
}

static void dies(void)
{
	CONFINE(threads);
	*(volatile int *)8 = 1;
}

static void forbidden(void)
{
	CONFINE(threads);
	syscall(SYS_getppid);
}

static void all_at_once(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, yields, NULL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	confine_with((const short *[]){ basic, threads, NULL }, SECCOMP_FILTER_FLAG_TSYNC);
	run_threads();
	confine_with((const short *[]){ basic, threads, NULL }, 0);
}

/* A second and a third filter; the first one knows seccomp(2). */
static void more_and_more(void)
{
	static const short again[] = { SYS_seccomp, SYS_prctl, -1 };

	CONFINE(threads, again);
	CONFINE(threads, again);
	CONFINE(threads);
	run_threads();
}

static void try(const char *name, void (*body)(void))
{
	int status;
	pid_t pid;

	printf("%s\n", name);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		body();
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("  ended with %#x\n", status);
}

int main(void)
{
	try("memory", with_memory);
	try("threads", with_threads);
	try("signals", with_signals);
	try("children", with_children);
	try("exec of a thread", with_exec_of_a_thread);
	try("first gone", with_first_gone);
	try("fault", dies);
	try("forbidden", forbidden);
	try("all at once", all_at_once);
	try("more and more", more_and_more);
	return 0;
}
