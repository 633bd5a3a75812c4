/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#include "harness.h"
const struct test function_tests[] = { { 0 } };
