#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: mapping.sh MPI MPIRUN PROGRAM WORKER
# Which devices the workers of a machine take: by turns, or as TELPHER_MAPPING says.
set -uo pipefail
mpi=$1 mpirun=$2 program=$3 worker=$4
here=$(dirname "$0") bad=0

# expect MAPPING WORKERS TAKEN WORDS DEVICES...: what is taken of each number of devices
expect() {
    local mapping=$1 workers=$2 taken=$3 words=$4 out
    shift 4
    out=$(TELPHER_MAPPING=$mapping timeout -k 5 30 "$here/run.sh" "$mpi" "$mpirun" split 1 "$workers" "$program" "$worker" \
        "$@" 2>&1)
    if grep -qx "taken $taken" <<<"$out" && grep -q "$words" <<<"$out"; then
        echo "\"$mapping\", workers $workers, devices $*: $taken"
    else
        printf '"%s", workers %s, devices %s, without "taken %s" and "%s":\n%s\n' "$mapping" "$workers" "$*" "$taken" \
            "$words" "$out"
        bad=1
    fi
}

expect "" 3 "0:1:0 0:0:0 -1:-1:-1" "" 2 1 0
expect 2:0 3 "2:0:2 -1:0:-1" "TELPHER_MAPPING: device 2 does not exist, there are 2" 4 2
expect one 1 "-1" 'TELPHER_MAPPING: expected numbers of devices like 2:0:3, found "one"' 2
exit $bad
