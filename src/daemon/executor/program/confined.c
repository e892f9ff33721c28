/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a build so that the compiler sees the client's files, and asks for those that did not
 * come with the request. */
#include <string.h>

#include "base/alloc.h"
#include "base/text/include.h"
#include "base/trace/log.h"
#include "daemon/executor/executor.h"
#include "daemon/executor/program/build.h"
#include "daemon/executor/program/files.h"
#include "daemon/executor/program/guard.h"
#include "daemon/executor/program/program.h"

#define LOOK_EVERY (200 * TP_CLOCK_MS)

enum { ROUNDS_MAX = 256 }; /* runs of a compiler for one build */

/* A build on its way to the confined thread. */
struct work {
    struct tp_exec_build *build;
    const char *options;
    int32_t (*fn)(struct tp_exec_build *build, const char *options);
    int32_t error;
    bool may_include; /* else only the driver itself looks up names */
};

static void
work(void *arg)
{
    struct work *w = arg;

    w->error = w->fn(w->build, w->options);
}

/* Asks the client for files that are missing, and waits for its answers. @return false: the
 * client has gone */
static bool
ask(struct tp_exec_build *build, struct tp_exec_files *files)
{
    struct tp_exec *x = build->program->obj.x;
    bool here = true;
    struct tp_buf names;

    tp_buf_init(&names, 0);
    while (tp_exec_files_want(files, &names)) {
        struct tp_wire_files_wanted m = {
            .request = build->request,
            .names = {(uint32_t)tp_buf_len(&names), tp_buf_data(&names)}};

        tp_exec_put(x, TP_WIRE_FILES_WANTED, &m);
        tp_exec_flush(x);
        tp_buf_clear(&names);
    }
    tp_buf_fini(&names);
    while (here && !tp_exec_files_await(files, tp_clock_deadline(LOOK_EVERY))) {
        here = tp_stream_status(x->stream) == TELPHER_OK;
    }
    return here;
}

bool
tp_exec_builds_are_guarded(struct tp_exec *x)
{
    bool guarded;

    tp_mutex_lock(&x->guard_lock);
    if (!x->guard_tried) {
        x->guard_tried = true;
        x->guard = tp_exec_guard_create();
        x->store = tp_exec_store_create(&x->host);
        if (x->guard == NULL) {
            tp_warn("executor",
                    "programs that include files cannot be built: no seccomp "
                    "user notification (Linux 5.9)");
        }
    }
    guarded = x->guard != NULL && x->store != NULL;
    tp_mutex_unlock(&x->guard_lock);
    return guarded;
}

bool
tp_exec_build_answer(struct tp_exec_program *p, const uint8_t *records, uint64_t len)
{
    struct tp_exec *x = p->obj.x;
    struct tp_exec_files *files;

    tp_mutex_lock(&x->done_lock);
    files = p->seen;
    if (files != NULL) {
        tp_exec_files_ref(
            files); /* the build may end before an answer that it did not ask for */
    }
    tp_mutex_unlock(&x->done_lock);
    if (files == NULL) {
        return false;
    }
    if (tp_exec_files_answer(files, records, len) != 0) {
        tp_info("executor", "files of a build do not fit in memory");
    }
    tp_exec_files_unref(files);
    return true;
}

static void
set_seen(struct tp_exec_program *p, struct tp_exec_files *files)
{
    tp_mutex_lock(&p->obj.x->done_lock);
    p->seen = files;
    tp_mutex_unlock(&p->obj.x->done_lock);
}

static bool
may_include(const struct tp_exec_build *build)
{
    const struct tp_exec_program *p = build->program;

    return tp_include_occurs(p->text, p->text_len) ||
           tp_include_occurs(build->options, strlen(build->options));
}

/* Without a guard, only what cannot read files is built. */
static int32_t
build_open(struct work *w)
{
    const struct tp_exec_program *p = w->build->program;

    if (w->may_include) {
        tp_exec_failed(p->obj.x, p->obj.id,
                       w->build->kind == TP_EXEC_COMPILE ? CL_COMPILE_PROGRAM_FAILURE
                                                         : CL_BUILD_PROGRAM_FAILURE,
                       "the server's system cannot guard builds that include files: it "
                       "needs Linux 5.9");
        return w->build->kind == TP_EXEC_COMPILE ? CL_COMPILE_PROGRAM_FAILURE
                                                 : CL_BUILD_PROGRAM_FAILURE;
    }
    work(w);
    return w->error;
}

/* Runs the compiler until it finds all that the client has. */
static int32_t
build_seeing(struct work *w, struct tp_exec_files *files)
{
    struct tp_exec *x = w->build->program->obj.x;
    const char *first = w->options;
    char *options = NULL;

    for (int round = 1; ask(w->build, files); round++) {
        bool news;

        if (!tp_exec_guard_run(x->guard, files, work, w)) {
            w->error = CL_OUT_OF_RESOURCES;
            break;
        }
        news = w->may_include && ask(w->build, files) && tp_exec_files_settle(files);
        tp_free(options);
        options = NULL;
        if (!news || round == ROUNDS_MAX) {
            break;
        }
        tp_exec_text_forget(w->build);
        /* drivers' caches must not take this build for the one before */
        options = tp_asprintf("build options", "%s" TP_EXEC_ROUND "%d", first, round);
        w->options = options != NULL ? options : first;
    }
    tp_free(options);
    return w->error;
}

int32_t
tp_exec_build_confined(struct tp_exec_build *build, const char *options,
                       int32_t (*fn)(struct tp_exec_build *build, const char *options))
{
    struct tp_exec_program *p = build->program;
    struct tp_exec *x = p->obj.x;
    struct work w = {build, options, fn, CL_OUT_OF_RESOURCES, may_include(build)};
    struct tp_exec_files *files;
    int32_t error;

    if (!tp_exec_builds_are_guarded(x)) {
        return build_open(&w);
    }
    files = tp_exec_files_create(x->store, p->text, p->text_len, build->options);
    error = files == NULL ? CL_OUT_OF_HOST_MEMORY
                          : tp_exec_files_add(files, build->files, build->files_len);
    if (error == 0) {
        set_seen(p, files);
        error = build_seeing(&w, files);
        set_seen(p, NULL);
        /* the cache key does not cover files that were added during the build */
        build->has_key =
            build->has_key && !(w.may_include && tp_exec_files_grew(files));
    }
    tp_exec_files_unref(files);
    return error;
}
