/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in memory that keeps checkpoints of a job while `telpher launch` restarts it. Other hosts have a folder of the
 * same name, which the job makes.
 */
#include "telpher.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
checkpoint_folder_make(char *ret_path, size_t cap)
{
    const char *set = telpher_config_get("TELPHER_MDR_CHECKPOINT");

    ret_path[0] = '\0';
    if (set != NULL && set[0] != '\0') {
        return 0;
    }
    (void)snprintf(ret_path, cap, "/dev/shm/telpher-restart-XXXXXX");
    if (mkdtemp(ret_path) == NULL) {
        return failure("cannot create %s: %s; set TELPHER_MDR_CHECKPOINT to a folder",
                       ret_path, strerror(errno));
    }
    setenv("TELPHER_MDR_CHECKPOINT", ret_path, 1);
    return 0;
}

void
checkpoint_folder_remove(const char *path)
{
    DIR *dir = path[0] != '\0' ? opendir(path) : NULL;
    const struct dirent *file;

    if (dir == NULL) {
        return;
    }
    while ((file = readdir(dir)) != NULL) {
        if (strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0) {
            (void)unlinkat(dirfd(dir), file->d_name, 0);
        }
    }
    closedir(dir);
    (void)rmdir(path);
}
