/*
 * A seccomp filter also holds for calls that a program forges into its worker's slot.
 * The confined program has Linux write a request to where slots lie (abi/src/layout.rs) by read(2), whose
 * buffer no filter checks. On Linux nothing lies there.
 */
#include "guest.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
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

int main(void)
{
	char dir[] = "/tmp/breaks-out-XXXXXX";

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	try("strict", strict);
	try("filtered", filtered);
	try("notified", notified);
	chdir("/");
	rmdir(dir);
	return 0;
}
