/* The table of ways. */
#include "ways.h"

#include <string.h>

const struct way ways[] = {
	{ "trap", begin_nothing, by_trap, NULL },
	{ "posted", begin_queue, by_post, NULL },
	{ "batch", begin_queue, by_batch, NULL },
	{ "function", begin_queue, by_function, NULL },
	{ "ahead", begin_queue, by_function_ahead, end_functions_ahead },
	{ "uring", uring_begin, uring_one_by_one, NULL },
	{ "uring-batch", uring_begin, uring_batch, NULL },
};
const int ways_count = sizeof(ways) / sizeof(*ways);

const struct way *way_of(const char *name)
{
	for (int i = 0; i < ways_count; i++)
		if (!strcmp(ways[i].name, name))
			return &ways[i];
	return NULL;
}
