/*
 * The instruction at which plugin.c writes its counts: a nop of 7 bytes, `nopl 0x4e414e48(%rax)`.
 */
#define MARK_BYTES 0x0f, 0x1f, 0x80, 'H', 'N', 'A', 'N'
#define MARK ".byte 0x0f, 0x1f, 0x80, 'H', 'N', 'A', 'N'"
