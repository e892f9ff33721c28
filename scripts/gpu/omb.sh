#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/omb.sh BUILD-FOLDER [RESULTS-FOLDER [PART...]]
# On a machine with an NVIDIA GPU, its OpenCL driver and an MPI: OSU's patterns between two processes with buffers on
# the GPU, three ways side by side: copies to and from host memory around each call (mpi_host), libtelpher-mpi-device in
# front of the MPI (mpi), and the MPI's own device support where it says that it has some (cuda). Latency with one and
# with several buffers, bandwidths, five collectives, and validation of all patterns. Parts: check, latency, bandwidth,
# collectives, figures (all of them); figures alone draws figures 2, 3 and 5 for OpenCL, CUDA and managed memory. MPI=openmpi|mpich
# (the first that is there), KIND="opencl cuda", SIZES=4K:16M, FIGURES=2,3,5, MINUTES=6. Short, one kind:
# KIND=opencl FIGURES=2,3 MINUTES=1 SIZES=16K:16M scripts/gpu/omb.sh build/release RESULTS figures
# Part libraries, by name only: check -r nccl, two ranks on two GPUs, and -r nvshmem, on one GPU as well. NCCL refuses two
# ranks of one GPU. LD_LIBRARY_PATH says where libnccl.so.2 and libnvshmem_host.so.3 are.
# Part osu, by name only: host buffers beside the programs of OSU in $OSU/openmpi and $OSU/mpich, in turns for $MINUTES (8);
# it needs no GPU, but a machine that does nothing else.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu-omb}
shift $(($# < 2 ? $# : 2))
parts=${*:-check latency bandwidth collectives figures}
mkdir -p "$results"
results=$(cd "$results" && pwd) || exit
cd "$(dirname "$0")/../.." || exit
. scripts/gpu/step.sh
bench=$build/bin/telpher-bench
SIZES=${SIZES:-4K:16M}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for mpi in ${MPI:-openmpi mpich}; do
    command -v "mpirun.$mpi" >/dev/null && [ -e "$build/libexec/telpher/telpher-bench-$mpi.so" ] && break
done
device=$build/lib/libtelpher-mpi-device-$mpi.so
launch() { # RANKS PRELOADED-LIBRARY COMMAND…
    local ranks=$1 library=$2
    shift 2
    if [ "$mpi" = mpich ]; then
        mpirun.mpich -n "$ranks" ${library:+-genv LD_PRELOAD "$library"} "$@"
    else
        mpirun.openmpi --oversubscribe -n "$ranks" ${library:+-x LD_PRELOAD="$library"} "$@"
    fi
}
export -f launch # for timeout, which runs programs
export mpi
start=(bash -c 'launch "$@"' launch)

# takes_cuda: whether the MPI takes CUDA's device memory itself; asked once
takes_cuda() {
    if [ -z "${own_cuda:-}" ]; then
        own_cuda=yes
        ! timeout 60 "${start[@]}" 2 "" "$bench" latency -r mpi -d cuda -i 1 -x 0 -m 8:8 D D 2>&1 |
            grep -m 1 'does not take CUDA' || own_cuda=no
    fi
    [ "$own_cuda" = yes ]
}

# ways NAME RANKS COMMAND…: one after the other, each into a file of rows in JSON
ways() {
    local name=$1 ranks=$2 kind
    shift 2
    for kind in ${KIND:-opencl cuda}; do
        step "$name-$kind-host" 280 "${start[@]}" "$ranks" "" "$bench" "$@" -r mpi_host -d "$kind" -f json
        step "$name-$kind-device" 280 "${start[@]}" "$ranks" "$device" "$bench" "$@" -r mpi -d "$kind" -f json
    done
    ! takes_cuda || step "$name-cuda-own" 280 "${start[@]}" "$ranks" "" "$bench" "$@" -r mpi -d cuda -f json
}

part_check() {
    step check-host 280 "${start[@]}" 2 "" "$bench" check -r mpi_host -d opencl
    # what libtelpher-mpi-device refuses, it refuses by name: persistent requests, windows, neighbors
    for pattern in latency bw bibw bcast allreduce alltoall allgather gather scatter reduce ialltoall; do
        step "check-$pattern" 100 "${start[@]}" 2 "$device" "$bench" "$pattern" -r mpi -c -i 5 -x 1 -m 64:1M -d opencl \
            $(case $pattern in latency | bw | bibw) echo D D ;; esac)
    done
}
part_latency() {
    ways latency 2 latency -m "$SIZES" D D
    ways latency-multiple 2 latency -m "$SIZES" -b multiple -W 8 D D
}
part_bandwidth() {
    ways bw 2 bw -m "$SIZES" -W 16 -i 20 D D
    ways bibw 2 bibw -m "$SIZES" -W 16 -i 20 D D
}
part_collectives() {
    local ranks pattern
    for pattern in bcast allreduce alltoall allgather reduce; do
        for ranks in 2 4; do
            ways "$pattern-$ranks" "$ranks" "$pattern" -m 4K:4M -i 100
        done
    done
}
part_figures() {
    local kind
    for kind in ${KIND:-opencl cuda managed}; do
        step "figures-$kind" 560 "$bench" suite -d "$kind" --figures "${FIGURES:-2,3,5}" --mpi "$mpi" --rounds 3 --minutes "${MINUTES:-6}" --ranks 2,4 \
            -m "$SIZES" --json "$results/suite-$kind.json"
        "$bench" plot "$results/suite-$kind.json" -o "$results/suite-$kind.svg" || true
    done
}
part_libraries() {
    local runtime
    for runtime in nccl nvshmem; do
        if [ "$runtime" = nvshmem ] || [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
            step "check-$runtime" 120 "$build/bin/telpher" launch -n 2 -- "$bench" check -r "$runtime" -d cuda
        fi
    done
}
part_osu() {
    LINES_SHOWN=66 step "osu-$mpi" 580 "$bench" suite --osu "$OSU" --mpi "$mpi" --rounds 30 --minutes "${MINUTES:-8}" \
        -i "${ITERATIONS:-500}" -m "${SIZES_OSU:-1K:64K}" --timeout 30 --json "$results/osu-$mpi.json"
}

LINES_SHOWN=${LINES_SHOWN:-14}
for part in $parts; do
    "part_$part"
done
cat "$results"/*-host.txt "$results"/*-device.txt "$results"/*-own.txt 2>/dev/null | grep '^{' >"$results/omb.json"
steps_end
