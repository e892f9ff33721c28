#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/rma.sh BUILD-FOLDER [RESULTS-FOLDER] [PART…]
# Kernels whose ranks communicate, on NVIDIA GPUs, in parts of one to five minutes, all of them unless named:
#   build    with nvcc, into BUILD-FOLDER/gpu-rma; the rest runs what lies there, also on a machine without a compiler
#   kernels  the kernels of the tests, 1 to 264 ranks of 1 to 256 lanes, refused calls, wait tables, and millions
#            of messages whose data must be there: on one GPU, on devices of it that are peers, and on all GPUs there are
#   tables   latencies and bandwidths beside dCUDA's (tables 5.1, 5.2, 5.4), on one GPU and between two; NVSHMEM's where NVSHMEM=FOLDER has it
#   groups   what calls of a group cost as it grows, 33 to 528 ranks of 128 and of 32 lanes, on one GPU and on two
#   studies  the case studies against their serial programs, and dCUDA's reduction
#   scaling  their times on 1, 2 and 4 devices, as many GPUs as there are, beside the best of two models (streams, a CUDA
#            graph, NCCL where it is): medians of SAMPLES (20), with as much work on each device (9 devices: a quarter of it)
#   thesis   the same with the sizes of dCUDA's thesis
#   processes  kernels whose ranks lie in several processes: two on one GPU, and one a GPU, by memory that they open and by
#            their proxies over shared memory, TCP, UCX and MPI, as far as they are here (an mpicxx when it is built, mpirun;
#            LD_LIBRARY_PATH may name another UCX); a process that is killed; latencies beside a flag's to the host and back
#   memory   the same few under compute-sanitizer, where it is installed
# Needs lib/libtelpher-rma and lib/libtelpher of the build, bin/telpher for several processes, and the driver. ARCH=sm_90 says what is built for.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
build=$(cd "${1:?usage: scripts/gpu/rma.sh BUILD-FOLDER [RESULTS-FOLDER] [PART…]}" && pwd) || exit 2
programs=$build/gpu-rma
results=${2:-$programs/results}
source=$(cd "$(dirname "$0")/../.." && pwd)
parts=("${@:3}")
[ ${#parts[@]} -gt 0 ] || parts=(build kernels tables groups studies scaling thesis processes memory)
mkdir -p "$programs" "$results"
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TELPHER_RMA_TIMEOUT=${TELPHER_RMA_TIMEOUT:-5s}
LINES_SHOWN=${LINES_SHOWN:-4}
. "$source/scripts/gpu/step.sh"

# start COMMAND…: as many at a time as there are processors; done_all ends the script when one failed
start() {
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || exit; done
    "$@" &
}
done_all() { while [ -n "$(jobs -p)" ]; do wait -n || exit; done; }

compile() { # PROGRAM SOURCE…
    local program=$1
    shift
    start nvcc -O2 -arch="${ARCH:-sm_90}" -std=c++20 --fmad=false -x cu -cudart static -I"$source/src" -I"$source/include" \
        -I"$source/include/telpher/rma" -I"$source/examples/rma" "$@" -L"$build/lib" -ltelpher-rma -o "$programs/$program"
}

# So many of a lane's that as many ranks run at once as the times below ask for.
registers() { # STUDY
    case $1 in
        stencil | stencil_thesis) echo "-maxrregcount=128" ;;
        particles_thesis) echo "-maxrregcount=64" ;;
    esac
}

build() {
    compile cuda_test "$source"/src/rma/{gpu/test/cuda_test.cu,test/test_folds.c}
    compile cuda_edges "$source/src/rma/gpu/test/cuda_edges.cu"
    compile cuda_bench -maxrregcount=128 "$source/src/rma/gpu/test/cuda_bench.cu"
    local processes=("$source"/tests/rma/{cuda_processes.cu,processes_kernels.c} "$source"/src/rma/test/test_{kernels,folds}.c)
    compile groups -maxrregcount=128 "$source/scripts/gpu/groups.cu"
    compile cuda_processes "${processes[@]}"
    ! command -v mpicxx >/dev/null || compile cuda_processes_mpi -ccbin mpicxx -DWITH_MPI "${processes[@]}" -ltelpher
    if [ -n "${NVSHMEM:-}" ]; then
        start nvcc -O2 -arch="${ARCH:-sm_90}" -std=c++17 -rdc=true -I"$NVSHMEM/include" "$source/scripts/gpu/nvshmem.cu" \
            -L"$NVSHMEM/lib" -lnvshmem_device -l:libnvshmem_host.so.3 -lcuda -o "$programs/nvshmem"
    fi
    start nvcc -O2 -arch="${ARCH:-sm_90}" -std=c++17 "$source/scripts/gpu/queues.cu" -o "$programs/queues"
    compile dcuda "$source/tests/rma/fakecuda/dcuda.cc"
    compile reduction "$source/examples/rma/reduction.cu"
    for study in stencil particles spmv power experts; do
        # shellcheck disable=SC2046 # several arguments
        compile "$study" $(registers "$study") "$source/examples/rma/$study"*.c "$source"/examples/rma/{study,compare,phases_cuda}.c
    done
    for study in stencil particles spmv power; do
        # shellcheck disable=SC2046
        compile "${study}_thesis" -DSTUDY_THESIS $(registers "${study}_thesis") "$source/examples/rma/$study.c" \
            "$source"/examples/rma/{study,compare,phases_cuda}.c
    done
    done_all
}

kernels() {
    local part all
    all=$(nvidia-smi -L 2>/dev/null | wc -l)
    for part in one peers all slots; do
        [ "$part" != all ] || [ "$all" -gt 1 ] || continue
        step "cuda_test-$part" 120 "$programs/cuda_test" "$part"
    done
    step cuda_edges 60 "$programs/cuda_edges"
    for lanes in 1 32 128; do step "dcuda-$lanes" 20 "$programs/dcuda" "$lanes"; done
}

tables() {
    LINES_SHOWN=80 step cuda_bench 120 "$programs/cuda_bench"
    TELPHER_RMA_SLOTS=0 LINES_SHOWN=80 step cuda_bench-no-slots 60 "$programs/cuda_bench" latency
    LINES_SHOWN=80 step queues 30 "$programs/queues"
    [ -z "${NVSHMEM:-}" ] || LD_LIBRARY_PATH=$NVSHMEM/lib:$LD_LIBRARY_PATH NVSHMEM_DISABLE_NVLS=1 step nvshmem 60 "$programs/nvshmem"
}

groups() { LINES_SHOWN=10 step groups 60 "$programs/groups"; }

studies() {
    for study in stencil particles spmv power experts; do
        for shape in "1 1 8 20 128" "64 1 8 20 128" "132 4 8 20 64" "132 1 4 10 1"; do
            # shellcheck disable=SC2086 # several arguments
            step "$study-${shape// /-}" 20 "$programs/$study" $shape
        done
        TELPHER_RMA_PEERS=1 step "$study-peers" 20 "$programs/$study" 132 4 8 20 64
    done
    for ranks in 1 7 132 264; do
        TELPHER_RMA_RANKS=$ranks step "reduction-$ranks" 20 "$programs/reduction"
    done
}

# scale STUDY DEVICES RANKS SIZE STEPS LANES: RANKS and SIZE of a device
scale() {
    TELPHER_RMA_GPUS=all step "$1-on-$2" "${LIMIT:-60}" "$programs/$1" $(($2 * $3)) "$2" "$4" "$5" "$6" "${SAMPLES:-20}"
}

# one_or_gpus NUMBER…: 1, and what there are GPUs for
one_or_gpus() {
    local all n
    all=$(nvidia-smi -L 2>/dev/null | wc -l)
    for n; do [ "$n" -gt 1 ] && [ "$n" -gt "$all" ] || echo "$n"; done
}

scaling() {
    local LINES_SHOWN=10
    for devices in $(one_or_gpus 1 2 4); do
        scale stencil "$devices" 528 1 50 128
        scale particles "$devices" 528 1 50 32
        scale experts "$devices" 132 64 20 256
    done
    for devices in 1 4; do
        scale spmv "$devices" 66 128 50 128
        scale power "$devices" 66 128 50 128
    done
    for study in spmv power; do scale "$study" 9 33 64 50 128; done
}

thesis() {
    local LINES_SHOWN=10
    for devices in $(one_or_gpus 1 2 4); do
        scale stencil_thesis "$devices" 160 2 200 256
        scale particles_thesis "$devices" 208 2 100 512
    done
    for devices in 1 4; do
        scale spmv_thesis "$devices" 208 52 100 64
        scale power_thesis "$devices" 104 104 100 128
    done
}

# can_go_by TRANSPORT: false, with a word, where it is not here
can_go_by() {
    case $1 in
        ucx) ldd "$build/lib/libtelpher-ucx.so" 2>&1 | grep -q "not found\|No such file" || return 0 ;;
        mpi) ! command -v mpirun >/dev/null || ! [ -x "$programs/cuda_processes_mpi" ] || return 0 ;;
        *) return 0 ;;
    esac
    echo "processes over $1: skipped, no ${1^^}"
    return 1
}

# core_floor TRANSPORT: half a round trip of the core alone, between two processes
core_floor() {
    [ "$1" != mpi ] || return 0
    TELPHER_TRANSPORTS=$1 LINES_SHOWN=2 step "core-latency-$1" 60 "$build/bin/telpher-bench" latency -i 5000 -x 500 -m 8:64
}

processes() {
    local all way run=$source/scripts/gpu/launched
    all=$(nvidia-smi -L 2>/dev/null | wc -l)
    core_floor shm
    for way in 1 0; do
        export TELPHER_RMA_IPC=$way
        # processes of one GPU take turns there: few messages
        TELPHER_RMA_TIMEOUT=20s step "one-gpu-good-$way" 60 "$run" "$build" 1 2 shm good 2 32 1000
        [ "$all" -gt 1 ] || continue
        for shape in "good 3 128" "good 66 32 50000" "bad 3 32" "strays 3 32" "litmus 1 256 20000" "litmus 66 64 2000" "latency 1 128 2000"; do
            # shellcheck disable=SC2086 # several arguments
            step "gpus-${shape// /-}-$way" 60 "$run" "$build" "$all" "$all" shm $shape
        done
        for how in 0 1 2 3; do step "gpus-dies-$how-$way" 60 "$run" "$build" "$all" "$all" shm dies 3 32 "$how"; done
    done
    for way in tcp ucx mpi; do
        [ "$all" -gt 1 ] || break
        can_go_by "$way" || continue
        core_floor "$way"
        for shape in "good 3 128" "litmus 66 64 500" "latency 1 128 1000"; do
            # shellcheck disable=SC2086 # several arguments
            step "gpus-${shape// /-}-$way" 60 "$run" "$build" "$all" "$all" "$way" $shape
        done
    done
    unset TELPHER_RMA_IPC
}

memory() {
    command -v compute-sanitizer >/dev/null || { echo "memory: skipped, no compute-sanitizer"; return; }
    # opening memory twice is no error of ours
    local tool check all run=$source/scripts/gpu/launched
    all=$(nvidia-smi -L 2>/dev/null | wc -l)
    for tool in memcheck racecheck; do
        check="compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9"
        # shellcheck disable=SC2086 # several arguments
        {
            step "$tool-stencil" 200 $check "$programs/stencil" 6 3 2 3 32
            step "$tool-experts" 200 $check "$programs/experts" 6 3 4 3 32
            # racecheck loses track of NCCL's launches
            [ "$all" -lt 2 ] || [ $tool = racecheck ] ||
                TELPHER_RMA_GPUS=all step "$tool-power" 200 $check "$programs/power" 8 4 2 3 32
        }
        LAUNCHED_BY=$check TELPHER_RMA_TIMEOUT=30s step "$tool-processes" 200 "$run" "$build" "$all" 2 shm good 2 32 1000
    done
}

for part in "${parts[@]}"; do
    case $part in
    build | kernels | tables | groups | studies | scaling | thesis | processes | memory) ;;
    *) echo "rma.sh: no part \"$part\"" && exit 2 ;;
    esac
done
for part in "${parts[@]}"; do "$part"; done
steps_end
