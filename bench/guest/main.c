/* The table of groups. */
#include "guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct group {
	const char *name;
	void (*run)(const struct wish *wish);
} groups[] = {
	{ "calls", group_calls },
	{ "after", group_after },
	{ "doorbell", group_doorbell },
	{ "packed", group_packed },
	{ "packed-new", group_packed_new },
	{ "files", group_files },
	{ "transfer", group_transfer },
	{ "device", group_device },
	{ "service", group_service },
	{ "mixed", group_mixed },
	{ "memory", group_memory },
	{ "signals", group_signals },
	{ "processes", group_processes },
	{ "nothing", group_nothing },
	{ "compute", group_compute },
	{ "quanta", group_quanta },
	{ "first", group_first },
};

/* Between 1 and `most`. */
static int number(const char *text, int most)
{
	int value = atoi(text);

	return value < 1 ? 1 : value < most ? value : most;
}

int main(int argc, char **argv)
{
	struct wish wish = { .seconds = 1, .cpu = -1, .quantum_us = 100, .callers = 1, .calls = 16 };

	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "quick"))
			wish.quick = 1;
		else if (!strncmp(argv[i], "file=", 5))
			wish.file = argv[i] + 5;
		else if (!strncmp(argv[i], "seconds=", 8))
			wish.seconds = atof(argv[i] + 8);
		else if (!strncmp(argv[i], "cpu=", 4))
			wish.cpu = atoi(argv[i] + 4);
		else if (!strncmp(argv[i], "quantum=", 8))
			wish.quantum_us = atof(argv[i] + 8);
		else if (!strncmp(argv[i], "loops=", 6))
			wish.loops = strtoull(argv[i] + 6, NULL, 10);
		else if (!strncmp(argv[i], "callers=", 8))
			wish.callers = number(argv[i] + 8, 64);
		else if (!strncmp(argv[i], "calls=", 6))
			wish.calls = number(argv[i] + 6, 1000000);
		else
			argc = 0;
	}
	for (unsigned i = 0; argc > 1 && i < sizeof(groups) / sizeof(*groups); i++)
		if (!strcmp(argv[1], groups[i].name)) {
			groups[i].run(&wish);
			return 0;
		}
	fprintf(stderr, "usage: hanare-bench-guest GROUP [quick] [file=PATH] [seconds=S] [cpu=N]\n"
			"       [quantum=US] [loops=N] [callers=N] [calls=N]\n"
			"groups:");
	for (unsigned i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		fprintf(stderr, " %s", groups[i].name);
	fprintf(stderr, "\n");
	return 2;
}
