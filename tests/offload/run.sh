#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh MPI MPIRUN split|spawn PARENTS WORKERS PROGRAM WORKER [ARGUMENT...]
# Runs PROGRAM WORKER WORKERS ARGUMENT... on PARENTS processes; split: with the workers in the same launch.
# A spawn that hangs, as Open MPI's sometimes does, is tried again; the library's watchdog says when.
set -uo pipefail
mpi=$1 mpirun=$2 mode=$3 parents=$4 workers=$5 program=$6 worker=$7
shift 7
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-opencl,-gl
# Both MPIs leak; what is kept after it was freed is no growth; no memory is an error of the caller's.
export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=1:allocator_may_return_null=1
export TELPHER_OFFLOAD_TIMEOUT=${TELPHER_OFFLOAD_TIMEOUT:-20s}
options=(-np "$parents")
[ "$mpi" = mpich ] || options=(--oversubscribe --mca btl_base_warn_component_unused 0 "${options[@]}")

launch() {
    if [ "$mode" = split ]; then
        "$mpirun" "${options[@]}" "$program" "$worker" "$workers" "$@" : -np "$workers" "$worker"
    else
        "$mpirun" "${options[@]}" "$program" "$worker" "$workers" "$@"
    fi
}

for try in $(seq "${TRIES:-3}"); do
    out=$(launch "$@" 2>&1)
    rc=$?
    printf '%s\n' "$out"
    [ $rc -ne 0 ] && [ "$mode" = spawn ] && grep -q 'no end in .*MPI_Comm_spawn' <<<"$out" || exit $rc
    echo "try $try: the spawn hung"
done
exit $rc
