/* System calls with bad pointers. */
#include "guest.h"
#include <pthread.h>
#include <sys/utsname.h>

static void *ends_with_bad_robust_list(void *unused)
{
	(void)unused;
	return (void *)syscall(SYS_set_robust_list, -4L, 24);
}

int main(void)
{
	int file = open("efault-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *bad = (char *)0xdead0000000, *kernel = (char *)0xffff888000000000;
	char *text = (char *)main;
	struct iovec vector[2] = { { p, 10 }, { bad, 10 } };
	char data[3 * PAGE];
	int pipes[2];

	pipe(pipes);
	memset(data, 'd', sizeof(data));
	write(file, data, sizeof(data));
	lseek(file, 0, SEEK_SET);
	TELL(read(file, text, 100));
	TELL(read(file, bad, 100));
	TELL(read(file, kernel, 100));
	TELL(read(file, NULL, 100));
	TELL(write(file, bad, 100));
	TELL(write(file, kernel, 100));
	TELL(write(pipes[1], bad, 1));
	/* Across an edge: what fits is done. */
	munmap(p + 2 * PAGE, PAGE);
	lseek(file, 0, SEEK_SET);
	TELL(read(file, p + 2 * PAGE - 100, 200));
	TELL(p[2 * PAGE - 1]);
	TELL(write(pipes[1], p + 2 * PAGE - 100, 200));
	TELL(mprotect(p, PAGE, PROT_READ));
	TELL(read(file, p, 10));
	TELL(pwrite(file, p, 10, 0));
	TELL(mprotect(p, PAGE, PROT_NONE));
	TELL(pwrite(file, p, 10, 0));
	TELL(mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	TELL(pwrite(file, p, 10, 0));
	TELL(readv(file, vector, 2));
	TELL(writev(file, vector, 2));
	TELL(writev(file, (struct iovec *)bad, 2));
	TELL(open(bad, O_RDONLY));
	TELL(syscall(SYS_stat, "efault-file", bad));
	TELL(syscall(SYS_fstat, file, kernel));
	TELL(syscall(SYS_uname, bad));
	TELL(syscall(SYS_clock_gettime, CLOCK_REALTIME, bad));
	TELL(syscall(SYS_gettimeofday, bad, NULL));
	TELL(syscall(SYS_nanosleep, bad, NULL));
	TELL(syscall(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8));
	TELL(syscall(SYS_rt_sigaction, SIGUSR1, NULL, kernel, 8));
	TELL(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4));
	TELL(syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, NULL, 8));
	TELL(syscall(SYS_sigaltstack, bad, NULL));
	TELL(syscall(SYS_getrlimit, RLIMIT_AS, bad));
	TELL(syscall(SYS_getcwd, bad, 100));
	TELL(syscall(SYS_getcwd, data, 1));
	TELL(syscall(SYS_pipe, bad));
	TELL(syscall(SYS_mincore, p, PAGE, bad));
	TELL(syscall(SYS_times, bad));
	TELL(syscall(SYS_getrusage, RUSAGE_SELF, bad));
	TELL(syscall(SYS_execve, bad, NULL, NULL));
	TELL(syscall(SYS_arch_prctl, 0x1003, bad));
	TELL(syscall(SYS_futex, bad, 1, 1, NULL, NULL, 0));
	TELL(syscall(SYS_set_tid_address, bad) == getpid());
	/* Behind these the addresses wrap. */
	{
		pthread_t thread;
		void *told;

		TELL(syscall(SYS_sysinfo, -4L));
		TELL(syscall(SYS_prlimit64, 0, RLIMIT_CORE, -4L, NULL));
		TELL(pthread_create(&thread, NULL, ends_with_bad_robust_list, NULL));
		TELL(pthread_join(thread, &told));
		TELL((long)told);
	}
	TELL(syscall(9999));
	TELL(syscall(-1));
	TELL(syscall(SYS_prlimit64, 0, 99, NULL, NULL));
	/* The stack grows into a system call's argument, below the stack pointer. */
	{
		char *low = (char *)((uintptr_t)&low - 64 * 1024);

		lseek(file, 0, SEEK_SET);
		TELL(read(file, low, 16));
	}
	return 0;
}
