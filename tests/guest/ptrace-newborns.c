/*
 * Threads and processes that are traced from the moment on at which they are born: their registers
 * are those that they start with, may be set, and no moment harms another process. Prints what is
 * the same on both kernels.
 *   ptrace-newborns [ROUNDS [SEED]]
 */
#include "guest.h"
#include <dirent.h>
#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#define USER_CS 0x33
#define USER_SS 0x2b

extern char etext;

/* How long no process may be born; and where a spoilt tracee may be what its parent waits for. */
#define PATIENCE_S 5
#define PATIENCE_WITH_SPOILT_S 1
/* A spoilt child may breed, or compute for ever: all of one parent end after as many looks. */
#define LOOKS_OF_ONE_PARENT 32
/* A spoilt thread writes anywhere in its parent's memory: no thread is judged after the first. */
#define JUDGED_LOOKS_OF_ONE_PARENT 20

static unsigned int chance = 1;

static unsigned int below(unsigned int limit)
{
	chance = chance * 1103515245 + 12345;
	return (chance >> 16) % limit;
}

static void *nothing(void *arg)
{
	return arg;
}

/* Makes children of each kind until it is killed. */
static void breed(char *program)
{
	for (;;) {
		switch (below(4)) {
		case 0:
			if (!fork())
				_exit(7);
			break;
		case 1:
			if (!vfork()) {
				execl(program, program, "born", NULL);
				_exit(1);
			}
			break;
		case 2: {
			pthread_t thread;

			if (!pthread_create(&thread, NULL, nothing, NULL))
				pthread_join(thread, NULL);
			break;
		}
		default:
			if (!fork()) {
				execl(program, program, "born", NULL);
				_exit(1);
			}
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

/* A child of `pid`, or a thread of it or of a child, that is there just now; 0: none. */
static pid_t newborn(pid_t pid)
{
	char path[64], text[512];
	FILE *file;
	pid_t found = 0;
	int wanted = below(4);

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	file = fopen(path, "r");
	if (file) {
		if (fgets(text, sizeof(text), file)) {
			char *last = strrchr(text, ' ');

			if (last && !last[1])
				*last = 0;
			last = strrchr(text, ' ');
			found = atoi(last ? last + 1 : text);
		}
		fclose(file);
	}
	if (found && wanted)
		return found;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (atoi(entry->d_name) > found && atoi(entry->d_name) != pid)
			found = atoi(entry->d_name);
	if (folder)
		closedir(folder);
	return found;
}

static int looked, wrong, set, killed;
/* What the first one had that had wrong registers. */
static char first_wrong[160];
/* Looks at newborns of this parent, and whether one of them is spoilt. */
static int looked_of_parent, has_spoilt;

/*
 * Words that are anything, or nearly right. Whatever the tracee does, no other process is harmed.
 */
static void spoil(pid_t tid, struct user_regs_struct *regs)
{
	unsigned long *words = (unsigned long *)regs;

	for (int count = 1 + below(3); count--;) {
		unsigned long value = (unsigned long)below(65536) << (16 * below(4));

		words[below(sizeof(*regs) / sizeof(*words))] = below(2) ? value : below(256);
	}
	ptrace(PTRACE_SETREGS, tid, 0, regs);
	has_spoilt = 1;
}

/* Whether an address is in the vdso, where the C library may be when a program begins. */
static int is_in_vdso(pid_t tid, unsigned long at)
{
	char path[64], line[512];
	unsigned long start, end;
	int found = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	FILE *file = fopen(path, "r");

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%lx-%lx", &start, &end) == 2 && at >= start && at < end && strstr(line, "[vdso]");
	if (file)
		fclose(file);
	return found;
}

/* Looks at a stopped tracee, and sets what it has. */
static void look(pid_t tid)
{
	struct user_regs_struct regs;
	struct iovec all = { &regs, sizeof(regs) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &all))
		return; /* it has been killed meanwhile */
	looked++;
	looked_of_parent++;
	/* Static, and so with all of its own code below etext. */
	if (!has_spoilt && (regs.cs != USER_CS || regs.ss != USER_SS || !regs.rsp ||
			    (regs.rip - 1 >= (unsigned long)&etext && !is_in_vdso(tid, regs.rip)))) {
		if (!wrong++)
			snprintf(first_wrong, sizeof(first_wrong), " (look %d: cs %llx ss %llx rip %llx rsp %llx rax %lld of call %lld)",
				 looked_of_parent, regs.cs, regs.ss, regs.rip, regs.rsp, (long long)regs.rax, (long long)regs.orig_rax);
	}
	if (looked_of_parent > JUDGED_LOOKS_OF_ONE_PARENT && !below(8)) {
		spoil(tid, &regs);
		set++;
	} else if (below(2))
		set += !ptrace(PTRACE_SETREGS, tid, 0, &regs);
	else
		set += !ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &all);
}

static void meet(pid_t tid)
{
	int status, seized = below(2);

	if (ptrace(seized ? PTRACE_SEIZE : PTRACE_ATTACH, tid, 0, 0))
		return; /* it has ended */
	if (seized)
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		return;
	look(tid);
	if (below(8)) {
		ptrace(PTRACE_DETACH, tid, 0, 0);
	} else {
		killed++;
		kill(tid, SIGKILL);
		while (waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status))
			;
	}
}

static pid_t begin_to_breed(char *program)
{
	pid_t parent = fork();

	if (!parent) {
		setpgid(0, 0);
		breed(program);
	}
	if (parent < 0) {
		perror("fork");
		exit(1);
	}
	setpgid(parent, parent);
	looked_of_parent = has_spoilt = 0;
	return parent;
}

/* Ends a parent with all that descends from it. Waits for threads that died attached as well. */
static void end_all(pid_t parent)
{
	kill(-parent, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 200;
	time_t last = time(NULL);
	pid_t parent;

	if (argc > 1 && !strcmp(argv[1], "born"))
		return 0;
	if (argc > 2)
		chance = atoi(argv[2]);
	parent = begin_to_breed(argv[0]);
	while (looked < rounds) {
		pid_t tid = newborn(parent);
		int before = looked;

		if (tid) {
			meet(tid);
			/*
			 * If another signal overtook the SIGSTOP of the attachment, that would stop
			 * it all.
			 */
			kill(tid, SIGCONT);
			kill(parent, SIGCONT);
		}
		if (looked > before)
			last = time(NULL);
		/* A child with its memory and random registers may have it do anything. */
		if (time(NULL) > last + (has_spoilt ? PATIENCE_WITH_SPOILT_S : PATIENCE_S) ||
		    looked_of_parent >= LOOKS_OF_ONE_PARENT || waitpid(parent, NULL, WNOHANG) == parent) {
			end_all(parent);
			parent = begin_to_breed(argv[0]);
			last = time(NULL);
		}
	}
	end_all(parent);
	printf("wrong registers %d%s, not set %d\n", wrong, first_wrong, looked - set);
	return 0;
}
