/*
 * execve of files that an entry of binfmt_misc takes (as root): by magic and by extension, each
 * flag, entries that are off, interpreters of interpreters.
 * Usage: binfmt [show ...|beside]    show: prints what this program was begun with; beside: only
 *                                    beside entries that come and go
 */
#include "guest.h"
#include <elf.h>
#include <linux/landlock.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mount.h>

#define PLACE "/proc/sys/fs/binfmt_misc"
#define MAGIC "HNMG"

extern char **environ;

static char self[PATH_MAX], folder[PATH_MAX];

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void print_file(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY);
	ssize_t bytes = read(fd, text, sizeof(text));

	close(fd);
	printf("%s:", path);
	for (char *at = text; at < text + bytes; at += strlen(at) + 1)
		printf(" [%s]", base_name(at));
	printf("\n");
}

/* The interpreter: what it is given. */
static int show(int argc, char **argv)
{
	char name[PATH_MAX] = "", text[5] = "", *execfn = (char *)getauxval(AT_EXECFN);
	unsigned long execfd = 0, fd = -1UL;
	Elf64_auxv_t pair;
	int file;

	for (int i = 0; i < argc; i++)
		printf(" [%s]", base_name(argv[i]));
	printf("\nexecfn %s, flags %lu, secure %lu, uids %d %d\n", base_name(execfn), getauxval(AT_FLAGS),
	       getauxval(AT_SECURE), getuid(), geteuid());
	readlink("/proc/self/exe", name, sizeof(name) - 1);
	printf("exe %s, ", base_name(name));
	prctl(PR_GET_NAME, name);
	/* Of a file without a path newer kernels tell the name. */
	printf("comm %s\n", strncmp(execfn, "/dev/fd/", 8) ? name : "that of a descriptor");
	print_file("/proc/self/cmdline");
	/* What stands before the strings, and what the file says. */
	for (Elf64_auxv_t *at = (void *)({ char **p = environ; while (*p++); p; }); at->a_type; at++)
		if (at->a_type == AT_EXECFD)
			execfd = 1, fd = at->a_un.a_val;
	file = open("/proc/self/auxv", O_RDONLY);
	while (read(file, &pair, sizeof(pair)) == sizeof(pair))
		if (pair.a_type == AT_EXECFD && pair.a_un.a_val == fd)
			execfd++;
	close(file);
	if (execfd) {
		TELL(execfd);
		TELL(fd);
		TELL(fcntl(fd, F_GETFD));
		TELL(fcntl(fd, F_GETFL) & O_ACCMODE);
		TELL(pread(fd, text, 4, 0));
		printf("in it %s\n", text);
		/* The interpreter has it, and may write to it by its path. */
		snprintf(name, sizeof(name), "/proc/self/fd/%lu", fd);
		TELL(close(open(name, O_WRONLY)));
		TELL(close(fd));
	}
	for (int other = 3; other < 20; other++)
		if (fcntl(other, F_GETFD) >= 0)
			printf("descriptor %d\n", other);
	return 7;
}

static const char *at(const char *name)
{
	static char paths[4][PATH_MAX + 40];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%.38s", folder, name);
	return path;
}

static void make(const char *name, const char *content, mode_t mode)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	write(fd, content, strlen(content));
	fchmod(fd, mode);
	close(fd);
}

static void put(const char *name, const char *text)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), PLACE "/%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("%s: %s: %s\n", name, text, strerrorname_np(errno));
	close(fd);
}

/* As binfmt_misc wants it: name, type, offset, magic, mask, interpreter, flags. */
static void enter(const char *name, const char *what, const char *interpreter, const char *flags)
{
	char text[2 * PATH_MAX + 80];

	snprintf(text, sizeof(text), ":%.30s:%.40s:%s:%s", name, what, interpreter, flags);
	put("register", text);
}

static void leave(const char *name)
{
	put(name, "-1");
}

/* A child's execve, and what becomes of it. */
static void try(const char *title, const char *path)
{
	char *argv[] = { (char *)"zero", (char *)"one", NULL };
	int status;

	printf("-- %s\n", title);
	fflush(stdout);
	if (!vfork()) {
		execve(path, argv, environ);
		_exit(errno);
	}
	wait(&status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 7)
		return;
	printf("%s\n", WIFEXITED(status) ? strerrorname_np(WEXITSTATUS(status)) : "killed");
}

static void flags(void)
{
	static const char *const all[] = { "", "P", "O", "C", "F", "PO", "POCF" };
	char title[40];

	make("magic", MAGIC " content", 0755);
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		enter("hn", "M::" MAGIC ":", self, all[i]);
		snprintf(title, sizeof(title), "magic, flags '%s'", all[i]);
		try(title, at("magic"));
		leave("hn");
	}
	try("no entry", at("magic"));
}

static void kinds(void)
{
	make("later", "..." MAGIC, 0755);
	make("masked", "HxMG", 0755);
	make("short", "HN", 0755);
	make("any.hnx", "whatever", 0755);
	make("dot.hnx.other", "whatever", 0755);
	make("not.hnx", "whatever", 0644);
	make("script.hnx", "#!/nonexistent\n", 0755);
	enter("hn1", "M:3:" MAGIC ":", self, "");
	enter("hn2", "M::" MAGIC ":\\xff\\x00\\xff\\xff", self, "P");
	enter("hn3", "M::HN\\x00\\x00:", self, "O");
	enter("hn4", "E::hnx:", self, "P");
	try("offset", at("later"));
	try("mask", at("masked"));
	try("zeros behind the end", at("short"));
	try("extension", at("any.hnx"));
	try("another extension", at("dot.hnx.other"));
	try("extension, not executable", at("not.hnx"));
	try("extension of a script", at("script.hnx"));
	try("in the working directory", "any.hnx");
	/* A program that could be executed by itself. */
	make("program.hnx", "", 0755);
	TELL(system("cat /proc/$PPID/exe > program.hnx"));
	try("extension of a program", at("program.hnx"));
	/* The one that was registered last. */
	enter("hn5", "E::hnx:", "/nonexistent", "");
	try("two that fit", at("any.hnx"));
	put("hn5", "0");
	try("the other one", at("any.hnx"));
	put("hn5", "1");
	try("it again", at("any.hnx"));
	leave("hn5");
	put("hn4", "0");
	try("an entry that is off", at("any.hnx"));
	put("hn4", "1");
	put("status", "0");
	try("all off", at("any.hnx"));
	try("all off, a program", at("program.hnx"));
	put("status", "1");
	try("all on", at("any.hnx"));
	for (char name[] = "hn1"; name[2] < '5'; name[2]++)
		leave(name);
}

static void bad_interpreters(void)
{
	make("text", "no program", 0755);
	make("closed", "#!/bin/sh", 0644);
	make("any.hnx", "whatever", 0755);
	for (int i = 0; i < 4; i++) {
		static const char *const interpreters[] = { "/nonexistent", "text", "closed", "." };
		const char *path = i ? at(interpreters[i]) : interpreters[0];

		enter("hn", "E::hnx:", path, "");
		try(interpreters[i], at("any.hnx"));
		leave("hn");
	}
}

static void nested(void)
{
	char line[PATH_MAX + 10], name[] = "c.hn1", what[] = "E::hn1:", title[] = "1 interpreters";

	make("magic", MAGIC, 0755);
	snprintf(line, sizeof(line), "#!%s blank\n", at("magic"));
	make("by-magic", line, 0755);
	snprintf(line, sizeof(line), "#!%s show\n", self);
	make("interpreter", line, 0755);
	make("any.hnx", "whatever", 0755);
	enter("hn1", "M::" MAGIC ":", self, "PO");
	try("script, binfmt_misc, program", at("by-magic"));
	leave("hn1");
	for (int i = 0; i < 3; i++) {
		static const char *const flags[] = { "", "P", "O" };

		enter("hn2", "E::hnx:", at("interpreter"), flags[i]);
		try("binfmt_misc, script, program", at("any.hnx"));
		leave("hn2");
	}
	enter("hn1", "M::" MAGIC ":", self, "O");
	enter("hn2", "E::hnx:", at("magic"), "P");
	try("binfmt_misc twice", at("any.hnx"));
	leave("hn2");
	enter("hn2", "E::hnx:", at("magic"), "O");
	try("open twice", at("any.hnx"));
	leave("hn1");
	leave("hn2");
	/* c.hn1 is executed by c.hn2, that by c.hn3 and so on; the last one is this program. */
	for (int i = 1; i <= 7; i++) {
		name[4] = what[5] = '0' + i;
		make(name, "whatever", 0755);
		what[0] = 'E';
		name[4]++;
		snprintf(line, sizeof(line), "hn%d", i);
		enter(line, what, i == 7 ? self : at(name), "");
	}
	for (int i = 7; i; i--) {
		name[4] = '0' + i;
		title[0] = '8' - i;
		try(title, at(name));
	}
	for (int i = 1; i <= 7; i++) {
		snprintf(line, sizeof(line), "hn%d", i);
		leave(line);
	}
	/* The same with scripts, the first of which is interpreted by the program. */
	for (int i = 1; i <= 7; i++) {
		snprintf(line, sizeof(line), "#!%s %s\n", i == 1 ? self : at(name), "show");
		snprintf(name, sizeof(name), "s.hn%d", i);
		make(name, line, 0755);
		title[0] = '0' + i;
		try(title, at(name));
	}
}

/* An entry is found whatever others come and go, also if they are too many for one look. */
static void beside_others(int times)
{
	char *argv[] = { (char *)"zero", NULL }, *quiet[] = { (char *)"HN_QUIET=1", NULL }, name[64];
	int status, found = 0;
	pid_t child;

	make("any.hnx", "whatever", 0755);
	enter("hnx", "E::hnx:", self, "");
	child = fork();
	for (unsigned i = 0; !child; i++) {
		snprintf(name, sizeof(name), "hn%u", i % 60);
		if (i / 60 & 1)
			leave(name);
		else
			enter(name, "E::other:", self, "");
	}
	for (int i = 0; i < times; i++) {
		if (!vfork()) {
			execve(at("any.hnx"), argv, quiet);
			_exit(errno);
		}
		wait(&status);
		found += WIFEXITED(status) && WEXITSTATUS(status) == 7;
	}
	printf("%d of %d found\n", found, times);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), PLACE "/hn%d", i);
		if (!access(name, F_OK))
			leave(strrchr(name, '/') + 1);
	}
	leave("hnx");
}

/* By a descriptor, with a descriptor that closes in the way of AT_EXECFD; without arguments. */
static void descriptors(void)
{
	char *argv[] = { (char *)"zero", NULL }, *none[] = { NULL };

	make("magic", MAGIC, 0755);
	make("any.hnx", "whatever", 0755);
	enter("hn1", "M::" MAGIC ":", self, "O");
	enter("hn2", "E::hnx:", self, "P");
	for (int i = 0; i < 4; i++) {
		int status, fd = open(at("magic"), O_PATH | (i == 1 ? O_CLOEXEC : 0)), last;

		last = open("/", O_RDONLY | (i == 2 ? O_CLOEXEC : 0));
		printf("-- by descriptor %d, then %d\n", fd, last);
		fflush(stdout);
		if (!fork()) {
			if (i < 3)
				syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
			else
				execve(at("any.hnx"), none, environ);
			printf("%s\n", strerrorname_np(errno));
			fflush(stdout);
			_exit(1);
		}
		wait(&status);
		TELL(status);
		close(fd);
		close(last);
	}
	leave("hn1");
	leave("hn2");
}

/* A user who may not read the entries executes all the same what they do not take. */
static void confined(void)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE };
	struct landlock_path_beneath_attr here = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE };
	char path[PATH_MAX + 40];
	int status, rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	pid_t child;

	snprintf(path, sizeof(path), ":hnx:E::hnx::%s:", self);
	put("register", path);
	snprintf(path, sizeof(path), "%s", self);
	*strrchr(path, '/') = 0;
	here.parent_fd = open(path, O_PATH | O_CLOEXEC);
	TELL(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &here, 0));
	child = fork();
	if (!child) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		TELL(syscall(SYS_landlock_restrict_self, rules, 0));
		TELL(open(PLACE "/hnx", O_RDONLY));
		fflush(stdout);
		execl(self, self, "quiet", NULL);
		TELL(-1);
		_exit(1);
	}
	waitpid(child, &status, 0);
	TELL(status);
	close(here.parent_fd);
	close(rules);
	put("hnx", "-1");
}

int main(int argc, char **argv)
{
	int beside;

	if ((argc > 1 && !strcmp(argv[1], "quiet")) || getenv("HN_QUIET"))
		return 7;
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	beside = argc > 1 && !strcmp(argv[1], "beside");
	if ((argc > 1 && !beside) || getenv("HN_SHOWS")) {
		int status = show(argc, argv);

		fflush(stdout);
		return status;
	}
	clearenv();
	putenv((char *)"HN_SHOWS=1");
	putenv((char *)"PATH=/usr/bin:/bin");
	readlink("/proc/self/exe", self, sizeof(self) - 1);
	getcwd(folder, sizeof(folder));
	TELL(unshare(CLONE_NEWNS));
	TELL(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	TELL(mount("binfmt_misc", PLACE, "binfmt_misc", 0, NULL));
	if (beside) {
		beside_others(30);
	} else {
		flags();
		kinds();
		bad_interpreters();
		nested();
		descriptors();
		beside_others(5);
		confined();
	}
	TELL(umount(PLACE));
	return 0;
}
