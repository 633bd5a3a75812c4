/*
 * A kernel that merges pages says so in sysfs, one that does not refuses to: programs that ask
 * either way get the same answer.
 */
#include "guest.h"
#include <dirent.h>

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#define PR_GET_MEMORY_MERGE 68
#endif

/* Whether a call did as a kernel does that merges pages, or does not. */
static int fits(int is_there, long result)
{
	return is_there ? result == 0 : result == -1 && errno == EINVAL;
}

int main(void)
{
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int is_there = !access("/sys/kernel/mm/ksm/run", R_OK), is_listed = 0, is_open;
	DIR *folder = opendir("/sys/kernel/mm");
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		is_listed |= !strcmp(entry->d_name, "ksm");
	is_open = open("/sys/kernel/mm/ksm/pages_shared", O_RDONLY) >= 0;
	printf("listed %d, open %d\n", is_listed == is_there, is_open == is_there);
	printf("merge %d\n", fits(is_there, madvise(p, 4 * PAGE, MADV_MERGEABLE)));
	printf("no more %d\n", fits(is_there, madvise(p, 4 * PAGE, MADV_UNMERGEABLE)));
	/* Since Linux 6.4. */
	printf("all %d\n", is_there || fits(0, prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0)));
	printf("asked %d\n", is_there || fits(0, prctl(PR_GET_MEMORY_MERGE, 0, 0, 0, 0)));
	TELL(is_on_linux() || !is_there);
	return 0;
}
