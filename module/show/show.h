/* SPDX-License-Identifier: GPL-2.0 */
/* What is shown of LWK processes and their machine: what the layers above may use. */
#ifndef HANARE_SHOW_H
#define HANARE_SHOW_H

#include "space/space.h"

/* status.c */
long hanare_do_status(struct hanare_file *hf, void *data);
long hanare_do_debug(struct hanare_file *hf, void *data);

/* info.c */
int hanare_space_info(struct hanare_space *space, u32 tid, struct hanare_process_info *info);
int hanare_space_threads(struct hanare_space *space, u32 pid, u32 *from, struct hanare_thread_info *threads);
/* Pages that are alike, from address `at` on; `entry`: the first one's (HANARE_PAGEMAP_*). */
typedef int (*hanare_pages_seen)(u64 at, u64 pages, u64 entry, void *data);
int hanare_space_pagemap(struct hanare_space *space, u64 start, u64 end, hanare_pages_seen each,
			 void *data);
long hanare_do_process(struct hanare_file *hf, void *data);
long hanare_do_threads(struct hanare_file *hf, void *data);

/* pseudo.c, listing.c */
bool hanare_shows_procfs(struct file *file);
int hanare_pseudo_init(void);
void hanare_pseudo_exit(void);
long hanare_opened(struct hanare_space *space, void *data);
long hanare_listed(struct hanare_space *space, void *data);

#endif
