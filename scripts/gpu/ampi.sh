#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/ampi.sh BUILD-FOLDER [RESULTS-FOLDER]
# On a machine with an NVIDIA GPU: device memory in MPI calls. Adaptive MPI takes CUDA's and OpenCL's memory in all forms
# of calls, on processes and virtual ranks; libtelpher-mpi-device in front of the MPIs that the build found takes OpenCL's
# shared virtual memory and buffers.
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu-ampi}
mkdir -p "$results"
results=$(cd "$results" && pwd) || exit
cd "$(dirname "$0")/../.." || exit
. scripts/gpu/step.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launch=$build/bin/telpher
for kind in cuda opencl sim; do
    step "processes-$kind" 60 "$launch" launch -n 3 -- "$build/tests/ampi/ampi_device" $kind
    step "virtual-$kind" 60 "$launch" launch -n 2 -- "$build/tests/ampi/ampi_device" $kind +vp 5
done
for mpi in openmpi mpich; do
    program=$build/tests/mpidev/mpidev_calls_$mpi
    [ -x "$program" ] || continue
    for kind in svm buffer; do
        step "mpi-device-$mpi-$kind" 100 "mpirun.$mpi" -n 2 "$program" $kind
    done
done
steps_end
