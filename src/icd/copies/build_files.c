/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the files that a build of the first server looked for, so that the second need not look. */
#include "icd/copies/copies_int.h"
#include "icd/copies/frames.h"
#include "icd/icd.h"

#include "base/alloc.h"

/** @return the entry of a build that is not answered yet; NULL: there is none */
static struct tp_copies_entry *
find_open_build(const struct tp_icd_copies *c, uint64_t program)
{
    tp_list_for_each_entry(struct tp_copies_entry, e, &c->log, link) {
        if ((e->type == TP_WIRE_PROGRAM_BUILD || e->type == TP_WIRE_PROGRAM_COMPILE) &&
            !e->replied && memcmp(e->body + sizeof(e->request), &program, 8) == 0) {
            return e;
        }
    }
    return NULL;
}

/** Finds the files that were sent for a build, in the log or before it. */
static bool
find_files(struct tp_icd_copies *c, const struct tp_copies_entry *build,
           uint64_t program, struct tp_wire_program_files *ret_files)
{
    for (const struct tp_list *at = build->link.prev; at != &c->log; at = at->prev) {
        const struct tp_copies_entry *e =
            tp_list_entry(at, struct tp_copies_entry, link);

        if (e->type == TP_WIRE_PROGRAM_FILES && memcmp(e->body, &program, 8) == 0) {
            return tp_wire_get_program_files(e->body, e->body + e->len, ret_files);
        }
    }
    return tp_copies_find_files(c, program, ret_files);
}

/**
 * Adds files that a build of the first server looked for to those sent before it, so that the
 * second server need not look for any.
 * @return why not; NULL: done
 */
static const char *
add_files(struct tp_icd_copies *c, struct tp_copies_entry *build,
          const struct tp_wire_program_files *more)
{
    struct tp_wire_program_files files = {.program = more->program};
    struct tp_copies_entry *e = NULL;
    uint8_t *all;

    if (!find_files(c, build, more->program, &files) || more->transfer != 0 ||
        files.files.len + more->files.len > TP_WIRE_BLOB_MAX) {
        return "a program includes too much";
    }
    all = tp_malloc(files.files.len + more->files.len, "kept files");
    if (all != NULL) {
        memcpy(all, files.files.data, files.files.len);
        memcpy(all + files.files.len, more->files.data, more->files.len);
        files.files.data = all;
        files.files.len += more->files.len;
        files.size = files.files.len;
        e = tp_copies_entry_create(TP_WIRE_PROGRAM_FILES, &files, 0);
    }
    tp_free(all);
    if (e == NULL) {
        return "no memory";
    }
    e->sent = build->sent;
    c->log_bytes += e->len;
    tp_list_push_back(&build->link, &e->link); /* before it */
    return NULL;
}

bool
tp_copies_answer_build(struct tp_icd_copies *c, uint16_t type, const void *msg)
{
    struct tp_copies_entry *build;
    const char *fault;

    build =
        type != TP_WIRE_PROGRAM_FILES ? NULL : find_open_build(c, tp_copies_id_of(msg));
    if (build == NULL || !build->sent) {
        return false;
    }
    fault = add_files(c, build, msg);
    c->stop_why = fault != NULL ? fault : c->stop_why; /* for the next pump */
    return true;
}
