#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: fortran.sh MPI MPIRUN MPIFORT MPICC BUILD
# Builds the example in Fortran, as its users do, and runs it with workers of the launch.
set -euo pipefail
mpi=$1 mpirun=$2 mpifort=$3 mpicc=$4 build=$5
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-opencl,-gl ASAN_OPTIONS=detect_leaks=0
# shellcheck disable=SC2206
flags=(${SANITIZE:+-fsanitize=$SANITIZE} "-L$build/lib" "-Wl,-rpath,$build/lib")
"$mpifort" -std=f2008 -Wall -Werror "$top/include/telpher/fortran/telpher_offload.f90" "$top/examples/offload_fortran/main.f90" \
    "${flags[@]}" "-ltelpher-offload-$mpi" -o program
"$mpicc" "-I$top/include" "-I$build/include" "$top/examples/offload_fortran/kernel.c" "${flags[@]}" \
    -Wl,--no-as-needed "-ltelpher-worker-$mpi" "-ltelpher-offload-$mpi" -o worker
launch=("$mpirun")
[ "$mpi" = mpich ] || launch+=(--oversubscribe)
out=$(timeout 100 "${launch[@]}" -np 2 ./program : -np 2 ./worker 2>&1) || { echo "$out"; exit 1; }
echo "$out"
grep -q "^Fortran: good" <<<"$out"
