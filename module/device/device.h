/* SPDX-License-Identifier: GPL-2.0 */
/* The calls of /dev/hanare, among its own files. */
#ifndef HANARE_DEVICE_H
#define HANARE_DEVICE_H

#include "observe/observe.h"
#include "show/show.h"

/* calls.c */
long hanare_space_wake(struct file *file, unsigned int cmd, unsigned long arg);
long hanare_space_ioctl(struct file *file, unsigned int cmd, void __user *arg);

#endif
