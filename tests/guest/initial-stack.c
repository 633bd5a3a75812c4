/* What the kernel put on the stack: auxv, argc, argv, environment; alignment. */
#include "guest.h"
#include <elf.h>
#include <sys/auxv.h>

int main(int argc, char **argv, char **environment)
{
	static const int equal[] = { AT_PAGESZ, AT_CLKTCK, AT_UID, AT_EUID, AT_GID, AT_EGID, AT_SECURE,
				     AT_PHENT, AT_PHNUM, AT_FLAGS, AT_HWCAP };
	char **p = environment;
	unsigned long bytes = 0;
	Elf64_auxv_t *aux;
	int n = 0;

	for (unsigned i = 0; i < sizeof(equal) / sizeof(*equal); i++)
		printf("auxv %d: %lx\n", equal[i], getauxval(equal[i]));
	printf("execfn %s platform %s\n", (char *)getauxval(AT_EXECFN), (char *)getauxval(AT_PLATFORM));
	printf("random %d, vdso %d, phdr %d, entry %d\n", getauxval(AT_RANDOM) != 0,
	       getauxval(AT_SYSINFO_EHDR) != 0, getauxval(AT_PHDR) != 0, getauxval(AT_ENTRY) != 0);
	printf("vdso magic %.3s\n", (char *)getauxval(AT_SYSINFO_EHDR) + 1);
	while (*p)
		bytes += strlen(*p++) + 1, n++;
	aux = (Elf64_auxv_t *)(p + 1);
	printf("aligned %d, argv before environment %d\n", (uintptr_t)aux % 8 == 0,
	       argv + argc + 1 == environment);
	printf("argc %d, environment %d strings\n", argc, n);
	bytes = 0;
	for (int i = 0; i < argc; i++)
		bytes = bytes * 31 + strlen(argv[i]);
	printf("hash of the lengths of the arguments %lx, argv[argc] %d\n", bytes, argv[argc] == NULL);
	for (int i = 0; i < argc && i < 5; i++)
		printf("[%s]\n", strlen(argv[i]) > 100 ? "long" : argv[i]);
	return 0;
}
