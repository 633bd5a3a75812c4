/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Of the kernel's <linux/list.h>, what module/link/shares.h uses. */
#ifndef HANARE_LIST_H
#define HANARE_LIST_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	entry->next = list;
	entry->prev = list->prev;
	list->prev->next = entry;
	list->prev = entry;
}

static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = NULL;
	entry->prev = NULL;
}

static inline void list_move_tail(struct list_head *entry, struct list_head *list)
{
	list_del(entry);
	list_add_tail(entry, list);
}

#define list_entry(at, type, member) ((type *)((char *)(at) - offsetof(type, member)))
#define list_first_entry(list, type, member) list_entry((list)->next, type, member)
#define list_for_each_entry(at, list, member)					\
	for (at = list_first_entry(list, __typeof__(*at), member);		\
	     &at->member != (list);						\
	     at = list_entry(at->member.next, __typeof__(*at), member))

#endif
