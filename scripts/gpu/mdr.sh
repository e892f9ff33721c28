#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/mdr.sh BUILD-FOLDER [RESULTS-FOLDER]
# On a machine with an NVIDIA GPU: message-driven objects with device memory. Entry methods beside messages and channels;
# Jacobi3D by objects in host, CUDA and OpenCL memory, by messages and channels, direct and staged, 1 to 8 objects a process,
# each compared with a loop; objects that move with device memory. SIZES="130 258" are the edges of the cube, KINDS="host
# sim" runs it without a GPU.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
build=$(cd "${1:?BUILD-FOLDER}" && pwd)
results=${2:-gpu-mdr}
mkdir -p "$results"
results=$(cd "$results" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/scripts/gpu/step.sh"

LINES_SHOWN=5
step latency 120 "$build/bin/telpher" launch -n 2 -- "$build/bin/telpher-bench" mdr
LINES_SHOWN=1
for size in ${SIZES:-130 258}; do
    for kind in ${KINDS:-host cuda opencl}; do
        for objects in 1 2 4 8; do
            for way in "" -c -s "-c -s"; do
                # shellcheck disable=SC2086
                step "jacobi-$kind-$objects${way// /}-$size" 120 "$build/bin/telpher" launch -n 2 -- \
                    "$build/examples/08_jacobi_objects" $way -k $kind -o $objects "$size" 50
            done
        done
    done
done
LINES_SHOWN=3
step moves 600 "$build/tests/mdr/mdr_moves" shm "${MOVES:-10000}"
steps_end
