/* SPDX-License-Identifier: GPL-2.0 */
/* What must hold for a test program to go on. */
#ifndef NEED_H
#define NEED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void need(int holds, const char *what)
{
	if (holds)
		return;
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	exit(1);
}

#endif
