/*
 * A QEMU plugin that counts how often each instruction of the LWK and of the proxy runs.
 *
 * plugin.so,out=FILE: `address count` lines, written every second. Debian has no header for
 * plugins; what is used of QEMU 7.2's qemu-plugin.h (API version 1) is declared here.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_U64 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *to, uint64_t value);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *));

int qemu_plugin_version = 1;

/* abi/src/layout.rs: KERNEL_BASE and PROXY_BASE, where both are linked. */
static struct range {
	uint64_t base, bytes, *counts;
} ranges[] = { { 0xffffffff80000000, 2 << 20 }, { 0x7e0000000000, 1 << 20 } };
static const char *file;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t at = qemu_plugin_insn_vaddr(insn);

		for (struct range *r = ranges; r < ranges + 2; r++)
			if (at - r->base < r->bytes)
				qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD_U64, &r->counts[at - r->base], 1);
	}
}

static void *writer(void *arg)
{
	char name[4096];

	snprintf(name, sizeof(name), "%s.new", file);
	for (;;) {
		FILE *out = fopen(name, "w");

		if (!out)
			return NULL;
		for (struct range *r = ranges; r < ranges + 2; r++)
			for (uint64_t i = 0; i < r->bytes; i++)
				if (r->counts[i])
					fprintf(out, "%lx %lu\n", r->base + i, r->counts[i]);
		if (!fclose(out))
			rename(name, file);
		sleep(1);
	}
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	pthread_t thread;

	if (argc < 1 || strncmp(argv[0], "out=", 4))
		return -1;
	file = argv[0] + 4;
	for (struct range *r = ranges; r < ranges + 2; r++)
		if (!(r->counts = calloc(r->bytes, sizeof(*r->counts))))
			return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return pthread_create(&thread, NULL, writer, NULL);
}
