/* Thread ids: that of a thread which has ended names none, and is not used again at once. */
#include "guest.h"
#include <pthread.h>
#include <sys/prctl.h>

static volatile pid_t last;
static char name[16];

static void *tell(void *argument)
{
	last = syscall(SYS_gettid);
	prctl(PR_GET_NAME, name);
	return argument;
}

static void one_after_the_other(void)
{
	pid_t seen[11];
	int equal = 0;

	for (int i = 0; i < 11; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, tell, NULL);
		pthread_join(thread, NULL);
		seen[i] = last;
		for (int j = 0; j < i; j++)
			equal += seen[j] == seen[i];
		equal += seen[i] == getpid();
	}
	printf("of eleven threads %d have another one's id\n", equal);
}

/* A thread id that is gone is no thread's. */
static void gone(void)
{
	siginfo_t info = { .si_code = SI_QUEUE };
	pthread_t thread;

	pthread_create(&thread, NULL, tell, NULL);
	pthread_join(thread, NULL);
	/* Linux' own thread may be there a little longer. */
	for (int i = 0; i < 100000 && !syscall(SYS_tgkill, getpid(), last, 0); i++)
		usleep(1000);
	TELL(syscall(SYS_tgkill, getpid(), last, 0));
	TELL(syscall(SYS_tgkill, getpid(), last, SIGUSR1));
	TELL(syscall(SYS_tkill, last, 0));
	TELL(kill(last, 0));
	TELL(syscall(SYS_rt_tgsigqueueinfo, getpid(), last, SIGUSR1, &info));
	TELL(syscall(SYS_tgkill, getpid(), getpid(), 0));
	TELL(syscall(SYS_tgkill, getpid(), -1, 0));
	TELL(syscall(SYS_tgkill, -1, getpid(), 0));
	TELL(syscall(SYS_tgkill, getpid(), getpid(), 65));
	TELL(syscall(SYS_tkill, 0, 0));
}

/* Once an id is gone it stays so. */
static void stay_gone(void)
{
	int back = 0;

	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, tell, NULL);
		pthread_join(thread, NULL);
		while (!syscall(SYS_tgkill, getpid(), last, 0))
			usleep(1000);
		for (int again = 0; again < 5; again++)
			back += !kill(last, 0);
	}
	printf("of 100 ids that were gone %d came back\n", back);
}

static void names(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "creator %d", i);
		prctl(PR_SET_NAME, name);
		pthread_create(&thread, NULL, tell, NULL);
		pthread_join(thread, NULL);
		printf("its name is %s\n", name);
	}
}

/*
 * A thread's creator names it at once, or asks for its name, whatever the last one called itself.
 */
static volatile int may_tell;

static void *tells_later(void *argument)
{
	while (!may_tell)
		usleep(1000);
	tell(argument);
	/*
	 * The LWK hears of no name that another thread writes: the next thread would have it
	 * (docs/compatibility.md).
	 */
	prctl(PR_SET_NAME, "itself");
	return argument;
}

static void *names_itself(void *argument)
{
	prctl(PR_SET_NAME, "itself");
	return argument;
}

static void given_names(void)
{
	int asked = 0, kept = 0;

	prctl(PR_SET_NAME, "the creator");
	for (int i = 0; i < 20; i++) {
		char at_once[16] = "";
		pthread_t thread;

		pthread_create(&thread, NULL, names_itself, NULL);
		pthread_join(thread, NULL);
		may_tell = 0;
		pthread_create(&thread, NULL, tells_later, NULL);
		pthread_getname_np(thread, at_once, sizeof(at_once));
		pthread_setname_np(thread, "given");
		asked += !strcmp(at_once, "the creator");
		usleep(10000);
		may_tell = 1;
		pthread_join(thread, NULL);
		kept += !strcmp(name, "given");
	}
	printf("of 20 threads %d had the creator's name, %d kept that which it gave them\n", asked, kept);
}

/* What a thread does to its own attributes on Linux is not the next one's. */
static void *nicer(void *argument)
{
	setpriority(PRIO_PROCESS, syscall(SYS_gettid), 7);
	return tell(argument);
}

static void *how_nice(void *argument)
{
	*(int *)argument = getpriority(PRIO_PROCESS, 0);
	return NULL;
}

static void attributes(void)
{
	int nice = -100;
	pthread_t thread;

	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, NULL, nicer, NULL);
		pthread_join(thread, NULL);
		pthread_create(&thread, NULL, how_nice, &nice);
		pthread_join(thread, NULL);
		printf("a new thread's niceness is %d\n", nice);
	}
}

/* The child's parent is the thread: where that ends, a signal can tell. */
static volatile sig_atomic_t bereaved;

static void parent_died(int signal)
{
	bereaved = signal;
}

static void *forks(void *argument)
{
	int fds[2];
	char byte;

	if (pipe(fds))
		return NULL;
	*(pid_t *)argument = fork();
	if (*(pid_t *)argument == 0) {
		signal(SIGUSR2, parent_died);
		prctl(PR_SET_PDEATHSIG, SIGUSR2);
		write(fds[1], "", 1);
		for (int i = 0; i < 20000 && !bereaved; i++)
			usleep(10000);
		_exit(bereaved ? 1 : 2);
	}
	read(fds[0], &byte, 1);
	return NULL;
}

static void death_signal(void)
{
	pthread_t thread;
	pid_t child = 0;
	int status = 0;

	pthread_create(&thread, NULL, forks, &child);
	pthread_join(thread, NULL);
	waitpid(child, &status, 0);
	printf("child of a thread that ended: %d\n", WEXITSTATUS(status));
}

/* Many at once, again and again. */
static void bursts(void)
{
	enum { AT_ONCE = 40 };
	pthread_t threads[AT_ONCE];
	int failed = 0;

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < AT_ONCE; i++)
			failed += pthread_create(threads + i, NULL, tell, NULL) != 0;
		for (int i = 0; i < AT_ONCE; i++)
			failed += pthread_join(threads[i], NULL) != 0;
	}
	printf("%d failed\n", failed);
}

/*
 * PR_GET_TID_ADDRESS: where the id is cleared at the end, may be set anew; then the joiner is
 * woken.
 */
static void *address(void *argument)
{
	pid_t *at = NULL;

	TELL(prctl(PR_GET_TID_ADDRESS, &at, 0, 0, 0));
	printf("its id there %d\n", at && *at == gettid());
	printf("unset %d\n", syscall(SYS_set_tid_address, NULL) == gettid());
	TELL(prctl(PR_GET_TID_ADDRESS, argument, 0, 0, 0));
	printf("set %d\n", syscall(SYS_set_tid_address, at) == gettid());
	return at;
}

static void addresses(void)
{
	pthread_t thread;
	void *at = &at;

	pthread_create(&thread, NULL, address, &at);
	pthread_join(thread, NULL);
	printf("none %d\n", at == NULL);
	TELL(prctl(PR_GET_TID_ADDRESS, 1, 0, 0, 0));
}

/* A joiner waits at the word that is cleared at the end, wherever it lies. */
static void *ends_later(void *argument)
{
	usleep(300000);
	return argument;
}

static void shared_stack(void)
{
	enum { STACK = 1 << 18 };
	int fd = memfd_create("stack", 0);
	pthread_attr_t attributes;
	pthread_t thread;
	void *stack;

	ftruncate(fd, STACK);
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, STACK);
	TELL(pthread_create(&thread, &attributes, ends_later, NULL));
	TELL(pthread_join(thread, NULL));
}

/* A child has the id that a thread had before. */
static void given_again(void)
{
	struct {
		uint64_t flags, pidfd, child, parent, signal, stack, size, tls, set_tid, count;
	} request = { .signal = SIGCHLD, .set_tid = (uintptr_t)&last, .count = 1 };
	pthread_t thread;
	int status = 0;
	long child = -1;

	pthread_create(&thread, NULL, tell, NULL);
	pthread_join(thread, NULL);
	/* Linux' own thread may be there a little longer. */
	for (int i = 0; i < 20000 && child < 0; i++) {
		child = syscall(SYS_clone3, &request, sizeof(request));
		if (!child) {
			pause();
			_exit(0);
		}
		if (child < 0)
			usleep(10000);
	}
	printf("the child has the id %d\n", child == last);
	TELL(kill(child, 0));
	TELL(syscall(SYS_tkill, child, 0));
	TELL(kill(child, SIGUSR1));
	waitpid(child, &status, 0);
	printf("it is ended by %d\n", WTERMSIG(status));
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	one_after_the_other();
	gone();
	stay_gone();
	names();
	given_names();
	attributes();
	death_signal();
	bursts();
	addresses();
	shared_stack();
	given_again();
	return 0;
}
