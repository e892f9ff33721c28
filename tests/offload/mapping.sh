#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: mapping.sh MPI MPIRUN PROGRAM WORKER
# Which devices the workers of a machine take: by turns, or as TELPHER_MAPPING says.
set -uo pipefail
mpi=$1 mpirun=$2 program=$3 worker=$4
here=$(dirname "$0") bad=0

# expect TAKEN MAPPING WORKERS DEVICES [WORDS]
expect() {
    local taken=$1 mapping=$2 workers=$3 devices=$4 words=${5:-} out
    out=$(TELPHER_MAPPING=$mapping timeout -k 5 30 "$here/run.sh" "$mpi" "$mpirun" split 1 "$workers" "$program" "$worker" \
        "$devices" 2>&1)
    if grep -qx "devices $taken" <<<"$out" && grep -q "$words" <<<"$out"; then
        echo "\"$mapping\", workers $workers, devices $devices: $taken"
    else
        printf '"%s", workers %s, devices %s, without "devices %s" and "%s":\n%s\n' "$mapping" "$workers" "$devices" \
            "$taken" "$words" "$out"
        bad=1
    fi
}

expect 0:1:0 "" 3 2
expect 0:0 "" 2 1
expect -1 "" 1 0
expect 1:0:1 1:0 3 2
expect 2:0:3:2 2:0:3 4 4
expect 1:-1 1:7 2 2 "TELPHER_MAPPING: device 7 does not exist, there are 2"
expect -1 one 1 2 'TELPHER_MAPPING: expected numbers of devices like 2:0:3, found "one"'
exit $bad
