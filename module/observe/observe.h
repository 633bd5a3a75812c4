/* SPDX-License-Identifier: GPL-2.0 */
/* Descriptors of tracers and debuggers: what the device may use. */
#ifndef HANARE_OBSERVE_H
#define HANARE_OBSERVE_H

#include "space/space.h"

/* observe.c */
struct hanare_observer;
struct poll_table_struct;
long hanare_do_observe(struct hanare_file *hf, void *data);
long hanare_do_observation(struct hanare_file *hf, void *data);
long hanare_do_trace_read(struct hanare_file *hf, void *data);
void hanare_observer_end(struct hanare_file *hf);
__poll_t hanare_observer_poll(struct file *file, struct poll_table_struct *table);
int hanare_observers_init(void);
void hanare_observers_exit(void);
void hanare_observe_event(struct hanare_instance *inst, u64 session);
/* Wakes the observers of a space that is gone. */
void hanare_observers_wake(struct hanare_space *space);

#endif
