/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of checkpoints of one process, which it may share with others: names of files, what is there. */
#include "mdr/checkpoint/parts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/os/random.h"

/* ---- files ---- */

const char *
tp_mdr_part_name(char dst[TP_MDR_PATH_BYTES], const char *folder, uint64_t generation,
                 uint32_t part, uint32_t size, const char *suffix)
{
    (void)snprintf(dst, TP_MDR_PATH_BYTES, "%s/%llu-%u-of-%u.%s", folder,
                   (unsigned long long)generation, part, size, suffix);
    return dst;
}

/* The generation, part and number of parts that a file name gives. */
static bool
read_name(const char *name, unsigned long long *generation, unsigned *rank,
          unsigned *size)
{
    char suffix[4] = "";

    return sscanf(name, "%llu-%u-of-%u.%3s", generation, rank, size, suffix) == 4 &&
           *size != 0 && *size <= TP_MDR_PARTS_MAX && *rank < *size &&
           (strcmp(suffix, "mdr") == 0 || strcmp(suffix, "new") == 0);
}

static void
note_file(struct tp_mdr_found *found, uint64_t generation, unsigned part, unsigned size,
          bool complete)
{
    if (generation > found->generation) {
        found->generation = generation;
        found->size = size;
        memset(found->parts, 0, sizeof(found->parts));
    }
    if (generation == found->generation && complete) {
        found->parts[part / 8] |= (uint8_t)(1u << part % 8);
    }
}

static void
scan(const char *folder, uint64_t below, struct tp_mdr_found *ret_found)
{
    DIR *dir = opendir(folder);
    const struct dirent *file;

    while (dir != NULL && (file = readdir(dir)) != NULL) {
        unsigned long long generation;
        unsigned part, size;

        if (read_name(file->d_name, &generation, &part, &size) && generation < below) {
            note_file(ret_found, generation, part, size,
                      strstr(file->d_name, ".mdr") != NULL);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void
tp_mdr_remove_parts(const char *folder, uint64_t from, uint64_t than)
{
    DIR *dir = opendir(folder);
    const struct dirent *file;

    while (dir != NULL && (file = readdir(dir)) != NULL) {
        unsigned long long generation;
        unsigned rank, size;

        if (read_name(file->d_name, &generation, &rank, &size) && generation >= from &&
            generation < than) {
            (void)unlinkat(dirfd(dir), file->d_name, 0);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* ---- which folder it is ---- */

static uint64_t
read_number(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t number = 0;

    if (fd >= 0) {
        number =
            read(fd, &number, sizeof(number)) == (ssize_t)sizeof(number) ? number : 0;
        close(fd);
    }
    return number;
}

/* Gives a folder its number. Processes may do so at the same time: link() lets one of them win,
 * and its file is complete. */
static void
mark(const char *folder, const char *path)
{
    char temporary[TP_MDR_PATH_BYTES];
    uint64_t number;
    int fd;

    if (tp_random_bytes(&number, sizeof(number)) != TELPHER_OK) {
        return;
    }
    (void)snprintf(temporary, sizeof(temporary), "%s/.%016llx", folder,
                   (unsigned long long)number);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return;
    }
    if (write(fd, &number, sizeof(number)) == (ssize_t)sizeof(number)) {
        (void)link(temporary, path);
    }
    close(fd);
    (void)unlink(temporary);
}

/* The number of a folder: equal where two processes have the same. 0: there is no folder */
static uint64_t
place_of(const char *folder)
{
    char path[TP_MDR_PATH_BYTES];
    uint64_t number;

    (void)snprintf(path, sizeof(path), "%s/.place", folder);
    number = read_number(path);
    if (number == 0) {
        mark(folder, path);
        number = read_number(path);
    }
    return number;
}

void
tp_mdr_list_parts(const char *folder, uint64_t below, struct tp_mdr_found *ret_found)
{
    memset(ret_found, 0, sizeof(*ret_found));
    (void)mkdir(folder, 0700); /* opening files says what is wrong */
    if (tp_random_bytes(&ret_found->random, sizeof(ret_found->random)) != TELPHER_OK) {
        ret_found->random = (uint32_t)getpid();
    }
    ret_found->place = place_of(folder);
    scan(folder, below, ret_found);
}
