/* SPDX-License-Identifier: Apache-2.0 */
/* Real spawns, with the MPI's own calls: not those that take workers from a pool. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/launch/launch_report.h"
#include "bench/launch/launch_time.h"

/** Notes of the spawned processes; the parents get the largest of each. */
enum { ENTRY_US, WRONG, NOTES };

/* One kernel by a spawn. @return false when the MPI cannot */
static bool
spawn_once(const char *program, const struct launch_options *o, MPI_Comm parents,
           double *ret_notes)
{
    char path[PATH_MAX], flag[] = LAUNCH_ONCE, *argv[] = {flag, NULL};
    double values[5] = {1, 2, 3, 4, 5}, nothing[NOTES] = {0};
    MPI_Comm inter;
    int rank;

    ((uint8_t *)&values[2])[6] ^= o->flip == LAUNCH_FLIP_SPAWNS ? 0x40 : 0;
    snprintf(path, sizeof(path), "%s", program);
    if (PMPI_Comm_spawn(path, argv, o->workers, MPI_INFO_NULL, 0, parents, &inter,
                        MPI_ERRCODES_IGNORE) != MPI_SUCCESS) {
        return false;
    }
    PMPI_Comm_rank(parents, &rank);
    PMPI_Bcast(values, 5, MPI_DOUBLE, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    PMPI_Reduce(nothing, ret_notes, NOTES, MPI_DOUBLE, MPI_MAX,
                rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    PMPI_Comm_disconnect(&inter);
    return true;
}

int
launch_spawned(void)
{
    double values[5], notes[NOTES], unused[NOTES];
    MPI_Comm parent;

    PMPI_Init(NULL, NULL);
    PMPI_Comm_get_parent(&parent);
    PMPI_Bcast(values, 5, MPI_DOUBLE, 0, parent);
    notes[ENTRY_US] = launch_now_us();
    notes[WRONG] = 0;
    for (int i = 0; i < 5; i++) {
        notes[WRONG] += values[i] != i + 1;
    }
    PMPI_Reduce(notes, unused, NOTES, MPI_DOUBLE, MPI_MAX, 0, parent);
    PMPI_Comm_disconnect(&parent);
    PMPI_Finalize();
    return 0;
}

bool
launch_spawns(const struct launch_options *o, MPI_Comm parents)
{
    char self[PATH_MAX] = "";
    int rank, size;

    PMPI_Comm_rank(parents, &rank);
    PMPI_Comm_size(parents, &size);
    PMPI_Comm_set_errhandler(parents, MPI_ERRORS_RETURN);
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) {
        return true;
    }
    for (int count = 1; count <= o->spawns; count *= 2) {
        double from, notes[NOTES] = {0}, end;

        PMPI_Barrier(parents);
        from = launch_now_us();
        for (int i = 0; i < count; i++) {
            if (!spawn_once(self, o, parents, notes)) {
                if (rank == 0) {
                    launch_report_no_spawns(o, "this MPI cannot spawn here");
                }
                return true;
            }
            if (notes[WRONG] != 0) {
                return false;
            }
        }
        end = launch_now_us();
        if (rank == 0) {
            launch_report_spawns(o, size, count, notes[ENTRY_US] - from, end - from);
        }
    }
    return true;
}
