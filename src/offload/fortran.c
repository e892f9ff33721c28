/* SPDX-License-Identifier: Apache-2.0 */
/* Bindings for include/telpher/fortran/telpher_offload.f90: the public calls, with
 * MPI's integer handles. */
#include <string.h>

#include "base/compiler.h"
#include "offload/offload_int.h"
#include "offload/pmpi.h"

/* Only Fortran calls these; its module declares them. */
TELPHER_CALL int telpher_f_init(void);
TELPHER_CALL int telpher_f_finalize(void);
TELPHER_CALL MPI_Fint telpher_f_world(void);
TELPHER_CALL int telpher_f_start(const char *program, int workers, int root,
                                 MPI_Fint comm, MPI_Fint *ret_inter, char *ret_text,
                                 int text_size);
TELPHER_CALL int telpher_f_icall(char *name, int argcount, void *args[], int *argsizes,
                                 int root, MPI_Fint comm, MPI_Fint inter,
                                 MPIX_Kernel_request *request);
TELPHER_CALL int telpher_f_call_multiple(int count, char *names[], int *argcounts,
                                         void **args[], int *argsizes[], int root,
                                         MPI_Fint comm, MPI_Fint inter);
TELPHER_CALL int telpher_f_after(int count, const MPIX_Kernel_request requests[],
                                 MPI_Fint comm, MPI_Fint inter);

/* In some MPIs, Fortran's MPI_Init() does not call the C function that this library
 * wraps. */
int
telpher_f_init(void)
{
    return MPI_Init(NULL, NULL);
}

int
telpher_f_finalize(void)
{
    return MPI_Finalize();
}

MPI_Fint
telpher_f_world(void)
{
    return MPI_Comm_c2f(tp_offload_world.world);
}

int
telpher_f_start(const char *program, int workers, int root, MPI_Fint comm,
                MPI_Fint *ret_inter, char *ret_text, int text_size)
{
    telpher_offload_params params = TELPHER_OFFLOAD_PARAMS_INIT;
    telpher_error err = {TELPHER_OK, ""};
    MPI_Comm inter = MPI_COMM_NULL;
    telpher_status status;

    params.program = program[0] != '\0' ? program : NULL;
    params.workers = workers;
    status = telpher_offload_start(&params, root, MPI_Comm_f2c(comm), &inter, &err);
    *ret_inter = MPI_Comm_c2f(inter);
    memset(ret_text, ' ', (size_t)text_size);
    memcpy(ret_text, err.text, TP_MIN(strlen(err.text), (size_t)text_size));
    return status;
}

int
telpher_f_icall(char *name, int argcount, void *args[], int *argsizes, int root,
                MPI_Fint comm, MPI_Fint inter, MPIX_Kernel_request *request)
{
    return MPIX_Kernel_icall(name, argcount, args, argsizes, root, MPI_Comm_f2c(comm),
                             MPI_Comm_f2c(inter), request);
}

int
telpher_f_call_multiple(int count, char *names[], int *argcounts, void **args[],
                        int *argsizes[], int root, MPI_Fint comm, MPI_Fint inter)
{
    return MPIX_Kernel_call_multiple(count, names, argcounts, args, argsizes, root,
                                     MPI_Comm_f2c(comm), MPI_Comm_f2c(inter));
}

int
telpher_f_after(int count, const MPIX_Kernel_request requests[], MPI_Fint comm,
                MPI_Fint inter)
{
    return MPIX_Kernel_after(count, requests, MPI_Comm_f2c(comm), MPI_Comm_f2c(inter));
}
