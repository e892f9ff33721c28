#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/core.sh BUILD-FOLDER [RESULTS-FOLDER]
# On a machine with two NVIDIA GPUs (one will do): device memory between two ranks, validated, straight from GPU to GPU
# and in pieces through pinned host memory, over shared memory and TCP. Needs bin/telpher, bin/telpher-bench and
# lib/libtelpher of the build, an OpenCL loader, and the driver. About a minute and a half.
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu}
mkdir -p "$results"
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
bench=$build/bin/telpher-bench
. "$(dirname "$0")/step.sh"

step direct-check 60 "$bench" latency -d cuda -c -i 20 -x 2 -m 1:268435456 D D
step direct-latency 60 "$bench" latency -d cuda -i 300 -x 30 -m 8:4194304 D D
step direct-bw 60 "$bench" bw -d cuda -W 16 -i 10 -x 2 -m 65536:67108864 D D
for way in channel msg; do
    TELPHER_DIRECT=no step pieces-latency-$way 60 "$bench" latency -r $way -d cuda -i 200 -x 20 -m 8:4194304 D D
done
TELPHER_DIRECT=no step pieces-bw 60 "$bench" bw -d cuda -c -W 4 -i 8 -x 2 -m 1048576:67108864 D D
TELPHER_DIRECT=no TELPHER_TRANSPORTS=tcp step tcp-bw 60 "$bench" bw -d cuda -W 4 -i 5 -x 2 -m 1048576:67108864 D D
step host-latency 60 "$bench" latency -i 2000 -x 200
step host-bw 60 "$bench" bw -i 10 -x 2
TELPHER_TRANSPORTS=tcp step tcp-latency 60 "$bench" latency -i 1000 -x 100
step host-msg 60 "$bench" latency -r msg -i 2000 -x 200 -m 8:1048576
step host-msg2 60 "$bench" latency -r msg2 -i 2000 -x 200 -m 8:1048576
step host-put 60 "$bench" put_notify -i 2000 -x 200 -m 8:8192
steps_end
