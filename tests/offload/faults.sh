#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: faults.sh MPI MPIRUN split|spawn PROGRAM WORKER STRANGER LOSSES
# STRANGER is an MPI program that is not linked with the library, LOSSES losses.c. What goes wrong ends the job within 20 s, not with success, and with words that name the cause.
set -uo pipefail
mpi=$1 mpirun=$2 how=$3 program=$4 worker=$5 stranger=$6 losses=$7
here=$(dirname "$0") bad=0
export TELPHER_OFFLOAD_TIMEOUT=3s TRIES=1

# expect WORDS MODE WORKER CASE; of $parents and $workers
parents=1 workers=1
expect() {
    local words=$1 mode=$2 from=$3 name=$4 start=$SECONDS out rc
    out=$(timeout -k 5 25 "$here/run.sh" "$mpi" "$mpirun" "$mode" "$parents" "$workers" "$program" "$from" "$name" 2>&1)
    rc=$?
    if [ $rc -eq 0 ] || [ $((SECONDS - start)) -gt 20 ] || ! grep -qE "$words" <<<"$out"; then
        echo "$mode $name: exit status $rc after $((SECONDS - start)) s, without \"$words\":"
        printf '%s\n' "$out" | tail -n 15
        bad=$((bad + 1))
    else
        echo "$mode $name: $(grep -m1 -E "$words" <<<"$out")"
    fi
}

crash="kernel crashes: a bad address|AddressSanitizer: SEGV"
aborted="parent 0 \(process [0-9]+\) has ended|SIGABRT|signal 6|EXIT CODE: (134|6)"
killed="worker 0 \(process [0-9]+\) has ended|signal 9|EXIT CODE: (137|9)"

if [ "$how" = split ]; then
    expect "$crash" split "$worker" segv
    expect "kernel crashes called _exit" split "$worker" _exit3
    expect "kernel crashes called _exit" split "$worker" _exit0
    expect "kernel crashes called _exit" split "$worker" put
    expect "kernel crashes called exit" split "$worker" exit
    expect "$killed" split "$worker" killed
    expect "$aborted" split "$worker" abort
    TELPHER_OFFLOAD_KERNEL_TIMEOUT=2s expect "worker 0: kernel waits has run for [0-9.]+ s, longer than TELPHER_OFFLOAD_KERNEL_TIMEOUT" split "$worker" stuck
    TELPHER_OFFLOAD_KERNEL_WARNING=300ms TELPHER_OFFLOAD_KERNEL_TIMEOUT=2s \
        expect "worker 0: kernel waits has run for 0.[0-9]+ s; TELPHER_OFFLOAD_KERNEL_TIMEOUT bounds that \(2 s" split "$worker" stuck
    expect "no kernel no_such_kernel" split "$worker" unknown
    expect "kernel fails_at: result 7 in worker 0: worker 0 has no luck" split "$worker" unnoticed
    expect "no/such/worker" split /no/such/worker missing
    # Open MPI itself sees it if the other one has begun MPI_Init() by then
    expect "no end in 3 s: MPI_Init\(\): a program of this launch does not call it|did not call \"init\" before exiting" split /bin/true exits_early
    expect "not all processes of this launch said" split "$stranger" stranger
    parents=2 workers=2
    expect "$killed" split "$worker" gate
    program=$losses
    expect "workers were lost and cannot be ended" split "$worker" loss
elif [ "$mpi" = openmpi ]; then
    expect "$crash" spawn "$worker" segv
    expect "kernel crashes called _exit" spawn "$worker" _exit0
    expect "$aborted" spawn "$worker" abort
    expect "no/such/worker cannot be executed" spawn /no/such/worker missing
    expect "no end in 3 s: MPI_Comm_spawn" spawn /bin/true exits_early
    expect "do not answer; is what was spawned telpher-worker" spawn "$stranger" stranger
else
    expect "this MPI cannot spawn here" spawn "$worker" cannot
fi
exit $((bad > 0))
