#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/ampi.sh BUILD-FOLDER [RESULTS-FOLDER]
# On a machine with an NVIDIA GPU: device memory in MPI calls. Adaptive MPI takes CUDA's and OpenCL's memory in all forms
# of calls, on processes and virtual ranks; libtelpher-mpi-device in front of the MPIs that the build found takes OpenCL's
# shared virtual memory and buffers. Jacobi's method (examples/09_jacobi_mpi) on the GPU, weak and strong, direct and staged,
# on adaptive MPI with 1 to 4 virtual ranks a process and, beside it, on the MPI of CUDA_MPI=PREFIX that takes CUDA's memory;
# PARTS="calls jacobi patterns reductions" chooses; patterns are OSU's
# latency and bandwidth on both, direct (mpi) and staged (mpi_host); reductions is a table of allreduce in device memory,
# computed by the device and by the host.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu-ampi}
mkdir -p "$results"
results=$(cd "$results" && pwd) || exit
cd "$(dirname "$0")/../.." || exit
. scripts/gpu/step.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launch=$build/bin/telpher
parts=" ${PARTS:-calls jacobi patterns reductions} "

part_calls() {
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
}

# nvcc with what an MPI's compiler prints; CUDA's static library has thread-local variables, which virtual ranks would share
jacobi_for() { # PROGRAM COMPILER
    local words=() word
    for word in $("$2" --showme:compile) $("$2" --showme:link); do
        case $word in
        -I* | -L* | -l*) words+=("$word") ;;
        -Wl,*) words+=("-Xlinker" "${word#-Wl,}") ;;
        *) words+=("-Xcompiler" "$word") ;;
        esac
    done
    nvcc -O2 -cudart shared -x cu examples/09_jacobi_mpi/main.c -o "$1" "${words[@]}"
}
export -f jacobi_for # for timeout, which runs programs
build_jacobi=(bash -c 'jacobi_for "$@"' jacobi_for)

part_jacobi() {
    local way processes ranks
    step jacobi-build 100 "${build_jacobi[@]}" "$results/jacobi.ampi" "$build/bin/telpher-mpicc"
    [ -z "${CUDA_MPI:-}" ] || step jacobi-build-mpi 100 "${build_jacobi[@]}" "$results/jacobi.mpi" "$CUDA_MPI/bin/mpicc"
    LINES_SHOWN=1
    for processes in 1 2 4; do
        for way in "" -s "-w" "-w -s"; do
            for ranks in 1 2 4; do
                # shellcheck disable=SC2086
                step "jacobi-$processes-x$ranks${way// /}" 60 "$launch" launch -n $processes -- "$results/jacobi.ampi" \
                    +vp $((processes * ranks)) $way "${EDGE:-256}" 100
            done
            # shellcheck disable=SC2086
            [ -z "${CUDA_MPI:-}" ] || step "jacobi-$processes-mpi${way// /}" 60 "$CUDA_MPI/bin/mpirun" --oversubscribe \
                -n $processes "$results/jacobi.mpi" $way "${EDGE:-256}" 100
        done
    done
}

part_patterns() {
    local bench=$build/bin/telpher-bench runtime pattern
    step patterns-build 100 "$bench" build-mpi "$build/bin/telpher-mpicc" -o "$results/ampi.so"
    [ -z "${CUDA_MPI:-}" ] || step patterns-build-mpi 100 "$bench" build-mpi "$CUDA_MPI/bin/mpicc" -o "$results/cuda-mpi.so"
    for pattern in latency bw; do
        for runtime in mpi mpi_host; do
            step "$pattern-ampi-$runtime" 100 "$launch" launch -n 2 -- "$bench" $pattern --mpi "$results/ampi.so" \
                -r $runtime -d cuda -m 8:4M D D
            [ -z "${CUDA_MPI:-}" ] || step "$pattern-mpi-$runtime" 100 "$CUDA_MPI/bin/mpirun" --oversubscribe -n 2 \
                "$bench" $pattern --mpi "$results/cuda-mpi.so" -r $runtime -d cuda -m 8:4M D D
        done
    done
}

# Medians in us. TELPHER_AMPI_DEVICE_REDUCE: from 0 bytes on, from so many that none is computed by the device.
part_reductions() {
    local kind least files=()
    for kind in ${KINDS:-cuda opencl}; do
        for least in 0 1T; do
            TELPHER_AMPI_DEVICE_REDUCE=$least LINES_SHOWN=0 step "reductions-$kind-$least" 100 "$launch" launch -n 2 -- \
                "$build/tests/ampi/ampi_device_time" "$kind" 16777216
            files+=("$results/reductions-$kind-$least.txt")
        done
    done
    awk -v kinds="${KINDS:-cuda opencl}" '/^ *[0-9]+ / { row[$1 + 0] = row[$1 + 0] " " $3 " |" }
        END {
            n = split(kinds, kind)
            line = "| bytes |"; rule = "|---|"
            for (i = 1; i <= n; i++) { line = line " " kind[i] ", device | " kind[i] ", host |"; rule = rule "---|---|" }
            print line "\n" rule
            for (bytes = 4096; bytes in row; bytes *= 4) print "| " bytes " |" row[bytes]
        }' "${files[@]}" | tee "$results/reductions.md"
}

for part in calls jacobi patterns reductions; do
    [[ $parts != *" $part "* ]] || "part_$part"
done
steps_end
