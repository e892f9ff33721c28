/* SPDX-License-Identifier: Apache-2.0 */
/* The MPIX calls: MPI calling conventions and error handlers around launch.c. */
#include "offload/offload_int.h"

/* Arguments of one or more kernels as the MPIX calls take them. They are significant
 * at the root only. */
struct paper_calls {
    struct tp_offload_calls calls;
    bool is_negative; /* number of kernels */
    char *const *names;
    const int *argcounts;
    void ***args;
    int *const *argsizes;
};

static const telpher_launch *
get(const struct tp_offload_calls *calls, uint32_t i, telpher_launch *room,
    uint64_t sizes[TELPHER_KERNEL_ARGS_MAX])
{
    const struct paper_calls *p = (const struct paper_calls *)calls;
    const int *given;
    int argcount, signs = 0;

    if (p->is_negative || p->names == NULL || p->argcounts == NULL) {
        return NULL;
    }
    argcount = p->argcounts[i];
    if (argcount < 0 ||
        (argcount > 0 && (p->args == NULL || p->argsizes == NULL ||
                          p->args[i] == NULL || p->argsizes[i] == NULL))) {
        return NULL;
    }
    given = argcount > 0 ? p->argsizes[i] : NULL;
    for (int k = 0; k < argcount && k < TELPHER_KERNEL_ARGS_MAX; k++) {
        signs |= given[k];
        sizes[k] = (uint64_t)given[k];
    }
    if (signs < 0) {
        return NULL;
    }
    *room = (telpher_launch){sizeof(*room), (uint32_t)argcount,
                             p->names[i],   argcount > 0 ? p->args[i] : NULL,
                             sizes,         NULL};
    return room;
}

static int
call(const struct tp_offload_calls *calls, int root, MPI_Comm comm, MPI_Comm inter,
     MPIX_Kernel_request *request)
{
    struct tp_error err;
    telpher_status status;

    tp_error_init(&err);
    status = tp_offload_launch(calls, root, comm, inter, request, &err);
    return status == TELPHER_OK ? MPI_SUCCESS
                                : tp_offload_mpi_error(inter, status, &err);
}

int
MPIX_Kernel_icall(char *kernelname, int argcount, void *args[], int *argsizes, int root,
                  MPI_Comm comm, MPI_Comm intercomm, MPIX_Kernel_request *request)
{
    const struct paper_calls one = {{1, get},  false, &kernelname,
                                    &argcount, &args, &argsizes};

    return call(&one.calls, root, comm, intercomm, request);
}

int
MPIX_Kernel_call(char *kernelname, int argcount, void *args[], int *argsizes, int root,
                 MPI_Comm comm, MPI_Comm intercomm)
{
    return MPIX_Kernel_icall(kernelname, argcount, args, argsizes, root, comm,
                             intercomm, NULL);
}

int
MPIX_Kernel_call_multiple(int count, char *array_of_kernelname[],
                          int *array_of_argcount, void **array_of_args[],
                          int *array_of_argsizes[], int root, MPI_Comm comm,
                          MPI_Comm intercomm)
{
    const struct paper_calls all = {{count < 0 ? 1 : (uint32_t)count, get},
                                    count < 0,
                                    array_of_kernelname,
                                    array_of_argcount,
                                    array_of_args,
                                    array_of_argsizes};

    return call(&all.calls, root, comm, intercomm, NULL);
}

int
MPIX_Kernel_after(int count, const MPIX_Kernel_request requests[], MPI_Comm comm,
                  MPI_Comm intercomm)
{
    struct tp_error err = {0};
    struct tp_offload_group *g = tp_offload_group_lock(intercomm, 0, comm, &err);
    telpher_status status;

    if (g == NULL) {
        return tp_offload_mpi_error(intercomm, err.code, &err);
    }
    status = g->lost ? g->status
             : count > 0 && requests == NULL
                 ? TELPHER_ERR_INVALID
                 : tp_offload_group_check_comm(g, comm, &err);
    for (int i = 0; i < count && status == TELPHER_OK; i++) {
        if (requests[i] != MPIX_KERNEL_REQUEST_NULL) {
            status = tp_offload_send_after(g, requests[i]);
        }
    }
    tp_mutex_unlock(&tp_offload_lock);
    if (status == TELPHER_OK) {
        return MPI_SUCCESS;
    }
    if (err.code == TELPHER_OK) {
        (void)tp_error_set(&err, status,
                           "the workers cannot be told to wait for %d requests: %s",
                           count, telpher_status_text(status));
    }
    return tp_offload_mpi_error(intercomm, status, &err);
}

static int
ended(telpher_status status)
{
    struct tp_error err;

    if (status == TELPHER_OK) {
        return MPI_SUCCESS;
    }
    (void)tp_error_set(&err, status, "%s",
                       status == TELPHER_ERR_REFUSED
                           ? "the root's kernel call was rejected"
                           : "a kernel's workers were lost before it ended");
    return tp_offload_mpi_error(tp_offload_world.world, status,
                                &err); /* the workers' communicator may be gone */
}

int
MPIX_Kernel_test(MPIX_Kernel_request *request, int *flag, MPIX_Kernel_status *status)
{
    telpher_status result = telpher_offload_test(request, status);

    *flag = result != TELPHER_IN_PROGRESS;
    return *flag ? ended(result) : MPI_SUCCESS;
}

int
MPIX_Kernel_wait(MPIX_Kernel_request *request, MPIX_Kernel_status *status)
{
    return ended(tp_offload_request_await(request, status));
}

int
MPIX_Kernel_waitall(int count, MPIX_Kernel_request requests[],
                    MPIX_Kernel_status statuses[])
{
    int first = MPI_SUCCESS;

    for (int i = 0; i < count; i++) {
        int rc = MPIX_Kernel_wait(&requests[i], statuses != NULL ? &statuses[i] : NULL);

        first = first == MPI_SUCCESS ? rc : first;
    }
    return first;
}
