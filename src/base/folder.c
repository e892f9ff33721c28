/* SPDX-License-Identifier: Apache-2.0 */
/* Folders in places where any user may make one, such as /tmp. */
#include "base/folder.h"

#include <errno.h>
#include <unistd.h>

bool
tp_folder_is_own(const char *path, mode_t others)
{
    struct stat st;

    if (lstat(path, &st) != 0) {
        return false;
    }
    errno = EPERM;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & others) == 0;
}
