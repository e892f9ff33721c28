#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: shared.sh MPI MPIRUN PROGRAM WORKER
# Launches within a machine go by memory, unless either side says no or is in the way; they come in either case.
set -uo pipefail
mpi=$1 mpirun=$2 program=$3 worker=$4
here=$(dirname "$0") bad=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect WAY PARENT-SETTING WORKER-COMMAND...: what comes in front of the worker
expect() {
    local way=$1 setting=$2 out
    shift 2
    printf '#!/bin/sh\n%s exec "%s"\n' "$*" "$worker" >"$scratch/worker"
    chmod +x "$scratch/worker"
    out=$(TELPHER_OFFLOAD_SHARED=$setting TELPHER_LOG=warn,offload:debug timeout -k 5 60 "$here/run.sh" "$mpi" "$mpirun" \
        split 1 1 "$program" "$scratch/worker" 2>&1)
    if grep -q "launches of parent 0 come through $way\$" <<<"$out" && grep -q "1 workers by split: good" <<<"$out"; then
        echo "parent $setting, worker \"$*\": by $way"
    else
        printf 'parent %s, worker "%s": not by %s:\n%s\n' "$setting" "$*" "$way" "$(tail -n 20 <<<"$out")"
        bad=1
    fi
}

expect memory yes
expect MPI no "TELPHER_OFFLOAD_SHARED=yes"
expect MPI yes "TELPHER_OFFLOAD_SHARED=no"
exit $bad
