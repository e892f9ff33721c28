#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/ocl.sh BUILD-FOLDER [RESULTS-FOLDER]
# On a machine with an NVIDIA GPU and its OpenCL driver: an ordinary program, the integration tests, the benchmark
# beside the native driver, and the flow example, each through a telpherd that serves the GPU.
# ICD=libname chooses another driver. Needs nothing installed but the driver and an OpenCL loader.
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu}
mkdir -p "$results"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
mkdir "$work/vendors" "$work/both"
echo "${ICD:-libnvidia-opencl.so.1}" | tee "$work/vendors/gpu.icd" >"$work/both/gpu.icd"
ls "$build"/lib/libtelpher-opencl.so.?.? | head -n 1 >"$work/both/telpher.icd"
export OCL_ICD_VENDORS=$work/vendors
passed=0 failed=0

# step NAME SECONDS COMMAND…: output to a file and the screen, bounded in time.
step() {
    local name=$1 limit=$2
    shift 2
    echo "== $name"
    if timeout "$limit" "$@" >"$results/$name.txt" 2>&1; then
        passed=$((passed + 1))
    else
        echo "FAILED ($?): $name"
        failed=$((failed + 1))
    fi
    tail -n "${LINES_SHOWN:-12}" "$results/$name.txt" | cut -c1-200
}

command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$build/bin/telpher" --version
step devices 90 "$build/bin/telpher" run -- "$build/bin/telpher" devices -v
step hello 90 "$build/bin/telpher" run -- "$build/examples/01_hello_device/01_hello_device"
step memory 180 "$build/tests/integration/icd_memory"
step program 120 "$build/tests/integration/icd_program"
OCL_ICD_VENDORS=$work/both LINES_SHOWN=90 step bench 240 "$build/bin/telpher" run -n -- \
    "$build/bin/telpher-bench" ocl --platform Telpher --vs native -i 50 --json "$results/bench.json"
OCL_ICD_VENDORS=$work/both LINES_SHOWN=20 step bench-window 60 "$build/bin/telpher" run -n -- \
    "$build/bin/telpher-bench" ocl --platform Telpher --vs native -i 20 -W 4 --tests bw -m 1M:64M --no-floor
lbm=$build/examples/lbm/lbm
step lbm-native 60 "$lbm" --steps 4000 --size 2048x1024 --dump "$work/native.field"
step lbm-remote 60 "$build/bin/telpher" run -- "$lbm" --steps 4000 --size 2048x1024 \
    --compare "$work/native.field" --out "$results/flow.png"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
