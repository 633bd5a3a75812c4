/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the VM's PID 1 offer each other. */
#ifndef VM_INIT_H
#define VM_INIT_H

/* init.c */
/* Something that makes the VM useless: say it on the console and end. */
void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...);
/* A message for the host's stderr. */
void __attribute__((format(printf, 1, 2))) message(const char *format, ...);

/* root.c */
void make_dirs(const char *path);
void mount_at(const char *type, const char *source, const char *path, unsigned long flags,
	      const char *options, int required);
void write_file(const char *path, const char *text);
int load_module(const char *path);
void load_boot_modules(void);
void mount_root(void);
void add_group(void);
void loopback_up(void);
void name_host(void);

#endif
