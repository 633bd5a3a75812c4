/*
 * Credentials belong to a thread: a raw system call changes those of the caller, the C library's
 * function those of all threads; a new thread or process has those of its creator. Run as root.
 */
#include "guest.h"

#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/wait.h>

#define FOLDER "identity"
#define ROUNDS 20

/* A thread that does what it is told, one thing after the other. */
struct actor {
	pthread_t thread;
	pthread_barrier_t begin, end;
	void (*act)(void);
};

static void *play(void *argument)
{
	struct actor *a = argument;

	for (;;) {
		pthread_barrier_wait(&a->begin);
		if (!a->act)
			return NULL;
		a->act();
		pthread_barrier_wait(&a->end);
	}
}

static void enter(struct actor *a)
{
	pthread_barrier_init(&a->begin, NULL, 2);
	pthread_barrier_init(&a->end, NULL, 2);
	if (pthread_create(&a->thread, NULL, play, a))
		abort();
}

static void have(struct actor *a, void (*act)(void))
{
	a->act = act;
	pthread_barrier_wait(&a->begin);
	if (act)
		pthread_barrier_wait(&a->end);
	else
		pthread_join(a->thread, NULL);
}

static void show(const char *who)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	int ids[6];
	gid_t groups[8];
	int n = getgroups(8, groups);

	syscall(SYS_getresuid, ids, ids + 1, ids + 2);
	syscall(SYS_getresgid, ids + 3, ids + 4, ids + 5);
	syscall(SYS_capget, &header, data);
	printf("%s: uid %d %d, gid %d %d, res %d %d %d %d %d %d, fs %d %d, groups %d", who, getuid(), geteuid(),
	       getgid(), getegid(), ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], setfsuid(-1), setfsgid(-1), n);
	for (int i = 0; i < n; i++)
		printf(" %d", groups[i]);
	printf(", caps %x\n", data[0].effective & 0xff);
	fflush(stdout);
}

/* A file that the caller makes is its own; another one's it may not open. */
static void make_file(const char *name)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), FOLDER "/%s", name);
	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || fstat(fd, &st)) {
		printf("%s: %s\n", path, strerrorname_np(errno));
		return;
	}
	close(fd);
	printf("%s: %d %d, root's %s, chown %s\n", path, st.st_uid, st.st_gid,
	       open(FOLDER "/root", O_RDONLY) < 0 ? strerrorname_np(errno) : "opened",
	       chown(path, 5, 5) ? strerrorname_np(errno) : "done");
	fflush(stdout);
}

static void tell(void)
{
	show("thread");
	make_file("thread");
}

static void take_group(void)
{
	TELL(syscall(SYS_setresgid, -1, 1001, -1));
	tell();
}

static void take_user(void)
{
	gid_t groups[] = { 7, 8 };

	TELL(syscall(SYS_setgroups, 2, groups));
	TELL(syscall(SYS_setresuid, -1, 1000, -1));
	tell();
}

static void take_fs(void)
{
	TELL(syscall(SYS_setfsuid, 1002));
	tell();
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	TELL(syscall(SYS_capset, &header, data));
	tell();
}

static void *tell_once(void *who)
{
	show(who);
	return NULL;
}

/* New threads and processes of a thread with an identity of its own. */
static void make(void)
{
	pthread_t thread;
	pid_t child;

	for (int i = 0; i < 2; i++) {
		pthread_create(&thread, NULL, tell_once, "its thread");
		pthread_join(thread, NULL);
	}
	child = fork();
	if (!child) {
		show("its child");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	child = vfork();
	if (!child) {
		execl("/usr/bin/id", "id", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
}

/* Many threads that come and go, each with an id of its own: none has another one's. */
static void *wrong(void *argument)
{
	long own = (long)argument, bad = 0;

	bad += getegid() != 0 || getegid() != syscall(SYS_getegid);
	syscall(SYS_setresgid, -1, own, -1);
	for (int i = 0; i < 20; i++) {
		struct stat st;
		int fd = open(FOLDER, O_TMPFILE | O_WRONLY, 0600);

		bad += (long)getegid() != own || fd < 0 || fstat(fd, &st) || (long)st.st_gid != own;
		close(fd);
	}
	return (void *)bad;
}

static void crowd(void)
{
	pthread_t threads[4];
	long bad = 0;

	for (int i = 0; i < ROUNDS; i++) {
		for (long j = 0; j < 4; j++)
			pthread_create(threads + j, NULL, wrong, (void *)(2000 + i * 4 + j));
		for (int j = 0; j < 4; j++) {
			void *of_one;

			pthread_join(threads[j], &of_one);
			bad += (long)of_one;
		}
	}
	printf("crowd: %ld wrong\n", bad);
}

int main(void)
{
	struct actor a, b;

	mkdir(FOLDER, 0777);
	chmod(FOLDER, 0777);
	close(open(FOLDER "/root", O_CREAT | O_WRONLY, 0600));
	enter(&a);
	enter(&b);
	have(&a, take_group);
	show("first");
	have(&b, tell);
	have(&a, take_user);
	show("first");
	make_file("first");
	have(&b, take_fs);
	show("first");
	have(&a, make);
	have(&b, make);
	have(&b, drop_capabilities);
	have(&a, tell);
	show("first");
	have(&b, NULL);
	enter(&b);
	have(&b, tell);
	crowd();
	/* The C library's are the whole process'. */
	have(&a, NULL);
	enter(&a);
	TELL(setegid(1003));
	have(&a, tell);
	TELL(setresuid(1004, 1004, 1004));
	have(&a, tell);
	have(&b, tell);
	show("first");
	TELL(seteuid(0));
	have(&a, NULL);
	have(&b, NULL);
	return 0;
}
