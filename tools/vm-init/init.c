// SPDX-License-Identifier: GPL-2.0
/*
 * PID 1 of the sandbox VM that tools/vm boots. A small static program in an initramfs:
 *
 *   1. load the modules in /modules.list (virtio, 9p, overlay), open the virtio-serial port;
 *   2. mount the host's root (9p, read-only) under an overlay on tmpfs and make it the root;
 *   3. say hello, receive what to run (arguments, environment, directory, shared folders);
 *   4. run it on pipes or on a pty and carry its input and output over the port;
 *   5. send its wait status. The host then ends QEMU.
 *
 * Everything on the port is a frame: a struct header and `length` bytes. tools/vm is the other end;
 * the letters are explained there (class Guest).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

#define PORT_PATH "/dev/vport0p1"
#define CHUNK_BYTES 32768	/* largest piece of output in one frame */
#define STDIN_WINDOW_BYTES 65536 /* the host sends no more than this unacknowledged */
#define MAX_FRAME_BYTES (8u << 20)

struct header {
	uint32_t type;
	uint32_t length;
};

/* What the host asks for; the strings lie in the frame that brought them. */
struct config {
	char **argv;
	char **envp;
	char *cwd;
	char *release;		/* uname -r of this kernel */
	char *modules_dir;	/* where its modules are on the host */
	char *module;		/* hanare.ko to load, or NULL */
	char *module_path;	/* hanare.ko for a later modprobe, or NULL */
	char *rw[64];		/* shared folders; the 9p tag of the n-th is rw<n> */
	unsigned int rw_count;
	int tty;		/* give the command a terminal */
	int stderr_pipe;	/* stderr apart from stdout (or apart from the terminal) */
	struct winsize winsize;
	double time;		/* the host's clock, seconds since 1970 */
};

static int port = -1;

static void send_frame(uint32_t type, const void *data, uint32_t length);

/* Something that makes the VM useless: say it on the console and end. */
void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	dprintf(2, "vm-init: ");
	vdprintf(2, format, args);
	dprintf(2, ": %s\n", strerror(errno));
	va_end(args);
	reboot(RB_AUTOBOOT);	/* -no-reboot turns this into the end of QEMU */
	for (;;)
		pause();
}

/* A message for the host's stderr. */
void message(const char *format, ...)
{
	va_list args;
	char text[4096];
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length >= (int)sizeof(text))
		length = sizeof(text) - 1;
	send_frame('M', text, length);
}

/* ---- the port ---- */

static void write_all(int fd, const void *data, size_t length)
{
	const char *p = data;

	while (length) {
		ssize_t n = write(fd, p, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("writing to the host");
		p += n;
		length -= n;
	}
}

static void send_frame(uint32_t type, const void *data, uint32_t length)
{
	struct header header = { type, length };
	char small[CHUNK_BYTES + sizeof(header)];

	/* One write where possible: each is an exit to QEMU. */
	if (length <= CHUNK_BYTES) {
		memcpy(small, &header, sizeof(header));
		memcpy(small + sizeof(header), data, length);
		write_all(port, small, sizeof(header) + length);
	} else {
		write_all(port, &header, sizeof(header));
		write_all(port, data, length);
	}
}

static void read_all(void *data, size_t length)
{
	char *p = data;

	while (length) {
		ssize_t n = read(port, p, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("reading from the host");
		p += n;
		length -= n;
	}
}

/* Returns the frame's content with a zero byte appended; to be freed. */
static char *receive_frame(struct header *header)
{
	char *data;

	read_all(header, sizeof(*header));
	if (header->length > MAX_FRAME_BYTES)
		die("frame of %u bytes from the host", header->length);
	data = malloc(header->length + 1);
	if (!data)
		die("no memory for a frame");
	read_all(data, header->length);
	data[header->length] = 0;
	return data;
}

/* ---- carrying out the configuration ---- */

static void parse_config(char *data, uint32_t length, struct config *config)
{
	char *end = data + length, *p;
	unsigned int strings = 0, argc = 0, envc = 0;

	for (p = data; p < end; p += strlen(p) + 1)
		strings++;
	config->argv = calloc(strings + 1, sizeof(char *));
	config->envp = calloc(strings + 1, sizeof(char *));
	if (!config->argv || !config->envp)
		die("no memory for the configuration");
	for (p = data; p < end; p += strlen(p) + 1) {
		char *value = strchr(p, '=');
		int rows, columns;

		if (!value)
			continue;
		value++;
#define IS(key) (!strncmp(p, key "=", sizeof(key)))
		if (IS("arg"))
			config->argv[argc++] = value;
		else if (IS("env"))
			config->envp[envc++] = value;
		else if (IS("cwd"))
			config->cwd = value;
		else if (IS("release"))
			config->release = value;
		else if (IS("modules_dir"))
			config->modules_dir = value;
		else if (IS("module"))
			config->module = value;
		else if (IS("module_path"))
			config->module_path = value;
		else if (IS("rw") && config->rw_count < 64)
			config->rw[config->rw_count++] = value;
		else if (IS("tty"))
			config->tty = *value == '1';
		else if (IS("stderr_pipe"))
			config->stderr_pipe = *value == '1';
		else if (IS("time"))
			config->time = atof(value);
		else if (IS("winsize") && sscanf(value, "%dx%d", &rows, &columns) == 2)
			config->winsize = (struct winsize){ rows, columns, 0, 0 };
#undef IS
	}
}

/* Show the end of the kernel log: why a module could not be loaded is told only there. */
static void show_kernel_log(void)
{
	static char log[65536];
	int length = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);
	int lines = 0, start;

	if (length <= 0)
		return;
	log[length] = 0;
	for (start = length - 1; start > 0 && lines < 12; start--)
		if (log[start - 1] == '\n')
			lines++;
	message("end of the kernel log:\n%.3500s", log + start + (start > 0));
}

static void set_clock(const struct config *config)
{
	struct timespec now = { .tv_sec = config->time };

	now.tv_nsec = (config->time - now.tv_sec) * 1e9;
	if (config->time > 0 && clock_settime(CLOCK_REALTIME, &now))
		message("cannot set the clock: %s", strerror(errno));
}

static void install_modules(const struct config *config)
{
	char path[4096], text[8192];

	/* modprobe looks into /lib/modules/<release>; /lib is a link to usr/lib on Debian. */
	make_dirs("/usr/lib/modules");
	snprintf(path, sizeof(path), "/usr/lib/modules/%s", config->release);
	if (symlink(config->modules_dir, path) && errno != EEXIST)
		message("cannot make %s: %s", path, strerror(errno));

	if (config->module_path) {
		make_dirs("/etc/modprobe.d");
		snprintf(text, sizeof(text), "install hanare /sbin/insmod %s $CMDLINE_OPTS\n",
			 config->module_path);
		write_file("/etc/modprobe.d/hanare-vm.conf", text);
	}
	if (config->module && load_module(config->module)) {
		message("cannot load %s: %s", config->module, strerror(errno));
		show_kernel_log();
	}
}

static void mount_shared(const struct config *config)
{
	unsigned int i;

	for (i = 0; i < config->rw_count; i++) {
		char tag[16];

		snprintf(tag, sizeof(tag), "rw%u", i);
		if (mount(tag, config->rw[i], "9p", 0,
			  "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"))
			message("cannot mount --rw %s: %s", config->rw[i], strerror(errno));
	}
}

/* ---- the command ---- */

struct streams {
	pid_t pid;
	int in;			/* where its input is written: pipe, or the pty's master */
	int out;		/* where its output is read: pipe, or the pty's master */
	int err;		/* -1 where stderr goes the way of stdout */
	int tty;
	char *pending;		/* input not yet taken: at most STDIN_WINDOW_BYTES */
	size_t pending_length;
	int eof;		/* close (or ^D) after pending */
};

static void make_pipe(int fds[2], int our_end)
{
	if (pipe2(fds, O_CLOEXEC))
		die("pipe");
	fcntl(fds[our_end], F_SETFL, O_NONBLOCK);
	/* Larger pipes: fewer switches under TCG. Failing is harmless. */
	fcntl(fds[our_end], F_SETPIPE_SZ, 256 * 1024);
}

static int open_pty(int *master, const struct winsize *size)
{
	char path[64];
	int slave;

	*master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*master < 0 || grantpt(*master) || unlockpt(*master) ||
	    ptsname_r(*master, path, sizeof(path)))
		die("making a pty");
	slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		die("opening %s", path);
	ioctl(*master, TIOCSWINSZ, size);
	fcntl(*master, F_SETFL, O_NONBLOCK);
	return slave;
}

/* In the child: become the command. */
static void __attribute__((noreturn)) run_command(const struct config *config, int in, int out,
						  int err)
{
	const char *path = NULL;
	sigset_t none;
	int status, i;

	setsid();
	if (config->tty)
		ioctl(in, TIOCSCTTY, 0);
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	umask(022);
	if (chdir(config->cwd))
		dprintf(2, "vm: cannot change to %s: %s; starting in /\n", config->cwd,
			strerror(errno));
	for (i = 0; config->envp[i]; i++)
		if (!strncmp(config->envp[i], "PATH=", 5))
			path = config->envp[i] + 5;
	/* execvpe() searches the PATH of this process. */
	if (path)
		setenv("PATH", path, 1);
	execvpe(config->argv[0], config->argv, config->envp);
	status = errno == ENOENT ? 127 : 126;
	dprintf(2, "vm: cannot run %s: %s\n", config->argv[0], strerror(errno));
	_exit(status);
}

static void start_command(const struct config *config, struct streams *streams)
{
	int in[2], out[2], err[2] = { -1, -1 };

	streams->tty = config->tty;
	streams->err = -1;
	if (config->tty) {
		in[0] = open_pty(&streams->in, &config->winsize);
		out[1] = in[0];
		streams->out = streams->in;
	} else {
		make_pipe(in, 1);
		make_pipe(out, 0);
		streams->in = in[1];
		streams->out = out[0];
	}
	if (config->stderr_pipe) {
		make_pipe(err, 0);
		streams->err = err[0];
	} else {
		err[1] = out[1];
	}

	streams->pid = fork();
	if (streams->pid < 0)
		die("fork");
	if (!streams->pid)
		run_command(config, in[0], out[1], err[1]);

	close(in[0]);
	if (out[1] != in[0])
		close(out[1]);
	if (err[1] != out[1])
		close(err[1]);
}

/* Pass one piece of output on. Returns 0 when there is none (now, or any more: then closed). */
static int forward_output(int *fd, uint32_t type)
{
	char data[CHUNK_BYTES];
	ssize_t n;

	if (*fd < 0)
		return 0;
	n = read(*fd, data, sizeof(data));
	if (n > 0) {
		send_frame(type, data, n);
		return 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	*fd = -1;		/* end, or EIO: no process has the pty open any more */
	return 0;
}

static void acknowledge(uint32_t bytes)
{
	send_frame('A', &bytes, sizeof(bytes));
}

/* Give the command as much of the pending input as it takes now. */
static void push_input(struct streams *streams)
{
	while (streams->in >= 0 && streams->pending_length) {
		ssize_t n = write(streams->in, streams->pending, streams->pending_length);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)	/* it closed its stdin: swallow what comes */
			n = streams->pending_length;
		streams->pending_length -= n;
		memmove(streams->pending, streams->pending + n, streams->pending_length);
		acknowledge(n);
	}
	if (streams->eof && streams->in >= 0) {
		streams->eof = 0;
		if (streams->tty) {
			/* At the start of a line the line discipline makes this an end of file. */
			if (write(streams->in, "\4", 1) < 0)
				streams->in = -1;
		} else {
			close(streams->in);
			streams->in = -1;
		}
	}
}

/* A signal from outside goes to the whole job, as from a terminal. */
static void signal_command(const struct streams *streams, int number)
{
	pid_t group = streams->tty ? tcgetpgrp(streams->in) : -1;

	if (group <= 0)
		group = streams->pid;
	if (kill(-group, number))
		kill(streams->pid, number);
}

static void handle_host(struct streams *streams)
{
	struct header header;
	char *data = receive_frame(&header);
	uint32_t number = 0;

	if (header.length >= sizeof(number))
		memcpy(&number, data, sizeof(number));
	switch (header.type) {
	case '0':
		if (streams->in < 0) {
			acknowledge(header.length);
			break;
		}
		if (streams->pending_length + header.length > STDIN_WINDOW_BYTES)
			die("the host sent more input than was agreed");
		memcpy(streams->pending + streams->pending_length, data, header.length);
		streams->pending_length += header.length;
		push_input(streams);
		break;
	case 'E':
		streams->eof = 1;
		push_input(streams);
		break;
	case 'W':
		if (streams->tty) {
			struct winsize size = { number >> 16, number & 0xffff, 0, 0 };

			ioctl(streams->in, TIOCSWINSZ, &size);
		}
		break;
	case 'S':
		signal_command(streams, number);
		break;
	case 'C':		/* that output has no reader any more: SIGPIPE for the writer */
		if (number == 1 && !streams->tty && streams->out >= 0) {
			close(streams->out);
			streams->out = -1;
		} else if (number == 2 && streams->err >= 0) {
			close(streams->err);
			streams->err = -1;
		}
		break;
	}
	free(data);
}

/* Reap everything that ended. Returns 1 and the status when the command is among it. */
static int reap(pid_t command, int *status)
{
	int found = 0, any;
	pid_t pid;

	while ((pid = waitpid(-1, &any, WNOHANG)) > 0) {
		if (pid == command) {
			*status = any;
			found = 1;
		}
	}
	return found;
}

/* Carry input and output until the command has ended. Returns its wait status. */
static int serve(struct streams *streams, int child_events)
{
	int status = 0;

	for (;;) {
		struct pollfd fds[] = {
			{ port, POLLIN, 0 },
			{ child_events, POLLIN, 0 },
			{ streams->out, POLLIN, 0 },
			{ streams->err, POLLIN, 0 },
			{ streams->pending_length ? streams->in : -1, POLLOUT, 0 },
		};

		if (poll(fds, 5, -1) < 0) {
			if (errno == EINTR)
				continue;
			die("poll");
		}
		if (fds[2].revents)
			forward_output(&streams->out, '1');
		if (fds[3].revents)
			forward_output(&streams->err, '2');
		if (fds[4].revents)
			push_input(streams);
		if (fds[0].revents & POLLIN)
			handle_host(streams);
		if (fds[1].revents) {
			struct signalfd_siginfo info;

			if (read(child_events, &info, sizeof(info)) < 0 && errno != EAGAIN)
				die("signalfd");
			if (reap(streams->pid, &status))
				break;
		}
	}
	/* What it wrote before it ended. */
	while (forward_output(&streams->out, '1'))
		;
	while (forward_output(&streams->err, '2'))
		;
	return status;
}

/* End what still runs and write shared folders back. */
static void clean_up(const struct config *config)
{
	unsigned int i;

	if (!config->rw_count)
		return;		/* all else is lost anyway */
	kill(-1, SIGKILL);
	for (i = 0; i < 100; i++) {
		if (waitpid(-1, NULL, WNOHANG) < 0)
			break;	/* no children left */
		usleep(10000);
	}
	sync();
	for (i = 0; i < config->rw_count; i++)
		umount2(config->rw[i], MNT_DETACH);
}

int main(void)
{
	static struct config config;
	static struct streams streams;
	struct header header;
	sigset_t child_signal;
	int child_events, status, tries;
	uint32_t answer;
	char *data;

	mount_at("devtmpfs", "devtmpfs", "/dev", 0, "mode=755", 1);
	load_boot_modules();

	/* The port appears when QEMU has answered the driver. */
	for (tries = 0; port < 0 && tries < 5000; tries++) {
		port = open(PORT_PATH, O_RDWR | O_CLOEXEC);
		if (port < 0)
			usleep(2000);
	}
	if (port < 0)
		die(PORT_PATH);
	mount_root();
	add_group();
	loopback_up();
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&child_signal);
	sigaddset(&child_signal, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child_signal, NULL);
	child_events = signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK);
	streams.pending = malloc(STDIN_WINDOW_BYTES);
	if (child_events < 0 || !streams.pending)
		die("signalfd");

	send_frame('H', "", 0);
	data = receive_frame(&header);
	if (header.type != 'R')
		die("expected the configuration, got frame %c", header.type);
	parse_config(data, header.length, &config);
	set_clock(&config);
	name_host();
	mount_shared(&config);
	install_modules(&config);
	start_command(&config, &streams);

	status = serve(&streams, child_events);
	clean_up(&config);
	answer = status;
	send_frame('X', &answer, sizeof(answer));
	for (;;)
		pause();	/* the host ends us */
}
