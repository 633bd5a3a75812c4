/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* echo-client ADDRESS:PORT BYTES: sends so many bytes, and checks that they come back. */
#define HANARE_NATIVE_START
#include <hanare/native.h>

/* Bytes on their way at once: as many as the sockets take, so that neither side waits. */
#define PIECE (16 << 10)

static unsigned char sent[PIECE], received[PIECE];

/* The address that a text says, such as 127.0.0.1:7000: 0, or -EINVAL. */
static long parse_address(char *text, struct sockaddr_in *address)
{
	const char ends[] = { '.', '.', '.', ':', '\0' };
	unsigned long part, host = 0;

	for (int i = 0; i < 5; i++) {
		char *end = text;
		char next;

		while (*end && *end != ends[i])
			end++;
		if (*end != ends[i])
			return -HANARE_EINVAL;
		next = *end;
		*end = '\0';
		if (hanare_parse(text, i < 4 ? 255 : 65535, &part))
			return -HANARE_EINVAL;
		*end = next;
		text = end + 1;
		if (i < 4)
			host = host << 8 | part;
	}
	address->sin_family = HANARE_AF_INET;
	address->sin_port = __builtin_bswap16((__u16)part);
	address->sin_addr.s_addr = __builtin_bswap32((__u32)host);
	return 0;
}

/* Sends a piece and waits for it: 0, or an exit status. */
static int exchange(char **argv, int fd, size_t size, unsigned int *state)
{
	long result;

	for (size_t i = 0; i < size; i++) {
		*state = *state * 1103515245 + 12345;
		sent[i] = (unsigned char)(*state >> 16);
	}
	result = hanare_write_all(fd, sent, size);
	if (result < 0)
		return hanare_fail(argv, "cannot send to", argv[1], result);
	result = hanare_read_full(fd, received, size);
	if (result < 0)
		return hanare_fail(argv, "cannot receive from", argv[1], result);
	if ((size_t)result != size)
		return hanare_fail(argv, "too little came back from", argv[1], 0);
	for (size_t i = 0; i < size; i++)
		if (sent[i] != received[i])
			return hanare_fail(argv, "something else came back from", argv[1], 0);
	return 0;
}

static int talk(char **argv, int fd, unsigned long size)
{
	unsigned int state = 1;
	long result;

	for (unsigned long left = size; left;) {
		size_t piece = left < PIECE ? left : PIECE;
		int failed = exchange(argv, fd, piece, &state);

		if (failed)
			return failed;
		left -= piece;
	}
	result = hanare_shutdown(fd, HANARE_SHUT_WR);
	if (result < 0)
		return hanare_fail(argv, "cannot end the connection to", argv[1], result);
	result = hanare_read(fd, received, 1);
	if (result < 0)
		return hanare_fail(argv, "cannot receive from", argv[1], result);
	return result ? hanare_fail(argv, "too much came back from", argv[1], 0) : 0;
}

static int report(char **argv, unsigned long size)
{
	char digits[HANARE_DIGITS_MAX];
	long result = hanare_print(1, hanare_digits(size, digits));

	if (result == 0)
		result = hanare_print(1, " bytes came back\n");
	return result < 0 ? hanare_fail(argv, "cannot write to standard output", NULL, result) : 0;
}

int hanare_main(int argc, char **argv, char **envp)
{
	struct sockaddr_in address = { 0 };
	unsigned long size;
	long fd, result;
	int failed;

	(void)envp;
	if (argc != 3 || parse_address(argv[1], &address) || hanare_parse(argv[2], 1UL << 40, &size))
		return hanare_usage(argv, "ADDRESS:PORT BYTES");
	result = hanare_keep();
	if (result < 0)
		return hanare_fail(argv, "cannot keep a proxy", NULL, result);
	fd = hanare_socket(HANARE_AF_INET, HANARE_SOCK_STREAM, 0);
	if (fd < 0)
		return hanare_fail(argv, "cannot make a socket", NULL, fd);
	result = hanare_connect((int)fd, &address);
	if (result < 0)
		return hanare_fail(argv, "cannot connect to", argv[1], result);
	failed = talk(argv, (int)fd, size);
	return failed ? failed : report(argv, size);
}
