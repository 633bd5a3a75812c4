/* What execve makes of rights, ids, random addresses, exit signals and threads (as root). */
#include "guest.h"
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>

static const char *self;

static void sets(struct __user_cap_data_struct *to, const struct __user_cap_data_struct *from)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };

	if (from)
		TELL(syscall(SYS_capset, &header, from));
	else
		syscall(SYS_capget, &header, to);
}

static void show(const char *when)
{
	struct __user_cap_data_struct s[2] = { 0 };
	uid_t r, e, saved;
	int signal = 0;

	sets(s, NULL);
	getresuid(&r, &e, &saved);
	prctl(PR_GET_PDEATHSIG, &signal);
	printf("%s: secure %lu, users %d %d %d, groups %d %d, dumpable %d, death signal %d\n", when,
	       getauxval(AT_SECURE), r, e, saved, getgid(), getegid(), prctl(PR_GET_DUMPABLE), signal);
	printf("  capabilities %x %x %x, bound %d, ambient %d, securebits %#x, told %lu %lu %lu %lu\n",
	       s[0].effective, s[0].permitted, s[0].inheritable, prctl(PR_CAPBSET_READ, CAP_NET_RAW),
	       prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_NET_RAW, 0, 0), prctl(PR_GET_SECUREBITS),
	       getauxval(AT_UID), getauxval(AT_EUID), getauxval(AT_GID), getauxval(AT_EGID));
}

static void again(void)
{
	execl(self, self, "show", NULL);
	_exit(9);
}

static void keep(unsigned permitted, unsigned effective, unsigned inheritable)
{
	struct __user_cap_data_struct s[2];

	sets(s, NULL);
	s[0].permitted &= permitted;
	s[0].effective &= permitted & effective;
	s[0].inheritable = inheritable;
	sets(NULL, s);
}

#define RAW (1u << CAP_NET_RAW)
static void nothing(void) { again(); }
static void group(void) { setresgid(0, 1000, 0); prctl(PR_SET_PDEATHSIG, SIGUSR1); again(); }
static void user(void) { setresuid(0, 1000, 0); prctl(PR_SET_DUMPABLE, 1); again(); }
static void real_user(void) { setresuid(1000, 0, 0); again(); }
static void less_effective(void) { keep(~0u, ~RAW, 0); again(); }
static void less_permitted(void) { keep(~RAW, ~0u, 0); again(); }
static void none(void) { keep(0, 0, 0); again(); }
static void bound(void) { TELL(prctl(PR_CAPBSET_DROP, CAP_NET_RAW)); again(); }
static void bound_but_inheritable(void) { keep(~0u, ~0u, RAW); prctl(PR_CAPBSET_DROP, CAP_NET_RAW); again(); }
static void no_root(void) { prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED); again(); }
static void no_fixup(void) { prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP); setresuid(1000, 1000, 1000); again(); }

static void ambient(void)
{
	keep(~0u, ~0u, RAW);
	TELL(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0));
	prctl(PR_SET_KEEPCAPS, 1);
	setresuid(1000, 1000, 1000);
	again();
}

static void no_new(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); setresgid(0, 1000, 0); again(); }
static void no_new_less(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); keep(~RAW, ~0u, 0); again(); }

static int shares_directory(void *unused)
{
	(void)unused;
	less_permitted();
	return 1;
}

static void shared_directory(void)
{
	static char stack[65536];
	int status;

	waitpid(clone(shares_directory, stack + sizeof(stack), CLONE_FS | SIGCHLD, NULL), &status, 0);
	_exit(status);
}

/* ---- random bytes and addresses ---- */

struct places { unsigned char random[16]; void *stack, *heap, *map; };

static void send_places(void)
{
	struct places p = { .stack = &p, .heap = sbrk(0) };

	memcpy(p.random, (void *)getauxval(AT_RANDOM), 16);
	p.map = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write(3, &p, sizeof(p));
}

static void compare(const char *what, int fixed)
{
	struct places p[2];
	int ends[2], status;

	pipe(ends);
	for (int i = 0; i < 2; i++) {
		if (!fork()) {
			dup2(ends[1], 3);
			if (fixed)
				personality(ADDR_NO_RANDOMIZE);
			execl(self, self, "places", NULL);
			_exit(9);
		}
		wait(&status);
		read(ends[0], p + i, sizeof(*p));
	}
	close(ends[0]);
	close(ends[1]);
	printf("%s: random differs %d, stack %d, heap %d, map %d\n", what, !!memcmp(p[0].random, p[1].random, 16),
	       p[0].stack != p[1].stack, p[0].heap != p[1].heap, p[0].map != p[1].map);
	fflush(stdout);
}

/* ---- the end of a program ---- */

static char stack[65536] __attribute__((aligned(16)));
static volatile int told, word;

static void hears(int signal)
{
	told = signal;
}

static int runs(void *unused)
{
	(void)unused;
	execl(self, self, "nothing", NULL);
	_exit(9);
}

static int ends(void *unused)
{
	(void)unused;
	_exit(3);
}

static void exit_signal(int signal, int flags)
{
	siginfo_t info = { 0 };
	int status = 0, ret;
	pid_t pid;

	told = 0;
	pid = clone(runs, stack + sizeof(stack), flags | signal, NULL);
	while (waitid(P_PID, pid, &info, WEXITED | WNOWAIT | __WALL) && errno == EINTR)
		;
	ret = waitpid(pid, &status, 0);
	printf("exit signal %d, flags %#x: told by %d, waited for %d\n", signal, flags, told, ret == pid);
	if (ret != pid)
		waitpid(pid, &status, __WALL);
	fflush(stdout);
}

static void cleared(const char *what, int (*body)(void *))
{
	word = 77;
	waitpid(clone(body, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | SIGCHLD, NULL,
		      NULL, NULL, &word), NULL, 0);
	printf("word after a vfork's child that %s: %d\n", what, word);
	fflush(stdout);
}

/* ---- another thread than the first ---- */

static int same_link(const char *a, const char *b)
{
	char x[100] = "", y[100] = "";

	readlink(a, x, 99);
	readlink(b, y, 99);
	return *x && !strcmp(x, y);
}

static void show_thread(void)
{
	char name[17] = "", host[65] = "";
	int signal = -1;

	prctl(PR_GET_NAME, name);
	prctl(PR_GET_PDEATHSIG, &signal);
	gethostname(host, 64);
	printf("  first %d, named %s, nice %d %d, slack %d, death signal %d, policy %d, no new %d, host %d, user %d\n",
	       getpid() == gettid(), name, getpriority(PRIO_PROCESS, 0), getpriority(PRIO_PROCESS, getpid()),
	       prctl(PR_GET_TIMERSLACK), signal, sched_getscheduler(getpid()), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
	       !strcmp(host, "execed"), getuid());
	printf("  namespace %d, directory %d, descriptor 50: %d %d, dumpable %d\n",
	       same_link("/proc/self/ns/uts", "/proc/thread-self/ns/uts"),
	       same_link("/proc/self/cwd", "/proc/thread-self/cwd"), fcntl(50, F_GETFD),
	       access("/proc/self/fd/50", F_OK), prctl(PR_GET_DUMPABLE));
}

static void *change(void *how)
{
	switch ((long)how) {
	case 1:
		setpriority(PRIO_PROCESS, gettid(), 7);
		prctl(PR_SET_TIMERSLACK, 123456);
		break;
	case 2:
		prctl(PR_SET_PDEATHSIG, SIGUSR2);
		sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 });
		break;
	case 3:
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		syscall(SYS_setresuid, 1000, 1000, 1000);
		break;
	}
	execl(self, self, "thread", NULL);
	return NULL;
}

static long how;

static void by_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, change, (void *)how);
	pthread_join(thread, NULL);
}

/* ---- execve while signals come ---- */

#define IN_RAIN 40
static void heard_it(int signal)
{
}

/* Every program has random bytes, whatever comes while it is started. */
static void again_in_rain(int left)
{
	const uint64_t *random = (void *)getauxval(AT_RANDOM);
	char number[12];

	if (!random[0] || !random[1])
		printf("no random bytes\n");
	signal(SIGWINCH, heard_it);
	snprintf(number, sizeof(number), "%d", left - 1);
	if (left)
		execl(self, self, "rain", number, NULL);
}

static void rain(void)
{
	int pid = fork(), status;

	if (!pid) {
		again_in_rain(IN_RAIN);
		_exit(99);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		kill(pid, SIGWINCH);
		usleep(500);
	}
	printf("in the rain: %x\n", status);
}

/* ---- the order of errors ---- */

static void errors(void)
{
	char *wrong[] = { (char *)8, NULL }, *none[] = { NULL }, **many = calloc(100, sizeof(*many));
	char *long_one = calloc(1, 100001);

	memset(long_one, 'x', 100000);
	for (int i = 0; i < 80; i++)
		many[i] = long_one;
	TELL(execve("/nowhere", many, none));
	TELL(execve("/etc/passwd", many, none));
	TELL(execve("", wrong, none));
	TELL(execve("/nowhere", wrong, none));
}

int main(int argc, char **argv)
{
	static char path[PATH_MAX];

	readlink("/proc/self/exe", path, PATH_MAX - 1);
	self = path;
	if (argc > 1) {
		if (!strcmp(argv[1], "show"))
			show("after");
		else if (!strcmp(argv[1], "places"))
			send_places();
		else if (!strcmp(argv[1], "thread"))
			show_thread();
		else if (!strcmp(argv[1], "rain"))
			again_in_rain(atoi(argv[2]));
		return 0;
	}
	child_of("nothing", 0, nothing);
	child_of("group", 0, group);
	child_of("user", 0, user);
	child_of("real user", 0, real_user);
	child_of("less effective", 0, less_effective);
	child_of("less permitted", 0, less_permitted);
	child_of("none", 0, none);
	child_of("bound", 0, bound);
	child_of("bound but inheritable", 0, bound_but_inheritable);
	child_of("no root", 0, no_root);
	child_of("no fixup", 0, no_fixup);
	child_of("ambient", 0, ambient);
	child_of("no new privileges", 0, no_new);
	child_of("no new privileges, less", 0, no_new_less);
	child_of("shared directory", 0, shared_directory);
	compare("two children", 0);
	compare("not randomised", 1);
	signal(SIGCHLD, hears);
	signal(SIGUSR1, hears);
	exit_signal(0, 0);
	exit_signal(SIGUSR1, 0);
	exit_signal(SIGUSR1, CLONE_VM | CLONE_VFORK);
	signal(SIGCHLD, SIG_DFL);
	cleared("runs", runs);
	cleared("ends", ends);
	for (how = 0; how <= 3; how++)
		child_of("thread", 0, by_thread);
	rain();
	child_of("errors", 0, errors);
	return 0;
}
