#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh TELPHER-BENCH PART: runs the program with few iterations and looks at what it prints. The
# figures themselves are not judged, only that they are there, positive, and validated.
set -eu
bench=$1
part=$2
dir=$(mktemp -d)
export OMPI_MCA_mpi_yield_when_idle=1 # ranks that wait leave the processors to others, whatever runs beside the test
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # as CI does
server=
trap 'test -z "$server" || kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT

die() {
    echo "FAILED: $1"
    cat "$dir/out" "$dir/err" 2>/dev/null || true
    exit 1
}
# expect STATUS COMMAND...: its output goes to $dir/out and $dir/err.
expect() {
    wanted=$1
    shift
    status=0
    "$@" >"$dir/out" 2>"$dir/err" || status=$?
    test "$status" -eq "$wanted" || die "exit status $status, not $wanted: $*"
}
# row NAME COLUMNS: a row of that many columns, the second positive, the last "Pass".
row() {
    awk -v name="$1" -v columns="$2" \
        '$1 == name && NF == columns && $2 > 0 && $NF == "Pass" { found = 1 }
         END { exit !found }' "$dir/out" || die "no good row $1 of $2 columns"
}
standin=$(dirname "$bench")/../libexec/telpher/standin
spoiler=$(dirname "$bench")/../libexec/telpher/bench_wrong_byte.so
# finds TEST...: each of them has failed for a wrong result.
finds() {
    for test in "$@"; do
        grep -Eq "^$test +FAILED: wrong result: " "$dir/out" || die "a wrong byte is not found: $test"
    done
}
is_sanitized() {
    grep -qaE '__[at]san_init' "$bench"
}
# preloaded LIBRARY COMMAND...: a sanitizer's runtime must be the first library, and finds the leaks of others.
preloaded() {
    first=$(ldd "$bench" | awk '/lib[at]san/ { print $3 }')
    library=$1
    shift
    ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" LD_PRELOAD="$first $library" "$@"
}
has_matplotlib() {
    python3 -c 'import matplotlib' 2>/dev/null || /usr/bin/python3 -c 'import matplotlib' 2>/dev/null
}

mdr() {
    expect 0 "$(dirname "$bench")/telpher" launch -n 2 -- "$bench" mdr -b 2 -n 20
    for size in 8 256 65536 1048576; do
        awk -v size=$size '$1 == size && NF == 6 && $4 > 0 { found = 1 } END { exit !found }' "$dir/out" ||
            die "no row of $size bytes"
    done
    expect 0 "$(dirname "$bench")/telpher" launch -n 2 -- "$bench" mdr -b 1 -n 20 -c
    for way in 1 2 3; do
        expect 1 "$(dirname "$bench")/telpher" launch -n 2 -- "$bench" mdr -b 1 -n 20 -c --flip $way
        grep -q 'mdr: rank [01]: 8 of 8 bytes, byte 4 is wrong' "$dir/err" || die "a wrong byte is not found, way $way"
    done
    expect 2 "$bench" mdr
    grep -q 'needs two processes' "$dir/err" || die "one process is not refused"
}
options() {
    expect 0 "$bench" --version
    grep -Eq '^telpher-bench [0-9]+\.[0-9]+\.[0-9]+$' "$dir/out" || die "no version"
    expect 0 "$bench" --help
    grep -q '^  plot ' "$dir/out" || die "the help lacks a command"
    expect 0 "$bench" latency --help
    grep -q '^usage: .*telpher-bench latency' "$dir/out" || die "no usage of latency"
    for command in ocl migrate floor plot; do
        expect 0 "$bench" "$command" --help
        grep -qi '^usage: telpher-bench '"$command" "$dir/out" || die "no usage of $command"
    done
    expect 2 "$bench"
    expect 2 "$bench" nonsense
    expect 0 "$bench" ireduce_scatter --help
    grep -q 'num-test-calls' "$dir/out" || die "no help of ireduce_scatter"
    expect 2 "$bench" allgather D
    expect 2 "$bench" put_latency -s sometimes
    for refused in "latency -p 2" "latency -R 1" "bw -V" "bcast -l" "allgather -k rotate" "bcast_persistent -k rotate" "latency -P ," \
        "latency -D cont" "latency -I" "latency -G gif" "latency -G png," "latency -N cart:1:1" "init -G tty" "latency -z101" "latency -clog:$dir/none" \
        "put_latency -s all" "get_bw -w all" "check -r channel -s lock" "check -r mpi_host -w all" \
        "latency -r ampi +vp 4" "alltoall -r ampi +vp 16" "barrier -c" "ibarrier -c" "check -r mpi -G tty" "check -r mpi -P X" "latency --mpi mpich" "latency -r channel --placeholder x" "latency -M 0" "latency -M 5x" "latency -r mpi -D" "latency -Z" "latency --pigeon" "latency -r mpi -D vect:4" "latency -r mpi -D vect:4:5" "latency -r mpi -D vect:0:0" "latency -r mpi -D vect:4:2x" \
        "latency -r mpi -D round" "latency -r mpi -D indx:$dir/none" "allreduce -r mpi -D cont" "put_bw -r mpi -D cont" \
        "alltoall -r mpi -D cont -l -c" "neighbor_alltoall -N cart:9:1" "neighbor_alltoall -N cart:1:0" "neighbor_alltoall -N graph:$dir/none"; do
        expect 2 "$bench" $refused
        test "$(wc -l <"$dir/err")" -eq 2 || die "not one line and where help is: $refused"
    done
    for refused in "suite -m garbage" "suite -d pigeon" "suite --timeout 0" "suite --rounds 0" "suite --ranks 2,,3" "suite --osu $dir/none" \
        "suite --launcher $dir/none" "suite --json $dir/none/x" "models --ranks 0" "models --edge -3" "models -o $dir/none/x.png" \
        "launch --figures --json $dir/none/x" "python latency -m 5:3" "python latency -W 0"; do
        expect 2 "$bench" $refused
        test "$(wc -l <"$dir/err")" -eq 2 || die "not one line and where help is: $refused"
    done
    expect 2 "$bench" ocl --nonsense
    expect 2 "$bench" ocl -i 0
    expect 2 "$bench" ocl -i 12x
    expect 2 "$bench" measure
    expect 2 "$bench" measure floor --raw nonsense
    expect 2 "$bench" ocl --size 4K:1K
    expect 2 "$bench" ocl --tests nonsense
    expect 2 "$bench" ocl --memory nonsense
    expect 2 "$bench" ocl stray
    expect 2 "$bench" reconnect --how nonsense --control "$dir/none"
    expect 0 "$bench" reconnect --help
    expect 2 "$bench" ocl --env Subject
    expect 2 "$bench" ocl --env Subject:=1
    expect 2 "$bench" ocl --batch 0
    expect 0 "$bench" ocl --list
    test "$(wc -l <"$dir/out")" -ge 18 || die "too few tests listed"
    expect 0 "$bench" launch --help
    grep -q '^usage: mpirun .*telpher-bench launch' "$dir/out" || die "no usage of launch"
    expect 0 "$bench" launch --figures --help
    grep -q '^usage: telpher-bench launch --figures' "$dir/out" || die "no usage of launch --figures"
    expect 2 "$bench" launch --figures --jobs 1by1
    expect 2 "$bench" launch -w 0
    expect 2 "$bench" launch -n 257
    expect 2 "$bench" launch -f xml
    expect 2 "$bench" launch stray
    expect 2 "$bench" plot
    echo '{}' >"$dir/empty.json"
    expect 1 "$bench" plot "$dir/empty.json" -o "$dir/out.png"
    echo '{"target": "Subject", "test": "a", "validated": true}' >"$dir/short.json"
    expect 1 "$bench" plot "$dir/short.json" -o "$dir/out.png"
    echo '{"target": "Subject", "test": "a", "pattern": "latency", "validated": true, "median_us": 2}' >"$dir/one.json"
    if has_matplotlib; then
        expect 0 "$bench" plot "$dir/one.json" --out "$dir/one.png"
        head -c 8 "$dir/one.png" | grep -q PNG || die "no PNG"
    else
        expect 1 "$bench" plot "$dir/one.json" -o "$dir/out.png"
        grep -q 'python3-matplotlib' "$dir/err" || die "no package named without matplotlib"
    fi
    mkdir "$dir/empty"
    for command in "plot $dir/one.json -o $dir/out.png" "floor --list"; do
        PATH=$dir/empty expect 1 "$bench" $command
        grep -q 'install the package python3' "$dir/err" || die "no package named without Python"
    done
}

floor() {
    expect 0 "$bench" floor -i 20 -x 2 -m 1K:2K --json "$dir/floor.json"
    row tcp_pingpong 9
    row tcp_pingpong_poll 9
    test "$(grep -c '"validated": true' "$dir/floor.json")" -eq 8 || die "JSON lacks series"
    expect 0 "$bench" floor -i 3 -x 1 -m 1K:1M -c # above a chunk as well
    expect 1 preloaded "$spoiler" "$bench" floor -i 3 -x 1 -m 1K:1K -c
    finds tcp_pingpong tcp_pingpong_poll
    test "$(grep -Ec '^1024 +FAILED: [0-9.:]+ (sent 1024 bytes that are not all 0|received other bytes than were sent)' "$dir/out")" -eq 2 || die "wrong bytes are not found"
    expect 1 "$bench" floor --tests tcp_ping --floor-host 127.0.0.1:1
    "$bench" floor --serve --listen 127.0.0.1:0 >"$dir/served" &
    server=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        grep -q port "$dir/served" && break
        sleep 0.2
    done
    port=$(sed -n 's/.*(port \([0-9]*\)).*/\1/p' "$dir/served")
    expect 0 "$bench" floor -i 20 -x 2 -m 1K:2K --floor-host "127.0.0.1:$port"
    row tcp_pingpong 9
}

ocl() {
    pocl="Portable Computing Language"
    if ! "$bench" ocl --discover --platform "$pocl" >/dev/null 2>&1; then
        echo "skipped: no OpenCL platform called $pocl (package pocl-opencl-icd)"
        exit 77
    fi
    expect 0 "$bench" ocl --platform "$pocl" -i 3 -x 1 -m 1K:4K -c --json "$dir/ocl.json"
    for test in kernel_finish kernel_event kernel_batch event_chain write_kernel_read write_4 \
        read_4 create_buffer create_touched create_kernel create_user_event create_queue \
        create_context build_cold build_cached discovery; do
        row "$test" 9
    done
    for size in 1024 2048 4096; do
        row "$size" 10
    done
    grep -q '^# Test  *Latency (us)' "$dir/out" || die "no OSU-like heading"
    grep -q '^# Size  *Bandwidth (MB/s)' "$dir/out" || die "no OSU-like heading"
    expect 1 preloaded "$spoiler" "$bench" ocl --platform "$pocl" -i 2 -x 1 -m 1K:1K -c --no-floor
    finds kernel_finish kernel_event kernel_batch event_chain write_kernel_read write_4 read_4 create_touched build_cold build_cached
    test "$(grep -Ec '^1024 +FAILED: byte 512 is' "$dir/out")" -eq 2 || die "wrong bytes of transfers are not found"
    ! grep -q '"validated": false' "$dir/ocl.json" || die "something was not validated"
    test "$(grep -c '"target": "Subject", "test"' "$dir/ocl.json")" -eq 22 || die "JSON lacks series"
    if has_matplotlib; then
        expect 0 "$bench" plot "$dir/ocl.json" -o "$dir/ocl.svg"
        grep -q '<svg' "$dir/ocl.svg" || die "no plot"
    fi
    expect 0 "$bench" ocl --platform "$pocl" --native "$pocl" -i 6 -x 1 -m 2K --memory pinned \
        -W 4 --tests read_4,bw_write
    grep -q '^# Native: Portable' "$dir/out" || die "no native target"
    expect 0 "$bench" ocl --platform "$pocl" --native "$pocl" --pinned -i 3 -x 1 -m 2K --tests read_4,bw_write \
        --no-floor
    grep -Eq '^# Test .*Native .us.  *Floor' "$dir/out" || die "pinned memory beside a latency"
    grep -Eq '^# Size .*Native .MB/s.  *Pinned .MB/s.  *Floor' "$dir/out" || die "no column of pinned memory"
    awk '$1 == 2048 && NF == 6 && $4 > 0 { found = 1 } END { exit !found }' "$dir/out" || die "no figure of pinned memory"
    expect 0 "$bench" ocl --platform "$pocl" --env Subject:POCL_DEVICES=pthread \
        --env "Other:POCL_DEVICES=pthread pthread" --device 0 -i 3 --batch 10 --tests kernel_batch \
        --json "$dir/env.json"
    grep -Eq '^# Test .*Subject .us.  *Other .us.' "$dir/out" || die "no target of its own environment"
    grep -q '"environment": "POCL_DEVICES=pthread pthread"' "$dir/env.json" || die "no environment in JSON"
    expect 1 "$bench" ocl --platform nonsense --tests read_4 --no-floor
    grep -q 'FAILED: no OpenCL platform' "$dir/out" || die "a missing platform is no failure"
    expect 1 "$bench" ocl --platform "$pocl" --peer "$dir/none.so" --tests read_4 -i 3
    grep -q 'FAILED: Peer' "$dir/out" || die "a missing peer is no failure"
}

ranks() {
    for way in channel msg msg2 put channel_host msg_host; do
        expect 0 "$bench" latency -r "$way" -c -i 20 -x 2 -m 1:8192
        test "$(awk 'NF >= 2 && $2 > 0' "$dir/out" | grep -c '^[0-9]')" -eq 14 || die "rows of $way"
        expect 0 "$bench" bw -r "$way" -c -i 3 -x 1 -m 100000 -W 7 -b multiple D D
        grep -q 'Buffer on SIM (D) and Receive Buffer on SIM (D)' "$dir/out" || die "no places"
    done
    expect 0 "$bench" bibw -f json -i 3 -m 4096:4096 H D
    grep -q '"bytes": 4096, "samples": 3, "median": [0-9]' "$dir/out" || die "no JSON"
    expect 0 "$(dirname "$bench")/telpher" launch -n 4 -- "$bench" mbw_mr -m 8:16 -i 5
    grep -Eq '^16( +[0-9.]+){7}$' "$dir/out" || die "no message rate"
    for floor in store socket; do
        expect 0 "$bench" latency -r "$floor" -c -i 20 -x 2 -m 1:8192
        test "$(awk 'NF >= 2 && $2 > 0' "$dir/out" | grep -c '^[0-9]')" -eq 14 || die "rows of $floor"
        expect 0 "$bench" bibw -r "$floor" -c -i 3 -x 1 -m 100000:400000 -W 7
    done
    expect 1 "$bench" latency -r store D D
    expect 2 "$bench" latency -r pigeon
    expect 2 "$bench" latency -m 8:4
    expect 2 "$bench" latency X
    expect 2 "$bench" latency -d sim B
    expect 0 "$bench" bw -M 1M -W 4 -b multiple -i 2 -x 0 -m 64K:4M # 8 buffers
    grep -q '^telpher-bench: -M: sizes above 131072 bytes are left out' "$dir/err" || die "no word about sizes that are left out"
    test "$(grep -Ec '^(65536|131072) ' "$dir/out")" -eq 2 -a "$(grep -c '^[0-9]' "$dir/out")" -eq 2 || die "sizes within a limit of memory"
    expect 0 "$bench" check -r channel # starts its ranks
    grep -Eq '^latency +Pass$' "$dir/out" || die "nothing was checked"
    expect 0 "$bench" bw -f csv -i 3 -m 4096:8192
    test "$(sed -n '1p' "$dir/out" | tr ',' '\n' | wc -l)" -eq "$(sed -n '2p' "$dir/out" | tr ',' '\n' | wc -l)" || die "columns of CSV"
    expect 0 "$bench" latency -f json -i 20 -m 4096:8192
    cp "$dir/out" "$dir/a.json"
    grep -q '^{"environment": {"host": .*"processors": [1-9].*"variables": \[.*TELPHER_RANK=0' "$dir/a.json" || die "no environment"
    ! grep -q TELPHER_JOB= "$dir/a.json" || die "the secret of a job in a result"
    for result in a:100:101 b:120:121 c:119:90; do # an interval of c reaches down to a
        for bytes in 1 2; do
            printf '{"pattern": "latency", "bytes": %d, "median": %d, "low": %d, "high": 130, "unit": "us"}\n' \
                $bytes "$(echo $result | cut -d: -f2)" "$(echo $result | cut -d: -f3)" | sed 's/101, "high": 130/99, "high": 101/'
        done >"$dir/$(echo $result | cut -d: -f1).json"
    done
    expect 0 "$bench" compare "$dir/a.json" "$dir/a.json" --all
    test "$(grep -c '^same ' "$dir/out")" -eq 2 || die "a result differs from itself"
    expect 1 "$bench" compare "$dir/a.json" "$dir/b.json"
    test "$(grep -c '^worse ' "$dir/out")" -eq 2 || die "no row is worse"
    expect 0 "$bench" compare "$dir/a.json" "$dir/c.json"
    expect 0 "$bench" compare "$dir/a.json" "$dir/b.json" --tolerance 30
    expect 0 "$bench" compare "$dir/b.json" "$dir/a.json" -f json
    test "$(grep -c '"verdict": "better"' "$dir/out")" -eq 2 || die "no row is better"
    for bad in '' '{' 'null' '[]' '[{"pattern": "latency"}]' '{"results": 5}' '{"median": "x"}' '{"median": 1, "pattern": []}'; do
        echo "$bad" >"$dir/bad.json"
        expect 2 "$bench" compare "$dir/a.json" "$dir/bad.json"
        expect 1 "$bench" plot "$dir/bad.json" -o "$dir/bad.svg"
    done
    expect 2 "$bench" compare "$dir/a.json" "$dir/none.json"
    expect 2 "$bench" compare "$dir/a.json"
}

notified() {
    expect 0 "$bench" notified -i 2 -x 1 -r 5 -m 1000 -t shm,tcp
    test "$(grep -Ec '^(put|notify|floor|a flag|queues|the core).* +[0-9.]+ +[0-9.]+ +[^ ].*$' "$dir/out")" -eq 31 || die "rows"
    test "$(grep -c '^# Table 5\.[1-4]: ' "$dir/out")" -eq 4 || die "tables"
    expect 0 "$bench" notified --iterations 2 --warmup 0 --ranks 2 --message-size 1 --transports tcp --format json
    test "$(grep -c '^{"table": "5\.[1-4]", .*"median": [0-9.]*, "p90": [0-9.]*, "unit": "' "$dir/out")" -eq 25 || die "no JSON"
    cp "$dir/out" "$dir/notified.json"
    for kernel in 1:notified_pingpong 2:notified_windows; do
        expect 1 "$bench" notified -i 2 -x 1 -r 5 -m 1000 -t shm --flip "${kernel%:*}"
        grep -q "telpher-bench: ${kernel#*:}: .* failed at" "$dir/err" || die "wrong content is not found: $kernel"
    done
    expect 0 "$bench" notified --help
    expect 2 "$bench" notified -r 1
    expect 2 "$bench" notified -i 0
    expect 2 "$bench" notified -m 0
    expect 2 "$bench" notified -f xml
    expect 2 "$bench" notified -t pigeon
    expect 2 "$bench" notified -t shm,
    expect 2 "$bench" notified stray
    if has_matplotlib; then
        expect 0 "$bench" plot "$dir/notified.json" -o "$dir/notified.svg"
        grep -q 'Table 5.2' "$dir/notified.svg" || die "no table in the picture"
        for devices in 1 4; do
            printf '{"test": "study", "study": "%s", "ranks": %d, "devices": %d, "ours_ms": 1.5, "ours_low_ms": 1, "ours_high_ms": 2}\n' \
                spmv $devices $devices power $devices $devices
        done >"$dir/studies.json"
        expect 0 "$bench" plot "$dir/studies.json" -o "$dir/studies.svg"
        grep -q 'spmv, 1 ranks a device' "$dir/studies.svg" || die "no study in the picture"
    fi
}

# Kinds of memory for D, banks of an FPGA with a recording driver, mappings of devices; each error says what is missing.
memories() {
    if ! "$bench" ocl --discover --platform "Portable Computing Language" >/dev/null 2>&1; then
        echo "skipped: no OpenCL platform called Portable Computing Language (package pocl-opencl-icd)"
        exit 77
    fi
    recorder=$(dirname "$bench")/../libexec/telpher/bench_fpga_recorder.so
    export POCL_DEVICES="pthread pthread" OCL_ICD_VENDORS="${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}"
    # sycl::buffer where this build has a SYCL runtime: with its own copies, and as Telpher's memory
    sycl=$(dirname "$bench")/../libexec/telpher/telpher-bench-sycl.so
    test ! -e "$sycl" || for way in channel channel_host; do
        expect 0 "$bench" bw -c -d sycl -r "$way" -i 2 -x 1 -W 2 -b multiple -m 4096:8192 D D
        grep -q 'Send Buffer on SYCL' "$dir/out" || die "no head of sycl"
    done
    if [ ! -e "$sycl" ]; then
        expect 1 "$bench" latency -d sycl -m 64:64 D D
        grep -q 'needs the module of a build with SYCL' "$dir/err" || die "no reason for missing SYCL"
    fi
    for kind in opencl svm; do
        expect 0 "$bench" latency -c -d "$kind" -i 4 -x 1 -m 4096:4096 D D
        grep -q "Send Buffer on OPENCL" "$dir/out" || die "no head of $kind"
    done
    expect 0 env FPGA_MAPPING=1:0 "$bench" latency -c -d opencl -i 4 -x 1 -m 64:64 D D
    expect 1 env FPGA_MAPPING=5 "$bench" latency -d opencl -i 4 -m 64:64 D D
    grep -q 'opencl device 5 does not exist, there are 2' "$dir/err" || die "no reason for a wrong mapping"
    ! grep -Eq 'error mem|no driver' "$dir/err" || die "more than one line for a wrong mapping"
    expect 1 "$bench" latency -d opencl -m 64:64 B D
    grep -q 'memory B: this driver has no banks' "$dir/err" || die "no reason for a missing bank"
    expect 0 preloaded "$recorder" env FPGA_RECORD="$dir/record" FPGA_SAVE="$dir/kernels" \
        "$bench" latency -c -d opencl -i 5 -x 2 -m 4096:4096 B P
    for bank in B P; do
        # two buffers; the kernel runs on both before each of 7 iterations
        test "$(grep -c "^buffer placeholder_$bank 0 4096$" "$dir/record")" -eq 2 || die "buffers of bank $bank"
        test "$(grep -c "^task placeholder_$bank 0 1$" "$dir/record")" -eq 14 || die "kernels of bank $bank"
    done
    expect 0 preloaded "$recorder" env FPGA_RECORD="$dir/record" \
        "$bench" bw -c -d opencl --placeholder "$dir/kernels" -i 2 -x 1 -W 2 -m 4096:4096 D H
    grep -q '^binary loaded 0 [1-9]' "$dir/record" || die "no binary was loaded"
    grep -q '^buffer placeholder_D 0 4096$' "$dir/record" || die "no buffer in DDR"
    expect 1 "$bench" latency -d opencl --placeholder "$dir/none" -m 64:64 D D
    grep -q "cannot read the placeholder kernels: $dir/none" "$dir/err" || die "no reason for a missing binary"
}

# Several ways in turns, OSU's names beside programs of that name, another MPI by its mpicc, the picture.
suite() {
    top=$(dirname "$bench")/..
    expect 0 "$bench" suite --help
    expect 2 "$bench" suite --figures 7
    expect 2 "$bench" suite --mpi pigeon
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    if [ -e "$top/libexec/telpher/telpher-bench-openmpi.so" ] && command -v mpirun.openmpi >/dev/null; then
        expect 0 "$bench" suite -d sim --figures 3 --mpi openmpi --rounds 2 -i 2 -m 4K:8K --json "$dir/suite.json"
        # bytes, host, staged, ratio: no library before the MPI where a sanitizer must be first
        test "$(grep -Ec '^\| [48]K( \| [0-9.,]+){2}' "$dir/out")" -eq 4 || die "rows of the suite"
        grep -q '"way": "staged"' "$dir/suite.json" || die "no results"
        is_sanitized || grep -q '"way": "library"' "$dir/suite.json" || die "nothing with libtelpher-mpi-device-openmpi"
        expect 0 "$bench" suite -d sim --figures 5 --mpi openmpi --rounds 1 -i 2 -m 4K:8K --patterns bcast --devices 1,2 --json "$dir/scale.json"
        test "$(grep -Ec '2 processes on (1 device|2 devices), openmpi .us., figure 5$' "$dir/out")" -eq 2 || die "no tables of devices"
        test "$(grep -c 'limited by\|limit unknown' "$dir/out")" -eq 2 || die "no lines that say what limits it"
        mkdir "$dir/osu"
        ln -s "$(realpath "$bench")" "$dir/osu/osu_bcast"
        expect 0 "$bench" suite --osu "$dir/osu" --mpi openmpi --rounds 1 -i 3 -m 4:8
        grep -Eq "^\| bcast \| openmpi \| 1 \| [0-9.]+ \| [0-9.]+ \|.*\| (agrees|differs)" "$dir/out" || die "no line says whether bcast agrees"
        test "$(grep -Ec '^\| [48]( \| [0-9.,]+){4} \|$' "$dir/out")" -eq 2 || die "rows beside OSU's program"
        if has_matplotlib; then
            expect 0 "$bench" plot "$dir/suite.json" -o "$dir/suite.svg"
            grep -q 'Figure 3: bibw' "$dir/suite.svg" || die "no panel"
            expect 0 "$bench" plot "$dir/scale.json" -o "$dir/scale.svg"
            grep -q '>2 devices<' "$dir/scale.svg" || die "no line of two devices"
        fi
    fi
    # what limits a figure, by host buffers' share: less, about the same, and more than all of it
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top/libexec/telpher" python3 -c '
suite = __import__("telpher-bench-suite")
for us in (1000, 110, 10):
    print(suite.limit_of({"host": {8: {"median": 100, "unit": "us"}}, "library": {8: {"median": us, "unit": "us"}}}, [8], None))' >"$dir/out" 2>"$dir/err" ||
        die "limits cannot be told"
    test "$(sed 's/.*limited by //' "$dir/out" | tr '\n' ';')" = "copies between device and host memory;the MPI itself;copies from device to device, beside the MPI;" || die "limits"
    # host buffers of each MPI in turns, adaptive MPI's last
    expect 2 "$bench" suite --mpi ampi
    expect 2 "$bench" suite -d host --osu "$dir"
    if [ -e "$top/libexec/telpher/telpher-bench-ampi.so" ]; then
        each=ampi
        test ! -e "$top/libexec/telpher/telpher-bench-openmpi.so" || ! command -v mpirun.openmpi >/dev/null || each=openmpi,ampi
        expect 0 "$bench" suite -d host --mpi $each --patterns latency,mbw_mr,allreduce --ranks 2,4 --rounds 1 -i 3 -m 4:8 --json "$dir/each.json"
        test "$(grep -Ec '^\| [48]( \| [0-9.,]+)+ \|' "$dir/out")" -eq 10 || die "rows of each MPI"
        test "$each" = ampi || test "$(grep -Ec '^\| (latency|mbw_mr|allreduce) \| [24]( \| [0-9.]+){2}, [0-9.]+ \|$' "$dir/out")" -eq 5 || die "no line for each pattern"
        grep -q '"way": "ampi"' "$dir/each.json" || die "no results of adaptive MPI"
        mkdir -p "$dir/alone/bin" "$dir/alone/libexec" # without the launcher
        cp "$bench" "$dir/alone/bin"
        ln -s "$(realpath "$top/libexec/telpher")" "$dir/alone/libexec/telpher"
        expect 1 "$dir/alone/bin/telpher-bench" suite -d host --mpi ampi --patterns latency --rounds 1 -i 3 -m 4:8
        grep -q 'latency, each, ampi: cannot run .*/telpher: No such file' "$dir/err" || die "no word about a missing launcher"
    fi
    expect 2 "$bench" build-mpi --nonsense
    expect 2 "$bench" build-mpi mpicc stray
    expect 1 "$bench" build-mpi "$dir/no-mpicc"
    grep -q 'no compiler' "$dir/err" || die "no reason for a missing compiler"
    ! is_sanitized || return 0 # the module is not
    if [ -e "$top/lib/libtelpher-ampi.so" ]; then
        expect 0 "$bench" build-mpi "$top/bin/telpher-mpicc" -o "$dir/ampi.so"
        expect 0 "$top/bin/telpher" launch -n 2 -- "$bench" bw --mpi "$dir/ampi.so" -r mpi -c -i 5 -x 1 -m 64:128 -d sim D D
        test "$(grep -Ec '^(64|128) ' "$dir/out")" -eq 2 || die "rows of device memory on adaptive MPI"
        for pattern in latency ialltoall put_bw; do
            expect 0 "$top/bin/telpher" launch -n 2 -- "$bench" "$pattern" -r mpi --mpi "$dir/ampi.so" -c -i 5 -x 1 -W 4 -m 64:128
            grep -q '^# Transport Telpher adaptive MPI' "$dir/out" || die "not adaptive MPI"
            test "$(grep -Ec '^(64|128) ' "$dir/out")" -eq 2 || die "rows of $pattern"
            test "$pattern" != ialltoall || grep -Eq '^64( +[0-9.]+){4} +Pass$' "$dir/out" || die "columns of $pattern"
        done
    fi
}

# Objects, MPI and Python with device memory, and what Charm++'s ping-pong prints.
models() {
    top=$(dirname "$bench")/..
    expect 0 "$bench" models --help
    expect 2 "$bench" models --figures 12
    expect 2 "$bench" models --ranks two
    for way in entry entry_host object object_host; do
        expect 0 "$bench" latency -r "$way" -c -i 10 -x 2 -m 64:128
        test "$(grep -Ec '^(64|128) .*[0-9]$' "$dir/out")" -eq 2 || die "rows of $way"
    done
    ! is_sanitized || return 0 # neither Python nor the module of the MPI is
    export LD_LIBRARY_PATH="$top/lib" PYTHONDONTWRITEBYTECODE=1
    PYTHONPATH="$top/python" python3 -c 'import telpher' 2>/dev/null || { echo "skipped: python3 cannot load the package telpher"; exit 77; }
    expect 0 "$bench" models --figures 11,15 -m 64:128 -i 5 --edge 12 --steps 3 --ranks 1 --rounds 1 --json "$dir/models.json"
    for figure in 11 15; do
        grep -q "^Figure $figure: " "$dir/out" || die "no figure $figure"
        grep -q "\"figure\": $figure," "$dir/models.json" || die "no results of figure $figure"
    done
    grep -Eq '^\| latency \|( [0-9.]+ to [0-9.]+ \|){3,5}$' "$dir/out" || die "no Table 1"
    if [ "$(id -u)" = 0 ] && ip netns list >/dev/null 2>&1 && unshare --net true 2>/dev/null; then
        expect 0 unshare --net "$bench" models --hosts --figures 15 --edge 12 --steps 3 --ranks 2 --rounds 1 -d sim
        grep -q '^Figure 15: .*between network namespaces' "$dir/out" || die "no figure between namespaces"
    fi
    ! python3 -c 'import matplotlib' 2>/dev/null || {
        expect 0 "$bench" plot "$dir/models.json" -o "$dir/models.svg"
        grep -q 'Figure 15' "$dir/models.svg" || die "no panel"
    }
}

# The patterns of Python's calls: each is right, and finds a wrong byte.
python() {
    top=$(dirname "$bench")/..
    expect 0 "$bench" python --help
    expect 2 "$bench" python pigeon
    expect 2 "$bench" python latency -m pigeon
    python3 -c 'import mpi4py' 2>/dev/null || {
        expect 1 "$bench" python latency -r mpi4py
        grep -q 'no Python package mpi4py here' "$dir/err" || die "no word about mpi4py"
    }
    export PYTHONPATH="$top/python" LD_LIBRARY_PATH="$top/lib" PYTHONDONTWRITEBYTECODE=1
    ! is_sanitized || return 0 # a sanitizer must be the first library
    python3 -c 'import telpher' 2>/dev/null || { echo "skipped: python3 cannot load the package telpher"; exit 77; }
    expect 1 env -u TELPHER_RANK "$bench" python latency
    grep -q 'no rank: start this by' "$dir/err" || die "no word about the launcher"
    runtimes="telpher telpher_host"
    ! python3 -c 'import greenlet' 2>/dev/null || runtimes="$runtimes objects objects_host"
    for runtime in $runtimes; do
        for pattern in latency bw bibw; do
            expect 0 "$top/bin/telpher" launch -n 2 -- "$bench" python "$pattern" -r "$runtime" -d sim -m 64:128 -i 4 -W 4 -c
            test "$(grep -Ec '^(64|128) +([0-9.]+ +){3}Pass$' "$dir/out")" -eq 2 || die "rows of $pattern, $runtime"
            expect 1 "$top/bin/telpher" launch -n 2 -- "$bench" python "$pattern" -r "$runtime" -d sim -m 64:64 -i 4 -W 4 -c --flip
            grep -q 'byte 32 is' "$dir/err" || die "a wrong byte is not found: $pattern, $runtime"
        done
    done
    python3 -c 'import mpi4py.MPI' 2>/dev/null && command -v mpirun.openmpi >/dev/null || return 0
    for pattern in latency bw bibw allgather allreduce alltoall bcast gather reduce scatter; do
        expect 0 mpirun.openmpi --oversubscribe -n 2 "$bench" python "$pattern" -r mpi4py_host -m 64:64 -i 4 -W 4 -c
        grep -Eq '^64 +([0-9.]+ +){3}Pass$' "$dir/out" || die "rows of $pattern, mpi4py"
        expect 1 mpirun.openmpi --oversubscribe -n 2 "$bench" python "$pattern" -r mpi4py -m 64:64 -i 4 -W 4 -c --flip
        grep -q 'byte 32 is' "$dir/err" || die "a wrong byte is not found: $pattern, mpi4py"
    done
}

# An error gets one clear line, and the program ends.
errors() {
    top=$(dirname "$bench")/..
    one() { # PATTERN COMMAND…: fails within a minute, and standard error has that line of one rank or of both, and the launcher's
        wanted=$1
        shift
        status=0
        timeout 60 "$@" >"$dir/out" 2>"$dir/err" || status=$?
        test "$status" -ne 0 -a "$status" -ne 124 || die "exit status $status: $*"
        lines=$(grep -Ec "$wanted" "$dir/err") || true
        test "$lines" -ge 1 -a "$lines" -le 2 || die "not one line of \"$wanted\": $*"
        test "$(wc -l <"$dir/err")" -le $((lines + 1)) || is_sanitized || die "other lines than \"$wanted\": $*" # leaks of a driver
    }
    one 'runs under the mpirun of Open MPI or MPICH' env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE "$bench" allgather -r mpi
    one 'module for this MPI: .*no-such.so' "$bench" latency -r mpi --mpi "$dir/no-such.so"
    one 'cannot allocate CUDA memory: no driver|CUDA' env TELPHER_DOMAINS=host "$bench" latency -d cuda D D
    one 'cannot allocate OpenCL memory: no driver' env OCL_ICD_VENDORS="$dir/none" "$bench" latency -d opencl D D
    one 'TELPHER_MAPPING: expected numbers of devices.*found "0:pigeon"' env FPGA_MAPPING=0:pigeon "$bench" latency D D
    mkdir "$dir/broken" "$dir/other"
    for library in libnccl.so.2:ncclGetVersion libnvshmem_host.so.3:nvshmemx_get_uniqueid; do # a loader's error; not that library
        : >"$dir/broken/${library%:*}"
        cp "$standin/libpapi.so" "$dir/other/${library%:*}"
        runtime=$(echo "$library" | sed 's/lib\([a-z]*\).*/\1/')
        one "runtime's library is not here: .*${library%:*}: file too short" env LD_LIBRARY_PATH="$dir/broken" "$bench" put_latency -r "$runtime" -d cuda D D
        one "lacks a function: ${library#*:}" env LD_LIBRARY_PATH="$dir/other" "$bench" put_latency -r "$runtime" -d cuda D D
    done
    mkdir "$dir/python"
    ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$dir/python/python3"
    one 'suite: no MPI here' env PATH="$dir/python" "$bench" suite
    # a rank that is killed
    "$top/bin/telpher" launch -n 2 -- "$bench" latency -r channel -i 100000000 -m 8:8 >"$dir/out" 2>"$dir/err" &
    server=$!
    for _ in $(seq 100); do
        victim=$(pgrep -P "$server" -f 'latency -r channel' | tail -1) || true
        test -z "$victim" || ! grep -q '^# Size' "$dir/out" || break
        sleep 0.1
    done
    test -n "$victim" || die "no rank to kill"
    kill -9 "$victim"
    status=0
    wait "$server" || status=$?
    server=
    test "$status" -ne 0 || die "a killed rank is no failure"
    grep -Eq 'rank [01] .*(killed|signal)' "$dir/err" || die "no word about the killed rank"
}

# every_pattern WAY MISSING: that output of check has a line for each pattern of the table: right, with the wrong byte
# found, or one that this way does not have.
every_pattern() {
    for link in "$osu"/osu_*; do
        name=${link##*/osu_}
        case $name in init | hello) continue ;; esac
        grep -E "^$name +" "$dir/out" >"$dir/rows" || die "$1: no check of $name"
        while read -r line; do
            case $line in
            *' Pass') continue ;;
            *' - has no content to check') known='i?barrier|barrier_persistent' ;;
            *' - '*) known=$2 ;;
            *) known=none ;;
            esac
            echo "${line%%  *}" | grep -Eq "^($known)$" || die "$1: $line"
        done <"$dir/rows"
    done
}
# Every pattern of every runtime: right content, and a wrong byte is found in each. Then OSU's names and columns.
patterns() {
    ran=0
    osu=$(dirname "$bench")/../libexec/telpher/osu
    telpher="$(dirname "$bench")/telpher launch -n 2 --"
    others='.*_(persistent|partitioned)|bw_fan_.*|i?(neighbor_)?all.*|i?(bcast|barrier|reduce|gather|scatter).*|(get_)?acc_latency|(fop|cas)_latency'
    for way in channel "channel -b multiple" put; do
        expect 0 $telpher "$bench" check -r $way
        every_pattern "$way" "$(test "$way" = put && echo "${others}" || echo "$others|put_notify")"
    done
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    if [ -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-ampi.so" ]; then
        expect 0 $telpher "$bench" check -r ampi
        every_pattern ampi put_notify
        expect 0 $telpher "$bench" check -r ampi -d sim
        every_pattern "ampi, device" 'put_.*|get_.*|(acc|fop|cas)_latency'
        expect 0 "$bench" allreduce -r ampi -m 4:8 -i 5 -c # starts its ranks
        expect 0 $telpher "$bench" latency -r mpi --mpi ampi -d sim -m 64:128 -i 5 -c D D
        grep -q '^# Transport Telpher adaptive MPI' "$dir/out" || die "not adaptive MPI"
    fi
    for flavour in openmpi mpich; do
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-$flavour.so" || continue
        launch="mpirun.$flavour"
        command -v "$launch" >/dev/null || continue
        missing='put_notify|(latency|bw)_partitioned' # Open MPI 4 has none
        if [ "$flavour" = mpich ]; then # MPICH 4.0 cannot start a persistent collective twice
            missing='put_notify|(neighbor_)?all.*_persistent|(bcast|barrier|reduce|gather|scatter).*_persistent'
        else
            launch="$launch --oversubscribe"
        fi
        ran=1
        for way in mpi "mpi -b multiple -i 1" "mpi_host -d sim -i 1" "mpi -l -i 1"; do
            $launch -n 2 "$bench" check -r $way >"$dir/out" 2>"$dir/err" || die "patterns of $flavour, $way"
            case $way in
            *-l*) # collectives in place
                test "$(grep -c ' Pass$' "$dir/out")" -ge "$(test "$flavour" = mpich && echo 24 || echo 36)" || die "too few patterns of $flavour"
                ;;
            mpi_host*) every_pattern "$flavour, $way" "$missing|put_.*|get_.*|(acc|fop|cas)_latency" ;;
            *) every_pattern "$flavour, $way" "$missing" ;;
            esac
        done
        expect 0 $launch -n 2 "$osu/osu_latency" -m 8:16 -i 10 -x 2 -c -z
        grep -Eq '^8 +[0-9.]+ +Pass( +[0-9.]+){3}$' "$dir/out" || die "columns of osu_latency, $flavour"
        expect 0 $launch -n 2 "$osu/osu_allreduce" -m 4:16 -i 10 -f -T mpi_int
        grep -Eq '^16( +[0-9.]+){3} +10$' "$dir/out" || die "columns of osu_allreduce, $flavour"
        expect 0 $launch -n 2 "$osu/osu_reduce" -m 4:16 -i 10 -k fixed:1 -a 8 -c
        expect 0 $launch -n 2 "$osu/osu_ibcast" -m 4:16 -i 10 -t 3
        grep -Eq '^16( +[0-9.]+){4}$' "$dir/out" || die "columns of osu_ibcast, $flavour"
        expect 0 $launch -n 2 "$osu/osu_bcast" -m 4:4 -i 9 -k rotate -c -T all
        test "$(grep -Ec '^# Datatype: MPI_(CHAR|INT|FLOAT)|^4 .* Pass$' "$dir/out")" -eq 6 || die "a root that rotates, $flavour"
        expect 0 $launch -n 2 "$osu/osu_mbw_mr" -m 1:2 -i 3 -x 1 -V
        test "$(grep -Ec '^[12]( +[0-9.]+){5}$' "$dir/out")" -eq 4 || die "windows that vary, $flavour"
        expect 0 $launch -n 3 "$osu/osu_mbw_mr" -m 4:4 -i 3 -x 1 -p 1 -R 0 -c -z5,95
        grep -Eq '^4 +[0-9.]+ +Pass( +[0-9.]+){2}$' "$dir/out" || die "one pair of three ranks, $flavour"
        for sync in lock pscw fence; do
            expect 0 $launch -n 2 "$osu/osu_put_latency" -m 64:64 -i 3 -x 1 -s "$sync" -w create
            grep -Eq '^64 +[0-9.]+$' "$dir/out" || die "columns of osu_put_latency, $flavour"
        done
        expect 0 $launch -n 2 "$osu/osu_init"
        grep -Eq '^nprocs: 2, min: [0-9]+ ms' "$dir/out" || die "output of osu_init, $flavour"
        $launch -n 1 "$osu/osu_bw" >"$dir/out" 2>&1 && die "one rank is a pair, $flavour"
        grep -q 'bw is for 2 ranks' "$dir/out" || die "no reason for a refusal, $flavour"
    done
    test "$ran" = 1 || { echo "skipped: built for no MPI that has its mpirun here (packages libopenmpi-dev, libmpich-dev)"; exit 77; }
}

# One-sided patterns with each kind of window and each end of an epoch: right content, and a wrong byte is found in each.
windows() {
    ran=0
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    for flavour in openmpi mpich; do
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-$flavour.so" && command -v "mpirun.$flavour" >/dev/null || continue
        launch="mpirun.$flavour$(test "$flavour" = mpich || echo " --oversubscribe")"
        ran=1
        expect 0 $launch -n 2 "$bench" check -r mpi -s all -w all -i 1 -x 0
        for pattern in put_latency get_latency acc_latency get_acc_latency fop_latency cas_latency put_bw get_bw put_bibw get_multi_lat get_mbw; do
            for sync in flush flush_local lock lock_all pscw fence; do
                for window in allocate create dynamic; do
                    case $pattern-$sync in put_bibw-flush* | put_bibw-lock*) continue ;; esac # these end an epoch of one alone
                    line=$(grep "^$pattern -s $sync -w $window " "$dir/out") || die "no check of $pattern -s $sync -w $window"
                    case $pattern-$sync-$window-$flavour-$line in
                    *' Pass') ;;
                    [fc]?[ps]_latency-*-allocate-openmpi-*' - Open MPI 4 crashes'*) ;;
                    *) die "$flavour: $line" ;;
                    esac
                done
            done
        done
    done
    test "$ran" = 1 || { echo "skipped: built for no MPI that has its mpirun here (packages libopenmpi-dev, libmpich-dev)"; exit 77; }
}

# One output of a program osu_*: a title, names of columns at OSU's fixed places, and in each row a figure below each name.
osu_columns() {
    awk -v sized="$1" -v rows="$2" '
        function cell(line, i) { return substr(line, i == 0 && !sized ? 1 : first + 1 + 18 * (i - !sized), i == 0 && !sized ? first : 18) }
        /^# OSU MPI.* Test v[0-9.]+/ { title = 1 }
        /^#/ { head = $0; match(head, /^# [A-Z][a-z]*( Latency)?\(us\)/); first = sized ? 10 : RLENGTH }
        /^ *[0-9]/ {
            found++
            bad = bad || (sized && (head !~ /^# Size  / || $1 != 2 ^ (found + 1) || substr($0, 1, 10) !~ /^[0-9]+ *$/)) || length($0) != length(head)
            for (i = 0; cell(head, i) != ""; i++) {
                name = cell(head, i)
                value = cell($0, i)
                bad = bad || name !~ /[^ ] *$/ || (name ~ /Validation/ ? value !~ /Pass$/ : name ~ /Iterations/ ? value !~ /[0-9]$/ : value !~ /[0-9]\.[0-9][0-9]$/)
            }
            bad = bad || i == 0
        }
        END { exit !title || bad || found != rows }' "$dir/out" || die "not the columns of OSU: $3"
}
# OSU's options -D, -G, -I, -N and -P: what they send, draw, start, connect and count.
letters() {
    osu=$(dirname "$(realpath "$bench")")/../libexec/telpher/osu
    bench=$(realpath "$bench")
    standin=$(realpath "$standin")
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    cd "$dir"
    printf '# displacement, length\n2, 10\n\n 20,4\n' >blocks
    printf '0,1\n1,2\n2,0\n0,2\n' >edges
    printf '1,2\n3 4\n' >wrong
    ran=0
    for flavour in openmpi mpich; do
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-$flavour.so" && command -v "mpirun.$flavour" >/dev/null || continue
        launch="mpirun.$flavour$(test "$flavour" = mpich || echo " --oversubscribe")"
        ran=1
        for layout in $(test "$flavour" = mpich && echo indx:blocks || echo vect:8:3); do # what is sent arrives, what is not stays; a wrong byte is found
            $launch -n 2 "$bench" check -r mpi -D "$layout" -i 1 >out 2>err || die "layout $layout of $flavour"
            test "$(grep -c ' Pass$' out)" -ge "$(test "$flavour" = mpich && echo 58 || echo 74)" || die "too few patterns with layout $layout of $flavour"
        done
        expect 0 $launch -n 2 "$bench" allgather -i 2 -m 4:4 # by the MPI that starts it
        expect 0 $launch -n 2 "$osu/osu_latency" -D vect:8:3 -m 4:32 -i 5 -x 1
        for row in "4 0" "8 3" "16 6" "32 12"; do
            grep -Eq "^${row% *} +[0-9.]+ +${row#* }$" out || die "bytes that are sent: $row, $flavour"
        done
        expect 0 $launch -n 2 "$osu/osu_alltoallv" -D indx:blocks -m 8:32 -i 5 -x 1 # 24 elements
        test "$(grep -Ec '^[0-9]' out)" -eq 1 || die "sizes that the blocks do not fit in, $flavour"
        expect 0 $launch -n 3 "$osu/osu_neighbor_alltoallv" -N graph:edges -m 4:8 -i 3 -x 1 -c
        test "$(grep -Ec '^[48] .* Pass$' out)" -eq 2 || die "a graph of neighbors, $flavour"
        expect 0 $launch -n 9 "$osu/osu_neighbor_allgatherv" -N cart:2:1 -m 4:4 -i 2 -x 1 -c
        grep -Eq '^4 .* Pass$' out || die "a torus of neighbors, $flavour"
        if grep -qs MPI_Session_init "$(dirname "$bench")/../libexec/telpher/telpher-bench-$flavour.so"; then
            expect 0 $launch -n 2 "$osu/osu_allreduce" -I -m 4:8 -i 5 -x 1 -c
            test "$(grep -Ec '^[48] .* Pass$' out)" -eq 2 || die "a session, $flavour"
            expect 0 $launch -n 2 "$osu/osu_put_latency" -I -m 4:4 -i 5 -x 1
        else
            $launch -n 2 "$osu/osu_latency" -I >out 2>err && die "a session of $flavour"
            grep -q 'this MPI has no sessions' err || die "no reason for a missing session, $flavour"
        fi
    done
    test "$ran" = 1 || { echo "skipped: built for no MPI that has its mpirun here (packages libopenmpi-dev, libmpich-dev)"; exit 77; }
    mkdir logs
    expect 0 "$bench" check -r channel -clog:logs # sends wrong bytes
    grep -Eq '^iteration [0-9]+, block 0, byte 2048: [0-9]+, not [0-9]+$' logs/latency-4096-rank1.log || die "no list of wrong bytes"
    expect 2 $launch -n 2 "$osu/osu_latency" -D indx:wrong
    grep -q 'wrong: line 2 is not two numbers' err || die "no reason for a wrong file"
    expect 2 $launch -n 2 "$osu/osu_neighbor_allgather" -N graph:edges
    grep -q 'edge 1, 2: this job has ranks 0 to 1' err || die "no reason for a wrong edge"
    expect 2 $launch -n 2 "$osu/osu_neighbor_allgather" -N cart:1:1
    grep -q 'radius 1 needs 3 ranks' err || die "no reason for a wrong radius"
    for pattern in latency bw; do
        expect 0 "$bench" "$pattern" -m 4:8 -i 70 -x 1 -G tty
        test "$(grep -Ec "^$pattern [48]: [0-9.]+ .* [0-9.]+ (us|MB/s), 70 iterations$" out)" -eq 2 || die "no iterations of $pattern"
    done
    if has_matplotlib; then
        expect 0 "$bench" latency -m 4:8 -i 9 -x 1 -G png
        test -s osu_latency.png || die "no picture"
    fi
    # a stand-in, whose counts are known
    export LD_LIBRARY_PATH="$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    expect 0 "$bench" latency -m 4:8 -i 5 -x 1 -P PAPI_TOT_CYC,perf::FAULTS:counts
    test "$(grep -Ec '^PAPI_TOT_CYC +101 +101$|^perf::FAULTS +202 +202$' counts)" -eq 2 || die "counts: $(cat counts)"
    expect 1 "$bench" latency -m 4:4 -i 5 -P PIGEONS
    grep -q '^telpher-bench: -P: PIGEONS: Event does not exist$' err || die "no reason for an unknown event"
    expect 1 "$bench" latency -m 4:4 -i 5 -P PAPI_TOT_CYC:none/counts
    grep -q -- '-P: none/counts: No such file' err || die "no reason for a file that cannot be written"
}

# Each kind of table by OSU's names, and options that add columns: what scripts for OSU's output rely on.
columns() {
    osu=$(dirname "$bench")/../libexec/telpher/osu
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    launch=
    for flavour in mpich openmpi; do # the second waits without a processor
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-$flavour.so" && command -v "mpirun.$flavour" >/dev/null || continue
        launch="mpirun.$flavour$(test "$flavour" = mpich || echo " --oversubscribe") -n 2"
    done
    test -n "$launch" || { echo "skipped: built for no MPI that has its mpirun here (packages libopenmpi-dev, libmpich-dev)"; exit 77; }
    for line in latency "latency -c -z50,99" "bw -z" bibw mbw_mr "allreduce -f" barrier "barrier -z" ibarrier "ibcast -f" "ibcast -c" put_latency get_bw; do
        name=${line%% *}
        sized=1 rows=2 options="-m 4:8 -i 2 -x 1"
        case $name in *barrier*) sized=0 rows=1 options="-i 2 -x 1" ;; esac
        expect 0 $launch "$osu/osu_$name" $options ${line#"$name"}
        osu_columns "$sized" "$rows" "$line"
    done
    expect 0 $launch "$osu/osu_fop_latency" -i 2 -x 1
    grep -Eq '^8 +[0-9.]+$' "$dir/out" || die "columns of fop_latency"
}

# Runtime mpi under every MPI that telpher-bench was built for. Those libraries leak at their end.
mpi() {
    ran=0
    expect 1 env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE "$bench" latency -r mpi
    grep -q 'runs under the mpirun' "$dir/err" || die "no word about mpirun"
    expect 1 "$bench" latency -r mpi --mpi pigeon
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    for flavour in openmpi mpich; do
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-$flavour.so" && command -v "mpirun.$flavour" >/dev/null || continue
        launch="mpirun.$flavour$(test "$flavour" = mpich || echo " --oversubscribe")"
        ran=1
        for pattern in latency bw bibw mbw_mr multi_lat; do
            expect 0 $launch -n 2 "$bench" "$pattern" -r mpi -c -i 5 -x 2 -m 1:32K -W 8
            # -c looks at the data; a figure may be 0.00 MB/s where both ranks had to wait for a processor
            test "$(grep -Ec '^[0-9]+ +[0-9]+\.[0-9]' "$dir/out")" -eq 16 || die "rows of $pattern, $flavour"
        done
        if $launch -n 2 "$bench" latency -r mpi -d sim -i 5 D D >"$dir/out" 2>"$dir/err"; then
            die "$flavour takes memory that no MPI knows"
        fi
        grep -q 'takes H, or D of -d cuda' "$dir/err" "$dir/out" || die "no reason why $flavour takes no such memory"
        expect 0 $launch -n 2 "$bench" notified -i 1 -x 0 -r 4 -m 1000
        test "$(grep -Ec '^(put|notify|floor|the core).*(mpi|messages) +[0-9.]+ +[0-9.]+ +[^ ].*$' "$dir/out")" -eq 7 || die "rows of notified, $flavour"
    done
    test "$ran" = 1 || { echo "skipped: built for no MPI that has its mpirun here (packages libopenmpi-dev, libmpich-dev)"; exit 77; }
}

# Starting kernels under every MPI: each row of each way, spawns where there are any, and the pictures.
launch() {
    ran=0
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    export HWLOC_COMPONENTS=-opencl,-gl
    count=0
    for flavour in openmpi mpich; do
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-launch-$flavour" || continue
        launch="mpirun.$flavour"
        command -v "$launch" >/dev/null || continue
        test "$flavour" = mpich || launch="$launch --oversubscribe"
        ran=1
        count=$((count + 1))
        expect 0 $launch -n 2 "$bench" launch -w 1 -i 2 -x 0 -n 4 -f json
        for way in single hand_single paper_single batch hand_batch paper_batch; do
            test "$(grep -c "\"way\": \"$way\", \"kernels\": [124], .*\"launch_us\": [0-9]" "$dir/out")" -eq 3 ||
                die "rows of $way, $flavour"
        done
        grep -q '"test": "setup".*"one_clock": true' "$dir/out" || die "no setup, $flavour"
        sed "s/^{/{\"launcher\": \"$flavour\", /" "$dir/out" >>"$dir/joined.json"
        expect 0 $launch -n 2 "$bench" launch -w 1 -i 2 -x 0 -n 2
        test "$(grep -Ec '^[12] +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$' "$dir/out")" -eq 12 || die "rows of the table, $flavour"
    done
    test "$ran" = 1 || { echo "skipped: no MPI with kernel offload (packages libopenmpi-dev, libmpich-dev, libffi-dev)"; exit 77; }
    expect 0 "$bench" launch --figures --launches 1 --iterations 1 --spawns 2 --jobs 1x1,1x2 --json "$dir/figures.json"
    test "$(grep -c ', one parent, one worker:$' "$dir/out")" -ge "$count" || die "no table of 1:1"
    test "$(grep -c '^| 1:[12] |' "$dir/out")" -ge $((2 * count)) || die "no rows of 1:1 and 1:2"
    if has_matplotlib; then
        expect 0 "$bench" plot "$dir/joined.json" -o "$dir/launch.svg"
        grep -q 'MPIX_Kernel_call_multiple' "$dir/launch.svg" || die "no plot"
        expect 0 "$bench" launch --figures --from "$dir/figures.json" -o "$dir/figures.svg"
        grep -q 'parents:workers 1:2' "$dir/figures.svg" || die "no picture of 1:2"
    fi
}

# Commands that are lost with the network, or run twice, are found; by each thing that a link does.
reconnect() {
    top=$(realpath "$(dirname "$bench")/..")
    mkdir "$dir/vendors"
    ls "$top"/lib/libtelpher-opencl.so.*.*.* >"$dir/vendors/telpher.icd" 2>/dev/null &&
        test -x "$top/bin/telpherd" -a -x "$top/tests/support/link" || { echo "skipped: no OpenCL driver, server or test link in this build"; exit 77; }
    "$bench" ocl --discover --platform "Portable Computing Language" >/dev/null 2>&1 ||
        { echo "skipped: no OpenCL platform called Portable Computing Language (package pocl-opencl-icd)"; exit 77; }
    over_link() { # STATUS LIBRARY OPTIONS: a client in one namespace, its server in the other
        preload=${2:+LD_PRELOAD="'$(ldd "$bench" | awk '/lib[at]san/ { print $3 }') $2'"}
        status=0
        "$top/tests/support/link" run --delay 150us --rate 1Gbit --control "$dir/control" --wait-port 7717 --wait-time 60s \
            --b "exec '$top/bin/telpherd' --socket none --insecure --log error --listen 10.77.0.2" \
            --a "TELPHER_LOG=error TELPHER_INSECURE=yes TELPHER_SERVERS=10.77.0.2 OCL_ICD_VENDORS='$dir/vendors' \
                TELPHER_CONNECT_TIMEOUT=20s WRONG_BYTE=buffers ASAN_OPTIONS=detect_leaks=0 $preload '$top/bin/telpher-bench' reconnect $3" >"$dir/out" 2>"$dir/err" || status=$?
        test "$status" -ne 77 || { echo "skipped: the kernel does not permit namespaces or TUN devices here"; exit 77; }
        test "$status" -eq "$1" || die "exit status $status, not $1: reconnect $3"
    }
    for how in cut reset close move; do
        over_link 0 "" "-i 2 --how $how"
        grep -Eq '^link up to end of command( +[0-9.]+){3}$' "$dir/out" || die "no row of $how"
        over_link 1 "$spoiler" "-i 2 --how $how"
        grep -Eq '[0-9]+ commands ran, not [0-9]+$' "$dir/err" || die "a wrong byte is not found: $how"
    done
}

# NCCL and NVSHMEM between GPUs, by libraries that are called like them and a driver without a GPU: every pattern that a
# runtime has is right, and finds a wrong byte. scripts/gpu/omb.sh runs the libraries themselves.
libraries() {
    top=$(realpath "$(dirname "$bench")/..")
    cuda=$top/tests/support/testcuda/libtestcuda.so
    test -e "$cuda" || { echo "skipped: no CUDA driver for tests in this build"; exit 77; }
    osu=$top/libexec/telpher/osu
    ln -s "$cuda" "$dir/libcuda.so.1"
    export LD_LIBRARY_PATH="$dir:$standin" TELPHER_LIBCUDA="$dir/libcuda.so.1"
    own='.*_(persistent|partitioned)|bw_fan_.*|put_notify|i?neighbor_.*|i?barrier|i?.*[vw]|i?reduce_scatter|(get_)?acc_latency|(fop|cas)_latency'
    for way in nccl nvshmem; do
        expect 0 "$top/bin/telpher" launch -n 2 -- "$bench" check -r $way -d cuda
        every_pattern "$way" "$own|$(test $way = nccl && echo '(put|get)_.*' || echo 'latency|multi_lat|bw|bibw|mbw_mr|i?(all|bcast|gather|reduce|scatter).*')"
    done
    expect 0 "$top/bin/telpher" launch -n 2 -- "$bench" allreduce -r nccl -d cuda -c -T all -m 4:8192 -i 2 -x 0
    expect 0 "$top/bin/telpher" launch -n 3 -- "$bench" allgather -r nccl -d cuda -c -m 1:200000 -i 1 -x 0
    expect 1 "$bench" latency -r nccl -c
    grep -q "this runtime's buffers are on GPUs" "$dir/err" || die "host memory is not refused"
}

# Arguments of kernels with one wrong byte: the workers find it in each way to start them, and in real spawns.
launch_flips() {
    ran=0
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    export HWLOC_COMPONENTS=-opencl,-gl
    for flavour in openmpi mpich; do
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-launch-$flavour" && command -v "mpirun.$flavour" >/dev/null || continue
        launch="mpirun.$flavour$(test "$flavour" = mpich || echo " --oversubscribe")"
        ran=1
        for way in 1 2 3 4 5 6; do # the worker finds it
            expect 1 $launch -n 2 "$bench" launch -w 1 -i 1 -x 0 -n 2 --flip $way
            grep -Eq 'launch: .*: worker 0 ran [12] of [12] kernels, 1 of them with wrong arguments$' "$dir/err" || die "a wrong byte is not found: way $way, $flavour"
        done
        $launch -n 2 "$bench" launch -w 1 -i 1 -x 0 -n 1 --spawns 1 --flip 7 >"$dir/out" 2>"$dir/err" || true
        grep -q 'real spawns: a spawned process got wrong arguments$' "$dir/err" || grep -q '^# No real spawns: ' "$dir/out" || die "a wrong byte is not found: spawns, $flavour"
    done
    test "$ran" = 1 || { echo "skipped: no MPI with kernel offload (packages libopenmpi-dev, libmpich-dev, libffi-dev)"; exit 77; }
}

# Content between two devices of one driver: each way, the floor, bytes on an interface, the picture.
migrate() {
    pocl="Portable Computing Language"
    export POCL_DEVICES="pthread pthread"
    if ! "$bench" ocl --discover --platform "$pocl" >/dev/null 2>&1; then
        echo "skipped: no OpenCL platform called $pocl (package pocl-opencl-icd)"
        exit 77
    fi
    expect 2 "$bench" migrate -W 2
    expect 0 "$bench" migrate --platform "$pocl" -i 3 -x 1 -m 4:64 --interface lo --rounds 1 --json "$dir/migrate.json"
    grep -Eq '^# Size .*Subject .us.  *Client .us.  *Floor' "$dir/out" || die "no columns"
    test "$(awk '$1 ~ /^(4|16|64)$/ && NF == 6 && $2 > 0 && $3 > 0 && $4 > 0' "$dir/out" | wc -l)" -eq 9 || die "rows of the tables"
    cp "$dir/out" "$dir/migrate.out"
    expect 1 preloaded "$spoiler" "$bench" migrate --platform "$pocl" -i 2 -x 1 -m 4:4 --no-floor --rounds 1
    for case in "migrate, size 4" "step, size 4" "loop, size 4" "chain, size 0" "chain_one, size 0"; do
        grep -q "^# FAILED: Subject, $case: .*\(wrong\|kernels ran\)" "$dir/out" || die "a wrong byte is not found: $case"
    done
    cp "$dir/migrate.out" "$dir/out"
    test "$(grep -Ec '^# (Subject|Client), (migrate|step|loop), size (4|16|64): [0-9]+$' "$dir/out")" -eq 18 || die "no bytes"
    ! grep -q '"validated": false' "$dir/migrate.json" || die "something was not validated"
    grep -q '"interface_bytes": ' "$dir/migrate.json" || die "no bytes in JSON"
    expect 1 "$bench" migrate --platform "$pocl" --device 1 -m 4 --tests step --no-floor --rounds 1
    grep -q 'the platform has no device 2' "$dir/out" || die "a second device that is not there"
    expect 1 "$bench" migrate --platform "$pocl" -m 6:6 --tests step --no-floor --rounds 1
    grep -q 'not a multiple of 4' "$dir/out" || die "a size of broken numbers"
    if has_matplotlib; then
        expect 0 "$bench" plot "$dir/migrate.json" -o "$dir/migrate.svg"
        grep -q '20 steps, one finish' "$dir/migrate.svg" || die "no picture"
    fi
}

# A channel beside every MPI in one pair of processes: a row for each size, in each format, and the picture.
compare() {
    ran=0
    expect 2 "$bench" compare -m 8,
    expect 2 "$bench" compare -n 0
    expect 2 "$bench" compare -f xml
    expect 1 env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE "$bench" compare
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
    for flavour in openmpi mpich; do
        test -e "$(dirname "$bench")/../libexec/telpher/telpher-bench-$flavour.so" && command -v "mpirun.$flavour" >/dev/null || continue
        launch="mpirun.$flavour$(test "$flavour" = mpich || echo " --oversubscribe")"
        ran=1
        expect 0 $launch -n 2 "$bench" compare -n 4 -i 20 -m 8,64K
        # size, channel, MPI, ratio within its interval, floors
        awk '/^[0-9]/ && NF == 8 && $2 > 0 && $3 > 0 && $5 <= $4 && $4 <= $6 && $7 > 0 { rows++ } END { exit rows != 2 }' "$dir/out" ||
            die "rows of the table, $flavour"
        expect 0 $launch -n 2 "$bench" compare -n 3 -i 20 -m 8,4K --busy --fresh -f csv
        test "$(grep -Ec '^(8|4096),([0-9.]+,){7}3,1,1,' "$dir/out")" -eq 2 || die "rows of CSV, $flavour"
        expect 0 $launch -n 2 "$bench" compare -n 3 -i 20 -m 8,4K -f json
        test "$(grep -c '^{"pattern": "compare", "bytes": .*"busy": false, "fresh": false, "mpi": "' "$dir/out")" -eq 2 || die "rows of JSON, $flavour"
        expect 1 $launch -n 2 "$bench" compare -n 3 -i 20 -m 8 --flip
        grep -q 'compare: 8 bytes: byte 4 is wrong' "$dir/err" || die "a wrong byte is not found, $flavour"
        expect 1 $launch -n 1 "$bench" compare
    done
    test "$ran" = 1 || { echo "skipped: built for no MPI that has its mpirun here (packages libopenmpi-dev, libmpich-dev)"; exit 77; }
    expect 0 $launch -n 2 "$bench" compare -n 3 -i 20 -m 8,4K -f json
    if has_matplotlib; then
        cp "$dir/out" "$dir/compare.json"
        expect 0 "$bench" plot "$dir/compare.json" -o "$dir/compare.svg"
        grep -q 'Telpher channel' "$dir/compare.svg" || die "no picture"
    fi
}

"$part"
