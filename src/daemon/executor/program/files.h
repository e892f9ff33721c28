/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a build sees: those of the client, under the client's names, in memory
 * files without a name on this machine. Contents stay known for the whole session.
 */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/container/budget.h"
#include "base/container/buf.h"
#include "base/os/clock.h"
#include "base/text/sha256.h"

struct tp_exec_store; /* contents of a session, by digest */
struct tp_exec_files; /* names of a build */

/** @param budget is charged with the contents; kept */
struct tp_exec_store *tp_exec_store_create(struct tp_budget *budget);

/**
 * Creates the files of a build, with one reference.
 * @param text, options of the build: a folder spelled out in them is the client's; kept
 */
struct tp_exec_files *tp_exec_files_create(struct tp_exec_store *store,
                                           const char *text, size_t text_len,
                                           const char *options);
void tp_exec_files_ref(struct tp_exec_files *files);
/** NULL is fine. */
void tp_exec_files_unref(struct tp_exec_files *files);
/** Adds valid records (wire/files.h). A client that sends none is not asked for any. @return 0
 *  or CL_OUT_OF_HOST_MEMORY */
int32_t tp_exec_files_add(struct tp_exec_files *files, const uint8_t *records,
                          uint64_t len);
/** Adds the client's answer to one message of names, even if it is empty. Any thread. */
int32_t tp_exec_files_answer(struct tp_exec_files *files, const uint8_t *records,
                             uint64_t len);
/** Adds names and digests of contents to a sum: valid records that arrived with a build. */
void tp_exec_files_sum(const uint8_t *records, uint64_t len, struct tp_sha256 *sum);
/** Appends names, each with its NUL, for one message to the client: files whose contents are
 *  missing, and names that a compiler did not find. @return false: there are none */
bool tp_exec_files_want(struct tp_exec_files *files, struct tp_buf *names);
/** Waits until the client has answered all messages. @return false: the deadline passed */
bool tp_exec_files_await(struct tp_exec_files *files, tp_ns deadline);
/** Takes note of the answers, between two runs of a compiler. @return true: names are there
 *  that the last run did not find */
bool tp_exec_files_settle(struct tp_exec_files *files);
/** True once a compiler looked up what did not come with the request. Not during a run. */
bool tp_exec_files_grew(const struct tp_exec_files *files);

/** Result of a lookup. */
enum tp_exec_seen {
    TP_EXEC_SEEN_FILE,
    TP_EXEC_SEEN_FOLDER,
    TP_EXEC_SEEN_NOTHING,
    TP_EXEC_SEEN_FOREIGN, /**< not a name of the client's */
};

/**
 * Looks up a cleaned name (base/text/include.h). Calls no allocator: the compiler may hold
 * its lock meanwhile.
 * @param ret_fd gives the memory file of a file; borrowed
 */
enum tp_exec_seen tp_exec_files_find(struct tp_exec_files *files, const char *name,
                                     int *ret_fd);

#endif
