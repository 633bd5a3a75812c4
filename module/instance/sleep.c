// SPDX-License-Identifier: GPL-2.0
/*
 * Suspend and hibernation. An LWK's CPUs would lose power, its memory would be written to no
 * image, and nothing of it would come back: Linux does not sleep while there is one.
 */
#include "instance/instance.h"

#include <linux/list.h>
#include <linux/suspend.h>

static int on_power_change(struct notifier_block *nb, unsigned long event, void *unused)
{
	bool none;

	if (event != PM_SUSPEND_PREPARE && event != PM_HIBERNATION_PREPARE &&
	    event != PM_RESTORE_PREPARE)
		return NOTIFY_DONE;
	mutex_lock(&hanare_lock);
	none = list_empty(&hanare_instances);
	mutex_unlock(&hanare_lock);
	if (none)
		return NOTIFY_DONE;
	pr_notice("Linux does not suspend while there is an LWK (hanare ls): hanare shutdown ends it\n");
	return notifier_from_errno(-EBUSY);
}

static struct notifier_block power_nb = { .notifier_call = on_power_change };

int hanare_sleep_init(void)
{
	return register_pm_notifier(&power_nb);
}

void hanare_sleep_exit(void)
{
	unregister_pm_notifier(&power_nb);
}
