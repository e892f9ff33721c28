#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/ocl.sh BUILD-FOLDER [RESULTS-FOLDER [PART...]]
# On a machine with an NVIDIA GPU and its OpenCL driver: an ordinary program, integration tests, the benchmark beside
# the native driver with ordinary and with pinned memory, 1 GiB, and the flow example with the ratio to native speed,
# each through a telpherd that serves the GPU. Parts: tests, files, latency, bandwidth, gigabyte, flow (all of them);
# files: what builds and kernels may read of the server's files, the latter with PoCL (POCL=libname) beside the driver;
# pair, the flow example and the migration loop on two servers that share the GPU; repeat_memory, which runs
# icd_memory RUNS times (100) on two servers and keeps all output of the runs that fail, with the log level LOG
# (warn,executor:debug); wild, a kernel that writes outside of its allocation, with all logs;
# differences, the table of docs/opencl-conformance.md.
# ICD=libname chooses another driver, ROUNDS=n other than 3 turns, SPIN=time how long both sides spin, FLOW="options" what
# the flow example computes. Needs nothing but the driver, an OpenCL loader, and python3 for a free port.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu}
shift $(($# < 2 ? $# : 2))
parts=${*:-tests files latency bandwidth gigabyte flow}
mkdir -p "$results"
results=$(cd "$results" && pwd) || exit
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cd "$(dirname "$0")/../.." || exit
. scripts/servers.sh
mkdir "$work/vendors" "$work/both"
echo "${ICD:-libnvidia-opencl.so.1}" | tee "$work/vendors/gpu.icd" >"$work/both/gpu.icd"
find "$build/lib" -name 'libtelpher-opencl.so.*.*' | head -n 1 >"$work/both/telpher.icd"
export OCL_ICD_VENDORS=$work/vendors
FLOW=${FLOW:---steps 4000 --size 2048x1024}
. scripts/gpu/step.sh

# test_step NAME ARGUMENT…: of a test program, what failed and why.
test_step() {
    LINES_SHOWN=0 step "$1" 180 "$build/tests/integration/$1" "${@:2}"
    grep -E 'PASSED|FAILED|ERROR|LINE' "$results/$1.txt" | cut -c1-200
}

# bench NAME OPTION…: over TCP, over the Unix socket, there in shared memory, and natively.
bench() {
    local name=$1
    shift
    OCL_ICD_VENDORS=$work/both TELPHER_SERVERS=$tcp LINES_SHOWN=60 step "$name" 280 "$build/bin/telpher-bench" ocl \
        --platform Telpher --vs native --env "Native:OCL_ICD_VENDORS=$work/vendors" --rounds "${ROUNDS:-3}" \
        --json "$results/$name.json" "$@"
}

# Programs in SPIR-V, if the driver takes any.
il_step() {
    local rc=0
    timeout 180 "$build/tests/integration/icd_il" --here >"$results/icd_il.txt" 2>&1 || rc=$?
    echo "== icd_il: $(grep -E 'PASSED|FAILED|ERROR|no driver' "$results/icd_il.txt" | tail -n 1)"
    case $rc in
    0) passed=$((passed + 1)) ;;
    77) ;;
    *) failed=$((failed + 1)) ;;
    esac
}

part_tests() {
    step devices 90 "$build/bin/telpher" devices -v
    step hello 90 "$build/bin/telpher" run -- "$build/examples/01_hello_device/01_hello_device"
    test_step icd_memory
    # shared virtual memory in one session: of two drivers that choose addresses none gets the other's
    for name in allocations_are_checked allocations_come_and_go maps_are_checked freed_in_its_turn \
        capabilities_are_what_holds arguments_are_checked; do
        test_step icd_svm "$name"
    done
    test_step icd_program
    test_step icd_compile
    test_step icd_kernels --here # built-in kernels and sub-groups, as far as the driver has them
    il_step
}
# A kernel on processors that is refused a file shows that the process of the GPU's driver is restricted.
part_files() {
    local pocl=${POCL:-$(cat /etc/OpenCL/vendors/pocl*.icd 2>/dev/null | head -n 1)}
    step exec_guard 180 "$build/src/daemon/exec_guard_test" --any-driver
    if [ -n "$pocl" ]; then
        mkdir -p "$work/beside"
        cp "$work/vendors/gpu.icd" "$work/beside"
        echo "$pocl" >"$work/beside/pocl.icd"
        OCL_ICD_VENDORS=$work/beside test_step icd_files "a_kernel*"
    fi
}
# Races between two servers show in one run of several.
part_repeat_memory() {
    local run bad=0 runs=${RUNS:-100} log
    for run in $(seq "$runs"); do
        log=$results/icd_memory.$run.txt
        if TELPHER_LOG=${LOG:-warn,executor:debug} timeout 180 "$build/tests/integration/icd_memory" >"$log" 2>&1; then
            rm "$log"
        else
            bad=$((bad + 1))
            echo "run $run ($?): $(grep -E 'FAILED|LINE' "$log" | head -n 3 | tr '\n' ' ' | cut -c1-200)"
        fi
    done
    echo "== repeat_memory: $bad of $runs runs failed"
    [ "$bad" = 0 ] && passed=$((passed + 1)) || failed=$((failed + 1))
}
# A kernel that writes outside of its allocation, with the logs of both sides and what the kernel says of the GPU.
part_wild() {
    LINES_SHOWN=80 TELPHER_LOG=${LOG:-info,executor:debug} step wild 180 "$build/tests/integration/icd_svm_place"
    dmesg 2>/dev/null | grep -i xid | tail -n 5
}
# The table of docs/opencl-conformance.md for this driver. Needs clinfo.
part_differences() {
    LINES_SHOWN=80 step differences 180 scripts/opencl-differences "$build" \
        "NVIDIA=${ICD:-libnvidia-opencl.so.1}"
}
part_latency() {
    bench latency -i 600 --env "Unix:TELPHER_SERVERS=$unix" \
        --tests kernel_finish,kernel_event,kernel_batch,event_chain,write_kernel_read,write_4,read_4,build_cached
}
part_bandwidth() {
    bench bandwidth -i 60 --pinned --env "Pinned:OCL_ICD_VENDORS=$work/vendors" --tests bw -m 64K:64M --env "Unix:TELPHER_SERVERS=$unix" \
        --env "Shared:TELPHER_SERVERS=$unix" --env Shared:TELPHER_SHARED_MEMORY=yes
}
# Every byte of every transfer is checked.
part_gigabyte() {
    ROUNDS=1 bench gigabyte -i 2 -x 0 -c --pinned --env "Pinned:OCL_ICD_VENDORS=$work/vendors" --tests bw -m 1G:1G --timeout 90 --no-floor \
        --env "Shared:TELPHER_SERVERS=$unix" --env Shared:TELPHER_SHARED_MEMORY=yes
}
part_flow() {
    local lbm=$build/examples/lbm/lbm native remote
    # shellcheck disable=SC2086 # several options
    LINES_SHOWN=1 step lbm-native 60 "$lbm" $FLOW --dump "$work/native.field"
    # shellcheck disable=SC2086
    LINES_SHOWN=1 step lbm-remote 60 "$build/bin/telpher" run -- "$lbm" $FLOW --compare "$work/native.field" --rtol 0 --atol 0 --out "$results/flow.png"
    native=$(sed -n 's/.*, \([0-9.]*\) MLUPS.*/\1/p' "$results/lbm-native.txt" | tail -n 1)
    remote=$(sed -n 's/.*, \([0-9.]*\) MLUPS.*/\1/p' "$results/lbm-remote.txt" | tail -n 1)
    awk -v n="$native" -v r="$remote" 'BEGIN {
        if (n <= 0 || r <= 0) { print "no figures of the flow"; exit 1 }
        printf "flow: %.1f of %.1f MLUPS, %.1f %% of native\n", r, n, 100 * r / n
        exit r < 0.95 * n }' || failed=$((failed + 1))
}

# Two sessions on one GPU: their servers pass borders of the flow, and the buffer of the loop, to each other.
part_pair() {
    local lbm=$build/examples/lbm/lbm before=$servers
    servers=''
    start_unix_servers 2 --spin "${SPIN:-auto}"
    # shellcheck disable=SC2086 # several options
    LINES_SHOWN=1 step pair-native 60 "$lbm" $FLOW --dump "$work/pair.field"
    # shellcheck disable=SC2086
    LINES_SHOWN=2 step pair-flow 120 "$build/bin/telpher" run -s "$servers" -- "$lbm" --devices 2 $FLOW \
        --compare "$work/pair.field" --rtol 0 --atol 0
    grep -q 'on 2 devices' "$results/pair-flow.txt" || failed=$((failed + 1))
    OCL_ICD_VENDORS=$work/both TELPHER_SERVERS=$servers LINES_SHOWN=60 step pair-migrate 280 "$build/bin/telpher-bench" \
        migrate --platform Telpher --rounds "${ROUNDS:-3}" --json "$results/pair-migrate.json"
    servers=$before
}

"$build/bin/telpher" --version
start_tcp_servers 1 --spin "${SPIN:-auto}"
start_unix_servers 1 --spin "${SPIN:-auto}"
tcp=${servers%,*} unix=${servers#*,}
export TELPHER_SERVERS=$tcp TELPHER_SPIN=${SPIN:-auto}
for part in $parts; do
    declare -F "part_$part" >/dev/null || { echo "ocl.sh: no part \"$part\"" && exit 2; }
    "part_$part"
done
steps_end
