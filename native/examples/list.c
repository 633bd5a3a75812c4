/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* list [DIRECTORY]: what is in a directory, by name, with kind and size. */
#define HANARE_NATIVE_START
#include <hanare/native.h>

#define KIND_WIDTH 9
#define SIZE_WIDTH 12

/* Memory that grows. */
struct store {
	char *bytes;
	size_t used;
	size_t size;
};

static char entries[32 << 10];

/* Makes room for `more` bytes: whether there is. */
static int has_room(struct store *store, size_t more)
{
	size_t size = store->size ? store->size : 64 << 10;
	char *bytes;

	if (store->size - store->used >= more)
		return 1;
	while (size - store->used < more)
		size *= 2;
	bytes = hanare_map(size);
	if (!bytes)
		return 0;
	for (size_t i = 0; i < store->used; i++)
		bytes[i] = store->bytes[i];
	if (store->bytes)
		hanare_unmap(store->bytes, store->size);
	store->bytes = bytes;
	store->size = size;
	return 1;
}

/* Appends bytes for which there is room. */
static void append(struct store *store, const char *bytes, size_t size)
{
	while (size--)
		store->bytes[store->used++] = *bytes++;
}

static void append_padded(struct store *store, const char *text, size_t width, int is_right)
{
	size_t length = hanare_length(text), blanks = length < width ? width - length : 0;

	if (!is_right)
		append(store, text, length);
	while (blanks--)
		append(store, " ", 1);
	if (is_right)
		append(store, text, length);
}

static int is_listed(const char *name)
{
	return hanare_compare(name, ".") && hanare_compare(name, "..");
}

/* All names of a directory, one behind the other: how many, or a negative error number. */
static long read_names(int folder, struct store *names)
{
	long count = 0, length;

	while ((length = hanare_getdents(folder, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < length;) {
			const struct hanare_entry *entry = (const void *)(entries + at);
			size_t size = hanare_length(entry->name) + 1;

			at += entry->size;
			if (!is_listed(entry->name))
				continue;
			if (!has_room(names, size))
				return -12; /* ENOMEM */
			append(names, entry->name, size);
			count++;
		}
	}
	return length < 0 ? length : count;
}

/* Moves a name down to where those below it are smaller. */
static void sift(const char **names, long at, long count)
{
	for (;;) {
		long child = 2 * at + 1;
		const char *name = names[at];

		if (child + 1 < count && hanare_compare(names[child], names[child + 1]) < 0)
			child++;
		if (child >= count || hanare_compare(name, names[child]) >= 0)
			return;
		names[at] = names[child];
		names[child] = name;
		at = child;
	}
}

/* Sorts names by their bytes (heapsort). */
static void sort(const char **names, long count)
{
	for (long at = count / 2; at-- > 0;)
		sift(names, at, count);
	while (count-- > 1) {
		const char *largest = names[0];

		names[0] = names[count];
		names[count] = largest;
		sift(names, 0, count);
	}
}

static const char *kind(unsigned int mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "link";
	case S_IFIFO:
		return "pipe";
	case S_IFSOCK:
		return "socket";
	case S_IFBLK:
		return "block";
	case S_IFCHR:
		return "character";
	default:
		return "unknown";
	}
}

/* Appends the line about a name: 0, or an exit status. */
static int append_line(char **argv, int folder, const char *name, struct store *text)
{
	size_t length = hanare_length(name);
	char digits[HANARE_DIGITS_MAX];
	struct stat status;
	long result = hanare_stat_at(folder, name, &status, AT_SYMLINK_NOFOLLOW);

	if (result == -HANARE_ENOENT)
		return 0; /* removed in the meantime */
	if (result < 0)
		return hanare_fail(argv, "cannot look at", name, result);
	if (!has_room(text, KIND_WIDTH + HANARE_DIGITS_MAX + length + 3))
		return hanare_fail(argv, "there is no memory", NULL, 0);
	append_padded(text, kind(status.st_mode), KIND_WIDTH, 0);
	append(text, " ", 1);
	append_padded(text, hanare_digits((unsigned long)status.st_size, digits), SIZE_WIDTH, 1);
	append(text, " ", 1);
	append(text, name, length);
	append(text, "\n", 1);
	return 0;
}

static int list(char **argv, const char *path, struct store *text)
{
	long folder = hanare_open(path, O_RDONLY | O_DIRECTORY, 0);
	struct store names = { 0 };
	const char **sorted, *name;
	long count;

	if (folder < 0)
		return hanare_fail(argv, "cannot open", path, folder);
	count = read_names((int)folder, &names);
	if (count < 0)
		return hanare_fail(argv, "cannot read", path, count);
	if (count == 0)
		return 0;
	sorted = hanare_map((size_t)count * sizeof(*sorted));
	if (!sorted)
		return hanare_fail(argv, "there is no memory", NULL, 0);
	name = names.bytes;
	for (long i = 0; i < count; i++, name += hanare_length(name) + 1)
		sorted[i] = name;
	sort(sorted, count);
	for (long i = 0; i < count; i++) {
		int failed = append_line(argv, (int)folder, sorted[i], text);

		if (failed)
			return failed;
	}
	return 0;
}

int hanare_main(int argc, char **argv, char **envp)
{
	struct store text = { 0 };
	long result;
	int failed;

	(void)envp;
	if (argc > 2)
		return hanare_usage(argv, "[DIRECTORY]");
	result = hanare_keep();
	if (result < 0)
		return hanare_fail(argv, "cannot keep a proxy", NULL, result);
	failed = list(argv, argc == 2 ? argv[1] : ".", &text);
	if (failed)
		return failed;
	/* Standard output is every proxy's. */
	result = hanare_give_back();
	if (result < 0)
		return hanare_fail(argv, "cannot give the proxy back", NULL, result);
	result = hanare_write_all(1, text.bytes, text.used);
	return result < 0 ? hanare_fail(argv, "cannot write to standard output", NULL, result) : 0;
}
