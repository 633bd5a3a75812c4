/*
 * Memory of another process: process_vm_readv, process_vm_writev, /proc/PID/mem.
 * Usage: process-vm-access                     between a parent and its child
 *        process-vm-access hold                prints its pid and an address, waits until it is
 *                                              changed there
 *        process-vm-access use PID ADDRESS     the other side
 */
#include "guest.h"

static int hold(void)
{
	volatile char *p = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	strcpy((char *)p, "held memory");
	strcpy((char *)p + (3 << 20), "behind");
	printf("%d %#lx\n", getpid(), (long)p);
	fflush(stdout);
	for (int i = 0; i < 200000 && p[100] == 0; i++)
		usleep(1000);
	printf("%s %s\n", p + 100, p + (2 << 20));
	return 0;
}

static int use(int pid, long address)
{
	char text[3][32] = { "" };
	struct iovec to[] = { { text[0], 4 }, { text[1], 28 } };
	struct iovec from[] = { { (void *)address, 12 }, { (void *)(address + (3 << 20)), 20 } };

	TELL(process_vm_readv(pid, to, 2, from, 2, 0));
	printf("%.4s|%s|%s\n", text[0], text[1], text[1] + 8);
	strcpy(text[2], "changed");
	to[0] = (struct iovec){ "second", 7 };
	from[0] = (struct iovec){ (void *)(address + (2 << 20)), 7 };
	TELL(process_vm_writev(pid, to, 1, from, 1, 0));
	to[0] = (struct iovec){ text[2], 8 };
	from[0] = (struct iovec){ (void *)(address + 100), 8 };
	TELL(process_vm_writev(pid, to, 1, from, 1, 0));
	return 0;
}

int main(int argc, char **argv)
{
	int talk[2], back[2], child, mem;
	long size = 3 << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *q = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *readonly = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), byte, path[40];
	struct iovec local[2], remote[2];
	long bad = 0;

	if (argc > 3)
		return use(atoi(argv[2]), strtol(argv[3], NULL, 0));
	if (argc > 1)
		return hold();
	pipe(talk);
	pipe(back);
	for (long i = 0; i < size; i += 64)
		p[i] = i / 64;
	child = fork();
	if (!child) {
		read(talk[0], &byte, 1);
		for (long i = 0; i < size; i += 64)
			p[i] = i / 64 + 1;
		shared[0] = 'c';
		write(back[1], "x", 1);
		read(talk[0], &byte, 1);
		printf("child: %.7s %d %d\n", p, p[PAGE], q[size - 1]);
		exit(0);
	}
	write(talk[1], "x", 1);
	read(back[0], &byte, 1);
	local[0] = (struct iovec){ q, size };
	remote[0] = (struct iovec){ p, size };
	TELL(process_vm_readv(child, local, 1, remote, 1, 0));
	for (long i = 0; i < size; i += 64)
		bad += q[i] != (char)(i / 64 + 1) || p[i] != (char)(i / 64);
	TELL(bad);
	/* Into memory that was not touched, in pieces. */
	local[0] = (struct iovec){ "written", 7 };
	local[1] = (struct iovec){ p + 1, 2 };
	remote[0] = (struct iovec){ p, 7 };
	remote[1] = (struct iovec){ q + size - 2, 2 };
	TELL(process_vm_writev(child, local, 2, remote, 2, 0));
	remote[0] = (struct iovec){ shared, 7 };
	TELL(process_vm_writev(child, local, 1, remote, 1, 0));
	TELL(shared[0]);
	/* Errors. */
	remote[0] = (struct iovec){ readonly, 7 };
	TELL(process_vm_writev(child, local, 1, remote, 1, 0));
	TELL(process_vm_readv(child, (struct iovec[]){ { q, 7 } }, 1, remote, 1, 0));
	remote[0] = (struct iovec){ (void *)0x10000000000, 7 };
	TELL(process_vm_readv(child, (struct iovec[]){ { q, 7 } }, 1, remote, 1, 0));
	remote[0] = (struct iovec){ readonly + PAGE - 4, 8 };
	mprotect(readonly, PAGE, PROT_READ | PROT_WRITE);
	TELL(process_vm_readv(child, (struct iovec[]){ { q, 8 } }, 1, (struct iovec[]){ { p + size - 4, 4 }, { (void *)0x10000000000, 4 } }, 2, 0));
	TELL(process_vm_readv(child, local, 1, remote, 1, 1));
	TELL(process_vm_readv(0x3fffffff, local, 1, remote, 1, 0));
	TELL(process_vm_readv(child, local, 0, remote, 0, 0));
	TELL(process_vm_readv(child, (void *)0x10000000000, 1, remote, 1, 0));
	/* Oneself. */
	TELL(process_vm_readv(getpid(), (struct iovec[]){ { q, 8 } }, 1, (struct iovec[]){ { p, 8 } }, 1, 0));
	sprintf(path, "/proc/%d/mem", child);
	mem = open(path, O_RDWR);
	TELL(mem >= 0);
	TELL(pwrite(mem, "7", 1, (off_t)(p + PAGE)));
	TELL(pread(mem, q, 7, (off_t)p));
	printf("%.7s\n", q);
	TELL(pread(mem, q, 7, 0x10000000000));
	fflush(stdout);
	write(talk[1], "x", 1);
	wait(NULL);
	/* Many at once. */
	for (int round = 0; round < 3; round++)
		if (!fork()) {
			long sum = 0;

			for (int i = 0; i < 100; i++) {
				local[0] = (struct iovec){ q, 100000 };
				remote[0] = (struct iovec){ p + i * 1000, 100000 };
				sum += process_vm_readv(getppid(), local, 1, remote, 1, 0);
			}
			exit(sum == 100 * 100000 ? 0 : 1);
		}
	for (int round = 0, status; round < 3; round++) {
		wait(&status);
		TELL(status);
	}
	return 0;
}
