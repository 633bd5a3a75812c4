/* Memory calls that fail: their errors, and what they leave mapped. */
#include "guest.h"

#include <sys/personality.h>

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define TB (1L << 40)

static int zero, readonly;

static char *anonymous(long pages, int prot)
{
	return mmap(NULL, pages * PAGE, prot, ANON, -1, 0);
}

/* A mapping that is refused leaves what is at its fixed place. */
static void fixed(int prot, int flags, int fd, off_t offset)
{
	char *p = anonymous(3, RW);

	memset(p, 7, 3 * PAGE);
	TELL_MAP(mmap(p + PAGE, PAGE, prot, flags | MAP_FIXED, fd, offset));
	TOUCH(p + PAGE, 0);
	munmap(p, 3 * PAGE);
}

static void fixed_places(int file, const char *name)
{
	int writeonly = open(name, O_WRONLY), ends[2];

	pipe(ends);
	fixed(RW, MAP_SHARED, readonly, 0);
	fixed(PROT_READ, MAP_SHARED, writeonly, 0);
	fixed(RW, MAP_SHARED, 999, 0);
	fixed(PROT_READ, MAP_SHARED, ends[0], 0);
	fixed(PROT_READ, MAP_SHARED, file, 0x7ffffffffffff000);
	fixed(PROT_READ, MAP_SHARED_VALIDATE | 0x10000000, file, 0);
	fixed(PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0);
	fixed(PROT_READ, MAP_SHARED, file, 0);
	/* Over addresses that are only kept. */
	char *kept = anonymous(3, PROT_NONE);
	TELL_MAP(mmap(kept + PAGE, PAGE, RW, MAP_SHARED | MAP_FIXED, readonly, 0));
	TOUCH(kept + PAGE, 0);
	TELL(mprotect(kept, 3 * PAGE, RW));
	TELL_MAP(mmap(kept + PAGE, PAGE, RW, MAP_SHARED | MAP_FIXED, file, 0));
	TOUCH(kept + PAGE, 1);
	fixed(RW, MAP_PRIVATE, 999, 0);
	fixed(RW, MAP_PRIVATE, writeonly, 0);
	fixed(RW, MAP_PRIVATE, file, 0x7ffffffffffff000);
	TELL_MAP(mmap((void *)0x40000000000, PAGE, RW, MAP_SHARED_VALIDATE | MAP_FIXED_NOREPLACE, file, 0));
	TELL_MAP(mmap(NULL, 2 * PAGE, RW, ANON, -1, 0xfffffffffffff000));
	TELL_MAP(mmap((void *)0x7fffffffffff01, PAGE, RW, ANON | MAP_FIXED, -1, 0));
}

/* mprotect goes from the lowest mapping up and keeps what it did. */
static void rights(int file)
{
	char *p = anonymous(4, RW), *s;

	TELL(mprotect(p, PAGE, PROT_READ | 8)); /* PROT_SEM */
	TELL(mprotect(p, PAGE, 0x10));
	TELL(mprotect(p, 0, 0x100));
	TELL(mprotect(p + 1, 0, PROT_READ));
	TELL(mprotect(p, 0, PROT_GROWSDOWN | PROT_GROWSUP));
	TELL(mprotect(0, -1, PROT_READ));
	TELL(mprotect(p, -PAGE, PROT_READ));
	TELL(mprotect(p, PAGE, PROT_READ | PROT_GROWSUP));
	p = anonymous(4, PROT_READ);
	s = mmap(p + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, readonly, 0);
	TELL(mprotect(p, 2 * PAGE, RW)); /* private memory, then shared that may not be written */
	TOUCH(p, 1);
	TOUCH(s, 1);
	TELL(read(zero, p, 8));
	TELL(read(zero, s, 8));
	s = mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, file, 0);
	munmap(s + PAGE, PAGE);
	TELL(mprotect(s, 3 * PAGE, RW));
	TELL(read(zero, s, 8));
	TELL(read(zero, s + 2 * PAGE, 8)); /* behind the hole */
	munmap(s, PAGE);
	TELL(mprotect(s + PAGE, 2 * PAGE, RW));
	TELL(read(zero, s + 2 * PAGE, 8));
	p = anonymous(1, PROT_EXEC);
	TELL(madvise(p, PAGE, 22)); /* MADV_POPULATE_READ */
	TELL(madvise(p, PAGE, 25)); /* MADV_COLLAPSE */
}

/* More at once than the machine has. */
static void promises(int file)
{
	char *p;

	TELL_MAP(mmap(NULL, TB, RW, ANON, -1, 0));
	p = TELL_MAP(mmap(NULL, TB, PROT_READ, ANON, -1, 0));
	munmap(p, TB);
	p = TELL_MAP(mmap(NULL, TB, PROT_NONE, ANON, -1, 0));
	TELL(mprotect(p, TB, RW));
	TELL(mprotect(p, 1 << 20, RW));
	munmap(p, TB);
	p = TELL_MAP(mmap(NULL, TB, PROT_NONE, ANON | MAP_NORESERVE, -1, 0));
	TELL(mprotect(p, TB, RW));
	munmap(p, TB);
	p = malloc(1 << 20);
	TELL(realloc(p, TB) == NULL);
	TELL_MAP(mremap(anonymous(1, RW), PAGE, TB, MREMAP_MAYMOVE));
	TELL_MAP(mremap(anonymous(1, PROT_NONE), PAGE, TB, MREMAP_MAYMOVE));
	ftruncate(file, TB);
	TELL_MAP(mmap(NULL, TB, RW, MAP_PRIVATE, file, 0));
	TELL_MAP(mmap(NULL, TB, PROT_READ, MAP_PRIVATE, file, 0));
	ftruncate(file, 8 * PAGE);
}

static int brk_to(char *at)
{
	return syscall(SYS_brk, at) == (long)at;
}

static void places(void)
{
	char *top = (char *)((syscall(SYS_brk, 0L) + 4095) & -PAGE), *p;

	brk_to(top);
	p = mmap(top + 2 * PAGE, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	TELL(brk_to(top + PAGE));
	TELL(brk_to(top + 2 * PAGE)); /* a page is kept free */
	TELL(brk_to(top));
	munmap(p, PAGE);
	p = mmap((void *)0x1000, PAGE, RW, ANON, -1, 0);
	TELL(p == (char *)0x10000); /* vm.mmap_min_addr */
	p = mmap((void *)0x20000010000, PAGE, RW, ANON | MAP_32BIT, -1, 0);
	TELL((long)p < 1L << 31);
	p = mmap((void *)0x7ffff000, 2 * PAGE, RW, ANON | MAP_32BIT, -1, 0);
	TELL((long)p < 0x7ffff000);
	p = mmap((void *)0x30000000000, 16 * PAGE, RW, ANON | MAP_GROWSDOWN, -1, 0);
	TELL(mmap(p - 16 * PAGE, PAGE, RW, ANON, -1, 0) == p - 16 * PAGE); /* in its guard gap */
	TELL(mmap(p - 300 * PAGE, PAGE, RW, ANON, -1, 0) == p - 300 * PAGE);
}

static void locks(int file)
{
	char *s, *p = anonymous(4, RW);

	for (int anonymous = 0; anonymous < 2; anonymous++) {
		s = mmap(NULL, 4 * PAGE, RW, MAP_SHARED | MAP_LOCKED | (anonymous ? MAP_ANONYMOUS : 0),
			 anonymous ? -1 : file, 0);
		TELL(madvise(s, PAGE, MADV_DONTNEED));
		TELL(madvise(s, PAGE, 24)); /* MADV_DONTNEED_LOCKED */
		TELL(msync(s, PAGE, MS_SYNC | MS_INVALIDATE));
		TELL(munlock(s, 4 * PAGE));
		TELL(madvise(s, PAGE, MADV_DONTNEED));
		TELL(msync(s, PAGE, MS_SYNC | MS_INVALIDATE));
	}
	mlock(p, PAGE);
	TELL(msync(p, PAGE, MS_INVALIDATE));
	TELL(msync(p, -1, MS_SYNC));
}

/* READ_IMPLIES_EXEC: code in data runs. */
static void implied(void)
{
	static const char seven[] = "\xb8\7\0\0\0\xc3";
	char *p;
	int status;

	fflush(stdout);
	if (!fork()) {
		personality(READ_IMPLIES_EXEC);
		p = anonymous(1, RW);
		memcpy(p, seven, sizeof(seven));
		TELL(((int (*)(void))p)());
		mlockall(MCL_CURRENT | MCL_FUTURE);
		execl("/proc/self/exe", "refused", "again", NULL);
	}
	wait(&status);
	TELL(status);
}

int main(int argc, char **argv)
{
	char name[] = "/tmp/refused-XXXXXX";
	int file = mkstemp(name);

	(void)argv;
	readonly = open(name, O_RDONLY);
	zero = open("/dev/zero", O_RDONLY);
	ftruncate(file, 8 * PAGE);
	if (argc > 1) {
		/* Neither outlives the exec. */
		unlink(name);
		TELL(personality(0xffffffff));
		TELL(madvise(anonymous(1, RW), PAGE, MADV_DONTNEED));
		return 0;
	}
	fixed_places(file, name);
	rights(file);
	promises(file);
	places();
	locks(file);
	implied();
	unlink(name);
	return 0;
}
