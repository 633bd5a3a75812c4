// SPDX-License-Identifier: GPL-2.0
/*
 * What files of /proc/PID show of an LWK process. What the LWK keeps comes from
 * there; all else of a file is Linux' text, which is about the proxy.
 */
#include "show/pseudo.h"

#include <linux/cpumask.h>
#include <linux/file.h>
#include <linux/nodemask.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#define REQUEST_MS 5000
#define TICK_NS (NSEC_PER_SEC / 100)		/* USER_HZ */

/* What Linux shows of another thread of the process; 0: there is no such thread. */
static char state_of_server(const struct hanare_pseudo *what, u32 tid)
{
	struct pid_namespace *ns = ns_of_pid(what->pid);
	struct task_struct *task;
	char state = 0;

	rcu_read_lock();
	task = ns ? pid_task(find_pid_ns(tid, ns), PIDTYPE_PID) : NULL;
	if (task && task_tgid(task) == what->pid)
		state = task_state_to_char(task);
	rcu_read_unlock();
	return state;
}

/*
 * Its state as Linux would show it. Whether it runs, and what of its process' life it waits for, is
 * for the LWK to say. While it waits for something else, and for stopped, traced and dead ones,
 * Linux' word stands, which was asked after `info`. A worker that sleeps does so because its
 * thread waits only if that is so before and after; else it may have answered a call. While a
 * server of the request box has the thread's call, the server's state is the thread's.
 */
static char state_of(struct hanare_pseudo *what, const struct hanare_process_info *info,
		     char linux_state)
{
	struct hanare_process_info now;

	if (strchr("TtZX", linux_state))
		return linux_state;
	switch (info->thread.state) {
	case HANARE_THREAD_RUNS:
	case HANARE_THREAD_CREATES:	/* in fork(2) */
		return 'R';
	case HANARE_THREAD_VFORKS:
	case HANARE_THREAD_REPLACES:
	case HANARE_THREAD_ARRIVES:
	case HANARE_THREAD_DUMPS:
	case HANARE_THREAD_PARKED:
		return 'D';
	case HANARE_THREAD_EXITED:
		return 'Z';
	}
	if (linux_state == 'S' && info->thread.server)
		linux_state = state_of_server(what, info->thread.server) ?: linux_state;
	if (linux_state == 'S' && !hanare_pseudo_info(what, &now) &&
	    (now.thread.state == HANARE_THREAD_RUNS ||
	     now.thread.delegated_calls != info->thread.delegated_calls ||
	     now.thread.server != info->thread.server))
		return 'R';
	return linux_state;
}

/* Shows one of the states that the LWK tells; false: Linux' line stands. */
static bool state_line(struct seq_file *m, char state)
{
	const char *name = state == 'R' ? "running" : state == 'D' ? "disk sleep" :
			   state == 'Z' ? "zombie" : NULL;

	if (name)
		seq_printf(m, "State:\t%c (%s)\n", state, name);
	return name;
}

static u32 cpu_of(const struct hanare_pseudo *what, const struct hanare_process_info *info)
{
	u32 index = info->thread.cpu;

	return index < what->inst->cpu_count ? what->inst->cpus[index].linux_cpu : 0;
}

/* ---- status ---- */

static const struct memory_line {
	const char *key;
	size_t offset;
} memory_lines[] = {
#define LINE(key, field) { key, offsetof(struct hanare_process_info, field) }
	LINE("VmPeak", mapped_peak),
	LINE("VmSize", mapped),
	LINE("VmLck", locked),
	LINE("VmHWM", resident_peak),
	LINE("VmRSS", resident),
	LINE("RssFile", resident_file),
	LINE("RssShmem", resident_shared),
	LINE("VmData", data),
	LINE("VmStk", stack),
	LINE("VmExe", code),
	LINE("VmLib", library),
	LINE("VmPTE", tables),
}, signal_lines[] = {
	LINE("SigPnd", pending),
	LINE("ShdPnd", shared_pending),
	LINE("SigBlk", blocked),
	LINE("SigIgn", ignored),
	LINE("SigCgt", caught),
}, count_lines[] = {
	LINE("Threads", threads),
	LINE("voluntary_ctxt_switches", thread.voluntary_switches),
	LINE("nonvoluntary_ctxt_switches", thread.involuntary_switches),
#undef LINE
};

static bool find_line(const struct memory_line *lines, size_t count, const char *key,
		      const struct hanare_process_info *info, u64 *value)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(lines[i].key, key))
			continue;
		memcpy(value, (const char *)info + lines[i].offset, sizeof(*value));
		return true;
	}
	return false;
}

/* Lines about memory and what else a thread that has ended has no more. */
static bool is_of_living(const char *key)
{
	static const char *const keys[] = { "Umask", "HugetlbPages", "CoreDumping", "THP_enabled", "untag_mask" };

	return !strncmp(key, "Vm", 2) || !strncmp(key, "Rss", 3) ||
	       match_string(keys, ARRAY_SIZE(keys), key) >= 0;
}

/* Shows the line of `key` anew; false: it stays as it is. */
static bool status_line(struct seq_file *m, struct hanare_pseudo *what, const char *key,
			const char *rest, const struct hanare_process_info *info,
			struct cpumask *cpus, const nodemask_t *nodes)
{
	u64 value;

	if (find_line(memory_lines, ARRAY_SIZE(memory_lines), key, info, &value))
		seq_printf(m, "%s:\t%8llu kB\n", key, value >> 10);
	else if (find_line(signal_lines, ARRAY_SIZE(signal_lines), key, info, &value))
		seq_printf(m, "%s:\t%016llx\n", key, value);
	else if (find_line(count_lines, ARRAY_SIZE(count_lines), key, info, &value))
		seq_printf(m, "%s:\t%llu\n", key, value);
	else if (!strcmp(key, "RssAnon"))
		seq_printf(m, "RssAnon:\t%8llu kB\n",
			   (info->resident - min(info->resident_file + info->resident_shared,
						 info->resident)) >> 10);
	else if (!strcmp(key, "VmPin") || !strcmp(key, "VmSwap"))
		seq_printf(m, "%s:\t%8u kB\n", key, 0);
	else if (!strcmp(key, "Seccomp"))
		seq_printf(m, "Seccomp:\t%u\n", info->thread.seccomp & 3);
	else if (!strcmp(key, "Seccomp_filters"))
		seq_printf(m, "Seccomp_filters:\t%u\n", info->thread.seccomp >> 2);
	else if (!strcmp(key, "State"))
		return state_line(m, state_of(what, info, *skip_spaces(rest)));
	else if (!strcmp(key, "Cpus_allowed"))
		seq_printf(m, "Cpus_allowed:\t%*pb\n", cpumask_pr_args(cpus));
	else if (!strcmp(key, "Cpus_allowed_list"))
		seq_printf(m, "Cpus_allowed_list:\t%*pbl\n", cpumask_pr_args(cpus));
	else if (!strcmp(key, "Mems_allowed"))
		seq_printf(m, "Mems_allowed:\t%*pb\n", nodemask_pr_args(nodes));
	else if (!strcmp(key, "Mems_allowed_list"))
		seq_printf(m, "Mems_allowed_list:\t%*pbl\n", nodemask_pr_args(nodes));
	else
		return false;
	return true;
}

/* Of one that has ended and waits for its parent, only Linux knows anything. */
static int show_ended(struct seq_file *m, struct hanare_pseudo *what)
{
	char *text = hanare_linux_text(what->linux_file);

	if (IS_ERR(text))
		return PTR_ERR(text);
	seq_puts(m, text);
	kvfree(text);
	return 0;
}

static int show_status(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info info;
	char *text, *at, *line;
	DECLARE_BITMAP(allowed, HANARE_CPU_SET_CPUS);
	cpumask_var_t cpus;
	nodemask_t nodes;
	int err = hanare_pseudo_info(what, &info);

	if (err)
		return err == -ESRCH ? show_ended(m, what) : err;
	if (!zalloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	/* Once it is not booted, its memory goes, and the list of that. */
	down_read(&what->inst->live);
	if (what->inst->reach.shared) {
		/* As on Linux, a thread without an affinity may use CPUs that come later, too. */
		bitmap_from_arr64(allowed, info.allowed.words, HANARE_CPU_SET_CPUS);
		if (bitmap_full(allowed, HANARE_CPU_SET_CPUS))
			cpumask_copy(cpus, cpu_possible_mask);
		else
			hanare_instance_cpus(what->inst, allowed, cpus);
		hanare_memory_nodes(what->inst, &nodes);
	} else {
		err = -EIO;
	}
	up_read(&what->inst->live);
	text = err ? ERR_PTR(err) : hanare_linux_text(what->linux_file);
	if (IS_ERR(text)) {
		free_cpumask_var(cpus);
		return PTR_ERR(text);
	}
	for (at = text; (line = hanare_next_line(&at));) {
		char *colon = strchr(line, ':');

		if (!colon) {
			seq_printf(m, "%s\n", line);
			continue;
		}
		*colon = 0;
		if (info.thread.state == HANARE_THREAD_EXITED) {
			if (is_of_living(line))
				continue;
			if (!strcmp(line, "FDSize")) {
				seq_puts(m, "FDSize:\t0\n");
				continue;
			}
		}
		if (!status_line(m, what, line, colon + 1, &info, cpus, &nodes))
			seq_printf(m, "%s:%s\n", line, colon + 1);
	}
	kvfree(text);
	free_cpumask_var(cpus);
	return 0;
}

/* ---- stat ---- */

/* Field `n` of proc(5), if the LWK knows it. `shown`: Linux shows addresses to the reader. */
static bool stat_field(const struct hanare_pseudo *what, const struct hanare_process_info *info,
		       int n, bool shown, u64 *value)
{
	bool whole = what->whole;

	if (info->thread.state == HANARE_THREAD_EXITED) {
		switch (n) {
		case 23 ... 24:
		case 26 ... 30:
		case 45 ... 51:
			/* Of its memory. */
			*value = 0;
			return true;
		}
	}
	switch (n) {
	case 10:
		*value = whole ? info->faults : info->thread.faults;
		return true;
	case 11:
		*value = info->children_faults;
		return true;
	case 14:
		*value = div_u64(whole ? info->user_ns : info->thread.user_ns, TICK_NS);
		return true;
	case 15:
		*value = div_u64(whole ? info->system_ns : info->thread.system_ns, TICK_NS);
		return true;
	case 20:
		*value = info->threads;
		return true;
	case 23:
		*value = info->mapped;
		return true;
	case 24:
		*value = info->resident >> PAGE_SHIFT;
		return true;
	case 31:
		*value = info->pending & 0x7fffffff;
		return true;
	case 32:
		*value = info->blocked & 0x7fffffff;
		return true;
	case 33:
		*value = info->ignored & 0x7fffffff;
		return true;
	case 34:
		*value = info->caught & 0x7fffffff;
		return true;
	case 39:
		*value = cpu_of(what, info);
		return true;
	case 48:
		*value = READ_ONCE(what->space->program.arg_start);
		return shown;
	case 49:
		*value = READ_ONCE(what->space->program.arg_end);
		return shown;
	case 50:
		*value = READ_ONCE(what->space->program.env_start);
		return shown;
	case 51:
		*value = READ_ONCE(what->space->program.env_end);
		return shown;
	default:
		return false;
	}
}

static int show_stat(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info info;
	char *text, *at, *field;
	int err = hanare_pseudo_info(what, &info), n;

	if (err)
		return err == -ESRCH ? show_ended(m, what) : err;
	text = hanare_linux_text(what->linux_file);
	if (IS_ERR(text))
		return PTR_ERR(text);
	/* A name may hold anything: behind the last parenthesis it is over. */
	at = strrchr(text, ')');
	if (!at) {
		kvfree(text);
		return -EIO;
	}
	strim(at);
	*at++ = 0;
	seq_printf(m, "%s)", text);
	at = skip_spaces(at);
	for (n = 3; (field = strsep(&at, " ")); n++) {
		u64 value;

		if (n == 3)
			seq_printf(m, " %c", state_of(what, &info, *field));
		else if (stat_field(what, &info, n, strcmp(field, "0"), &value))
			seq_printf(m, " %llu", value);
		else
			seq_printf(m, " %s", field);
	}
	seq_putc(m, '\n');
	kvfree(text);
	return 0;
}

static int show_statm(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info i;
	int err = hanare_pseudo_info(what, &i);

	if (err)
		return err;
	if (i.thread.state == HANARE_THREAD_EXITED) {
		seq_puts(m, "0 0 0 0 0 0 0\n");
		return 0;
	}
	seq_printf(m, "%llu %llu %llu %llu 0 %llu 0\n", i.mapped >> PAGE_SHIFT,
		   i.resident >> PAGE_SHIFT, (i.resident_file + i.resident_shared) >> PAGE_SHIFT,
		   i.code >> PAGE_SHIFT,
		   (i.data + i.stack) >> PAGE_SHIFT);
	return 0;
}

/* As of Linux: of a thread that waits, its call, its arguments, and where it is. */
static int show_syscall(struct seq_file *m, struct hanare_pseudo *what)
{
	u64 words[HANARE_PAGES_MAX] = {};
	struct hanare_call call = {
		.kind = HANARE_REQUEST_INFO,
		.args = { HANARE_INFO_CALL, what->tid },
		.pages = words,
	};
	/* Linux' text: it decides whether the reader may see the call. */
	char *text = hanare_linux_text(what->linux_file);
	int err, i;

	if (IS_ERR(text))
		return PTR_ERR(text);
	err = hanare_request_about(what->space, &call, WAIT_KILLABLE, REQUEST_MS);
	if (!err && call.status == -ESRCH)
		/* It has ended, and only Linux knows anything of it, if not its worker waits. */
		seq_puts(m, hanare_has_ended(what) ? "-1 0x0 0x0\n" : text);
	kvfree(text);
	if (err || call.status == -ESRCH)
		return err;
	if (call.status)
		return min(call.status, 0) ?: -EIO;
	if (call.count < 9) {
		seq_puts(m, "running\n");
		return 0;
	}
	seq_printf(m, "%lld", (s64)words[0]);
	for (i = (s64)words[0] < 0 ? 7 : 1; i < 9; i++)
		seq_printf(m, " 0x%llx", words[i]);
	seq_putc(m, '\n');
	return 0;
}

/* Where it waits is no function of Linux'. */
static int show_wchan(struct seq_file *m, struct hanare_pseudo *what)
{
	seq_putc(m, '0');
	return 0;
}

/*
 * Nor are there functions of Linux' on its stack. Linux' text decides whether the reader may look.
 */
static int show_stack(struct seq_file *m, struct hanare_pseudo *what)
{
	char *text = hanare_linux_text(what->linux_file);

	if (IS_ERR(text))
		return PTR_ERR(text);
	kvfree(text);
	return 0;
}

/* Time it ran; time it waited for a CPU, which is not counted; times it got one. */
static int show_schedstat(struct seq_file *m, struct hanare_pseudo *what)
{
	struct hanare_process_info i;
	int err = hanare_pseudo_info(what, &i);

	if (err)
		return err;
	seq_printf(m, "%llu 0 %llu\n", i.thread.user_ns + i.thread.system_ns,
		   i.thread.voluntary_switches + i.thread.involuntary_switches + 1);
	return 0;
}

/* ---- limits ---- */

static const char *limit_text(u64 limit, char *to, size_t size)
{
	if (limit == RLIM_INFINITY)
		return "unlimited";
	scnprintf(to, size, "%llu", limit);
	return to;
}

/* RLIMIT_AS is the LWK's: the proxy's own stays out of the way. */
static int show_limits(struct seq_file *m, struct hanare_pseudo *what)
{
	static const char name[] = "Max address space";
	struct hanare_process_info info;
	char *text, *at, *line;
	int err = hanare_pseudo_info(what, &info);

	if (err)
		return err;
	text = hanare_linux_text(what->linux_file);
	if (IS_ERR(text))
		return PTR_ERR(text);
	for (at = text; (line = hanare_next_line(&at));) {
		char own[24], soft[24], hard[24], *words = line + strlen(name);

		if (strncmp(line, name, strlen(name)) ||
		    sscanf(words, "%23s %23s", own, hard) != 2) {
			seq_printf(m, "%s\n", line);
			continue;
		}
		seq_printf(m, "%-25s %-20s %-20s %-10s\n", name,
			   limit_text(info.space_soft, soft, sizeof(soft)),
			   info.space_hard ? limit_text(info.space_hard, own, sizeof(own)) : hard,
			   "bytes");
	}
	kvfree(text);
	return 0;
}

/* For a thread without memory. */
int hanare_show_nothing(struct seq_file *m, struct hanare_pseudo *what)
{
	return 0;
}

static bool is_of_memory(const char *name)
{
	static const char *const names[] = {
		"auxv", "coredump_filter", "ksm_merging_pages", "ksm_stat", "mem", "pagemap",
	};

	return match_string(names, ARRAY_SIZE(names), name) >= 0;
}

hanare_show hanare_process_show(struct hanare_pseudo *what, const char *name)
{
	static const struct { const char *name; hanare_show show; } files[] = {
		{ "stat", show_stat },
		{ "status", show_status },
		{ "statm", show_statm },
		{ "schedstat", show_schedstat },
		{ "limits", show_limits },
		{ "wchan", show_wchan },
		{ "stack", show_stack },
		{ "syscall", show_syscall },
		{ "maps", hanare_show_maps },
		{ "smaps", hanare_show_smaps },
		{ "smaps_rollup", hanare_show_smaps_rollup },
		{ "numa_maps", hanare_show_numa_maps },
		{ "cmdline", hanare_show_cmdline },
		{ "environ", hanare_show_environ },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(files[i].name, name))
			return files[i].show;
	return is_of_memory(name) && hanare_has_ended(what) ? hanare_show_nothing : NULL;
}
