/* SPDX-License-Identifier: GPL-2.0 */
/* A proxy's memory, files, rights and processes: what the layers above may use. */
#ifndef HANARE_SPACE_H
#define HANARE_SPACE_H

#include "instance/instance.h"

/* answers.c */
void hanare_answer_store(struct hanare_space *space, struct hanare_answer *answer);
struct hanare_answer *hanare_answer_take(struct hanare_space *space, u64 addr, bool write,
					 bool second_pass);
void hanare_answers_drop(struct hanare_space *space);

/* offer.c */
bool hanare_offer_take(struct hanare_space *space, u64 addr, bool write,
		       struct hanare_answer *answer);

/* files.c */
/* `shows`: whether it is a file of procfs, or one in the place of such. */
void hanare_files_init(bool (*shows)(struct file *file));
bool hanare_is_device(const struct file *file);
/* Of the calling process. */
void hanare_close_for_exec(const struct hanare_space *space);
int hanare_space_copy_files(struct hanare_space *to, struct hanare_space *from);
int hanare_space_move_file(struct hanare_space *to, struct hanare_space *from, u64 id);
void hanare_space_put_files(struct hanare_space *space);

/* fill.c */
ssize_t hanare_read_quietly(struct file *file, char *to, size_t room, loff_t *position);

/* spaces.c */
struct hanare_space *hanare_space_find(u32 id);
/* Under rcu_read_lock, without a reference; NULL: none. Any context. */
struct hanare_space *hanare_space_peek(unsigned long id);
/* Under rcu_read_lock: the space behind *id, which becomes its id. */
struct hanare_space *hanare_space_next(unsigned long *id);
bool hanare_spaces_any(void);
/*
 * For whoever has a reference of the space, which keeps neither its id nor what is there while the
 * instance is booted. Takes inst->live. -ESRCH: the space has ended, and its id may be another's.
 */
int hanare_request_about(struct hanare_space *space, struct hanare_call *call,
			 enum hanare_patience patience, unsigned int timeout_ms);
/*
 * The same, but for what the LWK knows by a number of its own, and keeps when the space has ended.
 */
int hanare_request_beyond(struct hanare_space *space, struct hanare_call *call,
			  enum hanare_patience patience, unsigned int timeout_ms);
/* As hanare_request_about, without an answer. -EBUSY, at once: no entry is left. */
int hanare_post_about(struct hanare_space *space, struct hanare_call *call);
struct hanare_space *hanare_space_of_pid(struct pid *pid);
struct hanare_space *hanare_space_of_process(struct pid *pid);
struct hanare_space *hanare_space_after(struct hanare_instance *inst, u32 id);
/* A space has an id first, and is found by it once it is published. */
int hanare_space_take_id(struct hanare_space *space);
void hanare_space_give_id_back(u32 id);
void hanare_space_publish(struct hanare_space *space);
void hanare_space_hide(struct hanare_space *space);
/*
 * A space that has ended is not found any more. No other space gets its id before it, its children
 * (child.c) and requests about it have let the id go, and, where the id is kept for the LWK, that
 * has confirmed the end (link/closes.c).
 */
void hanare_space_keep_id(struct hanare_space *space);
void hanare_space_let_id_go(struct hanare_space *space);
void hanare_space_let_kept_id_go(u32 id);
void hanare_space_put(struct hanare_space *space);
void hanare_space_drop_eventfds(struct hanare_space *space);
void hanare_spaces_exit(void);

/* group.c: control groups that limit memory and CPU time */
void hanare_space_find_groups(struct hanare_space *space);
bool hanare_space_tell_groups(struct hanare_space *space, bool again);

/* limits.c: what prlimit(2) sets */
void hanare_space_begin_limits(struct hanare_space *space, const struct hanare_space *parent);
void hanare_space_note_limits(struct hanare_space *space);
bool hanare_space_tell_limits(struct hanare_space *space);
void hanare_lower_limits(struct task_struct *task);
void hanare_space_end_limits(struct hanare_space *space);

/* share.c */
/* `flush` ends a space whose process is gone, if no task uses its memory any more. */
int hanare_share_init(void (*flush)(struct hanare_space *space));
void hanare_share_exit(void);
/* The space ends with its process, whichever others have its descriptor. */
void hanare_space_watch_process(struct hanare_space *space);
void hanare_space_unwatch_process(struct hanare_space *space);
long hanare_share(struct hanare_space *space, void *data);
void hanare_space_unshare(struct hanare_space *space);
/* A process is on its way to a space of its own, and needs this one until it has that. */
bool hanare_space_is_left(struct hanare_space *space);
/*
 * The calling process may leave its space by an execve from now on, which a listener has let go on
 * as this call (0: none has).
 */
void hanare_space_prepare_leave(struct hanare_space *space, u64 call);
bool hanare_space_is_left_by(struct hanare_space *space, struct pid *pid);
/* About the calling process, which leaves the space: two words, as HANARE_LEFT_WORD has them. */
void hanare_space_say_left(struct hanare_space *space, u64 *words);
/* Whether the LWK knows the process by this slot. */
bool hanare_space_is_process(struct hanare_space *space, struct pid *pid, u32 slot);
/* The slot by which the LWK knows the process; false: it knows none such in the space. */
bool hanare_space_first_slot(struct hanare_space *space, struct pid *pid, u32 *slot);
/* The calling process has left the space for one of its own. */
void hanare_space_leave(struct hanare_space *space);
/* Each process that has the space is told that the LWK died. Any context. */
void hanare_space_tell_death(struct hanare_space *space);
/* Each is killed. May look at all tasks: with no lock held. */
void hanare_space_kill(struct hanare_space *space);
void hanare_space_await_end(struct hanare_space *space, unsigned int timeout_ms);
long hanare_space_interrupt(struct hanare_space *space, u64 tid);
/* Each process of each space. */
void hanare_spaces_kill(struct hanare_instance *inst);
bool hanare_space_is_shared(struct hanare_space *space);
/* The id of its process, or of one that has it still, as the caller sees it. */
u32 hanare_space_pid_vnr(struct hanare_space *space);
void hanare_space_stop_untold(struct hanare_space *space, u32 slot, bool stopped);
bool hanare_space_stop_changed(struct hanare_space *space, u32 look, bool (*is_stopped)(struct pid *pid),
			       u32 *slot, bool *stopped);
/* Whether the process has ended, and its other threads too. */
bool hanare_is_gone(struct pid *pid);
/* Runs a work of an end. Any context. */
void hanare_queue_end(struct delayed_work *work);
bool hanare_tell_end(struct hanare_space *space, struct hanare_call *call, struct delayed_work *work);

/* child.c */
struct hanare_space *hanare_child_maker(const struct hanare_child *arg);
void hanare_child_came(const struct pid *pid);
void hanare_children_end(const struct file *file, const struct hanare_space *space);
bool hanare_space_has_children(struct hanare_space *space);
void hanare_space_keep_for_children(struct hanare_space *space);

/* pool.c */
long hanare_do_pool(struct hanare_file *hf, void *data);
struct hanare_pool *hanare_pool_get(struct hanare_pool *pool);
void hanare_pool_put(struct hanare_pool *pool);
struct hanare_pool *hanare_pool_join(u32 fd, u8 *message);
/* With a reference. */
struct hanare_instance *hanare_pool_instance(struct hanare_pool *pool);
u64 hanare_pool_words(const struct hanare_space *space);
unsigned long hanare_pool_patience(const struct hanare_space *space);


/* confined.c */
int hanare_confined_alike(struct pid *pid);
void hanare_confinement_take(struct hanare_confinement *c);
void hanare_confinement_put(struct hanare_confinement *c);
bool hanare_confinement_is_own(const struct hanare_confinement *c);

/* members.c */
long hanare_pool_serves(struct hanare_space *member, unsigned long id);
void hanare_pool_end(struct hanare_pool *pool);
void hanare_pool_kill(const struct hanare_pool *pool, u64 id, bool awaits);

/* stop.c */
/* By a signal, or by the freezer of control groups. */
bool hanare_is_stopped(struct pid *pid);
void hanare_stop_init(void);
void hanare_stop_exit(void);

/* The caller ends by this signal: its tracer has seen it. */
void hanare_last_signal(u32 signal);

/* The caller's own, which it has as long as it runs. */
static inline struct sighand_struct *hanare_own_handlers(void)
{
	return rcu_dereference_raw(current->sighand);
}


/* dump.c */
long hanare_dump(struct hanare_space *space, void *data);
long hanare_execute(struct hanare_space *space, void *data);
long hanare_dump_thread(struct hanare_space *space, void *data);

/* permission.c */
const void *hanare_memory_behind(struct file *file);

/* stderr.c */
int hanare_stderr_init(void);
void hanare_stderr_exit(void);

/* service.c */
enum hanare_context { CONTEXT_WORKER, CONTEXT_FAULT, CONTEXT_THREAD };
int hanare_serve(struct hanare_instance *inst, struct hanare_space *space, u32 index,
		 enum hanare_context context);
/* Runs a service in no process' context, by the instance's thread. */
void hanare_serve_alone(struct hanare_instance *inst, u32 index);
int hanare_serve_wait(struct hanare_space *space, u32 index, unsigned int timeout_ms);
void hanare_zap(struct hanare_space *space, u64 start, u64 end);
void hanare_space_unwatch_all(struct hanare_space *space);

/* space.c */
void hanare_space_exit(void);
int hanare_space_use_slot(struct hanare_space *space, u64 addr);
void hanare_space_ring_slot(struct hanare_instance *inst, u64 id, u32 slot);
void hanare_spaces_wake(struct hanare_instance *inst, bool tell);
long hanare_wait(struct hanare_space *space, unsigned long arg);
long hanare_ring(struct hanare_space *space, unsigned long arg);
long hanare_worker(struct hanare_space *space, unsigned long arg);
long hanare_serve_own(struct hanare_space *space, void *data);
long hanare_signal(struct hanare_space *space, void *data);
long hanare_last(struct hanare_space *space, void *data);
long hanare_usage(struct hanare_space *space, void *data);
long hanare_start(struct hanare_space *space, void *data);
struct hanare_space *hanare_space_enter(struct hanare_instance *inst, struct inode *inode,
					const unsigned long *allowed, struct hanare_space *parent,
					const struct hanare_child *child, struct hanare_pool *pool,
					bool is_member, u8 *message);
void hanare_file_set_space(struct file *file, struct hanare_space *space);

/* end.c */
/* `ended` is called for each space, after its end. */
void hanare_ends_init(void (*ended)(struct hanare_space *space));
void hanare_space_end(struct hanare_space *space);
/* The LWK has nothing of a space any more whose end it had not confirmed, or does not run. */
void hanare_space_end_confirmed(struct hanare_unconfirmed *end);
void hanare_space_flush(struct hanare_space *space);

/* fault.c */
/* Whether a mapping shows memory of a space. */
bool hanare_is_window(const struct vm_area_struct *vma);
int hanare_space_mmap(struct hanare_space *space, struct vm_area_struct *vma);

/* eventfd.c */
int hanare_eventfds_init(void);
void hanare_eventfds_exit(void);
void hanare_space_init_eventfds(struct hanare_space *space);
void hanare_space_ring_eventfd(struct hanare_instance *inst, u64 id, u32 slot);
long hanare_eventfd(struct hanare_space *space, void *data);

/* program.c */
void hanare_program_init(void);
void hanare_program_exit(void);
/* The space whose memory the caller has, with a reference; NULL: it has none. */
struct hanare_space *hanare_space_of_caller(void);
long hanare_set_exe(struct hanare_space *space, u64 id);
long hanare_execed(struct hanare_space *space, void *data);
long hanare_copy(struct hanare_space *space, void *data);

/*
 * listener.c: the last call of the calling thread's that a listener has let go on as its execve,
 * or 0.
 */
u64 hanare_take_execve_let_on(void);

/* attach.c */
int hanare_attach(struct file *file, struct hanare_attach *arg);

/* fork.c */
long hanare_fork_command(struct file *file, struct hanare_space *of, void __user *to);

/* signal.c */
long hanare_send(struct hanare_space *space, void *data);
long hanare_forward(struct hanare_space *space, void *data);

/* rights.c */
long hanare_rights(struct hanare_space *space, void *data);
long hanare_succeed(struct hanare_space *space, void *data);

#endif
