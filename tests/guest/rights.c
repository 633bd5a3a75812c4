/* What execve leaves of rights (as root): saved ids, capabilities kept beyond a change of user. */
#include "guest.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

static const char *self;

static void show(const char *when)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct sets[2] = { 0 };
	uid_t r, e, s;

	getresuid(&r, &e, &s);
	printf("%s: users %d %d %d %d, ", when, r, e, s, setfsuid(-1));
	getresgid(&r, &e, &s);
	syscall(SYS_capget, &header, sets);
	printf("groups %d %d %d %d, capabilities %#x %#x %#x, kept %d\n", r, e, s, setfsgid(-1),
	       sets[0].effective, sets[0].permitted, sets[0].inheritable, prctl(PR_GET_KEEPCAPS));
}

static void *again(void *argument)
{
	return argument;
}

static void begun(void)
{
	pthread_t thread;

	show("after");
	TELL(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_THREAD_KEYRING, 0));
	TELL(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0));
	pthread_create(&thread, NULL, again, NULL);
	pthread_join(thread, NULL);
	TELL(seteuid(0));
	TELL(setuid(0));
	TELL(chroot("/"));
	show("in the end");
}

static void *in_thread(void *argument)
{
	syscall(SYS_setresuid, 1000, 1000, 0);
	execl(self, self, "begun", NULL);
	return argument;
}

static void change(int how)
{
	pthread_t thread;

	switch (how) {
	case 0:
		setresuid(1000, 1000, 0);
		break;
	case 1:
		seteuid(1000);
		break;
	case 2:
		prctl(PR_SET_KEEPCAPS, 1);
		setresuid(1000, 1000, 1000);
		break;
	case 3:
		setresgid(100, 100, 0);
		setresuid(1000, 1000, 1000);
		break;
	case 4:
		setresuid(1000, 0, 1000);
		break;
	case 5:
		setfsuid(1000);
		setfsgid(100);
		break;
	case 6:
		pthread_create(&thread, NULL, again, NULL);
		pthread_join(thread, NULL);
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
		break;
	case 7: {
		struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
		struct __user_cap_data_struct sets[2];

		prctl(PR_SET_KEEPCAPS, 1);
		setresuid(1000, 1000, 1000);
		syscall(SYS_capget, &header, sets);
		sets[0].inheritable = sets[0].effective = 1 << CAP_SYS_CHROOT;
		syscall(SYS_capset, &header, sets);
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_CHROOT, 0, 0);
		break;
	}
	case 8: {
		struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
		struct __user_cap_data_struct none[2] = { 0 };
		struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
		struct sock_fprog filter = { 1, &allow };

		TELL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
		TELL(syscall(SYS_capset, &header, none));
		break;
	}
	case 9:
		syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_THREAD_KEYRING, 1);
		syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1);
		TELL(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0) > 0);
		break;
	}
	show("before");
	execl(self, self, "begun", NULL);
	_exit(9);
}

int main(int argc, char **argv)
{
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	self = argv[0];
	if (argc > 1) {
		if (!strcmp(argv[1], "show"))
			show("here");
		else
			begun();
		return 0;
	}
	for (int how = 0; how < 10; how++) {
		pid_t pid = fork();

		if (pid == 0)
			change(how);
		waitpid(pid, &status, 0);
		printf("%d: %#x\n", how, status);
	}
	return 0;
}
