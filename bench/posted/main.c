/* hanare-bench-posted WHAT: measures posted calls, on Linux and, unchanged, on an LWK. */
#include "ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct part {
	const char *name;
	void (*run)(const struct wish *wish);
} parts[] = {
	{ "tasks", measure_tasks },		{ "lengths", measure_lengths },
	{ "functions", measure_functions },	{ "checkpoints", measure_checkpoints },
	{ "count-phases", count_phases },	{ "count-tasks", count_tasks },
	{ "count-checkpoints", count_checkpoints },
};

int main(int argc, char **argv)
{
	struct wish wish = { .rounds = 3, .folder = "/dev/shm" };

	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], "quick"))
			wish.quick = 1;
		else if (!strncmp(argv[i], "tasks=", 6))
			wish.tasks = atol(argv[i] + 6);
		else if (!strncmp(argv[i], "rounds=", 7))
			wish.rounds = atoi(argv[i] + 7);
		else if (!strncmp(argv[i], "folder=", 7))
			wish.folder = argv[i] + 7;
		else if (!strncmp(argv[i], "way=", 4))
			wish.way = argv[i] + 4;
		else if (strncmp(argv[i], "file=", 5)) /* for other programs of the bench */
			argc = 0;
	for (unsigned int i = 0; argc > 1 && i < sizeof(parts) / sizeof(*parts); i++)
		if (!strcmp(argv[1], parts[i].name)) {
			parts[i].run(&wish);
			return 0;
		}
	fprintf(stderr, "usage: hanare-bench-posted WHAT [quick] [tasks=N] [rounds=N] [folder=PATH] [way=NAME]\nwhat:");
	for (unsigned int i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		fprintf(stderr, " %s", parts[i].name);
	fprintf(stderr, "\n");
	return 2;
}
