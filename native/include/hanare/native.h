/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What native tasks of Hanare are written with in C (docs/native.md).
 *
 * A native task shares no addresses with a Linux process. What it asks of
 * Linux is executed by one of a pool of proxies, each call by another one. So a
 * call that leaves state behind, such as an open descriptor, needs a proxy
 * that is kept: between hanare_keep() and hanare_give_back(). On Linux itself
 * the same program runs as well.
 *
 * One file of the program defines HANARE_NATIVE_START before it includes this
 * header, and hanare_main(). Build: gcc -static -nostdlib -fno-stack-protector
 * -O2: the value that a stack protector compares lies in memory of the thread
 * that a C library makes. In C++ (-fno-exceptions -fno-rtti) constructors of
 * variables outside of functions are not called.
 *
 * Calls return what Linux returns, or a negative error number.
 */
#ifndef HANARE_NATIVE_H
#define HANARE_NATIVE_H

#include <stddef.h>

#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/stat.h>
#include <linux/types.h>

#ifndef __x86_64__
#error "native tasks are for x86-64"
#endif

#ifdef __SSP_ALL__
#error "native tasks have no memory for a stack protector: -fno-stack-protector"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The request of prctl(2) about the proxy; Linux, which does not know it, says -EINVAL. */
#define PR_HANARE_PROXY		0x484e5058L
#define HANARE_PROXY_GIVE_BACK	0L
#define HANARE_PROXY_KEEP	1L
#define HANARE_PROXY_ASK	2L

/* What a program ends with. */
#define HANARE_FAILED		1
#define HANARE_WRONG_USAGE	2

/* Those of <sys/socket.h> and <errno.h>. */
#define HANARE_AF_INET		2
#define HANARE_SOCK_STREAM	1
#define HANARE_SHUT_WR		1
#define HANARE_ENOENT		2L
#define HANARE_EIO		5L
#define HANARE_EINVAL		22L

struct hanare_entry {
	__u64 inode;
	__s64 offset;
	__u16 size;		/* of this entry: the next one follows */
	__u8 kind;
	__extension__ char name[];
};

/* The program. What it returns is its exit status. */
int hanare_main(int argc, char **argv, char **envp);

/* One system call, with Linux' number and arguments. */
static inline long hanare_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long hanare_call3(long number, long a, long b, long c)
{
	return hanare_call(number, a, b, c, 0, 0, 0);
}

__attribute__((noreturn)) static inline void hanare_exit(int status)
{
	for (;;)
		hanare_call3(__NR_exit_group, status, 0, 0);
}

/* Keeps one proxy for all calls: 1; 0 on Linux itself, where there is nothing to keep. */
static inline long hanare_keep(void)
{
	long result = hanare_call(__NR_prctl, PR_HANARE_PROXY, HANARE_PROXY_KEEP, 0, 0, 0, 0);

	if (result == -HANARE_EINVAL)
		return 0;
	return result < 0 ? result : 1;
}

/* Gives the proxy back, which closes what was opened. */
static inline long hanare_give_back(void)
{
	long result = hanare_call(__NR_prctl, PR_HANARE_PROXY, HANARE_PROXY_GIVE_BACK, 0, 0, 0, 0);

	return result == -HANARE_EINVAL ? 0 : result;
}

/* Whether a proxy is kept: 0 or 1; 0 on Linux itself, where there is none. */
static inline long hanare_is_kept(void)
{
	long result = hanare_call(__NR_prctl, PR_HANARE_PROXY, HANARE_PROXY_ASK, 0, 0, 0, 0);

	return result == -HANARE_EINVAL ? 0 : result;
}

/* A transfer may be shorter than asked for: a call carries less than 1 MiB. */
static inline long hanare_read(int fd, void *to, size_t size)
{
	return hanare_call3(__NR_read, fd, (long)to, (long)size);
}

static inline long hanare_write(int fd, const void *from, size_t size)
{
	return hanare_call3(__NR_write, fd, (long)from, (long)size);
}

/* Reads until it is all there, or there is no more: how much it was. */
static inline long hanare_read_full(int fd, void *to, size_t size)
{
	size_t done = 0;

	while (done < size) {
		long count = hanare_read(fd, (char *)to + done, size - done);

		if (count < 0)
			return count;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	return (long)done;
}

/* Writes all of it, by as many calls as that takes: 0. */
static inline long hanare_write_all(int fd, const void *from, size_t size)
{
	size_t done = 0;

	while (done < size) {
		long count = hanare_write(fd, (const char *)from + done, size - done);

		if (count < 0)
			return count;
		if (count == 0)
			return -HANARE_EIO;
		done += (size_t)count;
	}
	return 0;
}

static inline long hanare_open(const char *path, int flags, unsigned int mode)
{
	return hanare_call(__NR_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, (long)mode, 0, 0);
}

static inline long hanare_close(int fd)
{
	return hanare_call3(__NR_close, fd, 0, 0);
}

static inline long hanare_fstat(int fd, struct stat *status)
{
	return hanare_call3(__NR_fstat, fd, (long)status, 0);
}

/* Of a path in an open directory, or from the working directory on (AT_FDCWD). */
static inline long hanare_stat_at(int folder, const char *path, struct stat *status, int flags)
{
	return hanare_call(__NR_newfstatat, folder, (long)path, (long)status, flags, 0, 0);
}

static inline long hanare_fchmod(int fd, unsigned int mode)
{
	return hanare_call3(__NR_fchmod, fd, (long)mode, 0);
}

/*
 * Reads as many entries of a directory (struct hanare_entry) as there is room for. Returns their
 * bytes, 0 at the end.
 */
static inline long hanare_getdents(int fd, void *to, size_t size)
{
	return hanare_call3(__NR_getdents64, fd, (long)to, (long)size);
}

static inline long hanare_socket(int family, int kind, int protocol)
{
	return hanare_call3(__NR_socket, family, kind | O_CLOEXEC, protocol);
}

static inline long hanare_bind(int fd, const struct sockaddr_in *address)
{
	return hanare_call3(__NR_bind, fd, (long)address, sizeof(*address));
}

static inline long hanare_listen(int fd, int waiting_max)
{
	return hanare_call3(__NR_listen, fd, waiting_max, 0);
}

static inline long hanare_accept(int fd)
{
	return hanare_call(__NR_accept4, fd, 0, 0, O_CLOEXEC, 0, 0);
}

static inline long hanare_connect(int fd, const struct sockaddr_in *address)
{
	return hanare_call3(__NR_connect, fd, (long)address, sizeof(*address));
}

static inline long hanare_shutdown(int fd, int how)
{
	return hanare_call3(__NR_shutdown, fd, how, 0);
}

/* Pages of memory, zeroed, and the way back; NULL if there are none. */
static inline void *hanare_map(size_t size)
{
	/* PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS */
	long address = hanare_call(__NR_mmap, 0, (long)size, 3, 0x22, -1, 0);

	return address < 0 && address >= -4095 ? NULL : (void *)address;
}

static inline long hanare_unmap(void *pages, size_t size)
{
	return hanare_call3(__NR_munmap, (long)pages, (long)size, 0);
}

static inline size_t hanare_length(const char *text)
{
	size_t length = 0;

	/* The statement keeps compilers from making this a call of strlen. */
	for (; text[length]; length++)
		__asm__ volatile("");
	return length;
}

/*
 * Less than, equal to or greater than 0, as the first text is before, equal to or after the second.
 */
static inline int hanare_compare(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return (unsigned char)*one - (unsigned char)*other;
}

/* Writes a text. */
static inline long hanare_print(int fd, const char *text)
{
	return hanare_write_all(fd, text, hanare_length(text));
}

#define HANARE_DIGITS_MAX	21	/* of a number, with its end */

/* A number as a text, which lies at the end of the buffer. */
static inline char *hanare_digits(unsigned long number, char buffer[HANARE_DIGITS_MAX])
{
	char *at = buffer + HANARE_DIGITS_MAX - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	return at;
}

/* A number that is all of a text and not above `max`: 0, or -EINVAL. */
static inline long hanare_parse(const char *text, unsigned long max, unsigned long *number)
{
	unsigned long value = 0;

	if (!*text)
		return -HANARE_EINVAL;
	for (; *text; text++) {
		unsigned long digit = (unsigned long)(*text - '0');

		if (digit > 9 || value > (max - digit) / 10 || digit > max)
			return -HANARE_EINVAL;
		value = value * 10 + digit;
	}
	*number = value;
	return 0;
}

/* The last part of the name by which the program was called. */
static inline const char *hanare_name(char **argv)
{
	const char *name = argv[0] ? argv[0] : "native", *at;

	for (at = name; *at; at++)
		if (*at == '/')
			name = at + 1;
	return name;
}

/*
 * Says "PROGRAM: TRIED 'WHOM': error NUMBER" on standard error output; WHOM may
 * be NULL. Returns the exit status of a program that failed.
 */
static inline int hanare_fail(char **argv, const char *tried, const char *whom, long error)
{
	char digits[HANARE_DIGITS_MAX];

	hanare_print(2, hanare_name(argv));
	hanare_print(2, ": ");
	hanare_print(2, tried);
	if (whom) {
		hanare_print(2, " '");
		hanare_print(2, whom);
		hanare_print(2, "'");
	}
	if (error) {
		hanare_print(2, ": error ");
		hanare_print(2, hanare_digits((unsigned long)-error, digits));
	}
	hanare_print(2, "\n");
	return HANARE_FAILED;
}

/* Says how the program is called. Returns the exit status of one that was called in a wrong way. */
static inline int hanare_usage(char **argv, const char *usage)
{
	hanare_print(2, hanare_name(argv));
	hanare_print(2, ": usage: ");
	hanare_print(2, hanare_name(argv));
	hanare_print(2, " ");
	hanare_print(2, usage);
	hanare_print(2, "\n");
	return HANARE_WRONG_USAGE;
}

#ifdef HANARE_NATIVE_START

/* What compilers call without being asked. */
__attribute__((weak)) void *memcpy(void *to, const void *from, size_t size)
{
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size) : : "memory");
	return to;
}

__attribute__((weak)) void *memmove(void *to, const void *from, size_t size)
{
	const char *source = (const char *)from + size - 1;
	char *target = (char *)to + size - 1;

	if ((size_t)to - (size_t)from >= size)
		return memcpy(to, from, size);
	/* The target begins inside of the source: from the end down. */
	__asm__ volatile("std; rep movsb; cld" : "+D"(target), "+S"(source), "+c"(size) : : "memory");
	return to;
}

__attribute__((weak)) void *memset(void *to, int byte, size_t size)
{
	void *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(size) : "a"(byte) : "memory");
	return to;
}

__attribute__((weak)) int memcmp(const void *one, const void *other, size_t size)
{
	const unsigned char *a = (const unsigned char *)one, *b = (const unsigned char *)other;

	for (; size; size--, a++, b++)
		if (*a != *b)
			return *a - *b;
	return 0;
}

/* Called at the start with the stack as the kernel has made it: argc, argv, NULL, envp, NULL. */
__attribute__((noreturn, used)) static void hanare_start(long *stack) __asm__("hanare_start");
static void hanare_start(long *stack)
{
	int argc = (int)stack[0];
	char **argv = (char **)(stack + 1);
	/* SIGPIPE is ignored: a write without a reader is told by an error. */
	const unsigned long ignore[4] = { 1, 0, 0, 0 };

	hanare_call(__NR_rt_sigaction, 13, (long)ignore, 0, 8, 0, 0);
	hanare_exit(hanare_main(argc, argv, argv + argc + 1));
}

__asm__(".pushsection .text.hanare_native, \"ax\", @progbits\n"
	".globl _start\n"
	"_start:\n"
	"	xorl %ebp, %ebp\n"
	"	movq %rsp, %rdi\n"
	"	andq $-16, %rsp\n"
	"	call hanare_start\n"
	"	ud2\n"
	".popsection\n");

#endif /* HANARE_NATIVE_START */

#ifdef __cplusplus
}
#endif

#endif /* HANARE_NATIVE_H */
