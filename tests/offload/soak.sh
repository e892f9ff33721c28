#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: soak.sh BUILD-FOLDER [CALLS]
# 100,000 calls of all kinds, 2 parents and 2 workers, under each MPI: what both sides use stays as it was.
set -uo pipefail
build=$1 calls=${2:-100000} bad=0
here=$(dirname "$0")
for mpi in openmpi mpich; do
    program=$build/tests/offload/offload_queue_$mpi
    mpirun=$(command -v "mpirun.$mpi") || mpirun=
    if [ ! -x "$program" ] || [ -z "$mpirun" ]; then
        echo "$mpi: skipped, not built or no mpirun.$mpi"
        continue
    fi
    timeout -k 10 "${SOAK_SECONDS:-900}" "$here/run.sh" "$mpi" "$mpirun" split 2 2 "$program" \
        "$build/tests/offload/offload_worker_$mpi" "$calls" || { echo "$mpi: exit status $?"; bad=1; }
done
exit $bad
