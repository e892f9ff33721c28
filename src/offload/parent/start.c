/* SPDX-License-Identifier: Apache-2.0 */
/* Starts workers: spawned, or taken from the launch. */
#include <string.h>

#include "base/params.h"
#include "base/trace/log.h"
#include "offload/offload_int.h"
#include "offload/pmpi.h"

int
telpher_offload_mode_of(MPI_Comm intercomm)
{
    struct tp_offload_group *g;
    int mode;

    tp_mutex_lock(&tp_offload_lock);
    g = tp_offload_group_find(intercomm);
    mode = g != NULL ? g->mode : TELPHER_OFFLOAD_AUTO;
    tp_mutex_unlock(&tp_offload_lock);
    return mode;
}

const char *
telpher_offload_mode_name(int mode)
{
    return mode == TELPHER_OFFLOAD_SPAWN   ? "spawn"
           : mode == TELPHER_OFFLOAD_SPLIT ? "split"
                                           : "auto";
}

/* Split where the launch has workers, unless something else was said. */
static int
choose_mode(const telpher_offload_params *p)
{
    int mode = p->mode != TELPHER_OFFLOAD_AUTO ? p->mode : tp_offload_settings()->mode;

    if (mode == TELPHER_OFFLOAD_AUTO) {
        mode = tp_offload_world.base != MPI_COMM_NULL && tp_offload_pool_idle() > 0
                   ? TELPHER_OFFLOAD_SPLIT
                   : TELPHER_OFFLOAD_SPAWN;
    }
    return mode;
}

static telpher_status
get_workers(const telpher_offload_params *p, int root, MPI_Comm comm,
            MPI_Comm *ret_inter, struct tp_error *err)
{
    if (choose_mode(p) == TELPHER_OFFLOAD_SPAWN) {
        return tp_offload_spawn(p, root, comm, ret_inter, err);
    }
    if (tp_offload_world.base == MPI_COMM_NULL) {
        return tp_error_set(
            err, TELPHER_ERR_UNSUPPORTED,
            "split: this launch has no workers: mpirun -np P ./program : "
            "-np C telpher-worker");
    }
    return tp_offload_pool_take(p->workers > 0 ? p->workers
                                               : TP_MAX(tp_offload_pool_idle(), 1),
                                root, comm, ret_inter, err);
}

static telpher_status
check_start(const telpher_offload_params *p, int root, MPI_Comm comm,
            struct tp_error *err)
{
    int size;

    PMPI_Comm_size(comm, &size);
    if (root < 0 || root >= size) {
        return tp_error_set(err, TELPHER_ERR_INVALID,
                            "root %d is not a parent: there are %d, counted from 0",
                            root, size);
    }
    if (p->mode < TELPHER_OFFLOAD_AUTO || p->mode > TELPHER_OFFLOAD_SPLIT) {
        return tp_error_set(
            err, TELPHER_ERR_INVALID,
            "mode %d is none of TELPHER_OFFLOAD_AUTO, _SPAWN and _SPLIT", p->mode);
    }
    return TELPHER_OK;
}

static telpher_status
greet(MPI_Comm inter, int root, MPI_Comm comm, struct tp_error *err)
{
    if (tp_offload_group_lock(inter, root, comm, err) == NULL) {
        return err->code;
    }
    tp_mutex_unlock(&tp_offload_lock);
    return TELPHER_OK;
}

telpher_status
telpher_offload_start(const telpher_offload_params *params, int root, MPI_Comm comm,
                      MPI_Comm *ret_intercomm, telpher_error *err)
{
    telpher_offload_params own = TELPHER_OFFLOAD_PARAMS_INIT;
    struct tp_error why = {0};
    MPI_Comm inter = MPI_COMM_NULL;

    if (tp_params_copy(&own, sizeof(own), params, sizeof(own),
                       "TELPHER_OFFLOAD_PARAMS_INIT", &why) != TELPHER_OK ||
        check_start(&own, root, tp_offload_comm(comm), &why) != TELPHER_OK ||
        get_workers(&own, root, tp_offload_comm(comm), &inter, &why) != TELPHER_OK ||
        greet(inter, root, comm, &why) != TELPHER_OK) {
        return tp_offload_public_error(err, &why);
    }
    tp_info("offload", "workers by %s",
            telpher_offload_mode_name(telpher_offload_mode_of(inter)));
    *ret_intercomm = inter;
    return TELPHER_OK;
}
