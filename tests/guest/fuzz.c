/*
 * Gives the kernel nonsense from user mode: system calls with random numbers, pointers, structures
 * and descriptors, from single processes, threads and forks, and random instructions. Each child
 * makes its calls from a seed of its own. It need not live; the kernel has to.
 *   fuzz SECONDS [SEED [CHILDREN]]    run it as a user whose processes may all be killed
 * Prints a line at the end; with FUZZ_VERBOSE also each seed and how its child ended, to stderr.
 */
#include "guest.h"
#include "../../module/hanare_abi.h"
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define CALLS 400
#define CHILD_MS 3000
#define BUFFERS 6
#define KIB 1024UL

static uint64_t state;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dULL;
}

static uint64_t below(uint64_t limit)
{
	return any() % limit;
}

static unsigned char *buffer[BUFFERS];
/* The children's: how many calls were made, and the last one's number. */
static volatile long *made;
static int highest_fd;

/* What end everything, wait for nothing or disturb others than this child. */
static int left_out(long nr)
{
	switch (nr) {
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
	case SYS_pidfd_send_signal:
	case SYS_reboot:
	case SYS_vhangup:
	case SYS_setsid:
	case SYS_setpgid:
		return 1;
	default:
		return 0;
	}
}

static uint64_t number(void)
{
	static const uint64_t values[] = {
		0, 1, 2, 3, 4, 7, 8, 15, 16, 63, 64, 255, 256, 4095, 4096, 4097, 65535, 65536, 1 << 20,
		(1 << 21) - 1, 1 << 21, 1 << 30, 0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 32,
		1ULL << 40, 1ULL << 46, 0x7fffffffffff, 1ULL << 62, 1ULL << 63, ~0ULL, ~0ULL - 1,
		~0ULL - 4095, 0x8000000000000fffULL,
	};

	switch (below(4)) {
	case 0:
		return below(16);
	case 1:
		return values[below(sizeof(values) / sizeof(*values))] + below(3) - 1;
	case 2:
		return 1ULL << below(64) | 1ULL << below(64);
	default:
		return any() >> below(64);
	}
}

/* Somewhere in memory: ours, half ours, unmapped, the kernel's, the proxy's. */
static uint64_t pointer(void)
{
	static const uint64_t places[] = {
		0, 1, 0xfff, 0x1000, HANARE_USER_MIN, HANARE_USER_MAX, HANARE_SLOT_BASE, HANARE_START_BASE,
		HANARE_SCRATCH_END - PAGE, HANARE_BOX_BASE, HANARE_PROXY_BASE, HANARE_PROXY_BASE + PAGE, 0x7ffffffff000,
		0x7fffffffffff, 0x800000000000, 0xffff7fffffffffff, HANARE_DIRECT_BASE,
		HANARE_DIRECT_BASE + (1 << 24), HANARE_KERNEL_BASE, HANARE_KERNEL_BASE + (1 << 24), 0xffffffffff600000,
		~0ULL, ~0ULL - 7,
	};
	unsigned char *base = buffer[below(BUFFERS)];

	switch (below(8)) {
	case 0:
		return places[below(sizeof(places) / sizeof(*places))];
	case 1:
		return (uint64_t)base + PAGE * 4 - below(64);
	case 2:
		return (uint64_t)base - below(64);
	case 3:
		return number();
	default:
		return (uint64_t)base + (below(4) ? below(PAGE * 4) & ~7UL : below(PAGE * 4));
	}
}

static const char *const paths[] = {
	".", "..", "file", "folder", "folder/file", "link", "/", "", "/dev/null", "/dev/zero", "/proc/self/mem",
	"/proc/self/maps", "/proc/self/exe", "/proc/self/fd/0", "/proc/thread-self/stat", "/dev/hanare", "/dev/shm/x",
	"/proc/1/mem", "/sys/kernel/mm", "/dev/full", "/bin/true", "/proc/self/fd", "/etc/passwd", "/dev/tty", "fifo",
};

/* A structure: numbers, pointers and small values where a call may look for them. */
static void fill(unsigned char *at, size_t size)
{
	for (size_t n = 0; n + 8 <= size; n += 8) {
		uint64_t value = 0;

		switch (below(6)) {
		case 0:
			value = pointer();
			break;
		case 1:
			value = number();
			break;
		case 2:
			value = below(16) | below(16) << 32;
			break;
		case 3:
			value = below(128);
			break;
		}
		memcpy(at + n, &value, 8);
	}
}

static uint64_t argument(void)
{
	unsigned char *at;

	switch (below(9)) {
	case 0:
	case 1:
		return below(highest_fd + 4);
	case 2:
	case 3:
		return pointer();
	case 4:
		at = buffer[below(2)] + (below(PAGE * 3) & ~7UL);
		fill(at, 8 + below(240));
		return (uint64_t)at;
	case 5:
		at = buffer[below(2)] + (below(PAGE * 3) & ~7UL);
		strcpy((char *)at, paths[below(sizeof(paths) / sizeof(*paths))]);
		return (uint64_t)at;
	case 6:
		return number();
	case 7:
		return below(3) ? below(64) : -100;
	default:
		return 0;
	}
}

static long call_number(void)
{
	/* The calls that the LWK itself serves, more often than the others. */
	static const int local[] = {
		SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_mremap, SYS_madvise, SYS_mincore, SYS_mlock,
		SYS_msync, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
		SYS_clone, SYS_clone3, SYS_fork, SYS_vfork, SYS_execve, SYS_execveat, SYS_futex,
		SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_sched_setaffinity,
		SYS_sched_yield, SYS_set_robust_list, SYS_set_tid_address, SYS_arch_prctl, SYS_prctl,
		SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_process_vm_readv, SYS_process_vm_writev,
		SYS_shmget, SYS_shmat, SYS_shmdt, SYS_mlockall, SYS_munlockall, SYS_membarrier, SYS_rseq,
		SYS_wait4, SYS_waitid, SYS_timer_create, SYS_timer_settime, SYS_setitimer, SYS_getrusage,
		SYS_times, SYS_pipe2, SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_close, SYS_dup3,
		SYS_close_range, SYS_ioctl, SYS_memfd_create, SYS_ftruncate, SYS_prlimit64, SYS_ptrace,
		SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_setup, SYS_io_submit, SYS_userfaultfd,
	};

	long nr;

	switch (below(8)) {
	case 0:
		nr = number();
		break;
	case 1:
	case 2:
	case 3:
		nr = below(470);
		break;
	default:
		nr = local[below(sizeof(local) / sizeof(*local))];
	}
	/* These end nearly every caller that does not mean them. */
	switch (nr) {
	case SYS_rt_sigreturn:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_arch_prctl:
	case SYS_alarm:
	case SYS_setitimer:
	case SYS_pause:
	case SYS_execve:
	case SYS_execveat:
		return below(20) ? SYS_getppid : nr;
	default:
		return nr;
	}
}

static void calls(unsigned int count)
{
	while (count--) {
		uint64_t a[6];
		long nr = call_number();

		if (left_out(nr))
			continue;
		for (int n = 0; n < 6; n++)
			a[n] = argument();
		made[0]++;
		made[1] = nr;
		/* A child's child goes on with other numbers. */
		long result = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);

		if (result == 0 && (nr == SYS_fork || nr == SYS_vfork))
			state ^= 0x9e3779b97f4a7c15ULL * getpid();
	}
}

static void *calling(void *argument)
{
	(void)argument;
	calls(CALLS / 4);
	return NULL;
}

/* Threads by hand: nothing of the C library's survives here for long. */
static void threads(void)
{
	for (int n = 0; n < 3; n++) {
		unsigned char *stack = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (stack == MAP_FAILED)
			return;
		clone((int (*)(void *))calling, stack + 64 * KIB,
		      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
		      NULL);
	}
	calls(CALLS);
}

/* Random instructions, and real ones with random registers. */
static void code(void)
{
	unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const unsigned char kinds[][4] = {
		{ 2, 0x0f, 0x05 }, { 2, 0xcd, 0x80 }, { 2, 0x0f, 0x34 }, { 1, 0xf4 }, { 1, 0xfa }, { 1, 0xcf },
		{ 2, 0x0f, 0x0b }, { 1, 0xcc }, { 2, 0xcd, 0x02 }, { 2, 0xcd, 0xff }, { 1, 0x9d }, { 2, 0x8e, 0xd0 },
		{ 3, 0x0f, 0x01, 0xd0 }, { 3, 0x0f, 0x01, 0xf8 }, { 2, 0x0f, 0x30 }, { 2, 0x0f, 0x32 },
		{ 3, 0x48, 0x0f, 0x07 }, { 3, 0x0f, 0x20, 0xc0 }, { 1, 0xec }, { 2, 0xcd, 0x0e }, { 2, 0x0f, 0xae },
	};

	if (page == MAP_FAILED)
		return;
	for (int n = 0; n < PAGE; n++)
		page[n] = any();
	for (int at = 0; at < 256; at += 1 + below(12)) {
		const unsigned char *kind = kinds[below(sizeof(kinds) / sizeof(*kinds))];

		memcpy(page + at, kind + 1, *kind);
	}
	uint64_t r[8];

	for (int n = 0; n < 8; n++)
		r[n] = below(2) ? argument() : any();
	__asm__ volatile("mov %0, %%r11\n push %1\n popfq\n mov (%2), %%rax\n mov 8(%2), %%rdi\n"
			 "mov 16(%2), %%rsi\n mov 24(%2), %%rdx\n mov 32(%2), %%r10\n mov 40(%2), %%r8\n"
			 "testl $1, 48(%2)\n jz 1f\n mov 56(%2), %%rsp\n 1: jmp *%%r11"
			 : : "r"(page), "r"(r[6] & 0xcd5), "r"(r) : "memory", "r11", "rax", "rdi", "rsi", "rdx",
			 "r10", "r8");
}

static void descriptors(void)
{
	int pair[2];

	mkdir("folder", 0777);
	mkfifo("fifo", 0666);
	(void)!symlink("file", "link");
	open("file", O_RDWR | O_CREAT, 0666);
	open(".", O_RDONLY);
	open("/dev/hanare", O_RDWR);
	open("/dev/zero", O_RDWR);
	pipe2(pair, O_NONBLOCK);
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
	socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	eventfd(0, EFD_NONBLOCK);
	highest_fd = memfd_create("fuzz", 0);
	(void)!ftruncate(highest_fd, 4 * PAGE);
	highest_fd = epoll_create1(0);
}

static void child(uint64_t seed)
{
	static const struct {
		int what;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_AS, 300 << 20 }, { RLIMIT_FSIZE, 1 << 20 }, { RLIMIT_NPROC, 60 },
		{ RLIMIT_CORE, 0 }, { RLIMIT_NOFILE, 64 },
	};

	for (unsigned int n = 0; n < sizeof(limits) / sizeof(*limits); n++)
		setrlimit(limits[n].what, &(struct rlimit){ limits[n].most, limits[n].most });
	state = seed * 0x9e3779b97f4a7c15ULL + 1;
	for (int n = 0; n < 8; n++)
		any();
	int null = open("/dev/null", O_RDWR);

	for (int n = 0; n < 3; n++)
		dup2(null, n);
	descriptors();
	for (int n = 0; n < BUFFERS; n++) {
		/* Writable, writable and shared, read-only, none; each with nothing behind it. */
		buffer[n] = mmap(NULL, PAGE * 6, PROT_READ | PROT_WRITE,
				 (n == 1 ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
		munmap(buffer[n] + PAGE * 5, PAGE);
		munmap(buffer[n], PAGE);
		buffer[n] += PAGE;
		if (n == 3)
			mprotect(buffer[n], PAGE * 4, PROT_READ);
		if (n == 4)
			mprotect(buffer[n], PAGE * 4, PROT_NONE);
	}
	switch (seed % 8) {
	case 0:
		code();
		break;
	case 1:
	case 2:
		threads();
		break;
	default:
		calls(CALLS);
	}
	syscall(SYS_exit_group, 0);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1, most = argc > 3 ? atoi(argv[3]) : 1 << 30;
	unsigned int ended = 0, killed = 0, late = 0;

	made = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	printf("from seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	for (; time(NULL) < end && most--; seed++) {
		if (getenv("FUZZ_VERBOSE"))
			dprintf(2, "seed %llu: ", (unsigned long long)seed);
		pid_t pid = fork();

		if (pid < 0) {
			usleep(100000);
			continue;
		}
		if (pid == 0) {
			setpgid(0, 0);
			child(seed);
		}
		int status = 0;
		long begun = now_ms(), waited = 0;
		pid_t one;

		/* Also its threads: one that had itself traced (PTRACE_TRACEME) waits for us. */
		while ((one = waitpid(-1, &status, WNOHANG | __WALL)) != pid ||
		       !(WIFEXITED(status) || WIFSIGNALED(status))) {
			if (one > 0)
				continue;
			waited = now_ms() - begun;
			if (waited > CHILD_MS)
				kill(pid, SIGKILL);
			if (waited > CHILD_MS + 200000) {
				printf("seed %llu cannot be killed\n", (unsigned long long)seed);
				return 1;
			}
			usleep(3000);
		}
		if (getenv("FUZZ_VERBOSE"))
			dprintf(2, "%x, %ld calls in all, the last %ld\n", status, made[0], made[1]);
		late += waited > CHILD_MS;
		killed += WIFSIGNALED(status);
		ended++;
		/* Its own children, wherever they are. */
		kill(-pid, SIGKILL);
		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			;
	}
	printf("to seed %llu: %u children, %ld calls, %u killed by a signal, %u at their deadline\n",
	       (unsigned long long)seed - 1, ended, made[0], killed, late);
	return 0;
}
