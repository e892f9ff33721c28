/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the icd_svm test. */
#ifndef TELPHER_TESTS_ICD_SVM_H
#define TELPHER_TESTS_ICD_SVM_H

#include "world.h"

/** True if the devices report fine-grained buffers. */
bool has_fine(const struct world *w);
int *svm_new(const struct world *w, size_t count);
int value_of(size_t i, int seed);
/** Maps, fills with value_of() and unmaps. */
void fill_on_host(cl_command_queue q, int *ints, size_t count, int seed);
void expect_ints(cl_command_queue q, int *ints, size_t count, int seed, int factor);
/** A kernel of the test's program. */
cl_kernel kernel_new(const struct world *w, const char *name);
void run_kernel(cl_command_queue q, cl_kernel kernel, size_t global);

extern const struct CMUnitTest svm_memory_tests[], svm_kernel_tests[], svm_usm_tests[];
/** Finds the functions of USM, before its tests. */
int svm_usm_begin(void **state);
extern const size_t svm_memory_test_count, svm_kernel_test_count, svm_usm_test_count;

#endif
