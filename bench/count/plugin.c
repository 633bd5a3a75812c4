/*
 * A QEMU plugin that counts how often each instruction of the VM runs, between marks.
 *
 * plugin.so,out=FOLDER[,data=BASE][,cpu=N]: at each mark, which is an instruction that the measured
 * program executes (MARK, marks.h), the counts since the mark before become FOLDER/N, N from 0: a
 * line for each address, `address count`. With `data` the instructions from BASE (hexadecimal) on,
 * 4 MiB of them, have their data counted as well, from the first mark on: FOLDER/N.data has a line
 * for each cache line that one of them touched, `instruction address count stores here`. With
 * `cpu`, FOLDER/N.here has the counts of CPUs from N on alone, of programs that lie below
 * PROGRAM_END, and `here` is 1 where one of these CPUs has touched the line. Debian has no header
 * for plugins; what is used of QEMU 7.2's qemu-plugin.h (API version 1) is declared here, and with
 * -DPLUGIN_API=2 what QEMU 9.0 and newer have instead.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marks.h"

#ifndef PLUGIN_API
#define PLUGIN_API 1
#endif

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { ADD_U64 };
enum { NO_REGISTERS };
enum { READ_AND_WRITE = 3 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*executed)(unsigned int, void *),
					    int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      void (*accessed)(unsigned int, uint32_t, uint64_t, void *),
				      int flags, int what, void *data);
_Bool qemu_plugin_mem_is_store(uint32_t info);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *));

int qemu_plugin_version = PLUGIN_API;

#if PLUGIN_API == 1
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *to, uint64_t value);
#else
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *of;
	size_t offset;
} of_each_cpu; /* a word of each CPU */

size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t bytes);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t bytes);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op, of_each_cpu to,
							 uint64_t value);
uint64_t qemu_plugin_u64_get(of_each_cpu from, unsigned int cpu);
void qemu_plugin_u64_set(of_each_cpu to, unsigned int cpu, uint64_t value);
int qemu_plugin_num_vcpus(void);
#endif

#define PAGE_BYTES 4096
#define BUCKETS 65536

/* Counters of the instructions that begin in a page of code. Counters are written without a lock:
 * two CPUs that run the same instruction at once may lose one. */
struct page {
	uint64_t at, counts[PAGE_BYTES];
	uint64_t *here; /* those of CPUs from first_cpu on, where they are told from others */
#if PLUGIN_API > 1
	struct qemu_plugin_scoreboard *of_each_cpu; /* those since the last mark */
#endif
	struct page *next;
};

/* Static programs lie below; nothing else does. */
#define PROGRAM_END 0x10000000

static struct page *pages[BUCKETS];

#define CACHE_LINE 64
#define LINES 262144

/* Cache lines of data, and the instructions that touched them, by open addressing. Two CPUs that
 * touch a new one at once may count it twice. */
static struct line {
	uint64_t by, at, count, stores;
	int here;
} lines[LINES];
static uint64_t data_base;
static unsigned int first_cpu = ~0u;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static unsigned int marks;

static struct page *page_of(uint64_t at)
{
	uint64_t number = at / PAGE_BYTES;
	struct page **bucket = &pages[(number ^ number >> 16) % BUCKETS], *page;

	for (page = *bucket; page; page = page->next)
		if (page->at == number * PAGE_BYTES)
			return page;
	page = calloc(1, sizeof(*page));
	if (!page)
		abort();
	page->at = number * PAGE_BYTES;
	if (first_cpu != ~0u && at < PROGRAM_END && !(page->here = calloc(PAGE_BYTES, sizeof(*page->here))))
		abort();
	page->next = *bucket;
	*bucket = page;
	return page;
}

#if PLUGIN_API == 1
static void copy_code(const struct qemu_plugin_insn *insn, void *to, size_t bytes)
{
	memcpy(to, qemu_plugin_insn_data(insn), bytes);
}

static void have_counted(struct qemu_plugin_insn *insn, struct page *page, size_t i)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD_U64, &page->counts[i], 1);
}

static void take_counts(struct page *page)
{
	(void)page;
}
#else
static void copy_code(const struct qemu_plugin_insn *insn, void *to, size_t bytes)
{
	qemu_plugin_insn_data(insn, to, bytes);
}

static void have_counted(struct qemu_plugin_insn *insn, struct page *page, size_t i)
{
	if (!page->of_each_cpu)
		page->of_each_cpu = qemu_plugin_scoreboard_new(sizeof(page->counts));
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD_U64, (of_each_cpu){ page->of_each_cpu, i * 8 }, 1);
}

static void take_counts(struct page *page)
{
	for (unsigned int cpu = 0; page->of_each_cpu && cpu < (unsigned int)qemu_plugin_num_vcpus(); cpu++)
		for (size_t i = 0; i < PAGE_BYTES; i++) {
			of_each_cpu word = { page->of_each_cpu, i * 8 };
			uint64_t count = qemu_plugin_u64_get(word, cpu);

			page->counts[i] += count;
			if (count)
				qemu_plugin_u64_set(word, cpu, 0);
		}
}
#endif

static void executed(unsigned int cpu, void *count)
{
	if (cpu >= first_cpu)
		++*(uint64_t *)count;
}

static void accessed(unsigned int cpu, uint32_t info, uint64_t at, void *data)
{
	uint64_t line = at / CACHE_LINE, by = (uint64_t)data;
	int here = cpu >= first_cpu;

	for (uint64_t i = (line ^ by * 31) % LINES, looks = 0; marks && looks < 64; i = (i + 1) % LINES, looks++) {
		if (!lines[i].by)
			lines[i] = (struct line){ by, line, 0, 0, here };
		if (lines[i].at == line && lines[i].by == by && lines[i].here == here) {
			lines[i].count++;
			lines[i].stores += qemu_plugin_mem_is_store(info);
			return;
		}
	}
}

static void write_lines(FILE *out)
{
	for (int i = 0; i < LINES; i++)
		if (lines[i].count)
			fprintf(out, "%lx %lx %lu %lu %d\n", lines[i].by, lines[i].at * CACHE_LINE, lines[i].count,
				lines[i].stores, lines[i].here);
	memset(lines, 0, sizeof(lines));
}

/* Writes all counters, and begins anew; or those of some CPUs. */
static void write_counts(FILE *out, int is_here)
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct page *page = pages[i]; page; page = page->next) {
			uint64_t *counts = is_here ? page->here : page->counts;

			if (!is_here)
				take_counts(page);
			for (int j = 0; counts && j < PAGE_BYTES; j++)
				if (counts[j]) {
					fprintf(out, "%lx %lu\n", page->at + j, counts[j]);
					counts[j] = 0;
				}
		}
}

static void write_lines_of_data(FILE *out, int unused)
{
	(void)unused;
	write_lines(out);
}

static void write_file(const char *end, void (*write)(FILE *, int), int is_here)
{
	char name[4096];
	FILE *out;

	snprintf(name, sizeof(name), "%s/%u%s", folder, marks, end);
	out = fopen(name, "w");
	if (!out)
		abort();
	write(out, is_here);
	if (fclose(out))
		abort();
}

/* Writes what was counted since the last mark, and begins anew. */
static void marked(unsigned int cpu, void *data)
{
	(void)cpu, (void)data;
	pthread_mutex_lock(&lock);
	write_file("", write_counts, 0);
	if (first_cpu != ~0u)
		write_file(".here", write_counts, 1);
	if (data_base)
		write_file(".data", write_lines_of_data, 0);
	marks++;
	pthread_mutex_unlock(&lock);
}

static int is_mark(const struct qemu_plugin_insn *insn)
{
	static const unsigned char mark[] = { MARK_BYTES };
	unsigned char code[sizeof(mark)];

	if (qemu_plugin_insn_size(insn) != sizeof(mark))
		return 0;
	copy_code(insn, code, sizeof(code));
	return !memcmp(code, mark, sizeof(mark));
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t at = qemu_plugin_insn_vaddr(insn);

		have_counted(insn, page_of(at), at % PAGE_BYTES);
		if (page_of(at)->here)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, NO_REGISTERS, &page_of(at)->here[at % PAGE_BYTES]);
		if (data_base && at - data_base < 4 << 20)
			qemu_plugin_register_vcpu_mem_cb(insn, accessed, NO_REGISTERS, READ_AND_WRITE, (void *)at);
		if (is_mark(insn))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, NO_REGISTERS, NULL);
	}
	pthread_mutex_unlock(&lock);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	(void)info;
	if (argc < 1 || strncmp(argv[0], "out=", 4))
		return -1;
	folder = argv[0] + 4;
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "data=", 5))
			data_base = strtoull(argv[i] + 5, NULL, 16);
		else if (!strncmp(argv[i], "cpu=", 4))
			first_cpu = (unsigned int)atoi(argv[i] + 4);
		else
			return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
