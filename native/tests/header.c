/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the functions of the C header do. Ends with the line of what does not hold (not above 255).
 */
#define HANARE_NATIVE_START
#include <hanare/native.h>

#define HOLDS(condition)                \
	do {                            \
		if (!(condition))       \
			return __LINE__; \
	} while (0)

#ifdef __cplusplus
extern "C"
#endif
long other(void);

static volatile size_t eight = 8; /* so that compilers do not know it */

static int memory_holds(void)
{
	char bytes[32] = "0123456789abcdef", same[32] = "0123456789abcdef";

	memmove(bytes + 2, bytes, eight);
	HOLDS(memcmp(bytes, "0101234567abcdef", 17) == 0);
	memmove(bytes, bytes + 2, eight);
	HOLDS(memcmp(bytes, "0123456767abcdef", 17) == 0);
	memmove(bytes + 16, bytes, eight);
	HOLDS(memcmp(bytes + 16, "01234567", eight) == 0);
	memmove(bytes, bytes, eight);
	memmove(bytes + 1, bytes, 0 * eight);
	HOLDS(memcmp(bytes, "01234567", eight) == 0);
	memcpy(bytes, same, eight * 2);
	HOLDS(memcmp(bytes, same, eight * 2) == 0);
	memset(bytes, 'x', eight);
	HOLDS(memcmp(bytes, "xxxxxxxx89", 10) == 0);
	HOLDS(memcmp("a\xff", "a\x01", eight - 6) > 0 && memcmp("a", "b", eight - 7) < 0);
	HOLDS(memcmp("a", "b", 0 * eight) == 0);
	return 0;
}

static int texts_hold(void)
{
	char buffer[HANARE_DIGITS_MAX];
	unsigned long number = 7;

	HOLDS(hanare_length("") == 0 && hanare_length("four") == 4);
	HOLDS(hanare_compare("a", "b") < 0 && hanare_compare("b", "a") > 0);
	HOLDS(hanare_compare("a", "ab") < 0 && hanare_compare("ab", "ab") == 0);
	HOLDS(hanare_compare("\xff", "a") > 0);
	HOLDS(hanare_compare(hanare_digits(0, buffer), "0") == 0);
	HOLDS(hanare_compare(hanare_digits(~0UL, buffer), "18446744073709551615") == 0);
	HOLDS(hanare_parse("", 9, &number) < 0 && hanare_parse("1x", 99, &number) < 0);
	HOLDS(hanare_parse("-1", 99, &number) < 0 && hanare_parse("256", 255, &number) < 0);
	HOLDS(hanare_parse("5", 4, &number) < 0 && hanare_parse("18446744073709551616", ~0UL, &number) < 0);
	HOLDS(number == 7);
	HOLDS(hanare_parse("255", 255, &number) == 0 && number == 255);
	HOLDS(hanare_parse("18446744073709551615", ~0UL, &number) == 0 && number == ~0UL);
	return 0;
}

static int calls_hold(void)
{
	char *pages = (char *)hanare_map(10000), bytes[4];
	long fd = hanare_open("/proc/self/comm", O_RDONLY, 0);
	struct stat status;

	HOLDS(pages && pages[0] == 0 && pages[9999] == 0);
	HOLDS(hanare_unmap(pages, 10000) == 0);
	HOLDS(hanare_map(1UL << 60) == NULL);
	/* On Linux itself there is nothing to keep. */
	HOLDS(hanare_keep() == 0 && hanare_give_back() == 0 && other() == 0);
	HOLDS(fd > 2 && hanare_read_full((int)fd, bytes, 4) == 4 && memcmp(bytes, "prog", 4) == 0);
	HOLDS(hanare_fstat((int)fd, &status) == 0 && S_ISREG(status.st_mode));
	HOLDS(hanare_close((int)fd) == 0 && hanare_close((int)fd) == -9);
	HOLDS(hanare_stat_at(AT_FDCWD, "/none", &status, 0) == -HANARE_ENOENT);
	return 0;
}

int hanare_main(int argc, char **argv, char **envp)
{
	int failed = memory_holds();

	HOLDS(argc == 3 && hanare_compare(argv[2], "two") == 0 && !argv[3] && envp == argv + 4);
	HOLDS(hanare_compare(hanare_name(argv), "program") == 0);
	failed = failed ? failed : texts_hold();
	return failed ? failed : calls_hold();
}
