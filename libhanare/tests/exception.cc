/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A function that throws. */
extern "C" void throws(void);

void throws(void)
{
	throw 1;
}
