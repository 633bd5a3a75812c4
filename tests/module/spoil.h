/* SPDX-License-Identifier: GPL-2.0 */
/* What threads and other processes do to a forged proxy (forged.c) while its program runs. */
#ifndef SPOIL_H
#define SPOIL_H

#include "forged.h"

static union {
	uint64_t words[512];
	struct hanare_attach attach;
	uint32_t first;
	struct hanare_signal signal;
	struct hanare_dump_thread dump_thread;
	struct hanare_opened opened;
	struct hanare_listed listed;
	struct hanare_execed execed;
	struct hanare_share share;
	struct hanare_send send;
	struct hanare_forward forward;
	struct hanare_eventfd eventfd;
	struct hanare_copy copy;
	struct hanare_child child;
	struct hanare_status status;
	struct hanare_log log;
	struct hanare_process_status process;
	struct hanare_threads threads;
	struct hanare_observation observation;
	struct hanare_trace_read read;
} buffers[16];

/* Few that end their receiver: programs are to get far. */
static int any_signal(void)
{
	static const int mild[] = { SIGCHLD, SIGCONT, SIGURG, SIGWINCH };
	static const int fatal[] = { SIGUSR2, SIGALRM, SIGIO, SIGHUP, SIGTERM, 34, 40, SIGUSR1 };

	switch (below(24)) {
	case 0:
		return fatal[below(sizeof(fatal) / sizeof(*fatal))];
	case 1:
		return below(66);
	default:
		return mild[below(sizeof(mild) / sizeof(*mild))];
	}
}

/* What could be meant. */
static void make_plausible(unsigned int command, void *at)
{
	typeof(*buffers) *b = at;
	int i;

	memset(b, 0, 1024);
	switch (command) {
	case HANARE_IOCTL_ATTACH:
		b->attach.fd = DEVICE_FD;
		if (!below(3))
			b->attach.cpus.words[0] = below(16);
		break;
	case HANARE_IOCTL_SERVE:
		b->first = below(3) ? any_slot() : below(512);
		break;
	case HANARE_IOCTL_SIGNAL:
		b->signal = (struct hanare_signal){ any_signal(), any_slot(), { 0 } };
		for (i = 0; i < 6; i++)
			b->signal.info[i] = value();
		b->signal.info[0] = b->signal.signal;
		break;
	case HANARE_IOCTL_DUMP_THREAD:
		b->dump_thread.signal = below(2) ? any_signal() : 0;
		b->dump_thread.others = below(3);
		for (i = 0; i < HANARE_DUMP_THREAD_REGS; i++)
			b->dump_thread.regs[i] = value();
		break;
	case HANARE_IOCTL_CHILD:
		b->child.token = below(6) ? shared->tokens[below(8)] : value();
		b->child.program = !below(3);
		b->child.shares_table = !b->child.program && !below(3);
		b->child.secure = !below(4);
		b->child.parent = below(4) ? space : shared->spaces[below(8)];
		for (i = 0; i < 2; i++)
			b->child.files[i] = below(6);
		break;
	case HANARE_IOCTL_OBSERVE:
		b->opened.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		break;
	case HANARE_IOCTL_OBSERVATION:
		b->observation.op = 1 + below(HANARE_OBSERVE_LAST + 1);
		b->observation.args[0] = below(3) ? (uint64_t)getpid() : below(2) ? address() : value();
		b->observation.args[1] = below(2) ? below(64) : value();
		for (i = 0; i < 64; i++)
			b->observation.data[i] = below(2) ? 0 : value();
		break;
	case HANARE_IOCTL_TRACE_READ:
		b->read.buffer = below(2) ? (uint64_t)b + 2048 : address();
		b->read.size = below(8192);
		break;
	case HANARE_IOCTL_OPENED:
		b->opened.fd = open(below(2) ? "/proc/self/maps" : "/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
		b->opened.replace = below(2);
		b->opened.close_on_exec = below(2);
		break;
	case HANARE_IOCTL_LISTED:
		b->listed.fd = open("/proc", O_RDONLY | O_CLOEXEC);
		b->listed.old = below(2);
		b->listed.buffer = below(2) ? (uint64_t)b + 1024 : address();
		b->listed.bytes = below(2) ? (uint64_t)syscall(SYS_getdents64, b->listed.fd, (char *)b + 1024, 1024) : value();
		break;
	case HANARE_IOCTL_EXECED:
		b->execed.file = below(6);
		b->execed.arg_start = address() & 0x7cffffffffff;
		b->execed.arg_end = b->execed.arg_start + below(1 << 14);
		b->execed.env_start = b->execed.arg_end;
		b->execed.env_end = b->execed.env_start + below(1 << 14);
		break;
	case HANARE_IOCTL_SUCCEED:
		b->first = getpid() + below(4);
		break;
	case HANARE_IOCTL_SHARE:
		b->share.slot = any_slot();
		b->share.begin = below(2);
		break;
	case HANARE_IOCTL_LAST:
		b->first = any_signal();
		break;
	case HANARE_IOCTL_SEND:
		b->send.signal = any_signal();
		b->send.tid = below(2) ? 0 : getpid() + below(4);
		for (i = 0; i < 6; i++)
			b->send.info[i] = value();
		b->send.info[0] = b->send.signal;
		break;
	case HANARE_IOCTL_COPY:
		b->copy.from = address();
		b->copy.to = address();
		b->copy.bytes = below(8) ? below(3 * PAGE) : value();
		break;
	case HANARE_IOCTL_FORWARD:
		b->forward.signals = below(3) ? 0x8410000 : value(); /* SIGCHLD, SIGURG, SIGWINCH */
		b->forward.ignored_too = value();
		b->forward.handler = below(8) ? below(2) : value();
		b->forward.restorer = value();
		break;
	case HANARE_IOCTL_EVENTFD:
		b->eventfd.slot = below(8) ? below(16) : value();
		b->eventfd.descriptor = below(4) ? below(32) : value();
		break;
	case HANARE_IOCTL_STATUS:
		b->status.ping = !below(16);
		b->status.cpu_count = below(4);
		b->status.cpus = below(2) ? (uint64_t)b + 1024 : address();
		break;
	case HANARE_IOCTL_LOG:
		b->log.position = below(2) ? 0 : value();
		b->log.buffer = below(2) ? (uint64_t)b + 1024 : address();
		b->log.size = below(3000);
		break;
	case HANARE_IOCTL_PROCESS:
	case HANARE_IOCTL_THREADS:
		/* The instance's name; then a space. */
		memcpy(b->threads.name, instance, sizeof(instance));
		b->threads.space = below(3) ? space : below(3) ? shared->spaces[below(8)] : 0;
		b->threads.from = below(3);
		break;
	default:
		for (i = 0; i < 16; i++)
			b->words[i] = value();
	}
}

static void spoil_by_ioctl(void)
{
	unsigned int at = below(COMMANDS), command = commands[at], i;
	typeof(*buffers) *b = &buffers[below(16)];
	void *argument = b;
	int fd = DEVICE_FD, opened = -1;

	/* These end or hold their caller. */
	if ((command == HANARE_IOCTL_DUMP_THREAD && below(30)) || (command == HANARE_IOCTL_WAIT && below(8)))
		return;
	/* Programs that are killed all the time do not get far. */
	if (command == HANARE_IOCTL_SIGNAL && below(3))
		return;
	if (below(4))
		make_plausible(command, b);
	else
		for (i = 0; i < 64; i++)
			if (below(2))
				b->words[i] = value();
	if (!below(4))
		b->words[below(16)] = value();
	opened = command == HANARE_IOCTL_OPENED || command == HANARE_IOCTL_LISTED || command == HANARE_IOCTL_OBSERVE ?
		b->opened.fd : -1;
	if (command == HANARE_IOCTL_SHUTDOWN || command == HANARE_IOCTL_DEBUG || !command)
		command = command ? command : below(2) ? value() : 0x4800 | below(256);
	/* These two take a number. */
	if (command == HANARE_IOCTL_WORKER)
		argument = (void *)((slot_at(any_slot())->bell + below(2)) |
				    (uint64_t)(getpid() + below(8)) << HANARE_WORKER_SHIFT);
	if (command == HANARE_IOCTL_WAIT || command == HANARE_IOCTL_RING)
		argument = (void *)(any_slot() | (below(2) ? 0 : (1UL + below(512)) << HANARE_WAIT_RING_SHIFT));
	switch (below(16)) {
	case 0:
		argument = (void *)address();
		break;
	case 1:
		argument = (void *)value();
		break;
	case 2:
		argument = (char *)(buffers + 16) - below(64);
		break;
	}
	/* Descriptors without a role, and those that were left open. */
	if (command == HANARE_IOCTL_OBSERVE || command == HANARE_IOCTL_OBSERVATION || !below(12))
		fd = SHARED_FD + 1 + below(4);
	count(IOCTLS);
	__atomic_add_fetch(&shared->ioctls[at], 1, __ATOMIC_RELAXED);
	call_by(fd, command, argument);
	if (opened > 2 && opened < DEVICE_FD)
		close(opened);
}

/* Looks at a process as tracers and debuggers do. */
static void spoil_by_observing(void)
{
	struct hanare_observe observe = { 0 };
	struct hanare_observation *about = &buffers[below(16)].observation;
	char path[32];
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC), i;

	snprintf(path, sizeof(path), "/proc/%d/mem", below(2) ? getpid() : getppid());
	observe.memory = open(path, O_RDWR | O_CLOEXEC);
	call_by(fd, HANARE_IOCTL_OBSERVE, &observe);
	for (i = below(12); i; i--) {
		make_plausible(HANARE_IOCTL_OBSERVATION, about);
		if (!below(3))
			about->op = below(2) ? HANARE_OBSERVE_TRACE : HANARE_OBSERVE_DEBUG;
		if (about->op == HANARE_OBSERVE_TRACE)
			about->args[0] = below(2);
		call_by(fd, HANARE_IOCTL_OBSERVATION, about);
		count(OBSERVATIONS);
		if (!below(3)) {
			make_plausible(HANARE_IOCTL_TRACE_READ, about);
			call_by(fd, HANARE_IOCTL_TRACE_READ, about);
		}
		usleep(below(3000));
	}
	close(observe.memory);
	if (below(8))
		close(fd);
}

static void spoil_words(void)
{
	enum kind kind;
	uint64_t at = window_word(&kind);
	int burst = below(8) ? 1 : below(32);

	while (burst--) {
		count(kind);
		if (kind == SLOT_WORDS && below(2))
			/* State, or what follows it. */
			*(volatile uint32_t *)(at & -128) = below(2) ? below(4) : value();
		else if (kind == BOX_WORDS && below(2))
			*(volatile uint64_t *)at = below(2) ? any() : below(2) ? ~0ULL : 0;
		else if (below(2))
			*(volatile uint32_t *)(at + 4 * below(2)) = value();
		else
			*(volatile uint64_t *)at = value();
		if (!below(3))
			at = window_word(&kind);
	}
}

/* A result that was not asked for, or not yet. */
static void spoil_answer(void)
{
	count(UNASKED);
	publish(slot_at(any_slot()), value());
}

static void spoil_mapping(void)
{
	static const uint64_t places[] = { HANARE_SLOT_BASE, HANARE_START_BASE, HANARE_SCRATCH_END - PAGE, 0x400000, HANARE_USER_MIN };
	uint64_t start = below(2) ? places[below(5)] : address() & -PAGE, size = PAGE << below(below(8) ? 6 : 20);
	void *at = (void *)start;

	if (start < HANARE_USER_MIN || start + size > HANARE_CONTROL_END || (start < own_end && start + size > own_start))
		return;
	count(MAPPINGS);
	switch (below(10)) {
	case 0:
		munmap(at, size);
		break;
	case 1:
		mprotect(at, size, below(8));
		break;
	case 2:
		mremap(at, size, size << below(2), MREMAP_MAYMOVE | (below(4) ? 0 : MREMAP_DONTUNMAP));
		break;
	case 3:
		madvise(at, size, below(30));
		break;
	case 4:
		mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)at + PAGE * (below(64) - 32));
		break;
	case 5: /* another space, another address, other rights */
		mmap(below(2) ? NULL : at, size, below(8), (below(4) ? MAP_SHARED : MAP_PRIVATE) | (below(2) ? MAP_FIXED : 0),
		     DEVICE_FD, (off_t)((uint64_t)(below(2) ? space : shared->spaces[below(8)]) << HANARE_SPACE_SHIFT |
					(below(2) ? start : address() & -PAGE)));
		break;
	case 6:
		mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 7:
		syscall(below(2) ? SYS_mlock : SYS_munlock, at, size);
		break;
	default:
		break;
	}
	/* Most of the time it is soon as it should be. */
	usleep(below(3000));
	if (below(8))
		map_around(start, start + size);
}

/* Memory of the program, by faults of user mode and of Linux. */
static void spoil_memory(void)
{
	uint64_t at = address();
	char byte[64];
	int fd, pipes[2];
	struct iovec here = { byte, sizeof(byte) }, there = { (void *)at, sizeof(byte) };

	count(TOUCHES);
	switch (below(8)) {
	case 0:
		*(volatile char *)at = value();
		break;
	case 1:
		fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		syscall(SYS_read, fd, at, 1 + below(3 * PAGE));
		close(fd);
		break;
	case 2:
		if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
			break;
		syscall(SYS_write, pipes[1], at, 1 + below(2 * PAGE));
		syscall(SYS_vmsplice, pipes[1], &there, 1, below(4));
		close(pipes[0]);
		close(pipes[1]);
		break;
	case 3:
		process_vm_readv(below(2) ? getpid() : getppid(), &here, 1, &there, 1, 0);
		break;
	case 4:
		process_vm_writev(below(2) ? getpid() : getppid(), &here, 1, &there, 1, 0);
		break;
	case 5:
		fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		if (below(2))
			pread(fd, byte, sizeof(byte), at);
		else
			pwrite(fd, byte, 1, at);
		close(fd);
		break;
	default:
		byte[0] = *(volatile char *)at;
	}
}

static void spoil_by_signal(void)
{
	int number = any_signal();

	if (!number)
		return;
	count(SIGNALS);
	switch (below(6)) {
	case 0:
		syscall(SYS_tgkill, getpid(), getpid() + below(6), number);
		break;
	case 1:
		if (may_send(getppid()))
			kill(getppid(), number);
		break;
	case 2:
		kill(0, below(6) ? SIGCONT : number);
		break;
	default:
		kill(getpid(), number);
	}
}

static void spoil_descriptor(void)
{
	int other;

	count(DESCRIPTORS);
	switch (below(8)) {
	case 0: /* away for a while */
		other = fcntl(DEVICE_FD, F_DUPFD_CLOEXEC, 610);
		close(DEVICE_FD);
		usleep(below(3000));
		dup3(other, DEVICE_FD, O_CLOEXEC);
		close(other);
		break;
	case 1: /* one without a role, for good */
		if (!below(8))
			open_device();
		break;
	case 2:
		if (!below(20))
			close(DEVICE_FD);
		break;
	default:
		other = open("/dev/hanare", O_RDWR | O_CLOEXEC);
		dup3(other, SHARED_FD + 1 + below(4), O_CLOEXEC);
		close(other);
	}
}

static void spoil_window_of_others(void)
{
	struct dirent *entry;
	DIR *processes = opendir("/proc");
	uint64_t word = value();
	enum kind kind;
	char path[300];
	int fd;

	/* One of all processes, of those that Linux lets this one write to. */
	while (processes && (entry = readdir(processes))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || below(8) ||
		    atoi(entry->d_name) == shared->supervisor)
			continue;
		snprintf(path, sizeof(path), "/proc/%s/mem", entry->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (pwrite(fd, &word, below(2) ? 4 : 8, window_word(&kind)) > 0)
			count(WINDOWS_OF_OTHERS);
		close(fd);
	}
	closedir(processes);
}

static int outsider(void *unused)
{
	spoiler(unused);
	_exit(0);
}

static void *carry_outsider(void *flags)
{
	char *stack = mmap(NULL, 128 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;

	if (stack == MAP_FAILED || clone(outsider, stack + (128 << 10), (int)(uintptr_t)flags | SIGCHLD, NULL) < 0)
		return NULL;
	while (waitpid(-1, &status, __WALL | __WNOTHREAD) > 0 || errno == EINTR)
		;
	return NULL;
}

/* Processes that have the descriptor, the descriptor table, or the memory. */
static void spoil_by_process(void)
{
	static const int with_memory[] = { CLONE_VM, CLONE_VM | CLONE_FILES, CLONE_VM | CLONE_FILES | CLONE_FS };
	struct hanare_child child;
	long pid;

	if (below(3) == 0) {
		count(SHARERS);
		start_thread(carry_outsider, (void *)(uintptr_t)with_memory[below(3)]);
		return;
	}
	count(OUTSIDERS);
	pid = syscall(SYS_clone, (below(2) ? CLONE_FILES : 0) | SIGCHLD, 0, 0, 0, 0);
	if (pid)
		return;
	state = 0;
	if (below(2)) {
		make_plausible(HANARE_IOCTL_CHILD, buffers);
		child = buffers->child;
		if (!become_child(&child)) {
			count(CHILDREN);
			start_thread(spoiler, NULL);
			worker(NULL);
		}
	}
	outsider(NULL);
}

static void end_of_process(void)
{
	switch (below(8)) {
	case 0:
		kill(getpid(), SIGKILL);
		break;
	case 1:
		close(DEVICE_FD);
		break;
	case 2:
		munmap((void *)HANARE_CONTROL_BASE, HANARE_CONTROL_SIZE);
		break;
	case 3:
		execl("/bin/true", "true", NULL);
		break;
	case 4:
		kill(getpid(), any_signal());
		break;
	case 5: /* this thread alone */
		syscall(SYS_exit, 0);
	}
	_exit(0);
}

static void spoil(void)
{
	switch (below(64)) {
	case 0 ... 23:
		spoil_by_ioctl();
		break;
	case 24 ... 39:
		spoil_words();
		break;
	case 40 ... 41:
		spoil_answer();
		break;
	case 42 ... 46:
		spoil_mapping();
		break;
	case 47 ... 54:
		spoil_memory();
		break;
	case 55 ... 56:
		spoil_by_signal();
		break;
	case 57:
		spoil_descriptor();
		break;
	case 58:
		if (!below(4))
			spoil_window_of_others();
		break;
	case 59:
		spoil_by_process();
		break;
	case 60 ... 61:
		if (!below(3))
			spoil_by_observing();
		break;
	default:
		usleep(below(20000));
	}
}

static void *spoiler(void *unused)
{
	if (shared->pace_us == UINT32_MAX)
		return unused;
	/* The program begins in peace, often. */
	if (below(4))
		usleep(below(1500000));
	sigsetjmp(back, 1);
	while (now_ms() < shared->until_ms) {
		int actions = below(4) ? 1 : below(12);

		is_armed = 1;
		while (actions--)
			if (shared->spoils_box && below(64))
				spoil_words();
			else
				spoil();
		is_armed = 0;
		usleep(below(2 * shared->pace_us));
	}
	end_of_process();
	return unused;
}

#endif
