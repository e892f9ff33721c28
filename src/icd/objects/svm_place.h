/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses for shared virtual memory that are free in this process. */
#ifndef TELPHER_ICD_OBJECTS_SVM_PLACE_H
#define TELPHER_ICD_OBJECTS_SVM_PLACE_H

#include <stddef.h>

enum { TP_ICD_SVM_TRIES = 24 }; /**< addresses tried for one allocation */

/**
 * Maps memory at an address that is free here and that no process is likely to use.
 * @param try  number of this attempt, from 0; later ones look elsewhere
 * @param fd   a file to share, or -1
 * @return NULL: those addresses are taken, or there is no memory
 */
void *tp_icd_svm_place(size_t size, unsigned try, int fd);
/** Maps memory at exactly @p address. @return NULL: it is taken, or there is no memory */
void *tp_icd_svm_place_at(void *address, size_t size, int fd);

#endif
