// SPDX-License-Identifier: GPL-2.0
/*
 * The clock page: Linux' time for the LWK and the applications' vDSO.
 *
 * The page describes a line, ns(tsc). Each update begins exactly where the old
 * line is at that moment, so no reader ever sees time go back, and bends it so
 * that it meets Linux' clock one second later.
 */
#include "link/link.h"

#include <linux/pvclock_gtod.h>
#include <linux/timekeeper_internal.h>
#include <linux/timekeeping.h>

#define CLOCK_SHIFT 24
#define PERIOD_NS NSEC_PER_SEC
/* More than this ahead of us, Linux has jumped (suspend): follow at once. */
#define JUMP_NS (100 * NSEC_PER_MSEC)
/* The steepest bend: 5 % of the rate. */
#define SLEW_MAX 20

struct sample {
	u64 tsc, mono, raw;
};

/* Of several tries the one with the least between the two readings. */
static struct sample take_sample(const struct hanare_instance *inst)
{
	struct sample best = {};
	u64 least = U64_MAX;
	int i;

	for (i = 0; i < 5; i++) {
		unsigned long flags;
		u64 before, after, mono, raw;

		local_irq_save(flags);
		before = hanare_tsc_ordered(inst);
		mono = ktime_get_ns();
		after = hanare_tsc_ordered(inst);
		raw = ktime_get_raw_ns();
		local_irq_restore(flags);
		if (after - before < least) {
			least = after - before;
			best = (struct sample){ before + least / 2, mono, raw };
		}
	}
	return best;
}

/* Also a little before the line begins: the page may have been written since a sample. */
static u64 line(const struct hanare_clock_page *page, u64 base, u64 tsc)
{
	if ((s64)(tsc - page->tsc) < 0)
		return base - mul_u64_u64_shr(page->tsc - tsc, page->mult, CLOCK_SHIFT);
	return base + mul_u64_u64_shr(tsc - page->tsc, page->mult, CLOCK_SHIFT);
}

/* The rate with which the line meets Linux' clock one period later, within bounds. */
static u64 bent(const struct hanare_clock_page *page, struct sample s, u64 rate)
{
	s64 error = s.mono - line(page, page->monotonic_ns, s.tsc);
	s64 bend;

	error = clamp_t(s64, error, -JUMP_NS, JUMP_NS);
	bend = div_s64((s64)rate * (error >> 4), PERIOD_NS >> 4);
	return rate + clamp_t(s64, bend, -(s64)(rate / SLEW_MAX), (s64)(rate / SLEW_MAX));
}

/* With a `rate`: the line after the sample `s`. Without: the same line, new offsets. */
static void write_page(struct hanare_instance *inst, struct sample s, u64 rate, bool first)
{
	struct hanare_clock_page *page = inst->link.clock;
	u64 mono, raw, tsc, mult;
	unsigned long flags;

	raw_spin_lock_irqsave(&inst->link.clock_lock, flags);
	mult = !rate ? page->mult : first ? rate : bent(page, s, rate);
	hanare_clock_begin(&page->sequence);
	/*
	 * Read after the sequence is odd: a reader that succeeds with the old
	 * line read its TSC before, so it got less than the new line's base.
	 */
	tsc = hanare_tsc_ordered(inst);
	if (first) {
		mono = s.mono + mul_u64_u64_shr(tsc - s.tsc, mult, CLOCK_SHIFT);
		raw = s.raw + (mono - s.mono);
	} else {
		mono = line(page, page->monotonic_ns, tsc);
		raw = line(page, page->raw_ns, tsc);
		if (rate && s.mono > line(page, page->monotonic_ns, s.tsc) + JUMP_NS)
			mono = s.mono + mul_u64_u64_shr(tsc - s.tsc, mult, CLOCK_SHIFT);
		raw = max(raw, s.raw);
	}
	page->shift = CLOCK_SHIFT;
	page->tsc = tsc;
	page->mult = mult;
	page->monotonic_ns = mono;
	page->raw_ns = raw;
	page->realtime_ns = ktime_to_ns(ktime_mono_to_any(mono, TK_OFFS_REAL));
	page->boottime_ns = ktime_to_ns(ktime_mono_to_any(mono, TK_OFFS_BOOT));
	page->tai_ns = ktime_to_ns(ktime_mono_to_any(mono, TK_OFFS_TAI));
	page->minutes_west = sys_tz.tz_minuteswest;
	page->dst = sys_tz.tz_dsttime;
	hanare_clock_end(&page->sequence);
	raw_spin_unlock_irqrestore(&inst->link.clock_lock, flags);
}

/* The rate Linux' clock really ran at since the last update, in our units. */
static u64 measured_mult(struct hanare_instance *inst, struct sample s)
{
	u64 nominal = inst->link.clock_mult_nominal, mult;
	u64 cycles = s.tsc - inst->link.clock_last_tsc;
	u64 ns = s.mono - inst->link.clock_last_ns;

	if (!inst->link.clock_last_tsc || ns < PERIOD_NS / 2 || !cycles || ns > 1000 * PERIOD_NS)
		return nominal;
	mult = mul_u64_u64_div_u64(ns, 1ULL << CLOCK_SHIFT, cycles);
	/* Far off means that a sample was disturbed. */
	return clamp(mult, nominal - nominal / 100, nominal + nominal / 100);
}

static void update(struct work_struct *work)
{
	struct hanare_instance *inst = container_of(work, struct hanare_instance, link.clock_work.work);
	struct sample s = take_sample(inst);

	write_page(inst, s, measured_mult(inst, s), false);
	inst->link.clock_last_tsc = s.tsc;
	inst->link.clock_last_ns = s.mono;
	hanare_load_update(inst);
	hanare_look_for_lost(inst);
	hanare_look_for_gone(inst);
	schedule_delayed_work(&inst->link.clock_work, HZ);
}

/*
 * A task has set Linux' clock: the same line with the new offset, before its system call returns.
 */
static void offset_changed(struct irq_work *work)
{
	struct hanare_instance *inst = container_of(work, struct hanare_instance, link.clock_set_work);
	struct sample none = {};

	write_page(inst, none, 0, false);
	schedule_work(&inst->link.clock_tell_work);
}

/* Tells the LWK that a clock was set: threads that wait there for a time of it look again. */
static void tell_set(struct work_struct *work)
{
	struct hanare_instance *inst = container_of(work, struct hanare_instance, link.clock_tell_work);

	/* Every request may be taken for a while; waiting threads must hear of it all the same. */
	if (hanare_post(inst, hanare_quiet_cpu(inst), HANARE_REQUEST_CLOCK_SET) == -EBUSY)
		schedule_work(work);
}

/* Called with the timekeeper's lock held, also at each tick. */
static int timekeeping_changed(struct notifier_block *nb, unsigned long was_set, void *timekeeper)
{
	struct hanare_instance *inst = container_of(nb, struct hanare_instance, link.clock_notifier);
	const struct timekeeper *tk = timekeeper;
	u64 part = tk->tkr_mono.xtime_nsec >> tk->tkr_mono.shift;
	u64 real = tk->xtime_sec * NSEC_PER_SEC + part;

	/* Without the lock: its holder may be waiting for this timekeeper. */
	WRITE_ONCE(inst->link.clock->realtime_coarse_ns, real);
	WRITE_ONCE(inst->link.clock->monotonic_coarse_ns,
		   real + tk->wall_to_monotonic.tv_sec * NSEC_PER_SEC + tk->wall_to_monotonic.tv_nsec);
	if (was_set)
		irq_work_queue(&inst->link.clock_set_work);
	return NOTIFY_OK;
}

void hanare_clock_start(struct hanare_instance *inst)
{
	struct sample s = take_sample(inst);

	inst->link.clock_mult_nominal = div_u64((u64)NSEC_PER_MSEC << CLOCK_SHIFT, inst->transport->tsc_khz(inst));
	inst->link.clock_last_tsc = 0;
	raw_spin_lock_init(&inst->link.clock_lock);
	write_page(inst, s, inst->link.clock_mult_nominal, true);
	inst->link.clock_last_tsc = s.tsc;
	inst->link.clock_last_ns = s.mono;
	INIT_DELAYED_WORK(&inst->link.clock_work, update);
	schedule_delayed_work(&inst->link.clock_work, HZ);
	INIT_WORK(&inst->link.clock_tell_work, tell_set);
	init_irq_work(&inst->link.clock_set_work, offset_changed);
	inst->link.clock_notifier.notifier_call = timekeeping_changed;
	pvclock_gtod_register_notifier(&inst->link.clock_notifier);
}

void hanare_clock_stop(struct hanare_instance *inst)
{
	if (!inst->link.clock_work.work.func)
		return;
	if (inst->link.clock_notifier.notifier_call) {
		pvclock_gtod_unregister_notifier(&inst->link.clock_notifier);
		inst->link.clock_notifier.notifier_call = NULL;
	}
	irq_work_sync(&inst->link.clock_set_work);
	cancel_work_sync(&inst->link.clock_tell_work);
	cancel_delayed_work_sync(&inst->link.clock_work);
}
