/*
 * Attributes that a program inherits: user and groups, working directory, umask, resource limits,
 * parent.
 * Usage: inherited-attributes [short]    short: does not change them
 */
#include "guest.h"
#include <grp.h>

int main(int argc, char **argv)
{
	struct rlimit limit;
	gid_t groups[64];
	char path[PATH_MAX];
	int n = getgroups(64, groups), file;
	struct rusage usage;
	(void)argv;

	printf("uid %d %d gid %d %d groups %d\n", getuid(), geteuid(), getgid(), getegid(), n);
	for (int i = 0; i < n; i++)
		printf("group %d\n", groups[i]);
	printf("cwd %s, umask %o\n", getcwd(path, sizeof(path)) ?: strerrorname_np(errno), umask(0));
	printf("nice %d, parent %d, leader of its session %d\n", getpriority(PRIO_PROCESS, 0),
	       getppid() > 1, getsid(0) == getpid());
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		getrlimit(i, &limit);
		printf("limit %d: %lx %lx\n", i, limit.rlim_cur, limit.rlim_max);
	}
	limit = (struct rlimit){ 20, 20 };
	TELL(setrlimit(RLIMIT_NOFILE, &limit));
	TELL(getrlimit(RLIMIT_NOFILE, &limit) + limit.rlim_cur);
	TELL(fcntl(0, F_DUPFD, 21));
	limit.rlim_cur = 5;
	limit.rlim_max = 50;
	TELL(setrlimit(RLIMIT_STACK, &(struct rlimit){ 10, 5 }));
	if (argc > 1)
		return 0;
	umask(027);
	file = open("who-file", O_CREAT | O_WRONLY, 0666);
	TELL(file >= 0);
	TELL(mkdir("who-folder", 0777));
	TELL(chdir("who-folder"));
	TELL(open("in-folder", O_CREAT | O_WRONLY, 0666) >= 0);
	getcwd(path, sizeof(path));
	printf("now in %s\n", path);
	limit = (struct rlimit){ 1000, 1000 };
	signal(SIGXFSZ, SIG_IGN);
	TELL(setrlimit(RLIMIT_FSIZE, &limit));
	TELL(ftruncate(file, 2000));
	TELL(setuid(12345));
	TELL(getuid());
	TELL(seteuid(0));
	getrusage(RUSAGE_SELF, &usage);
	printf("memory was used %d\n", usage.ru_maxrss > 0);
	return 0;
}
