/* A child's share of large pages of which it inherits a part, and of mappings side by side. */
#include "guest.h"

#define LARGE (2ul << 20)

static unsigned char *large(void)
{
	unsigned char *at = mmap(0, 3 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	at = (unsigned char *)(((uintptr_t)at + LARGE - 1) & -LARGE);
	madvise(at, 2 * LARGE, MADV_HUGEPAGE);
	for (unsigned long i = 0; i < 2 * LARGE; i += PAGE)
		at[i] = 1 + i / PAGE % 251;
	return at;
}

/* Pages that are as in the parent, zero, something else, and not there. */
static void show(const char *name, unsigned char *at)
{
	unsigned same = 0, zero = 0, other = 0, missing = 0;
	int status, pipes[2];

	fflush(stdout);
	if (!fork()) {
		if (pipe(pipes))
			_exit(1);
		/* In `make test` every third page. */
		for (unsigned long i = 0; i < 2 * LARGE; i += by_tier(3, 1) * PAGE) {
			unsigned char byte;

			if (write(pipes[1], at + i, 1) != 1)
				missing++;
			else if (read(pipes[0], &byte, 1) != 1)
				_exit(2);
			else if (byte == 1 + i / PAGE % 251)
				same++;
			else if (!byte)
				zero++;
			else
				other++;
		}
		printf("%s: %u as in the parent, %u zero, %u other, %u missing\n", name, same, zero, other, missing);
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	TELL(status);
	munmap(at, 2 * LARGE);
}

int main(void)
{
	static const struct {
		const char *name;
		int first, advice, after;
	} cases[] = {
		{ "not the first half", 1, MADV_DONTFORK, 0 },
		{ "not the second half", 0, MADV_DONTFORK, 0 },
		{ "the first half empty", 1, MADV_WIPEONFORK, 0 },
		{ "the second half empty", 0, MADV_WIPEONFORK, 0 },
		{ "only the first half", 1, MADV_DONTFORK, MADV_DOFORK },
		{ "only the second half", 0, MADV_DONTFORK, MADV_DOFORK },
		{ "only the first half with content", 1, MADV_WIPEONFORK, MADV_KEEPONFORK },
		{ "only the second half with content", 0, MADV_WIPEONFORK, MADV_KEEPONFORK },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned char *at = large();

		if (cases[i].after) {
			TELL(madvise(at, 2 * LARGE, cases[i].advice));
			TELL(madvise(at + (cases[i].first ? 0 : LARGE / 2), LARGE / 2, cases[i].after));
		} else {
			TELL(madvise(at + (cases[i].first ? 0 : LARGE / 2), LARGE / 2, cases[i].advice));
		}
		show(cases[i].name, at);
	}

	unsigned char *at = large();

	/* Locks are not inherited: what is one mapping in the child is three in the parent. */
	TELL(mlock(at + 8 * PAGE, 4 * PAGE));
	TELL(mlock(at + LARGE + 8 * PAGE, 4 * PAGE));
	show("locked parts", at);
	at = large();
	for (unsigned long i = 0; i < 2 * LARGE; i += 2 * PAGE)
		mprotect(at + i, PAGE, PROT_READ);
	show("1024 mappings", at);
	return 0;
}
