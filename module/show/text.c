// SPDX-License-Identifier: GPL-2.0
/* The text of Linux' own file, of which what is ours is replaced. */
#include "show/pseudo.h"

#include <linux/slab.h>

#define TEXT_MAX (1U << 20)

char *hanare_linux_text(struct file *file)
{
	size_t size = 16384, used = 0;
	loff_t position = 0;
	char *text = kvmalloc(size, GFP_KERNEL), *larger;
	ssize_t ret;

	for (;;) {
		if (!text)
			return ERR_PTR(-ENOMEM);
		ret = hanare_read_quietly(file, text + used, size - 1 - used, &position);
		if (ret <= 0)
			break;
		used += ret;
		if (used + 1 < size)
			continue;
		if (size >= TEXT_MAX)
			break;
		larger = kvmalloc(size * 2, GFP_KERNEL);
		if (larger)
			memcpy(larger, text, used);
		kvfree(text);
		text = larger;
		size *= 2;
	}
	if (ret < 0) {
		kvfree(text);
		return ERR_PTR(ret);
	}
	text[used] = 0;
	return text;
}

char *hanare_next_line(char **text)
{
	char *line = *text, *end;

	if (!line || !*line)
		return NULL;
	end = strchr(line, '\n');
	if (end)
		*end++ = 0;
	*text = end;
	return line;
}
