/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: a file for each rank, with its memory as it would be sent to another process. One is
 * there when all of its files are, on any host; older ones are removed after that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ampi/move/copies.h"
#include "ampi/process.h"
#include "base/trace/log.h"

#define MAGIC UINT64_C(0x3230656765766173)

struct head {
    uint64_t magic, layout;
    uint32_t world_size, rank;
    uint64_t generation; /* of the checkpoint */
    struct tp_ampi_image image;
};

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
write_rank(int fd, struct tp_ampi_rank *rank, uint64_t generation)
{
    static struct head head;
    bool wrote;

    head = (struct head){.magic = MAGIC,
                         .layout = tp_ampi_memory_layout(),
                         .world_size = tp_ampi.world_size,
                         .rank = rank->world,
                         .generation = generation};
    tp_ampi_memory_image(rank, TP_AMPI_RANGES_MAX, &head.image);
    wrote = write_all(fd, &head, sizeof(head));
    for (uint64_t i = 0; wrote && i < head.image.count; i++) {
        wrote =
            write_all(fd, (void *)head.image.ranges[i].at, head.image.ranges[i].len);
    }
    return wrote && fsync(fd) == 0;
}

static bool
save_rank(const char *folder, struct tp_ampi_rank *rank, uint64_t generation)
{
    char path[TP_MDR_PATH_BYTES], temporary[TP_MDR_PATH_BYTES];
    int fd, error;
    bool wrote;

    (void)tp_mdr_part_name(path, folder, generation, rank->world, tp_ampi.world_size,
                           "mdr");
    (void)tp_mdr_part_name(temporary, folder, generation, rank->world,
                           tp_ampi.world_size, "new");
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    tp_ampi_handles_pack(rank);
    wrote = fd >= 0 && write_rank(fd, rank, generation);
    error = errno; /* unpacking may set it */
    tp_ampi_handles_unpack(rank);
    if (wrote) {
        wrote = rename(temporary, path) == 0;
        error = errno;
    }
    if (!wrote) {
        tp_error("ampi", "cannot write %s: %s", path, strerror(error));
        (void)unlink(temporary);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return wrote;
}

bool
tp_ampi_save(const char *folder)
{
    const struct tp_mdr_found *found;
    uint64_t generation;
    uint32_t parts;
    bool saved = tp_ampi.world_size <= TP_MDR_PARTS_MAX;

    if (!saved) {
        tp_error("ampi", "a checkpoint has at most %d ranks, this job has %u",
                 TP_MDR_PARTS_MAX, tp_ampi.world_size);
    }
    tp_ampi_copies_begin(folder);
    found = tp_ampi_copies_survey(UINT64_MAX);
    generation = tp_mdr_next_generation(
        found, tp_ampi.processes, tp_mdr_newest_of(found, tp_ampi.processes, &parts));
    for (uint32_t i = 0; saved && i < tp_ampi.rank_count; i++) {
        saved = save_rank(folder, tp_ampi.ranks[i], generation);
    }
    saved = tp_ampi_quiet_agree(saved) && tp_ampi_copies_keep(generation);
    if (saved) {
        tp_mdr_remove_parts(folder, 0, generation);
    } else {
        tp_mdr_remove_parts(folder, generation, generation + 1);
    }
    return saved;
}

void
tp_ampi_unsave(const char *folder)
{
    tp_mdr_remove_parts(folder, 0, UINT64_MAX);
}

/* ---- restore ---- */

static const char *
read_rank(int fd, uint32_t rank, uint64_t generation)
{
    static struct head head;

    if (!read_all(fd, &head, sizeof(head))) {
        return strerror(errno);
    }
    if (head.magic != MAGIC || head.rank != rank || head.generation != generation ||
        head.world_size != tp_ampi.world_size) {
        return "it is no checkpoint of this rank";
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

/* The newest checkpoint of which each part is somewhere. @return 0: there is none */
static uint64_t
find_whole(uint32_t *ret_parts)
{
    const struct tp_mdr_found *found;
    uint64_t generation = UINT64_MAX;

    do {
        found = tp_ampi_copies_survey(generation);
        generation = tp_mdr_newest_of(found, tp_ampi.processes, ret_parts);
    } while (generation != 0 &&
             !tp_mdr_is_whole(found, tp_ampi.processes, generation, *ret_parts));
    return generation;
}

static bool
restore_rank(const char *folder, uint64_t generation, uint32_t local)
{
    uint32_t rank = tp_ampi.ranks[local]->world;
    char path[TP_MDR_PATH_BYTES];
    const char *why;
    int fd;

    (void)tp_mdr_part_name(path, folder, generation, rank, tp_ampi.world_size, "mdr");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    why = fd >= 0 ? read_rank(fd, rank, generation) : strerror(errno);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (why != NULL) {
        (void)fprintf(stderr, "telpher-ampi: cannot restart from %s: %s\n", path, why);
        return false;
    }
    adopt(tp_ampi.arrived[rank], local);
    return true;
}

enum tp_ampi_restored
tp_ampi_restore(const char *folder)
{
    uint32_t parts;
    uint64_t generation;

    tp_ampi_copies_begin(folder);
    generation = find_whole(&parts);
    if (generation == 0) {
        return TP_AMPI_NONE;
    }
    if (parts != tp_ampi.world_size) {
        (void)fprintf(stderr,
                      "telpher-ampi: cannot restart from %s: its checkpoint is of "
                      "another number of ranks: %u\n",
                      folder, parts);
        return TP_AMPI_BROKEN;
    }
    if (!tp_ampi_copies_fetch(generation)) {
        (void)fprintf(stderr,
                      "telpher-ampi: cannot restart from %s: a part was not copied "
                      "from another host\n",
                      folder);
        return TP_AMPI_BROKEN;
    }
    for (uint32_t i = 0; i < tp_ampi.rank_count; i++) {
        if (!restore_rank(folder, generation, i)) {
            return TP_AMPI_BROKEN;
        }
    }
    tp_ampi.acting = tp_ampi.ranks[0];
    tp_ampi_quiet_meet(); /* no message comes to a rank that is not here yet */
    return TP_AMPI_RESTORED;
}
