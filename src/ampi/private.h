/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the program, so that each virtual rank has global variables of its own. */
#ifndef TELPHER_AMPI_PRIVATE_H
#define TELPHER_AMPI_PRIVATE_H

#include <stdbool.h>

typedef int (*tp_ampi_main)(int argc, char **argv, char **envp);

/** main() of the program as it was started. @return NULL: telpher-mpicc did not link it */
tp_ampi_main tp_ampi_private_first(void);
/** main() of a new copy for a rank. @return NULL: that fails, which has been reported */
tp_ampi_main tp_ampi_private_copy(unsigned rank);
/** An exported variable of the copy that has this main(). @return NULL: there is none */
void *tp_ampi_private_find(tp_ampi_main main_fn, const char *name);
/** Can the program be copied? Reports why not. */
bool tp_ampi_private_check(void);

#endif
