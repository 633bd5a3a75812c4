/*
 * A seccomp filter also holds for calls that a program forges into its worker's slot.
 * The confined program has Linux write a request to where slots lie (abi/src/layout.rs) by read(2),
 * whose buffer no filter checks. On Linux nothing lies there.
 *
 *   seccomp-forged-request          filters that answer by themselves, or by a supervisor
 *   seccomp-forged-request traced   one that leaves a call to a tracer, which lets one of that
 *                                   number through
 */
#include "guest.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <alloca.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include "../../module/hanare_abi.h"

static char path[] = "breaks-out-made-this";
static int forged[2], zero;
static volatile int is_confined, done;

static void strict(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		_exit(1);
}

/* What all calls but a few are answered with, and flags. */
static void filter(unsigned answer, unsigned long flags)
{
	struct sock_filter all[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(all) / sizeof(*all), all };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0)
		_exit(1);
}

static void filtered(void)
{
	filter(SECCOMP_RET_ERRNO | 1, 0);
}

/* A supervisor decides about it, which decides nothing: its descriptor stays open. */
static void notified(void)
{
	filter(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

static void *calls(void *confine)
{
	((void (*)(void))confine)();
	is_confined = 1;
	/* Its worker looks at its slot for a while after each call. */
	while (!done) {
		syscall(SYS_read, zero, NULL, 0);
		for (volatile int i = 0; i < 20000; i++)
			;
	}
	syscall(SYS_exit, 0);
	return NULL;
}

/* An idle worker, of a thread that ended before. */
static void *ends(void *unused)
{
	return unused;
}

static void attack(void (*confine)(void))
{
	/* The beginning of a slot: state, number, arguments. */
	struct hanare_slot request = {
		.state = HANARE_SLOT_REQUESTED, .nr = SYS_mkdir, .args = { (unsigned long)path, 0755 },
	};
	size_t bytes = offsetof(struct hanare_slot, result);
	pthread_t thread;

	pipe(forged);
	zero = open("/dev/zero", O_RDONLY);
	pthread_create(&thread, NULL, ends, NULL);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, calls, confine);
	while (!is_confined)
		;
	confine();
	for (int i = 0; i < 300; i++)
		for (int slot = 1; slot < 4; slot++) {
			syscall(SYS_write, forged[1], &request, bytes);
			syscall(SYS_read, forged[0], HANARE_SLOT_BASE + slot * sizeof(request), bytes);
		}
	done = 1;
	if (confine == notified)
		syscall(SYS_exit_group, 0); /* a forged call waits for its supervisor */
	syscall(SYS_exit, 0);
}

static void try(const char *name, void (*confine)(void))
{
	pid_t pid = fork();

	if (!pid)
		attack(confine);
	/* It may have harmed itself, and wait for ever. */
	for (int i = 0; i < 50 && !waitpid(pid, NULL, WNOHANG); i++)
		usleep(100000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%s: made a directory: %d\n", name, !access(path, F_OK));
	rmdir(path);
}

/* ---- traced ---- */

static char fifo[] = "breaks-out-waits-here";
static volatile pid_t spinner;

/* A thread whose worker is about to look at its slot most of the time. */
static void *spins(void *unused)
{
	spinner = syscall(SYS_gettid);
	return calls(unused);
}

static void nothing(void)
{
}

static void forge(const void *what, size_t bytes, unsigned long at)
{
	syscall(SYS_write, forged[1], what, bytes);
	if (syscall(SYS_read, forged[0], at, bytes) < 0)
		syscall(SYS_read, forged[0], alloca(bytes), bytes); /* on Linux */
}

static void look(unsigned long at, void *to, size_t bytes)
{
	memset(to, 0, bytes);
	if (syscall(SYS_write, forged[1], at, bytes) == (ssize_t)bytes)
		syscall(SYS_read, forged[0], to, bytes);
}

/*
 * While the first thread is in the call that its tracer has let through: another one's worker makes
 * one of the same number, as that of a thread which it says to be the first one's.
 */
static void *forges(void *unused)
{
	struct hanare_slot request = {
		.state = HANARE_SLOT_REQUESTED, .nr = SYS_openat,
		.args = { (unsigned long)AT_FDCWD, (unsigned long)path, O_CREAT | O_WRONLY, 0600 },
	};
	unsigned long tids = HANARE_SLOT_BASE + offsetof(struct hanare_slot, tid);
	int slot = 0;
	pid_t first, tid, none = 0;

	while (!spinner)
		;
	usleep(300000);
	look(tids, &first, sizeof(first));
	do
		look(tids + ++slot * sizeof(request), &tid, sizeof(tid));
	while (tid != spinner && slot < 8);
	tid = spinner;
	forge(&none, sizeof(none), tids + slot * sizeof(request));
	forge(&tid, sizeof(tid), tids);
	for (int i = 0; i < 300; i++)
		forge(&request, offsetof(struct hanare_slot, result), HANARE_SLOT_BASE + slot * sizeof(request));
	usleep(300000);
	forge(&first, sizeof(first), tids);
	forge(&tid, sizeof(tid), tids + slot * sizeof(request));
	syscall(SYS_exit_group, 0);
	return unused;
}

static void confined(void)
{
	struct sock_filter all[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(all) / sizeof(*all), all };
	pthread_t thread;

	pipe(forged);
	zero = open("/dev/zero", O_RDONLY);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		_exit(1);
	pthread_create(&thread, NULL, spins, nothing);
	pthread_create(&thread, NULL, forges, NULL);
	syscall(SYS_openat, AT_FDCWD, fifo, O_RDONLY);
	_exit(2);
}

/* Lets the first thread look at the FIFO, which waits for a writer. */
static void traced(void)
{
	int status, let_through = 0, refused = 0;
	pid_t pid = fork(), tid;

	if (!pid)
		confined();
	waitpid(pid, &status, 0);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
	ptrace(PTRACE_CONT, pid, 0, 0);
	while ((tid = waitpid(-1, &status, __WALL)) > 0 && (tid != pid || WIFSTOPPED(status))) {
		struct user_regs_struct regs;

		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8) && !ptrace(PTRACE_GETREGS, tid, 0, &regs)) {
			if (regs.rsi == (unsigned long)fifo) {
				let_through++;
			} else {
				refused++;
				regs.orig_rax = -1;
				ptrace(PTRACE_SETREGS, tid, 0, &regs);
			}
		}
		ptrace(PTRACE_CONT, tid, 0, 0);
	}
	printf("traced: let through %d, refused %d, ended %#x, made a file: %d\n", let_through, refused, status, !access(path, F_OK));
	unlink(path);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/breaks-out-XXXXXX";

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	if (argc > 1 && !strcmp(argv[1], "traced")) {
		mkfifo(fifo, 0600);
		traced();
		unlink(fifo);
	} else {
		try("strict", strict);
		try("filtered", filtered);
		try("notified", notified);
	}
	chdir("/");
	rmdir(dir);
	return 0;
}
