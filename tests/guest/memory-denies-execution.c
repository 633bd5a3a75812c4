/*
 * PR_SET_MDWE: memory that is never writable and executable, and never becomes executable. Of the
 * process, its children and their programs.
 * Usage: memory-denies-execution [look | set PROGRAM ARGUMENT...]
 *   set: for another program, on Linux
 */
#include "guest.h"
#include <sys/shm.h>

#define SET_MDWE 65
#define GET_MDWE 66
#define REFUSE 1
#define NO_INHERIT 2
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static void *map(int prot, int flags, int fd)
{
	void *at = mmap(NULL, PAGE, prot, flags, fd, 0);

	printf("mmap %d %x: %s\n", prot, flags & 3, at == MAP_FAILED ? strerrorname_np(errno) : "mapped");
	return at;
}

static void look(const char *who)
{
	int fd = open("/proc/self/exe", O_RDONLY), segment = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0700);
	char *two;
	void *at;

	printf("%s: %d\n", who, prctl(GET_MDWE, 0, 0, 0, 0));
	map(PROT_READ | PROT_WRITE | PROT_EXEC, ANON, -1);
	map(PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1);
	map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd);
	at = map(PROT_READ | PROT_EXEC, ANON, -1);
	TELL(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	TELL(mprotect(at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
	TELL(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
	TELL(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, ANON, -1, 0);
	TELL(mprotect(two + PAGE, PAGE, PROT_READ));
	TELL(mprotect(two, 2 * PAGE, PROT_EXEC));
	at = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	TELL(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	at = map(PROT_READ, MAP_PRIVATE, fd);
	TELL(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	TELL(shmat(segment, NULL, SHM_EXEC) != (void *)-1);
	TELL(shmat(segment, NULL, SHM_EXEC | SHM_RDONLY) != (void *)-1);
	TELL(shmat(segment, NULL, 0) != (void *)-1);
	shmctl(segment, IPC_RMID, NULL);
	close(fd);
	fflush(stdout);
}

static void in_child(void (*body)(const char *), const char *argument)
{
	fflush(stdout);
	if (!fork()) {
		body(argument);
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

static void execute(const char *file)
{
	execl(file, file, "look", NULL);
}

static void set_alone(const char *file)
{
	TELL(prctl(SET_MDWE, REFUSE | NO_INHERIT, 0, 0, 0));
	look("alone");
	in_child(look, "child");
	execute(file);
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		prctl(SET_MDWE, REFUSE, 0, 0, 0);
		execvp(argv[2], argv + 2);
		return 1;
	}
	if (argc > 1) {
		look("program");
		return 0;
	}
	TELL(prctl(SET_MDWE, NO_INHERIT, 0, 0, 0));
	in_child(set_alone, argv[0]);
	look("before");
	TELL(prctl(SET_MDWE, REFUSE, 0, 0, 0));
	TELL(prctl(SET_MDWE, 0, 0, 0, 0));
	look("after");
	in_child(look, "child");
	in_child(execute, argv[0]);
	return 0;
}
