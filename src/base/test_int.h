/* SPDX-License-Identifier: Apache-2.0 */
/* Included by every test of this module: cmocka with the headers it needs before it. */
#ifndef TELPHER_BASE_TEST_INT_H
#define TELPHER_BASE_TEST_INT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
