#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: cluster_test.sh TELPHER: telpher cluster on this machine, by itself and by the mpiruns in $MPIRUNS: devices of all

set -uo pipefail
telpher=$1
failed=0 passed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work _TELPHER_CLUSTER_NODE=127.0.0.1
unset TELPHER_SERVERS

say() {
    if [ "$2" = ok ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s: %s\n' "$1" "$2"
    fi
}

# expect NAME EXIT-CODE PATTERN COUNT ARGUMENT…: COUNT lines of the output match.
expect() {
    local name=$1 code=$2 pattern=$3 count=$4 out got lines
    shift 4
    out=$(timeout 100 "$telpher" cluster "$@" 2>&1 </dev/null)
    got=$?
    lines=$(grep -Ec -- "$pattern" <<<"$out")
    if [ "$got" = "$code" ] && [ "$lines" = "$count" ]; then
        say "$name" ok
    else
        say "$name" "exit $got (wanted $code), $lines lines (wanted $count) with /$pattern/: $out"
    fi
    nothing_left "$name"
}

# Daemons of this test have its folder in their environment.
daemons() {
    local pid
    for pid in $(pgrep -x telpherd); do
        { tr "\0" "\n" <"/proc/$pid/environ"; } 2>/dev/null | grep -qx "TMPDIR=$work" && echo "$pid"
    done
}

nothing_left() {
    local i
    for i in $(seq 100); do
        [ -n "$(daemons)" ] || return 0
        sleep 0.1
    done
    say "$1" "telpherd is left: $(daemons)"
}

expect help 0 'usage: telpher cluster run' 1 --help
expect no-program 2 'which program' 1 run --launcher local
expect no-hosts 2 'no Slurm allocation here' 1 run -- true
expect no-file 2 'nowhere: No such file' 1 run --hostfile nowhere -- true
expect devices 0 '^tls://127' 3 run --launcher local -N 3 -- "$telpher" devices
expect exit-code 7 'x' 0 run --launcher local -- sh -c 'exit 7'
expect signal 137 'x' 0 run --launcher local -- sh -c 'kill -KILL $$'
expect daemon-option 1 'nonsense' 3 run --launcher local --wait 20 --telpherd=--nonsense -- true

for mpirun in ${MPIRUNS-}; do
    mkdir -p "$work/bin"
    printf '#!/bin/sh\nexec %s "$@"\n' "$mpirun" >"$work/bin/mpirun"
    chmod +x "$work/bin/mpirun"
    PATH=$work/bin:$PATH expect "by-$(basename "$mpirun")" 0 '^tls://127' 2 run --launcher mpirun -N 2 -- "$telpher" devices
done

# killed NAME PATTERN: the process whose command line matches dies while the program runs; no daemon stays.
killed() {
    local pid i
    timeout 60 "$telpher" cluster run --launcher local -N 2 -- sh -c "echo \$\$ >$work/program; exec sleep 50" 2>/dev/null &
    pid=$!
    for i in $(seq 300); do
        [ ! -s "$work/program" ] || break
        sleep 0.1
    done
    [ "$(daemons | wc -l)" = 2 ] || say "$1" "$(daemons | wc -l) daemons run, wanted 2"
    case $1 in
    command) kill -KILL "$(pgrep -P "$pid" -f 'cluster run' | head -1)" ;;
    agents) pkill -KILL -P "$(pgrep -P "$pid" -f 'cluster run' | head -1)" -f 'cluster.* agent' ;;
    program) kill -KILL "$(cat "$work/program")" ;;
    esac
    nothing_left "$1 killed"
    kill "$(cat "$work/program")" 2>/dev/null
    wait "$pid"
    rm -f "$work/program"
    say "$1 killed" ok
}
killed program
killed command
killed agents

echo "$passed passed, $failed failed"
[ $failed = 0 ]
