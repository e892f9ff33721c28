/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and modules that are installed with telpher-bench and found relative to it. */
#ifndef BENCH_HELPER_H
#define BENCH_HELPER_H

#include <stddef.h>

/** Gives the path of a file, from the folder that telpher-bench is in. */
void bench_helper_path(const char *relative, char *ret_path, size_t size);

/** Becomes that program, with argv[1] and on as its arguments.
 *  @return only on failure, after an error message: an exit status */
int bench_helper_exec(const char *relative, char **argv, const char *package);

/** Becomes Python running that script of libexec/telpher, with argv[1] and on as its
 *  arguments. @return only on failure, after an error message: an exit status */
int bench_helper_script(const char *name, int argc, char **argv);

#endif
