// SPDX-License-Identifier: GPL-2.0
/* Leaks of this machine's CPUs, for the LWK to close. */
#include "machine/machine.h"

#include <asm/cpufeature.h>

/* HANARE_LEAK_*: what Linux found this machine's CPUs to have. */
u32 hanare_cpu_leaks(void)
{
	static const struct {
		u32 leak, bug;
	} known[] = {
		{ HANARE_LEAK_MELTDOWN, X86_BUG_CPU_MELTDOWN },
		{ HANARE_LEAK_SPECTRE_V1, X86_BUG_SPECTRE_V1 },
		{ HANARE_LEAK_SPECTRE_V2, X86_BUG_SPECTRE_V2 },
		{ HANARE_LEAK_SWAPGS, X86_BUG_SWAPGS },
		{ HANARE_LEAK_MDS, X86_BUG_MDS },
		{ HANARE_LEAK_TAA, X86_BUG_TAA },
		{ HANARE_LEAK_MMIO, X86_BUG_MMIO_STALE_DATA },
		{ HANARE_LEAK_RFDS, X86_BUG_RFDS },
		{ HANARE_LEAK_TSA, X86_BUG_TSA },
		{ HANARE_LEAK_BHI, X86_BUG_BHI },
	};
	u32 leaks = 0, i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (test_bit(known[i].bug, (unsigned long *)boot_cpu_data.x86_capability))
			leaks |= known[i].leak;
	return leaks;
}
