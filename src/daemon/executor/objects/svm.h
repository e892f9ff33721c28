/* SPDX-License-Identifier: Apache-2.0 */
/* Shared virtual memory: memory that has the same address in the client. */
#ifndef TELPHER_DAEMON_EXECUTOR_OBJECTS_SVM_H
#define TELPHER_DAEMON_EXECUTOR_OBJECTS_SVM_H

#include "daemon/executor/objects/objects.h"
#include "wire/messages.h"

/**
 * An SVM allocation. It is freed when its object and all native buffers on it are, because
 * commands hold native buffers.
 */
struct tp_exec_svm {
    struct tp_refcount refs;
    uint8_t *address;
    uint64_t size; /**< [bytes] usable */
    uint64_t mapped; /**< [bytes] mapped by the executor; 0: the driver allocated it */
    const struct tp_opencl *cl; /**< of the driver's allocation */
    cl_context context; /**< likewise; the object holds it */
    void *pointer; /**< likewise: what clSVMAlloc returned */
};

/** NULL is fine. Any thread where the executor mapped the memory, else reader only. */
void tp_exec_svm_unref(struct tp_exec_svm *svm);
/** Makes the native buffer of @p mem over [origin, origin + size) of @p svm, and sets mem->svm.
 *  @return 0 or the CL error */
int32_t tp_exec_svm_buffer(struct tp_exec_mem *mem, struct tp_exec_svm *svm,
                           uint64_t origin);
/** Sets a kernel argument to an SVM pointer, or to NULL. @p ret_object gives the object that
 *  the pointer is in, or NULL. @return 0 or the CL error */
int32_t tp_exec_svm_set_arg(struct tp_exec *x, cl_kernel kernel, uint32_t index,
                            const struct tp_wire_bytes *value,
                            struct tp_exec_object **ret_object);

#endif
