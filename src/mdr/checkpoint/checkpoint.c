/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: when the job is quiescent each process writes its elements into a file. Process 0
 * tells all to write or to read, and waits for their answers. A checkpoint is there when all of
 * its files are; older ones are removed after that. So a process may die at any moment.
 */
#include "mdr/checkpoint/checkpoint_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

const char *
tp_mdr_part_name(char *dst, const char *folder, uint64_t generation, uint32_t rank,
                 uint32_t size, const char *suffix)
{
    (void)snprintf(dst, TP_MDR_PATH_BYTES, "%s/%llu-%u-of-%u.%s", folder,
                   (unsigned long long)generation, rank, size, suffix);
    return dst;
}

/* ---- the folder ---- */

/* The generation, part and number of parts that a file name gives. */
static bool
read_name(const char *name, unsigned long long *generation, unsigned *rank,
          unsigned *size)
{
    char suffix[4] = "";

    return sscanf(name, "%llu-%u-of-%u.%3s", generation, rank, size, suffix) == 4 &&
           *size != 0 && (strcmp(suffix, "mdr") == 0 || strcmp(suffix, "new") == 0);
}

static bool
is_whole(const char *folder, uint64_t generation, uint32_t size)
{
    char path[TP_MDR_PATH_BYTES];

    for (uint32_t r = 0; r < size; r++) {
        if (access(tp_mdr_part_name(path, folder, generation, r, size, "mdr"), R_OK) !=
            0) {
            return false;
        }
    }
    return true;
}

/* Finds the newest checkpoint that is whole, and the largest generation of any file. */
static void
scan(const char *folder, uint64_t *ret_newest, uint64_t *ret_whole, uint32_t *ret_size)
{
    DIR *dir = opendir(folder);
    const struct dirent *file;

    *ret_newest = *ret_whole = 0;
    while (dir != NULL && (file = readdir(dir)) != NULL) {
        unsigned long long generation;
        unsigned rank, size;

        if (!read_name(file->d_name, &generation, &rank, &size)) {
            continue;
        }
        *ret_newest = TP_MAX(*ret_newest, generation);
        if (rank == 0 && generation > *ret_whole &&
            is_whole(folder, generation, size)) {
            *ret_whole = generation;
            *ret_size = size;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void
remove_older(const char *folder, uint64_t than)
{
    DIR *dir = opendir(folder);
    const struct dirent *file;

    while (dir != NULL && (file = readdir(dir)) != NULL) {
        unsigned long long generation;
        unsigned rank, size;

        if (read_name(file->d_name, &generation, &rank, &size) && generation < than) {
            (void)unlinkat(dirfd(dir), file->d_name, 0);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* ---- process 0 ---- */

static telpher_status
check_call(telpher_mdr_call *call, const char *folder)
{
    telpher_mdr *mdr = call->mdr;

    if (mdr->rank != 0 || mdr->lights.current == NULL || call->self != NULL) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "only the main function saves and restores");
    }
    if (folder[0] == '\0' ||
        strlen(folder) >= sizeof(((struct tp_mdr_save *)NULL)->folder)) {
        return tp_mdr_error(mdr, TELPHER_ERR_INVALID,
                            "no folder for checkpoints: name one, set "
                            "TELPHER_MDR_CHECKPOINT, or use telpher launch --restart");
    }
    return TELPHER_OK;
}

static telpher_status
await_quiescence(telpher_mdr *mdr)
{
    telpher_mdr_future quiet;
    telpher_status status = telpher_mdr_future_create(mdr, &quiet);

    if (status == TELPHER_OK) {
        status = telpher_mdr_quiescence(mdr, quiet);
    }
    return status == TELPHER_OK ? telpher_mdr_await(mdr, quiet, NULL, 0, NULL) : status;
}

static telpher_status
ask_one(telpher_mdr *mdr, struct tp_mdr_save *s, uint32_t rank)
{
    const struct tp_mdr_header h = {.kind = TP_MDR_SAVE};
    telpher_status status = telpher_mdr_future_create(mdr, &s->answer);

    return status == TELPHER_OK ? tp_mdr_send(mdr, rank, &h, NULL, 0, s, sizeof(*s))
                                : status;
}

/* Has all processes do it. @return the first error, with its text */
static telpher_status
ask_all(telpher_mdr *mdr, struct tp_mdr_save *s)
{
    telpher_mdr_future *answers =
        tp_alloc_array(mdr->size, sizeof(*answers), "mdr checkpoint");
    telpher_status status = answers != NULL ? TELPHER_OK : TELPHER_ERR_NO_MEMORY;
    telpher_status first = TELPHER_OK;
    uint32_t asked = 0;

    for (; status == TELPHER_OK && asked < mdr->size; asked += status == TELPHER_OK) {
        status = ask_one(mdr, s, asked);
        if (status == TELPHER_OK) {
            answers[asked] = s->answer;
        }
    }
    for (uint32_t r = 0; r < asked; r++) {
        struct tp_mdr_saved got = {.status = TELPHER_ERR_CANCELED};

        status = telpher_mdr_await(mdr, answers[r], &got, sizeof(got), NULL);
        if (first == TELPHER_OK && (status != TELPHER_OK || got.status != TELPHER_OK)) {
            first = status != TELPHER_OK ? status : got.status;
            (void)tp_mdr_error(mdr, first, "process %u: %s", r, got.text);
        }
    }
    tp_free(answers);
    return asked == mdr->size ? first : status;
}

telpher_status
telpher_mdr_checkpoint(telpher_mdr_call *call, const char *folder, const void *data,
                       size_t len)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_save s = {.step = TP_MDR_WRITE};
    uint64_t newest, whole;
    uint32_t size;
    telpher_status status;

    folder = folder != NULL ? folder : mdr->settings.checkpoint;
    status = check_call(call, folder);
    if (status == TELPHER_OK) {
        status = await_quiescence(mdr);
    }
    if (status != TELPHER_OK) {
        return status;
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return tp_mdr_error(mdr, TELPHER_ERR_IO, "cannot create folder %s: %s", folder,
                            strerror(errno));
    }
    scan(folder, &newest, &whole, &size);
    s.generation = newest + 1;
    memcpy(s.folder, folder, strlen(folder) + 1);
    mdr->saved = data;
    mdr->saved_len = len;
    status = ask_all(mdr, &s);
    if (status == TELPHER_OK) {
        remove_older(folder, s.generation);
    }
    return status;
}

telpher_status
telpher_mdr_restore(telpher_mdr_call *call, const char *folder, void *data, size_t cap,
                    size_t *ret_len)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_save s = {.step = TP_MDR_CHECK};
    uint64_t newest;
    telpher_status status;

    folder = folder != NULL ? folder : mdr->settings.checkpoint;
    if (folder[0] == '\0') {
        return tp_mdr_error(mdr, TELPHER_ERR_NOT_FOUND, "there is no checkpoint");
    }
    status = check_call(call, folder);
    if (status != TELPHER_OK) {
        return status;
    }
    if (tp_map_count(&mdr->arrays) != 0) {
        return tp_mdr_error(mdr, TELPHER_ERR_BUSY,
                            "restore before the first array is created");
    }
    scan(folder, &newest, &s.generation, &s.parts);
    if (s.generation == 0) {
        return tp_mdr_error(mdr, TELPHER_ERR_NOT_FOUND, "there is no checkpoint in %s",
                            folder);
    }
    memcpy(s.folder, folder, strlen(folder) + 1);
    mdr->restored = data;
    mdr->restored_cap = cap;
    status = ask_all(mdr, &s);
    if (status == TELPHER_OK) {
        s.step = TP_MDR_READ;
        status = ask_all(mdr, &s);
    }
    if (ret_len != NULL) {
        *ret_len = mdr->restored_len;
    }
    return status == TELPHER_OK && mdr->restored_len > cap ? TELPHER_ERR_TRUNCATED
                                                           : status;
}

/* ---- all processes ---- */

void
tp_mdr_save_receive(telpher_mdr *mdr, const void *params, size_t len)
{
    struct tp_mdr_save s;
    struct tp_mdr_saved answer = {.status = TELPHER_OK};
    telpher_status status;

    if (len != sizeof(s)) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "a request for a checkpoint has %zu bytes, not %zu: do all "
                    "processes run the same version?",
                    len, sizeof(s));
        return;
    }
    memcpy(&s, params, sizeof(s));
    s.folder[sizeof(s.folder) - 1] = '\0';
    answer.status = s.step == TP_MDR_WRITE   ? tp_mdr_save_part(mdr, &s)
                    : s.step == TP_MDR_CHECK ? tp_mdr_check_parts(mdr, &s)
                                             : tp_mdr_restore_parts(mdr, &s);
    if (answer.status != TELPHER_OK) {
        (void)snprintf(answer.text, sizeof(answer.text), "%s", mdr->error);
    }
    status = telpher_mdr_future_set(mdr, s.answer, &answer, sizeof(answer));
    if (status != TELPHER_OK && !mdr->exiting) {
        tp_mdr_fail(mdr, status,
                    "the result of step %u of the checkpoint in %s cannot be sent: %s",
                    (unsigned)s.step, s.folder, telpher_status_text(status));
    }
}
