/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* copy FROM TO: copies a file, its content and its permissions. */
#define HANARE_NATIVE_START
#include <hanare/native.h>

/* How much is read and written at once. A call carries less than 1 MiB. */
static char buffer[256 << 10];

static int transfer(char **argv, int from, int to)
{
	for (;;) {
		long result, length = hanare_read(from, buffer, sizeof(buffer));

		if (length < 0)
			return hanare_fail(argv, "cannot read", argv[1], length);
		if (length == 0)
			return 0;
		result = hanare_write_all(to, buffer, (size_t)length);
		if (result < 0)
			return hanare_fail(argv, "cannot write", argv[2], result);
	}
}

static int copy_to(char **argv, int from, const struct stat *status)
{
	/* Only the owner may look at it before it has its permissions. */
	long result, to = hanare_open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, status->st_mode & 0700);
	int failed;

	if (to < 0)
		return hanare_fail(argv, "cannot create", argv[2], to);
	failed = transfer(argv, from, (int)to);
	if (failed)
		return failed;
	result = hanare_fchmod((int)to, status->st_mode & 07777);
	if (result < 0)
		return hanare_fail(argv, "cannot set the permissions of", argv[2], result);
	result = hanare_close((int)to);
	return result < 0 ? hanare_fail(argv, "cannot write", argv[2], result) : 0;
}

static int copy(char **argv)
{
	long result, from = hanare_open(argv[1], O_RDONLY, 0);
	struct stat status, there;

	if (from < 0)
		return hanare_fail(argv, "cannot open", argv[1], from);
	result = hanare_fstat((int)from, &status);
	if (result < 0)
		return hanare_fail(argv, "cannot look at", argv[1], result);
	if (S_ISDIR(status.st_mode))
		return hanare_fail(argv, "cannot copy a directory:", argv[1], 0);
	if (hanare_stat_at(AT_FDCWD, argv[2], &there, 0) == 0 &&
	    there.st_dev == status.st_dev && there.st_ino == status.st_ino)
		return hanare_fail(argv, "this is the same file:", argv[2], 0);
	return copy_to(argv, (int)from, &status);
}

int hanare_main(int argc, char **argv, char **envp)
{
	long kept;

	(void)envp;
	if (argc != 3)
		return hanare_usage(argv, "FROM TO");
	kept = hanare_keep();
	if (kept < 0)
		return hanare_fail(argv, "cannot keep a proxy", NULL, kept);
	return copy(argv); /* what is open is closed when the program ends */
}
