/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How much the files below a folder take: du MODE [FOLDER]
 *
 * trap: one thread looks at each. posted: the statx calls of a folder are posted together.
 * function: each folder is a function, which posts one for each folder in it; where the queue is
 * full it looks into that itself.
 */
#define _GNU_SOURCE
#include "mode.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKERS 4
#define TOGETHER 64

static enum mode mode;
static hanare_queue *queue;
static atomic_long blocks, files;
/* Folders that were found and not looked into. */
static atomic_long open_folders;

static void look(char *path);

static void count(const struct statx *status)
{
	atomic_fetch_add(&blocks, (long)status->stx_blocks);
	atomic_fetch_add(&files, 1);
}

static void descend(const char *path, const char *name)
{
	char *below;

	if (asprintf(&below, "%s/%s", path, name) < 0)
		fail("allocate", 0);
	atomic_fetch_add(&open_folders, 1);
	if (mode != FUNCTION || hanare_call(queue, HANARE_DETACH, look, below) < 0)
		look(below);
}

/* The names of a folder, up to TOGETHER. */
struct batch {
	int count;
	char names[TOGETHER][NAME_MAX + 1];
	struct statx status[TOGETHER];
};

static void stat_all(int fd, struct batch *batch)
{
	hanare_ticket tickets[TOGETHER];
	const int flags = AT_SYMLINK_NOFOLLOW, mask = STATX_BLOCKS | STATX_TYPE;

	memset(batch->status, 0, sizeof(batch->status));
	for (int i = 0; i < batch->count; i++) {
		if (mode == POSTED)
			tickets[i] = hanare_submit(queue, SYS_statx, fd, batch->names[i], flags, mask, &batch->status[i]);
		else
			statx(fd, batch->names[i], flags, (unsigned int)mask, &batch->status[i]);
	}
	for (int i = 0; mode == POSTED && i < batch->count; i++)
		if (tickets[i] < 0 || hanare_wait(queue, tickets[i], NULL, HANARE_FOREVER))
			fail("stat", tickets[i]);
}

/* Frees the path. */
static void look(char *path)
{
	struct batch *batch = malloc(sizeof(*batch));
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && batch) {
		batch->count = 0;
		while (batch->count < TOGETHER && (entry = readdir(folder)))
			if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
				strcpy(batch->names[batch->count++], entry->d_name);
		if (!batch->count)
			break;
		stat_all(dirfd(folder), batch);
		for (int i = 0; i < batch->count; i++) {
			count(&batch->status[i]);
			if (S_ISDIR(batch->status[i].stx_mode))
				descend(path, batch->names[i]);
		}
	}
	if (folder)
		closedir(folder);
	free(batch);
	free(path);
	atomic_fetch_sub(&open_folders, 1);
}

int main(int argc, char **argv)
{
	const char *path = argc > 2 ? argv[2] : ".";
	struct statx status = { 0 };
	double start = now();

	mode = mode_of(argv[1]);
	if (mode != TRAP)
		queue = queue_with(1024, WORKERS, HANARE_MULTI_PRODUCER);
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BLOCKS, &status))
		fail("stat", 0);
	count(&status);
	atomic_fetch_add(&open_folders, 1);
	look(strdup(path));
	while (atomic_load(&open_folders))
		hanare_drain(queue, HANARE_FOREVER);
	printf("%ld KiB in %ld files, %.3f s\n", atomic_load(&blocks) / 2, atomic_load(&files), now() - start);
	hanare_queue_destroy(queue);
	return 0;
}
