/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program and servers of other machines use, by page faults of the program. */
#ifndef TELPHER_ICD_MIGRATION_HOST_VIEW_H
#define TELPHER_ICD_MIGRATION_HOST_VIEW_H

#include "icd/commands/enqueue.h"

/** Gives an allocation a view. Its memory is a mapping of @p fd, which is borrowed.
 *  @return OK, NO_MEMORY, or why faults cannot be caught */
telpher_status tp_icd_view_create(struct _cl_mem *mem, int fd);
/** Ends a view. Call it before the memory is unmapped. */
void tp_icd_view_destroy(struct _cl_mem *mem);

/**
 * Takes the views that a command uses away from the program and brings their content to the
 * command's server. Not under tp_icd.lock. @return false: the command uses none; else
 * tp_icd_view_used() and tp_icd_view_end() must follow
 */
bool tp_icd_view_begin(struct tp_icd_op *op);
/** Records the command's event. Under tp_icd.lock. */
void tp_icd_view_used(const struct tp_icd_op *op);
void tp_icd_view_end(void);
/** Gives memory that starts at @p ptr to the program if it is a view: the library is to use it
 *  as the program's. Not under tp_icd.lock. */
void tp_icd_view_touch(const void *ptr);

#endif
