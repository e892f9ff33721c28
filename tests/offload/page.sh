#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: page.sh MPI MPIRUN MPICC BUILD
# The programs of docs/guide/offload.md, built as it says: the plain one and the offloaded one have the same result.
set -euo pipefail
mpi=$1 mpirun=$2 mpicc=$3 build=$4
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$top"/examples/offload_first/*.c .
# shellcheck disable=SC2206
flags=(${SANITIZE:+-fsanitize=$SANITIZE} -Wall -Wextra -Werror "-I$top/include" "-I$build/include" "-L$build/lib"
    "-Wl,-rpath,$build/lib")
"$mpicc" "${flags[@]}" plain.c -o plain
"$mpicc" "${flags[@]}" kernels.c -Wl,--no-as-needed "-ltelpher-worker-$mpi" "-ltelpher-offload-$mpi" -o worker
"$mpicc" "${flags[@]}" program.c "-ltelpher-offload-$mpi" -o program
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-opencl,-gl ASAN_OPTIONS=detect_leaks=0
launch=("$mpirun")
[ "$mpi" = mpich ] || launch+=(--oversubscribe)
plain=$(timeout 60 "${launch[@]}" -np 4 ./plain 2>&1)
offloaded=$(timeout 60 "${launch[@]}" -np 1 ./program : -np 4 ./worker 2>&1)
echo "plain: $plain, offloaded: $offloaded"
[ "$plain" = 359700 ] && [ "$offloaded" = 359700 ]
