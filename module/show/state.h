/* SPDX-License-Identifier: GPL-2.0 */
/* What the layer show keeps in a space. */
#ifndef HANARE_SHOW_STATE_H
#define HANARE_SHOW_STATE_H

#include <linux/mutex.h>

struct hanare_space_show {
	struct mutex refs_lock;			/* clear_refs, one at a time */
};

#endif
