/* SPDX-License-Identifier: Apache-2.0 */
/* Real spawns, with the MPI's own calls: not those that take workers from a pool. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/launch/launch_report.h"
#include "bench/launch/launch_time.h"

/* One kernel by a spawn. @return false when the MPI cannot */
static bool
spawn_once(const char *program, int workers, MPI_Comm parents, double *ret_entry)
{
    char path[PATH_MAX], flag[] = LAUNCH_ONCE, *argv[] = {flag, NULL};
    double values[5] = {1, 2, 3, 4, 5}, nothing = 0;
    MPI_Comm inter;
    int rank;

    snprintf(path, sizeof(path), "%s", program);
    if (PMPI_Comm_spawn(path, argv, workers, MPI_INFO_NULL, 0, parents, &inter,
                        MPI_ERRCODES_IGNORE) != MPI_SUCCESS) {
        return false;
    }
    PMPI_Comm_rank(parents, &rank);
    PMPI_Bcast(values, 5, MPI_DOUBLE, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    PMPI_Reduce(&nothing, ret_entry, 1, MPI_DOUBLE, MPI_MAX,
                rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    PMPI_Comm_disconnect(&inter);
    return true;
}

int
launch_spawned(void)
{
    double values[5], entry, unused;
    MPI_Comm parent;

    PMPI_Init(NULL, NULL);
    PMPI_Comm_get_parent(&parent);
    PMPI_Bcast(values, 5, MPI_DOUBLE, 0, parent);
    entry = launch_now_us();
    PMPI_Reduce(&entry, &unused, 1, MPI_DOUBLE, MPI_MAX, 0, parent);
    PMPI_Comm_disconnect(&parent);
    PMPI_Finalize();
    return 0;
}

void
launch_spawns(const struct launch_options *o, MPI_Comm parents)
{
    char self[PATH_MAX] = "";
    int rank, size;

    PMPI_Comm_rank(parents, &rank);
    PMPI_Comm_size(parents, &size);
    PMPI_Comm_set_errhandler(parents, MPI_ERRORS_RETURN);
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) {
        return;
    }
    for (int count = 1; count <= o->spawns; count *= 2) {
        double from, entry = 0, end;

        PMPI_Barrier(parents);
        from = launch_now_us();
        for (int i = 0; i < count; i++) {
            if (!spawn_once(self, o->workers, parents, &entry)) {
                if (rank == 0) {
                    launch_report_no_spawns(o, "this MPI cannot spawn here");
                }
                return;
            }
        }
        end = launch_now_us();
        if (rank == 0) {
            launch_report_spawns(o, size, count, entry - from, end - from);
        }
    }
}
