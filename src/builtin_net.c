/* SPDX-License-Identifier: Apache-2.0 */
/* The one file that names every transport of messages, in the order they are tried. */
#include "transport/loop/net.h"
#include "waist/net.h"

#ifdef TP_BUILTIN_SHM_NET
#include "transport/shm/net.h"
#endif
#ifdef TP_BUILTIN_TCP_NET
#include "transport/tcp/net.h"
#endif
#ifdef TP_BUILTIN_MPI_NET
#include "transport/mpi/net.h"
#endif
#ifdef TP_BUILTIN_UCX_NET
#include "transport/ucx/net.h"
#endif
#ifdef TP_BUILTIN_UCX_LOADER
#include "transport/ucx/load.h"
#endif

const struct tp_net_ops *const tp_builtin_nets[] = {
    &tp_loop_net,
#ifdef TP_BUILTIN_SHM_NET
    &tp_shm_net,
#endif
#ifdef TP_BUILTIN_TCP_NET
    &tp_tcp_net,
#endif
#ifdef TP_BUILTIN_MPI_NET
    &tp_mpi_net,
#endif
#ifdef TP_BUILTIN_UCX_NET
    &tp_ucx_net,
#endif
#ifdef TP_BUILTIN_UCX_LOADER
    &tp_ucx_loader,
#endif
    NULL,
};
