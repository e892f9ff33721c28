/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding each other by PMIx, which Open MPI's mpirun, prterun and srun serve. The library is
 * loaded only in a process that such a launcher started. Parts are put under a name, fenced,
 * and got from each rank.
 *
 * Source: PMIx Standard 4.1, chapters 5 to 7.
 */
#include "core/comm/pmix.h"

#include <stdlib.h>

bool
tp_pmix_is_there(void)
{
    return getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL;
}

#ifndef TP_HAVE_PMIX

telpher_status
tp_pmix_open(struct tp_boot *boot, struct tp_error *err)
{
    (void)boot;
    return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                        "started by a PMIx launcher, but built without PMIx (package "
                        "libpmix-dev): use telpher launch, or interop/mpi.h");
}

#else

#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>

/** The calls we need, of the library that is loaded. */
static struct {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence) *fence;
    __typeof__(PMIx_Get) *get;
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
    pmix.fence = (__typeof__(pmix.fence))dlsym(library, "PMIx_Fence");
    pmix.get = (__typeof__(pmix.get))dlsym(library, "PMIx_Get");
    return pmix.init != NULL && pmix.finalize != NULL && pmix.put != NULL &&
           pmix.commit != NULL && pmix.fence != NULL && pmix.get != NULL;
}

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

/* Gives what we put to all; every rank comes to this. */
static pmix_status_t
exchange(void)
{
    pmix_proc_t all;
    pmix_info_t collect;
    bool yes = true;
    pmix_status_t error = pmix.commit();

    name_proc(&all, PMIX_RANK_WILDCARD);
    memset(&collect, 0, sizeof(collect));
    snprintf(collect.key, sizeof(collect.key), "%s", PMIX_COLLECT_DATA);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = yes;
    return error != PMIX_SUCCESS ? error : pmix.fence(&all, 1, &collect, 1);
}

static telpher_status
gather(struct tp_boot *boot, const void *mine, size_t len, void *all,
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
    if (error == PMIX_SUCCESS) {
        error = exchange();
    }
    if (error != PMIX_SUCCESS) {
        return tp_error_set(err, TELPHER_ERR_IO, "PMIx says %d", error);
    }
    for (uint32_t r = 0; r < boot->size && status == TELPHER_OK; r++) {
        status = get_part(r, key, len, (uint8_t *)all + r * len);
        if (status != TELPHER_OK) {
            tp_error_set(err, status, "PMIx has nothing of rank %u", r);
        }
    }
    return status;
}

static void
close_pmix(struct tp_boot *boot)
{
    (void)boot;
    (void)pmix.finalize(NULL, 0);
}

telpher_status
tp_pmix_open(struct tp_boot *boot, struct tp_error *err)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    pmix_status_t error;

    if (pmix.init == NULL && !load()) {
        return tp_error_set(err, TELPHER_ERR_UNSUPPORTED, "PMIx cannot be loaded: %s",
                            dlerror());
    }
    error = pmix.init(&self, NULL, 0);
    if (error != PMIX_SUCCESS) {
        return tp_error_set(err, TELPHER_ERR_IO, "PMIx_Init says %d", error);
    }
    name_proc(&job, PMIX_RANK_WILDCARD);
    error = pmix.get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (error != PMIX_SUCCESS || value->type != PMIX_UINT32) {
        (void)pmix.finalize(NULL, 0);
        return tp_error_set(err, TELPHER_ERR_IO,
                            "PMIx does not tell the job's size: %d", error);
    }
    boot->rank = self.rank;
    boot->size = value->data.uint32;
    boot->gather = gather;
    boot->close = close_pmix;
    free_value(value);
    return TELPHER_OK;
}

#endif
