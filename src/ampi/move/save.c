/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: a file for each rank, with its memory as it would be sent to another process, and
 * the link `latest` with the number of the last checkpoint that is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ampi/move/move.h"
#include "ampi/process.h"
#include "base/trace/log.h"

#define MAGIC UINT64_C(0x3130656765766173)

enum { PATH_BYTES = TP_AMPI_FOLDER + 64 };

struct head {
    uint64_t magic, layout;
    uint32_t world_size, rank;
    uint64_t number; /* of the checkpoint */
    struct tp_ampi_image image;
};

static uint64_t last_number; /* of a checkpoint */

static void
name_file(char path[PATH_BYTES], const char *folder, uint64_t number, uint32_t rank)
{
    (void)snprintf(path, PATH_BYTES, "%s/%llu.rank-%u", folder,
                   (unsigned long long)number, rank);
}

static bool
write_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len != 0;) {
        ssize_t wrote = write(fd, at, TP_MIN(len, (size_t)1 << 30));

        if (wrote <= 0) {
            return false;
        }
        at += wrote;
        len -= (size_t)wrote;
    }
    return true;
}

static bool
read_all(int fd, void *data, size_t len)
{
    for (char *at = data; len != 0;) {
        ssize_t got = read(fd, at, TP_MIN(len, (size_t)1 << 30));

        if (got <= 0) {
            errno = got == 0 ? EIO : errno;
            return false;
        }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

/* ---- save ---- */

static bool
write_rank(int fd, struct tp_ampi_rank *rank)
{
    static struct head head;
    bool wrote;

    head = (struct head){.magic = MAGIC,
                         .layout = tp_ampi_memory_layout(),
                         .world_size = tp_ampi.world_size,
                         .rank = rank->world,
                         .number = last_number};
    tp_ampi_memory_image(rank, TP_AMPI_RANGES_MAX, &head.image);
    wrote = write_all(fd, &head, sizeof(head));
    for (uint64_t i = 0; wrote && i < head.image.count; i++) {
        wrote =
            write_all(fd, (void *)head.image.ranges[i].at, head.image.ranges[i].len);
    }
    return wrote && fsync(fd) == 0;
}

static bool
save_rank(const char *folder, struct tp_ampi_rank *rank)
{
    char path[PATH_BYTES];
    int fd;
    bool wrote;

    name_file(path, folder, last_number, rank->world);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    tp_ampi_handles_pack(rank);
    wrote = fd >= 0 && write_rank(fd, rank);
    tp_ampi_handles_unpack(rank);
    if (!wrote) {
        tp_error("ampi", "cannot write %s: %s", path, strerror(errno));
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return wrote;
}

static void
remove_files(const char *folder, uint64_t number)
{
    char path[PATH_BYTES];

    for (uint32_t r = 0; r < tp_ampi.world_size; r++) {
        name_file(path, folder, number, r);
        (void)unlink(path);
    }
}

/* Renaming replaces the link at once, so there is always a complete checkpoint. */
static bool
publish(const char *folder)
{
    char link[PATH_BYTES], made[PATH_BYTES], to[32];

    (void)snprintf(to, sizeof(to), "%llu", (unsigned long long)last_number);
    (void)snprintf(made, sizeof(made), "%s/latest.new", folder);
    (void)snprintf(link, sizeof(link), "%s/latest", folder);
    (void)unlink(made);
    return symlink(to, made) == 0 && rename(made, link) == 0;
}

bool
tp_ampi_save(const char *folder)
{
    bool saved = true;

    last_number++;
    (void)mkdir(folder, 0700); /* opening files says what is wrong */
    for (uint32_t i = 0; saved && i < tp_ampi.rank_count; i++) {
        saved = save_rank(folder, tp_ampi.ranks[i]);
    }
    saved = tp_ampi_quiet_agree(saved);
    if (tp_ampi.process == 0 && saved) {
        saved = publish(folder);
        if (saved && last_number > 1) {
            remove_files(folder, last_number - 1);
        }
    }
    return tp_ampi_quiet_agree(saved);
}

/* ---- restore ---- */

static const char *
read_rank(int fd, uint32_t rank)
{
    static struct head head;

    if (!read_all(fd, &head, sizeof(head))) {
        return strerror(errno);
    }
    if (head.magic != MAGIC || head.rank != rank) {
        return "it is no checkpoint of this rank";
    }
    if (head.world_size != tp_ampi.world_size) {
        return "it is of another number of ranks";
    }
    if (head.layout != tp_ampi_memory_layout()) {
        return "program or libraries have other addresses: they or the limits have "
               "changed";
    }
    if (!tp_ampi_memory_holds(rank, &head.image)) {
        return "it is damaged";
    }
    for (uint64_t i = 0; i < head.image.count; i++) {
        if (!read_all(fd, (void *)head.image.ranges[i].at, head.image.ranges[i].len)) {
            return strerror(errno);
        }
    }
    last_number = head.number;
    tp_ampi.arrived[rank] = (struct tp_ampi_rank *)(uintptr_t)head.image.rank;
    return NULL;
}

static void
adopt(struct tp_ampi_rank *rank, uint32_t local)
{
    tp_ampi_memory_guard(rank->world);
    tp_ampi.ranks[local] = rank;
    rank->local = local;
    rank->move_error = MPI_SUCCESS;
    tp_ampi_handles_unpack(rank);
    tp_lights_wake(&tp_ampi.lights, rank->light);
}

/* @return 0: there is none */
static uint64_t
read_latest(const char *folder)
{
    char link[PATH_BYTES], text[32] = "";

    (void)snprintf(link, sizeof(link), "%s/latest", folder);
    return readlink(link, text, sizeof(text) - 1) > 0 ? strtoull(text, NULL, 10) : 0;
}

bool
tp_ampi_has_saved(const char *folder)
{
    return read_latest(folder) != 0;
}

void
tp_ampi_unsave(const char *folder)
{
    uint64_t number = read_latest(folder);
    char link[PATH_BYTES];

    (void)snprintf(link, sizeof(link), "%s/latest", folder);
    (void)unlink(link);
    if (number != 0) {
        remove_files(folder, number);
    }
}

bool
tp_ampi_restore(const char *folder)
{
    uint64_t number = read_latest(folder);

    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        uint32_t rank = tp_ampi.ranks[i]->world;
        char path[PATH_BYTES];
        const char *why;
        int fd;

        name_file(path, folder, number, rank);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        why = fd >= 0 ? read_rank(fd, rank) : strerror(errno);
        if (fd >= 0) {
            (void)close(fd);
        }
        if (why != NULL) {
            (void)fprintf(stderr, "telpher-ampi: cannot restart from %s: %s\n", path,
                          why);
            return false;
        }
        adopt(tp_ampi.arrived[rank], i);
    }
    tp_ampi.acting = tp_ampi.ranks[0];
    tp_ampi_quiet_meet(); /* no message comes to a rank that is not here yet */
    return true;
}
