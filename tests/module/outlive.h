/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Part of stranger.c: observers that outlive the spaces of what they observe, whose ids others get
 * meanwhile.
 */
#ifndef OUTLIVE_H
#define OUTLIVE_H

static unsigned int space_of(int fd)
{
	struct hanare_attach attach = {};

	strncpy((char *)attach.name, name, sizeof(attach.name) - 1);
	attach.fd = fd;
	need(!ioctl(fd, HANARE_IOCTL_ATTACH, &attach), "attach");
	return attach.space;
}

static int device(void)
{
	int fd = open("/dev/hanare", O_RDWR | O_CLOEXEC);

	need(fd >= 0, "/dev/hanare");
	return fd;
}

/* A descriptor of an observer of a process whose space has ended since; *id: which it had. */
static int observe_one(unsigned int *id)
{
	struct hanare_observe observe = {};
	int said[2], fd = device();
	char path[64];
	pid_t pid;

	need(!pipe(said), "pipe");
	pid = fork();
	if (!pid) {
		unsigned int own = space_of(device());

		need(write(said[1], &own, sizeof(own)) == sizeof(own), "write");
		for (;;)
			pause();
	}
	need(read(said[0], id, sizeof(*id)) == sizeof(*id), "read");
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	observe.memory = open(path, O_RDWR | O_CLOEXEC);
	need(observe.memory >= 0, path);
	need(!ioctl(fd, HANARE_IOCTL_OBSERVE, &observe), "observe");
	close(observe.memory);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd;
}

static void outlive(int count)
{
	unsigned int id, first = 0, gone = 0, passed = 0;
	int observers[count], i;

	for (i = 0; i < count; i++) {
		observers[i] = observe_one(&id);
		first = first ?: id;
	}
	/* Each id but these is used once, until the next space has the first one's. */
	do {
		int fd = device();

		id = space_of(fd);
		close(fd);
		passed++;
	} while (id != first - 1 && passed < 2 * HANARE_SPACES_MAX);
	need(id == first - 1, "the ids are not used again");
	say("there");
	need(getchar() == '\n', "a line");
	for (i = 0; i < count; i++) {
		struct hanare_observation observation = { .op = HANARE_OBSERVE_DEBUG };

		gone += ioctl(observers[i], HANARE_IOCTL_OBSERVATION, &observation) && errno == ESRCH;
	}
	printf("%u of %d are gone\n", gone, count);
}

#endif
