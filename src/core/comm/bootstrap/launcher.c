/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises launchers by the environment variables that they set. */
#include "core/comm/bootstrap/launcher.h"

#include <stdlib.h>

#include "base/config/settings.h"
#include "core/comm/bootstrap/pmi.h"
#include "core/comm/bootstrap/pmix.h"

/** A launcher that sets the number of ranks, or of the ranks on this machine. */
struct launcher {
    const char *size, *rank;
    const char *name;
};

static const struct launcher launchers[] = {
    {"PMI_SIZE", "PMI_RANK", "MPICH's mpiexec or another launcher with PMI"},
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MVAPICH's mpirun"},
    {"MPI_LOCALNRANKS", "MPI_LOCALRANKID", "mpiexec"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"},
};

static const char *
text_of(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? text : "";
}

/* The launcher that started several processes, or NULL. */
static const struct launcher *
find_launcher(void)
{
    for (size_t i = 0; i < TP_ARRAY_LEN(launchers); i++) {
        if (atol(text_of(launchers[i].size)) > 1 &&
            *text_of(launchers[i].rank) != '\0') {
            return &launchers[i];
        }
    }
    return NULL;
}

/* TELPHER_SIZE=1 without a bootstrap server: the user wants jobs of one rank. */
static bool
wants_one_rank(void)
{
    const char *size = tp_settings_get("SIZE");

    return size != NULL && strcmp(size, "1") == 0;
}

int
telpher_is_launched(void)
{
    const char *root = tp_settings_get("ROOT");

    if (root != NULL && root[0] != '\0') {
        return 1;
    }
    return !wants_one_rank() && (tp_pmix_is_there() || find_launcher() != NULL);
}

static telpher_status
cannot_join(const struct launcher *l, const char *why, struct tp_error *err)
{
    return tp_error_set(err, TELPHER_ERR_UNSUPPORTED,
                        "%s started this process (%s=%.12s), %s: use `telpher launch`, "
                        "PMIx (srun --mpi=pmix) or telpher_context_create_mpi(); "
                        "TELPHER_SIZE=1 makes each process a job",
                        l->name, l->size, text_of(l->size), why);
}

telpher_status
tp_launcher_open(struct tp_bootstrap *boot, struct tp_error *err)
{
    const struct launcher *l = find_launcher();

    if (wants_one_rank()) {
        return TELPHER_OK;
    }
    if (tp_pmix_is_there()) {
        return tp_pmix_open(boot, err);
    }
    if (l == NULL) {
        return TELPHER_OK;
    }
    if (!tp_pmi_is_there()) {
        return cannot_join(l, "but serves neither PMIx nor PMI-1", err);
    }
    boot->size = (uint32_t)atol(text_of("PMI_SIZE"));
    boot->rank = (uint32_t)atol(text_of("PMI_RANK"));
    return boot->rank < boot->size
               ? tp_pmi_open(boot, err)
               : cannot_join(l, "but PMI_RANK is no rank of it", err);
}
