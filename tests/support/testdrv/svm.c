/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coarse-grained shared virtual memory of the test driver, as of a driver that chooses the
 * addresses: TESTDRV_SVM=1 anywhere, else from that address on. A pointer argument becomes a
 * buffer over the rest of its allocation.
 */
#include "td.h"

#include <stdlib.h>
#include <sys/mman.h>

struct allocation {
    struct allocation *next;
    char *base;
    size_t size;
};

static struct allocation *allocations; /* td_mutex */
static cl_ulong used; /* [bytes] of addresses from script->svm on; td_mutex */

/* Maps memory: each time at another address. */
static void *
map(size_t size)
{
    cl_ulong from = td_script()->svm;
    void *wanted = NULL;

    if (from > 1) {
        pthread_mutex_lock(&td_mutex);
        wanted = (void *)(uintptr_t)(from + used);
        used += (size + 0xfffff) & ~(size_t)0xfffff;
        pthread_mutex_unlock(&td_mutex);
    }
    return mmap(wanted, size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS |
                    (wanted != NULL ? MAP_FIXED_NOREPLACE : 0),
                -1, 0);
}

CL_API_ENTRY void *CL_API_CALL
td_clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size,
              cl_uint alignment)
{
    cl_int err = td_enter("clSVMAlloc", "context=%u flags=%#llx size=%zu align=%u",
                          td_id(context), (unsigned long long)flags, size, alignment);
    struct allocation *a;
    void *base;

    if (err != CL_SUCCESS || !td_is(context, TD_CONTEXT) || size == 0 ||
        size > TD_ALLOC_MAX_BYTES) {
        return NULL;
    }
    base = map(size);
    a = malloc(sizeof(*a));
    if (base == MAP_FAILED || a == NULL) {
        free(a);
        return NULL;
    }
    pthread_mutex_lock(&td_mutex);
    *a = (struct allocation){allocations, base, size};
    allocations = a;
    pthread_mutex_unlock(&td_mutex);
    return base;
}

CL_API_ENTRY void CL_API_CALL
td_clSVMFree(cl_context context, void *ptr)
{
    struct allocation **link = &allocations, *a;

    (void)td_enter("clSVMFree", "context=%u", td_id(context));
    pthread_mutex_lock(&td_mutex);
    while (*link != NULL && (*link)->base != ptr) {
        link = &(*link)->next;
    }
    a = *link;
    if (a != NULL) {
        *link = a->next;
    }
    pthread_mutex_unlock(&td_mutex);
    if (a != NULL) {
        munmap(a->base, a->size);
    }
    free(a);
}

/* @return [bytes] from a pointer to the end of its allocation; 0: it is in none. */
static size_t
rest_of(const char *ptr)
{
    size_t rest = 0;

    pthread_mutex_lock(&td_mutex);
    for (const struct allocation *a = allocations; a != NULL; a = a->next) {
        if (ptr >= a->base && ptr < a->base + a->size) {
            rest = (size_t)(a->base + a->size - ptr);
        }
    }
    pthread_mutex_unlock(&td_mutex);
    return rest;
}

CL_API_ENTRY cl_int CL_API_CALL
td_clSetKernelArgSVMPointer(cl_kernel k, cl_uint index, const void *ptr)
{
    size_t size = rest_of(ptr);
    cl_mem mem = NULL;
    cl_int err =
        td_enter("clSetKernelArgSVMPointer", "kernel=%u index=%u", td_id(k), index);

    if (err == CL_SUCCESS && !td_is(k, TD_KERNEL)) {
        err = CL_INVALID_KERNEL;
    }
    if (err == CL_SUCCESS && ptr != NULL && size == 0) {
        err = CL_INVALID_ARG_VALUE;
    }
    if (err == CL_SUCCESS && ptr != NULL) {
        mem = td_clCreateBuffer(k->program->context, CL_MEM_USE_HOST_PTR, size,
                                (void *)(uintptr_t)ptr, &err);
    }
    if (err == CL_SUCCESS) {
        err = td_clSetKernelArg(k, index, sizeof(cl_mem), &mem);
    }
    if (mem != NULL) {
        (void)td_clReleaseMemObject(mem);
    }
    return err;
}
