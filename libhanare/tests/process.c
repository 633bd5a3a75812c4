/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "harness.h"
const struct test process_tests[] = { { 0 } };
