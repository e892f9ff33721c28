/* SPDX-License-Identifier: Apache-2.0 */
/* Gives drivers a folder for temporary files that other users cannot read. */
#ifndef TELPHER_DEVICE_OPENCL_TEMPORARY_H
#define TELPHER_DEVICE_OPENCL_TEMPORARY_H

#include <limits.h>
#include <stdbool.h>

/** Points TMPDIR to a folder that executors of this user share, closed to other users. Call
 *  with one thread only, before drivers are loaded.
 *  @return true: @p name is the folder; false: TMPDIR is unchanged, and the log says why */
bool tp_opencl_temporary_folder(char name[PATH_MAX]);

#endif
