#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/core.sh BUILD-FOLDER [RESULTS-FOLDER] [PART…]
# On a machine with two NVIDIA GPUs (one will do): device memory between two ranks, in parts of about a minute and a half,
# all of them unless named; scripts/gpu/core-tables makes tables of what they leave in RESULTS-FOLDER.
#   floors   what the driver does alone: GPU to GPU, pinned memory
#   direct   straight from GPU to GPU, validated
#   pieces   the same with direct copies off: chunks that both processes map, and content that is sent
#   one      both ranks on one GPU, where they take turns
#   table    GPU-aware beside host-staging, channels and messages, within the machine
#   nets     the same between two network namespaces, without shared memory and CUDA IPC
#   ucx      over UCX: in pieces, and straight from GPU to GPU by a UCX that knows CUDA (LD_LIBRARY_PATH may name it)
#   host     host memory
# Needs bin/telpher, bin/telpher-bench and lib/libtelpher of the build, python3, an OpenCL loader, and the driver; nets needs
# root or user namespaces. DEVICE=sim runs it without a GPU, ICD=libname has another OpenCL driver than NVIDIA's.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu}
here=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cuda}
parts=("${@:3}")
[ ${#parts[@]} -gt 0 ] || parts=(floors direct pieces one table nets ucx host)
mkdir -p "$results"
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
bench=$build/bin/telpher-bench
LINES_SHOWN=${LINES_SHOWN:-14}
. "$here/step.sh"

floors() {
    [ "$device" != cuda ] || step floors 60 "$here/floors"
}

direct() {
    step direct-check 120 "$bench" latency -d "$device" -c -i 20 -x 2 -m 1:268435456 D D
    step direct-latency 60 "$bench" latency -d "$device" -i 300 -x 30 -m 8:4194304 D D
    step direct-bw 60 "$bench" bw -d "$device" -W 16 -i 10 -x 2 -m 65536:67108864 D D
    TELPHER_DIRECT_MIN=64K step chunks-latency 60 "$bench" latency -d "$device" -i 300 -x 30 -m 8:32768 D D
    step direct-latency-DH 60 "$bench" latency -d "$device" -i 300 -x 30 -m 8:4194304 D H
}

pieces() {
    export TELPHER_DIRECT=no
    step pieces-check 60 "$bench" latency -d "$device" -c -i 5 -x 1 -m 1:268435456 D D
    step pieces-latency 60 "$bench" latency -d "$device" -i 200 -x 20 -m 8:4194304 D D
    step pieces-bw 60 "$bench" bw -d "$device" -W 4 -i 10 -x 2 -m 1048576:67108864 D D
    step pieces-bw-DH 60 "$bench" bw -d "$device" -W 4 -i 5 -x 1 -m 1048576:67108864 D H
    step pieces-bw-HD 60 "$bench" bw -d "$device" -W 4 -i 5 -x 1 -m 1048576:67108864 H D
    echo "${ICD:-libnvidia-opencl.so.1}" >"$results/gpu.icd"
    OCL_ICD_VENDORS=$results/gpu.icd step pieces-bw-opencl 60 "$bench" bw -d opencl -W 4 -i 5 -x 1 -m 1048576:67108864 D D
    TELPHER_EXPORT_CHUNKS=no step sent-bw 60 "$bench" bw -d "$device" -W 4 -i 5 -x 1 -m 1048576:67108864 D D
    TELPHER_TRANSPORTS=tcp TELPHER_EXPORT_CHUNKS=no step tcp-bw 60 "$bench" bw -d "$device" -W 4 -i 5 -x 1 -m 1048576:67108864 D D
    step staging-bw 60 "$bench" bw -r channel_host -d "$device" -W 4 -i 5 -x 1 -m 1048576:67108864 D D
    unset TELPHER_DIRECT
}

one() {
    export TELPHER_MAPPING=0:0
    step one-latency 60 "$bench" latency -d "$device" -i 200 -x 20 -m 8:16777216 D D
    TELPHER_DIRECT_MIN=1 step one-latency-direct 60 "$bench" latency -d "$device" -i 100 -x 20 -m 8:16777216 D D
    TELPHER_DIRECT=no step one-latency-pieces 60 "$bench" latency -d "$device" -i 200 -x 20 -m 8:16777216 D D
    unset TELPHER_MAPPING
}

# both NAME COMMAND…: aware and host-staging, latency and bandwidth
both() {
    local name=$1 way
    shift
    for way in channel msg channel_host msg_host; do
        step "$name-latency-$way" 60 "$@" latency -r $way -d "$device" -i 200 -x 20 -m 8:4194304 D D
        step "$name-bw-$way" 60 "$@" bw -r $way -d "$device" -W 16 -i 10 -x 2 -m 8:4194304 D D
    done
}

table() {
    both node "$bench"
}

nets() {
    export TELPHER_DIRECT=no TELPHER_EXPORT_CHUNKS=no TELPHER_TRANSPORTS=tcp
    both nets "$here/two-nets" "$bench"
    unset TELPHER_DIRECT TELPHER_EXPORT_CHUNKS TELPHER_TRANSPORTS
}

ucx() {
    local log lat=(-d "$device" -i 100 -x 10 -m 16384:16777216) bw=(-d "$device" -W 16 -i 5 -x 1 -m 16384:67108864)
    export TELPHER_DIRECT=no TELPHER_EXPORT_CHUNKS=no TELPHER_TRANSPORTS=ucx
    if ! log=$(TELPHER_LOG=ucx:debug timeout 60 "$bench" latency -i 1 -x 1 -m 8:8 2>&1); then
        echo "ucx: skipped: $log"
    else
        step ucx-pieces-latency 60 "$bench" latency "${lat[@]}" D D
        step ucx-pieces-bw 60 "$bench" bw "${bw[@]}" D D
        export TELPHER_NET_DIRECT_MIN=16K
        if [ "$device" = cuda ] && ! grep -q "takes memory of CUDA" <<<"$log"; then
            echo "ucx, straight: skipped, this UCX does not take memory of CUDA"
        else
            step ucx-check 60 "$bench" latency -d "$device" -c -i 2 -x 1 -m 1:268435456 D D
            step ucx-latency 60 "$bench" latency "${lat[@]}" D D
            step ucx-bw 60 "$bench" bw "${bw[@]}" D D
            for ends in "D H" "H D"; do
                # shellcheck disable=SC2086 # two arguments
                step "ucx-bw-${ends/ /}" 60 "$bench" bw -d "$device" -W 4 -i 3 -x 1 -m 65536:4194304 $ends
            done
        fi
    fi
    unset TELPHER_DIRECT TELPHER_EXPORT_CHUNKS TELPHER_TRANSPORTS TELPHER_NET_DIRECT_MIN
}

host() {
    step host-latency 60 "$bench" latency -i 2000 -x 200
    step host-bw 60 "$bench" bw -i 10 -x 2
    TELPHER_TRANSPORTS=tcp step tcp-latency 60 "$bench" latency -i 1000 -x 100
    step host-msg 60 "$bench" latency -r msg -i 2000 -x 200 -m 8:1048576
    step host-msg2 60 "$bench" latency -r msg2 -i 2000 -x 200 -m 8:1048576
    step host-put 60 "$bench" put_notify -i 2000 -x 200 -m 8:8192
}

for part in "${parts[@]}"; do
    case $part in
    floors | direct | pieces | one | table | nets | ucx | host) "$part" ;;
    *) echo "core.sh: no part \"$part\"" && exit 2 ;;
    esac
done
steps_end
