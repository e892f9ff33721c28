#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: all.sh BUILD MPI MPIRUN PROGRAM
# Runs all.c, PROGRAM, with a private server and a worker of the same launch.
set -euo pipefail
build=$1 mpi=$2 mpirun=$3 program=$4
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-opencl,-gl ASAN_OPTIONS=detect_leaks=0
options=()
[ "$mpi" = mpich ] || options=(--oversubscribe)
out=$(timeout 120 "$build/bin/telpher" run -- "$program" alone 2>&1 &&
    timeout 120 "$mpirun" "${options[@]}" -np 1 "$program" parent : -np 1 "$program" worker 2>&1) || {
    printf '%s\n' "$out"
    exit 1
}
printf '%s\n' "$out"
grep -q "alone: good" <<<"$out" && grep -q "parent: good" <<<"$out"
