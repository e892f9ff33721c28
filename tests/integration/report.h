/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing Telpher with the drivers themselves: a test started with --report writes what
 * it sees of the platforms there are; started otherwise it takes two such reports.
 */
#ifndef TELPHER_TESTS_REPORT_H
#define TELPHER_TESTS_REPORT_H

#include <stdbool.h>

/** Runs a test itself with --report. @return what it wrote, to be freed; NULL: it failed */
char *report_take(const char *program);
/** Compares two reports; prints the first difference. @return true if there is none */
bool report_same(const char *native, const char *ours);

#endif
