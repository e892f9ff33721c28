/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: when the job is quiescent each process writes its elements into a file. Process 0
 * tells all to write or to read, and waits for their answers. A checkpoint is there when all of
 * its files are, on any host; older ones are removed after that. So a process may die at any
 * moment.
 */
#include "mdr/checkpoint/checkpoint_int.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

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

telpher_status
tp_mdr_asked_init(telpher_mdr *mdr, struct tp_mdr_asked *asked, uint32_t count)
{
    asked->answers = tp_alloc_array(count, sizeof(*asked->answers), "mdr checkpoint");
    asked->ranks = tp_alloc_array(count, sizeof(*asked->ranks), "mdr checkpoint");
    asked->count = 0;
    return asked->answers != NULL && asked->ranks != NULL
               ? TELPHER_OK
               : tp_mdr_error(mdr, TELPHER_ERR_NO_MEMORY,
                              "out of memory to ask %u processes for a checkpoint",
                              mdr->size);
}

telpher_status
tp_mdr_ask(telpher_mdr *mdr, struct tp_mdr_save *s, uint32_t rank,
           struct tp_mdr_asked *asked)
{
    const struct tp_mdr_header h = {.kind = TP_MDR_SAVE};
    telpher_status status = telpher_mdr_future_create(mdr, &s->answer);

    if (status == TELPHER_OK) {
        status = tp_mdr_send(mdr, rank, &h, NULL, 0, s, sizeof(*s));
    }
    if (status == TELPHER_OK) {
        asked->answers[asked->count] = s->answer;
        asked->ranks[asked->count++] = rank;
    }
    return status;
}

/* @p found: for answers to LIST */
static telpher_status
await_answers(telpher_mdr *mdr, struct tp_mdr_asked *asked, telpher_status first,
              void *found, size_t each)
{
    for (uint32_t i = 0; i < asked->count; i++) {
        struct tp_mdr_saved got = {.status = TELPHER_OK};
        telpher_status status =
            telpher_mdr_await(mdr, asked->answers[i],
                              found != NULL ? (char *)found + i * each : (void *)&got,
                              found != NULL ? each : sizeof(got), NULL);

        if (first == TELPHER_OK && (status != TELPHER_OK || got.status != TELPHER_OK)) {
            first = status != TELPHER_OK ? status : got.status;
            (void)tp_mdr_error(mdr, first, "process %u: %s", asked->ranks[i], got.text);
        }
    }
    tp_free(asked->answers);
    tp_free(asked->ranks);
    return first;
}

telpher_status
tp_mdr_asked_end(telpher_mdr *mdr, struct tp_mdr_asked *asked, telpher_status status)
{
    return await_answers(mdr, asked, status, NULL, 0);
}

telpher_status
tp_mdr_ask_all(telpher_mdr *mdr, struct tp_mdr_save *s, void *found, size_t each)
{
    struct tp_mdr_asked asked = {.count = 0};
    telpher_status status = tp_mdr_asked_init(mdr, &asked, mdr->size);

    for (uint32_t r = 0; r < mdr->size && status == TELPHER_OK; r++) {
        status = tp_mdr_ask(mdr, s, r, &asked);
    }
    return await_answers(mdr, &asked, status, found, each);
}

static telpher_status
found_create(telpher_mdr *mdr, struct tp_mdr_found **ret_found)
{
    if (mdr->size > TP_MDR_PARTS_MAX) {
        return tp_mdr_error(mdr, TELPHER_ERR_LIMIT,
                            "a checkpoint has at most %d parts, not one for each of %u "
                            "processes: start fewer",
                            TP_MDR_PARTS_MAX, mdr->size);
    }
    *ret_found = tp_alloc_array(mdr->size, sizeof(**ret_found), "mdr checkpoint");
    return *ret_found != NULL
               ? TELPHER_OK
               : tp_mdr_error(mdr, TELPHER_ERR_NO_MEMORY,
                              "out of memory to ask %u processes for a checkpoint",
                              mdr->size);
}

/* Saves generation s->generation, when all know the folder. */
static telpher_status
save_all(telpher_mdr *mdr, struct tp_mdr_save *s, const struct tp_mdr_found *found)
{
    telpher_status status;

    s->step = TP_MDR_WRITE;
    status = tp_mdr_ask_all(mdr, s, NULL, 0);
    if (status == TELPHER_OK) {
        status = tp_mdr_copy_parts(mdr, s, found);
    }
    if (status == TELPHER_OK) {
        s->step = TP_MDR_REMOVE;
        return tp_mdr_ask_all(mdr, s, NULL, 0);
    }
    if (!mdr->exiting) {
        char text[TP_MDR_ERROR_BYTES];

        /* else each attempt on a host without memory would leave more behind */
        memcpy(text, mdr->error, sizeof(text));
        s->step = TP_MDR_DROP;
        (void)tp_mdr_ask_all(mdr, s, NULL, 0);
        memcpy(mdr->error, text, sizeof(text));
    }
    return status;
}

telpher_status
telpher_mdr_checkpoint(telpher_mdr_call *call, const char *folder, const void *data,
                       size_t len)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_save s = {.step = TP_MDR_WRITE};
    struct tp_mdr_found *found = NULL;
    uint64_t newest = 0;
    telpher_status status;

    folder = folder != NULL ? folder : mdr->settings.checkpoint;
    status = check_call(call, folder);
    if (status == TELPHER_OK) {
        status = await_quiescence(mdr);
    }
    if (status == TELPHER_OK) {
        status = found_create(mdr, &found);
    }
    if (status == TELPHER_OK) {
        status = tp_mdr_find_newest(mdr, folder, found, &newest);
    }
    if (status == TELPHER_OK) {
        s.generation = tp_mdr_next_generation(found, mdr->size, newest);
        memcpy(s.folder, folder, strlen(folder) + 1);
        mdr->saved = data;
        mdr->saved_len = len;
        status = save_all(mdr, &s, found);
    }
    tp_free(found);
    return status;
}

/* Finds the newest checkpoint and makes its objects. */
static telpher_status
restore_all(telpher_mdr *mdr, struct tp_mdr_save *s, struct tp_mdr_found *found)
{
    telpher_status status = tp_mdr_find_whole(mdr, s, found);

    if (status == TELPHER_OK && s->generation == 0) {
        return tp_mdr_error(mdr, TELPHER_ERR_NOT_FOUND, "there is no checkpoint in %s",
                            s->folder);
    }
    if (status == TELPHER_OK) {
        status = tp_mdr_gather_parts(mdr, s, found);
    }
    for (s->step = TP_MDR_CHECK; status == TELPHER_OK && s->step <= TP_MDR_READ;
         s->step++) {
        status = tp_mdr_ask_all(mdr, s, NULL, 0);
    }
    return status;
}

telpher_status
telpher_mdr_restore(telpher_mdr_call *call, const char *folder, void *data, size_t cap,
                    size_t *ret_len)
{
    telpher_mdr *mdr = call->mdr;
    struct tp_mdr_save s = {.step = TP_MDR_LIST};
    struct tp_mdr_found *found = NULL;
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
    memcpy(s.folder, folder, strlen(folder) + 1);
    mdr->restored = data;
    mdr->restored_cap = cap;
    status = found_create(mdr, &found);
    if (status == TELPHER_OK) {
        status = restore_all(mdr, &s, found);
    }
    tp_free(found);
    if (ret_len != NULL) {
        *ret_len = mdr->restored_len;
    }
    return status == TELPHER_OK && mdr->restored_len > cap ? TELPHER_ERR_TRUNCATED
                                                           : status;
}

/* ---- all processes ---- */

static void
answer(telpher_mdr *mdr, const struct tp_mdr_save *s, const void *data, size_t len)
{
    telpher_status status = telpher_mdr_future_set(mdr, s->answer, data, len);

    if (status != TELPHER_OK && !mdr->exiting) {
        tp_mdr_fail(mdr, status,
                    "the result of step %u of the checkpoint in %s cannot be sent: %s",
                    (unsigned)s->step, s->folder, telpher_status_text(status));
    }
}

/* @p content: the buffer of COPY */
static telpher_status
do_step(telpher_mdr *mdr, const struct tp_mdr_save *s,
        const telpher_msg_buffer *content)
{
    switch (s->step) {
    case TP_MDR_WRITE:
        return tp_mdr_save_part(mdr, s);
    case TP_MDR_CHECK:
        return tp_mdr_check_parts(mdr, s);
    case TP_MDR_READ:
        return tp_mdr_restore_parts(mdr, s);
    case TP_MDR_SEND:
        return tp_mdr_send_part(mdr, s);
    case TP_MDR_COPY:
        return content != NULL
                   ? tp_mdr_write_copy(mdr, s, content)
                   : tp_mdr_error(mdr, TELPHER_ERR_IO,
                                  "the copy of part %u of checkpoint %llu "
                                  "arrived without its content",
                                  s->part, (unsigned long long)s->generation);
    case TP_MDR_DROP:
        tp_mdr_remove_parts(s->folder, s->generation, s->generation + 1);
        return TELPHER_OK;
    default:
        tp_mdr_remove_parts(s->folder, 0, s->generation);
        return TELPHER_OK;
    }
}

void
tp_mdr_save_receive(telpher_mdr *mdr, const struct tp_mdr_delivery *d)
{
    const telpher_msg_buffer *content =
        d->buffer_count == 1 && d->status == TELPHER_OK ? d->buffers : NULL;
    struct tp_mdr_save s;
    struct tp_mdr_saved result = {.status = TELPHER_OK};

    if (d->params_len != sizeof(s)) {
        tp_mdr_fail(mdr, TELPHER_ERR_PROTO,
                    "a request for a checkpoint has %zu bytes, not %zu: do all "
                    "processes run the same version?",
                    d->params_len, sizeof(s));
        return;
    }
    memcpy(&s, d->params, sizeof(s));
    s.folder[sizeof(s.folder) - 1] = '\0';
    if (s.step == TP_MDR_LIST) {
        struct tp_mdr_found found;

        tp_mdr_list_parts(s.folder, s.generation, &found);
        answer(mdr, &s, &found, sizeof(found));
        return;
    }
    result.status = do_step(mdr, &s, content);
    if (s.step == TP_MDR_SEND && result.status == TELPHER_OK) {
        return; /* the receiver of the copy answers */
    }
    if (result.status != TELPHER_OK) {
        (void)snprintf(result.text, sizeof(result.text), "%s", mdr->error);
    }
    answer(mdr, &s, &result, sizeof(result));
}
