/* CPU-time clocks never go back, also beyond 2^32 ns. */
#include "guest.h"

static long long now(unsigned int which)
{
	struct rusage usage;
	struct timespec t;

	if (which < 2) {
		clock_gettime(which ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &t);
		return t.tv_sec * 1000000000LL + t.tv_nsec;
	}
	getrusage(which == 2 ? RUSAGE_SELF : RUSAGE_THREAD, &usage);
	return usage.ru_utime.tv_sec * 1000000LL + usage.ru_utime.tv_usec;
}

int main(void)
{
	static const char *const names[] = { "process", "thread", "getrusage", "getrusage of a thread" };
	long long last[4] = { 0 };
	int back[4] = { 0 };

	/* From before 2^32 ns until well after; in `make test`, and on Linux, at the beginning. */
	long long begin = is_on_linux() ? 0 : by_tier(0, 4000000000), end = begin + (begin ? 2000000000 : 400000000);

	while (now(0) < begin)
		;
	do {
		for (int i = 0; i < 400; i++) {
			int which = i / 100; /* one after the other, so that little lies in between */
			long long value = now(which);

			back[which] += value < last[which];
			last[which] = value;
		}
	} while (now(0) < end);
	for (int which = 0; which < 4; which++)
		printf("%s: went back %d times\n", names[which], back[which]);
	return 0;
}
