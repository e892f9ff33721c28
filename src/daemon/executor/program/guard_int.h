/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that name files, and which files of this machine a compiler may see. */
#ifndef TELPHER_DAEMON_EXECUTOR_PROGRAM_GUARD_INT_H
#define TELPHER_DAEMON_EXECUTOR_PROGRAM_GUARD_INT_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/types.h>

#include "daemon/executor/program/files.h"

/** System calls that the guard filters, by what they do with a path. */
enum tp_exec_call_kind {
    TP_EXEC_CALL_OPEN,
    TP_EXEC_CALL_STAT,
    TP_EXEC_CALL_STATX,
    TP_EXEC_CALL_ACCESS,
    TP_EXEC_CALL_READLINK,
    TP_EXEC_CALL_GETCWD,
};

/** The present folder as compilers see it. It has the client's files with relative names:
 *  those in the executor's own present folder are none of theirs. */
#define TP_EXEC_PRESENT_FOLDER "/telpher-present-folder"

/** One call of a compiler's thread. */
struct tp_exec_call {
    enum tp_exec_call_kind kind;
    pid_t thread;
    int folder; /**< descriptor that a relative name begins at, AT_FDCWD */
    int flags; /**< of OPEN, or AT_ flags */
    uint64_t result; /**< address of the struct stat or statx, or of GETCWD's text */
    uint64_t room; /**< of GETCWD [bytes] */
    unsigned mask; /**< of STATX */
    bool nofollow;
    char name[4097];
};

/* ---- guard_calls.c ---- */

/** Confines the calling thread. @return descriptor that gets its calls, -1 = cannot */
int tp_exec_call_confine(void);
/** Reads the arguments of a call. @return false: it has no name that can be read */
bool tp_exec_call_read(const struct seccomp_notif *req, struct tp_exec_call *ret_call);
/** Answers a call with what the build's files have under its name. */
void tp_exec_call_answer(int listener, const struct seccomp_notif *req,
                         const struct tp_exec_call *call, enum tp_exec_seen seen,
                         int fd);
/** Answers GETCWD. */
void tp_exec_call_tell_folder(int listener, const struct seccomp_notif *req,
                              const struct tp_exec_call *call);
/** Lets a call go to this machine's files. */
void tp_exec_call_continue(int listener, const struct seccomp_notif *req);

/* ---- guard_paths.c ---- */

struct tp_exec_paths;

/** Collects folders of the loaded drivers and their caches. @return NULL: no memory */
struct tp_exec_paths *tp_exec_paths_create(void);
/** Creates the caches of the loaded drivers, since only what exists can be allowed. */
void tp_exec_paths_make_caches(void);
/** Where a driver keeps what it compiled. @param library  part of its name: "pocl"
 *  @return to be freed with tp_free(); NULL: not known */
char *tp_exec_driver_cache(const char *library);
void tp_exec_paths_destroy(struct tp_exec_paths *paths);
/** Calls a function for each file or folder of the list, without what the kernel tells:
 *  installed(name, arg), or cache(name, arg) for caches of drivers. */
void tp_exec_paths_each(const struct tp_exec_paths *paths,
                        void (*installed)(const char *name, void *arg),
                        void (*cache)(const char *name, void *arg), void *arg);
/** True if a name is in a driver's cache, or the kernel's: never a client's. */
bool tp_exec_paths_own(const struct tp_exec_paths *paths, const char *name);
/** True if the call may see this machine's file. */
bool tp_exec_paths_allow(const struct tp_exec_paths *paths,
                         const struct tp_exec_call *call);

#endif
