/*
 * execve(2) of programs and interpreters with each kind of damage: an error, or the end of the
 * process where Linux notices it behind the point of no return.
 */
#include "guest.h"
#include <elf.h>
#include <stddef.h>

static struct image {
	Elf64_Ehdr elf;
	Elf64_Phdr part[3];
	char path[64];
	unsigned char code[3000];
} program, interpreter;

/* What a program and its interpreter exit with. */
#define PROGRAM 7
#define INTERPRETER 8

static char names[2][64];

static void make(struct image *image, int status)
{
	unsigned char code[] = { 0xb8, 60, 0, 0, 0, 0xbf, status, 0, 0, 0, 0x0f, 5 };

	memset(image, 0, sizeof(*image));
	memcpy(image->elf.e_ident, ELFMAG, 4);
	image->elf.e_type = ET_DYN;
	image->elf.e_machine = EM_X86_64;
	image->elf.e_phoff = offsetof(struct image, part);
	image->elf.e_phentsize = sizeof(Elf64_Phdr);
	image->elf.e_phnum = 1;
	image->elf.e_entry = offsetof(struct image, code);
	/* Writable: Linux 6.1 clears the end of an interpreter's last page. */
	image->part[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = 7, .p_filesz = sizeof(*image),
				       .p_memsz = sizeof(*image), .p_align = PAGE };
	memcpy(image->code, code, sizeof(code));
}

static void write_image(int which, const void *image, long bytes)
{
	int fd = open(names[which], O_CREAT | O_WRONLY | O_TRUNC, 0755);

	write(fd, image, bytes);
	close(fd);
}

static void run(const char *what, long bytes, long interpreter_bytes)
{
	int status, error = 0, ends[2];
	pid_t pid;

	write_image(0, &program, bytes);
	write_image(1, &interpreter, interpreter_bytes);
	pipe2(ends, O_CLOEXEC);
	pid = fork();
	if (!pid) {
		execl(names[0], "program", NULL);
		write(ends[1], &errno, sizeof(errno));
		_exit(99);
	}
	close(ends[1]);
	read(ends[0], &error, sizeof(error));
	close(ends[0]);
	waitpid(pid, &status, 0);
	if (error)
		printf("%s: %s\n", what, strerrorname_np(error));
	else if (WIFSIGNALED(status))
		printf("%s: SIG%s\n", what, sigabbrev_np(WTERMSIG(status)));
	else
		printf("%s: exit %d\n", what, WEXITSTATUS(status));
}

/* A program, and an interpreter if `is_interpreted`, with this damage. */
#define DAMAGED(what, is_interpreted, ...)                                                                              \
	do {                                                                                                            \
		long bytes = sizeof(program), of_interpreter = sizeof(interpreter);                                     \
		make(&program, PROGRAM);                                                                                \
		make(&interpreter, INTERPRETER);                                                                        \
		if (is_interpreted) {                                                                                   \
			strcpy(program.path, names[1]);                                                                 \
			program.part[1] = (Elf64_Phdr){ .p_type = PT_INTERP, .p_offset = offsetof(struct image, path),  \
							.p_filesz = strlen(names[1]) + 1 };                             \
			program.elf.e_phnum = 2;                                                                        \
		}                                                                                                       \
		__VA_ARGS__;                                                                                            \
		run(what, bytes, of_interpreter);                                                                       \
	} while (0)

int main(void)
{
	sprintf(names[0], "/tmp/damaged-program-%d", getpid());
	sprintf(names[1], "/tmp/damaged-interp-%d", getpid());
	setvbuf(stdout, NULL, _IONBF, 0);
	DAMAGED("none", 0, );
	DAMAGED("type", 0, program.elf.e_type = ET_REL);
	DAMAGED("table behind the file", 0, program.elf.e_phoff = 1 << 20);
	DAMAGED("half a header", 0, bytes = 40);
	DAMAGED("no segment", 0, program.part[0].p_type = PT_NULL);
	DAMAGED("more in the file", 0, program.part[0].p_filesz++);
	DAMAGED("no memory", 0, program.part[0].p_memsz = 0);
	DAMAGED("odd address", 0, program.part[0].p_vaddr++);
	DAMAGED("odd offset", 0, program.part[0].p_offset++);
	DAMAGED("address of the kernel", 0, program.part[0].p_vaddr = 0xffffffff80000000);
	DAMAGED("offset below 0", 0, program.part[0].p_offset = -PAGE);
	DAMAGED("second segment", 0, program.part[1] = program.part[0]; program.part[1].p_vaddr = 0x10001; program.elf.e_phnum = 2);
	DAMAGED("entry nowhere", 0, program.elf.e_entry = 1UL << 63);
	DAMAGED("interpreted", 1, );
	DAMAGED("path without end", 1, program.part[1].p_filesz--);
	DAMAGED("path behind the file", 1, program.part[1].p_offset = 1 << 20);
	DAMAGED("path before the file", 1, program.part[1].p_offset = -1);
	DAMAGED("interpreter: type", 1, interpreter.elf.e_type = ET_REL);
	DAMAGED("interpreter: magic", 1, interpreter.elf.e_ident[0] = 0);
	DAMAGED("interpreter: machine", 1, interpreter.elf.e_machine = EM_AARCH64);
	DAMAGED("interpreter: table behind the file", 1, interpreter.elf.e_phoff = 1 << 20);
	DAMAGED("interpreter: half a header", 1, of_interpreter = 40);
	DAMAGED("interpreter: empty", 1, of_interpreter = 0);
	DAMAGED("interpreter: half a table", 1, of_interpreter = 100);
	DAMAGED("interpreter: no segment", 1, interpreter.part[0].p_type = PT_NULL);
	DAMAGED("interpreter: more in the file", 1, interpreter.part[0].p_filesz++);
	DAMAGED("interpreter: odd offset", 1, interpreter.part[0].p_offset++);
	DAMAGED("both", 1, program.part[0].p_filesz++; interpreter.elf.e_machine = EM_AARCH64);
	DAMAGED("program, interpreted", 1, program.part[0].p_filesz++);
	unlink(names[0]);
	unlink(names[1]);
	return 0;
}
