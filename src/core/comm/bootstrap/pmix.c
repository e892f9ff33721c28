/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bootstrap by PMIx, which Open MPI's mpirun, prterun and srun serve. The library is
 * loaded only in a process that such a launcher started. Each rank puts its data under
 * a key, fences, and gets the data of every rank.
 *
 * Source: PMIx Standard 4.1, chapters 5 to 7.
 */
#include "core/comm/bootstrap/pmix.h"

#include <stdlib.h>

bool
tp_pmix_is_there(void)
{
    return getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL;
}

#ifndef TP_HAVE_PMIX

telpher_status
tp_pmix_open(struct tp_bootstrap *boot, struct tp_error *err)
{
    return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                        "started by a PMIx launcher, but built without PMIx (package "
                        "libpmix-dev): use telpher launch, or interop/mpi.h");
}

#else

#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/os/thread.h"

enum { NAMES = 8 /* missing ranks that an error lists */ };
#define ASK_TIME (200 * TP_CLOCK_MS) /* per rank */

/** The functions used, from the library that is loaded. */
static struct {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence_nb) *fence_nb;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Get_nb) *get_nb;
} pmix;

static pmix_proc_t self;
static unsigned gathers;

static bool
load(void)
{
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        library = dlopen(TP_PMIX_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        return false;
    }
    pmix.init = (__typeof__(pmix.init))dlsym(library, "PMIx_Init");
    pmix.finalize = (__typeof__(pmix.finalize))dlsym(library, "PMIx_Finalize");
    pmix.put = (__typeof__(pmix.put))dlsym(library, "PMIx_Put");
    pmix.commit = (__typeof__(pmix.commit))dlsym(library, "PMIx_Commit");
    pmix.fence_nb = (__typeof__(pmix.fence_nb))dlsym(library, "PMIx_Fence_nb");
    pmix.get = (__typeof__(pmix.get))dlsym(library, "PMIx_Get");
    pmix.get_nb = (__typeof__(pmix.get_nb))dlsym(library, "PMIx_Get_nb");
    return pmix.finalize != NULL && pmix.put != NULL && pmix.commit != NULL &&
           pmix.fence_nb != NULL && pmix.get != NULL && pmix.get_nb != NULL &&
           pmix.init != NULL;
}

/* ---- calls that may never return ---- */

/** Result of a library call in its own thread; it may arrive after our timeout. */
struct answer {
    struct tp_mutex lock; /* all members below */
    struct tp_cond changed; /* signals over */
    unsigned refs; /* our reference, and the library's until it called back */
    bool over;
    pmix_status_t status;
};

static struct answer *
answer_create(void)
{
    struct answer *a = tp_zalloc(sizeof(*a), "PMIx answer");

    if (a != NULL) {
        tp_mutex_init(&a->lock);
        tp_cond_init(&a->changed);
        a->refs = 2;
    }
    return a;
}

static void
answer_unref(struct answer *a)
{
    bool last;

    tp_mutex_lock(&a->lock);
    last = --a->refs == 0;
    tp_mutex_unlock(&a->lock);
    if (last) {
        tp_cond_fini(&a->changed);
        tp_mutex_fini(&a->lock);
        tp_free(a);
    }
}

static void
answer_give(struct answer *a, pmix_status_t status)
{
    tp_mutex_lock(&a->lock);
    a->over = true;
    a->status = status;
    tp_cond_broadcast(&a->changed);
    tp_mutex_unlock(&a->lock);
    answer_unref(a);
}

static void
fenced(pmix_status_t status, void *answer)
{
    answer_give(answer, status);
}

static void
got(pmix_status_t status, pmix_value_t *value, void *answer)
{
    answer_give(answer, status);
}

/* Records whether the call started; if not, no callback comes. @return false: too
 * late */
static bool
answer_take(struct answer *a, pmix_status_t begun, tp_ns deadline,
            pmix_status_t *ret_status)
{
    bool over;

    if (begun != PMIX_SUCCESS) {
        answer_give(a, begun == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : begun);
    }
    tp_mutex_lock(&a->lock);
    while (!a->over && tp_cond_wait(&a->changed, &a->lock, deadline) == TELPHER_OK) {
    }
    over = a->over;
    *ret_status = a->status;
    tp_mutex_unlock(&a->lock);
    answer_unref(a);
    return over;
}

/* ---- data of the ranks ---- */

static void
name_proc(pmix_proc_t *proc, pmix_rank_t rank)
{
    memset(proc, 0, sizeof(*proc));
    memcpy(proc->nspace, self.nspace, sizeof(proc->nspace));
    proc->rank = rank;
}

static void
free_value(pmix_value_t *value)
{
    if (value->type == PMIX_BYTE_OBJECT) {
        free(value->data.bo.bytes);
    }
    free(value);
}

static telpher_status
get_part(uint32_t rank, const char *key, size_t len, void *dst)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    telpher_status status = TELPHER_ERR_PROTO;

    name_proc(&proc, rank);
    if (pmix.get(&proc, key, NULL, 0, &value) != PMIX_SUCCESS) {
        return TELPHER_ERR_PEER_LOST;
    }
    if (value->type == PMIX_BYTE_OBJECT && value->data.bo.size == len) {
        memcpy(dst, value->data.bo.bytes, len);
        status = TELPHER_OK;
    }
    free_value(value);
    return status;
}

/* Lists ranks that have put nothing under this key, of those that can be queried in
 * a short time. */
static telpher_status
name_missing(const struct tp_bootstrap *boot, const char *key, struct tp_error *err)
{
    tp_ns deadline = tp_clock_deadline(ASK_TIME);
    char names[96] = "";
    size_t len = 0;
    uint32_t missing = 0;

    for (uint32_t r = 0; r < boot->size && missing < NAMES; r++) {
        struct answer *a = answer_create();
        pmix_status_t status = PMIX_SUCCESS;
        pmix_proc_t proc;

        name_proc(&proc, r);
        if (a != NULL && (!answer_take(a, pmix.get_nb(&proc, key, NULL, 0, got, a),
                                       deadline, &status) ||
                          status != PMIX_SUCCESS)) {
            len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%u",
                                    missing++ == 0 ? ": rank " : ", ", r);
            deadline = tp_clock_deadline(ASK_TIME);
        }
    }
    return tp_error_set(err, TELPHER_ERR_TIMEOUT,
                        "not all ranks connected in time%s (TELPHER_START_TIMEOUT)",
                        names);
}

/* Publishes this rank's data; a collective call. @return false: timeout */
static bool
exchange(tp_ns deadline, pmix_status_t *ret_error)
{
    struct answer *a = answer_create();
    pmix_proc_t all;
    pmix_info_t collect;

    *ret_error = a == NULL ? PMIX_ERR_NOMEM : pmix.commit();
    if (a == NULL) {
        return true;
    }
    name_proc(&all, PMIX_RANK_WILDCARD);
    memset(&collect, 0, sizeof(collect));
    snprintf(collect.key, sizeof(collect.key), "%s", PMIX_COLLECT_DATA);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    return answer_take(a,
                       *ret_error != PMIX_SUCCESS
                           ? *ret_error
                           : pmix.fence_nb(&all, 1, &collect, 1, fenced, a),
                       deadline, ret_error);
}

static telpher_status
gather(struct tp_bootstrap *boot, const void *mine, size_t len, void *all,
       struct tp_error *err)
{
    char key[32];
    pmix_value_t value;
    pmix_status_t error;
    telpher_status status = TELPHER_OK;

    snprintf(key, sizeof(key), "telpher.%u", gathers++);
    memset(&value, 0, sizeof(value));
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)(uintptr_t)mine;
    value.data.bo.size = len;
    error = pmix.put(PMIX_GLOBAL, key, &value);
    if (error == PMIX_SUCCESS && !exchange(boot->deadline, &error)) {
        return name_missing(boot, key, err);
    }
    if (error != PMIX_SUCCESS) {
        return tp_error_set(
            err, TELPHER_ERR_IO,
            "PMIx cannot publish the address of rank %u of %u: PMIx error %d",
            boot->rank, boot->size, error);
    }
    for (uint32_t r = 0; r < boot->size && status == TELPHER_OK; r++) {
        status = get_part(r, key, len, (uint8_t *)all + r * len);
        if (status != TELPHER_OK) {
            tp_error_set(
                err, status,
                "PMIx has no address of rank %u: does every rank create its context?",
                r);
        }
    }
    return status;
}

static void
close_pmix(struct tp_bootstrap *boot)
{
    (void)pmix.finalize(NULL, 0);
}

telpher_status
tp_pmix_open(struct tp_bootstrap *boot, struct tp_error *err)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    pmix_status_t error;

    if (pmix.init == NULL && !load()) {
        memset(&pmix, 0, sizeof(pmix));
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED, "PMIx cannot be loaded: %s",
                            dlerror());
    }
    error = pmix.init(&self, NULL, 0);
    if (error != PMIX_SUCCESS) {
        return tp_error_set(
            err, TELPHER_ERR_IO,
            "PMIx_Init() failed with PMIx error %d: is this process started by a "
            "PMIx launcher (srun --mpi=pmix, prterun)?",
            error);
    }
    name_proc(&job, PMIX_RANK_WILDCARD);
    error = pmix.get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (error != PMIX_SUCCESS || value->type != PMIX_UINT32) {
        (void)pmix.finalize(NULL, 0);
        return tp_error_set(err, TELPHER_ERR_IO,
                            "PMIx does not provide the size of the job: %d", error);
    }
    boot->rank = self.rank;
    boot->size = value->data.uint32;
    boot->gather = gather;
    boot->close = close_pmix;
    free_value(value);
    if (boot->rank >= boot->size) {
        (void)pmix.finalize(NULL, 0);
        return tp_error_set(err, TELPHER_ERR_IO, "PMIx says that this is rank %u of %u",
                            boot->rank, boot->size);
    }
    return TELPHER_OK;
}

#endif
