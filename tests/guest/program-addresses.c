/*
 * Programs that are made for addresses of all kinds: position-independent ones and interpreters
 * that have to be moved down, and entries that no program can have.
 */
#include "guest.h"
#include <elf.h>

#define CODE 0x200
#define NAME 0x300
#define FILE_BYTES 0x400

static const unsigned char code[] = {
	0xbf, 42, 0, 0, 0,	/* mov edi, 42 */
	0xb8, 231, 0, 0, 0,	/* mov eax, exit_group */
	0x0f, 0x05,		/* syscall */
};

static char folder[] = "/tmp/addresses-XXXXXX", path[64], interpreter[64];

/* A program with one segment at `at`. */
static void write_file(const char *name, int type, unsigned long at, unsigned long entry, const char *with)
{
	static unsigned char bytes[FILE_BYTES];
	Elf64_Ehdr *head = (void *)bytes;
	Elf64_Phdr *parts = (void *)(head + 1);
	int fd;

	memset(bytes, 0, sizeof(bytes));
	memcpy(head->e_ident, ELFMAG, SELFMAG);
	head->e_ident[EI_CLASS] = ELFCLASS64;
	head->e_ident[EI_DATA] = ELFDATA2LSB;
	head->e_ident[EI_VERSION] = head->e_version = EV_CURRENT;
	head->e_type = type;
	head->e_machine = EM_X86_64;
	head->e_entry = entry;
	head->e_phoff = sizeof(*head);
	head->e_ehsize = sizeof(*head);
	head->e_phentsize = sizeof(*parts);
	head->e_phnum = with ? 2 : 1;
	if (with) {
		*parts++ = (Elf64_Phdr){ .p_type = PT_INTERP, .p_flags = PF_R, .p_offset = NAME, .p_vaddr = at + NAME,
					 .p_filesz = strlen(with) + 1, .p_memsz = strlen(with) + 1, .p_align = 1 };
		strcpy((char *)bytes + NAME, with);
	}
	/* Linux 6.1 clears the rest of an interpreter's last page, which has to be writable. */
	*parts = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_W | PF_X, .p_vaddr = at, .p_paddr = at,
			       .p_filesz = FILE_BYTES, .p_memsz = FILE_BYTES, .p_align = PAGE };
	memcpy(bytes + CODE, code, sizeof(code));
	unlink(name);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
		exit(1);
	close(fd);
}

static void run(const char *what, unsigned long number)
{
	char *argv[] = { path, NULL };
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		execve(path, argv, argv + 1);
		_exit(errno);
	}
	waitpid(pid, &status, 0);
	printf("%s %#lx: ", what, number);
	if (WIFEXITED(status))
		printf("status %d\n", WEXITSTATUS(status));
	else
		printf("signal %d\n", WTERMSIG(status));
}

int main(void)
{
	static const unsigned long places[] = { 0, 0x10000000, 0x555555554000, 0x600000000000, 0x7c0000000000 };
	static const unsigned long entries[] = { -1, -8, 1UL << 63, 1UL << 47, (1UL << 47) - 1 };
	unsigned i;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!mkdtemp(folder))
		return 1;
	chmod(folder, 0755);
	snprintf(path, sizeof(path), "%s/program", folder);
	snprintf(interpreter, sizeof(interpreter), "%s/interpreter", folder);
	for (i = 0; i < sizeof(places) / sizeof(*places); i++) {
		write_file(path, ET_DYN, places[i], places[i] + CODE, NULL);
		run("moved from", places[i]);
		write_file(interpreter, ET_DYN, places[i], places[i] + CODE, NULL);
		write_file(path, ET_DYN, 0, CODE, interpreter);
		run("interpreter moved from", places[i]);
		write_file(path, ET_EXEC, 0x10000000, 0x10000000 + CODE, interpreter);
		run("interpreter of a fixed program moved from", places[i]);
	}
	for (i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		write_file(path, ET_EXEC, 0x10000000, entries[i], NULL);
		run("fixed, entry", entries[i]);
		write_file(path, ET_DYN, 0x600000000000, entries[i], NULL);
		run("moved, entry", entries[i]);
	}
	unlink(path);
	unlink(interpreter);
	rmdir(folder);
	return 0;
}
