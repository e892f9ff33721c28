/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the paper and those of its kind: MPI's manner around launch.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "offload/offload_int.h"
#include "offload/pmpi.h"

/* The launch of one kernel, from what the paper's calls are given. */
static bool
fill(telpher_launch *l, uint64_t sizes[TELPHER_KERNEL_ARGS_MAX], const char *name,
     int argcount, void **args, const int *argsizes)
{
    memset(l, 0, sizeof(*l));
    l->struct_size = sizeof(*l);
    l->name = name;
    l->args = args;
    l->sizes = sizes;
    if (name == NULL || argcount < 0 ||
        (argcount > 0 && (args == NULL || argsizes == NULL))) {
        return false;
    }
    l->argcount = (uint32_t)argcount;
    for (int i = 0; i < argcount && i < TELPHER_KERNEL_ARGS_MAX; i++) {
        if (argsizes[i] < 0) {
            return false;
        }
        sizes[i] = (uint64_t)argsizes[i];
    }
    return true;
}

static int
fail(MPI_Comm inter, telpher_status status, const telpher_error *err)
{
    struct tp_error why = {0};

    (void)tp_error_set(&why, status, "%s",
                       err->text[0] != '\0' ? err->text : telpher_status_text(status));
    return tp_mpi_error(inter, status, &why);
}

static int
call(uint32_t count, const telpher_launch *launches, int root, MPI_Comm comm,
     MPI_Comm inter, MPIX_Kernel_request *request)
{
    telpher_error err = {0};
    telpher_status status =
        telpher_offload_launch(count, launches, root, comm, inter, request, &err);

    return status == TELPHER_OK ? MPI_SUCCESS : fail(inter, status, &err);
}

static bool
is_root(int root, MPI_Comm comm)
{
    int rank = -1;

    PMPI_Comm_rank(tp_comm(comm), &rank);
    return rank == root;
}

int
MPIX_Kernel_icall(char *kernelname, int argcount, void *args[], int *argsizes, int root,
                  MPI_Comm comm, MPI_Comm intercomm, MPIX_Kernel_request *request)
{
    uint64_t sizes[TELPHER_KERNEL_ARGS_MAX];
    telpher_launch launch = {0};
    bool good = !is_root(root, comm) ||
                fill(&launch, sizes, kernelname, argcount, args, argsizes);

    return call(1, good ? &launch : NULL, root, comm, intercomm, request);
}

int
MPIX_Kernel_call(char *kernelname, int argcount, void *args[], int *argsizes, int root,
                 MPI_Comm comm, MPI_Comm intercomm)
{
    return MPIX_Kernel_icall(kernelname, argcount, args, argsizes, root, comm,
                             intercomm, NULL);
}

/* Batches of a few kernels need no memory from the heap. */
enum { FEW = 16 };
struct batch {
    telpher_launch few[FEW], *launches;
    uint64_t few_sizes[FEW][TELPHER_KERNEL_ARGS_MAX];
    uint64_t (*sizes)[TELPHER_KERNEL_ARGS_MAX];
};

static bool
make_batch(struct batch *b, int count)
{
    b->launches = b->few;
    b->sizes = b->few_sizes;
    if (count > FEW) {
        b->launches = tp_alloc_array((size_t)count, sizeof(*b->launches), "batch");
        b->sizes = tp_alloc_array((size_t)count, sizeof(*b->sizes), "batch");
    }
    return b->launches != NULL && b->sizes != NULL;
}

static void
free_batch(struct batch *b)
{
    if (b->launches != b->few) {
        tp_free(b->launches);
        tp_free(b->sizes);
    }
}

int
MPIX_Kernel_call_multiple(int count, char *array_of_kernelname[],
                          int *array_of_argcount, void **array_of_args[],
                          int *array_of_argsizes[], int root, MPI_Comm comm,
                          MPI_Comm intercomm)
{
    struct batch b;
    bool good = count >= 0;
    int rc;

    if (!is_root(root, comm)) {
        return call(0, NULL, root, comm, intercomm, NULL);
    }
    if (!make_batch(&b, TP_MAX(count, 0))) {
        free_batch(&b);
        (void)telpher_offload_launch(1, NULL, root, comm, intercomm, NULL, NULL);
        return fail(intercomm, TELPHER_ERR_NO_MEMORY, &(const telpher_error){0});
    }
    for (int i = 0; good && i < count; i++) {
        good = fill(&b.launches[i], b.sizes[i], array_of_kernelname[i],
                    array_of_argcount[i], array_of_args[i], array_of_argsizes[i]);
    }
    rc = call(good ? (uint32_t)count : 1, good ? b.launches : NULL, root, comm,
              intercomm, NULL);
    free_batch(&b);
    return rc;
}

static int
ended(telpher_status status)
{
    telpher_error err = {.code = status};

    snprintf(err.text, sizeof(err.text), "%s",
             status == TELPHER_ERR_REFUSED
                 ? "the root's call of a kernel was refused"
                 : "a kernel's workers were lost before it ended");
    return status == TELPHER_OK ? MPI_SUCCESS : fail(MPI_COMM_WORLD, status, &err);
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
    struct tp_idle idle = TP_IDLE_INIT;
    telpher_status result;

    while ((result = telpher_offload_test(request, status)) == TELPHER_IN_PROGRESS) {
        tp_idle_round(&idle);
    }
    return ended(result);
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
