#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: restart.sh TELPHER PROGRAM: a job whose process is killed goes on from its checkpoint: one on
# disk with another number of processes, one in memory by itself.
set -eu
telpher=$1 program=$2
export TELPHER_AMPI_MIGRATE=yes
unset TELPHER_MDR_CHECKPOINT || true
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run() {
    timeout 100 "$telpher" launch "$@" 2>&1 || true
}

expect() {
    if ! echo "$2" | grep -q "$1"; then
        printf '%s\nno "%s"\n' "$2" "$1"
        exit 1
    fi
}

out=$(MIGRATE_KILL=$folder/one run -n 2 -- "$program" 25 "$folder/saved" +vp 4)
echo "$out" | grep "randomization off" && exit 77
expect 'ended by signal 9' "$out"
# each rank was in another process when it was saved
expect '4 ranks, 2 processes, 25 steps, 4 moves: exact' \
    "$(run -n 3 -- "$program" 25 "$folder/saved" +vp 4 +restart "$folder/saved")"
expect 'another number of ranks' \
    "$(run -n 2 -- "$program" 25 "$folder/saved" +vp 5 +restart "$folder/saved")"
out=$(MIGRATE_KILL=$folder/two run -n 2 --restart 3 -- "$program" 25 in_memory +vp 4)
expect 'starting again' "$out"
expect '4 ranks, 2 processes, 25 steps, 4 moves: exact' "$out"
