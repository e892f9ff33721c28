#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: explain.sh BUILD COMPILER
# telpher-mpicc --explain names what virtual ranks would share; such a program is refused at its start if it cannot run.
set -euo pipefail
build=$1
export AMPI_CC=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAILED: $*"
    exit 1
}
# expect STATUS WORDS COMMAND...
expect() {
    local status=$1 words=$2 out got=0
    shift 2
    out=$(timeout 60 "$@" 2>&1) || got=$?
    [ "$got" = "$status" ] || fail "$*: status $got: $out"
    grep -qE -- "$words" <<<"$out" || fail "$*, without \"$words\": $out"
}

cat >good.c <<'END'
#include <mpi.h>
int counter;
int main(int argc, char **argv) { MPI_Init(&argc, &argv); counter++; MPI_Finalize(); return counter - 1; }
END
cat >shares.c <<'END'
#include <mpi.h>
#include <stdlib.h>
int count(void);
int main(int argc, char **argv) { MPI_Init(&argc, &argv); rand(); count(); MPI_Finalize(); return 0; }
END
cat >library.c <<'END'
int count(void) { static int calls; return ++calls; }
END
cat >thread.c <<'END'
#include <mpi.h>
_Thread_local int mine = 1;
int main(int argc, char **argv) { MPI_Init(&argc, &argv); mine++; MPI_Finalize(); return 0; }
END
cat >device.c <<'END'
#include <mpi.h>
#include <telpher/mem.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    void *device = NULL;
    telpher_status status = telpher_mem_alloc(AMPI_Context(), TELPHER_MEM_SIM, 64, &device);
    if (status == TELPHER_OK) telpher_mem_free(AMPI_Context(), device);
    return MPI_Finalize() + (status != TELPHER_OK);
}
END
mpicc=$build/bin/telpher-mpicc
flags=(${SANITIZE:+-fsanitize=$SANITIZE})
"$mpicc" "${flags[@]}" good.c -o good
"$mpicc" "${flags[@]}" thread.c -o thread
"$mpicc" "${flags[@]}" device.c -o device
# shellcheck disable=SC2046
"$AMPI_CC" $("$mpicc" --showme:compile) -c device.c
"$mpicc" -shared library.c -o libcounts.so
"$mpicc" "${flags[@]}" shares.c -L. -lcounts -Wl,-rpath,"$work" -o shares
expect 0 "good: may run with virtual ranks" "$mpicc" --explain good
expect 0 "share state between ranks: rand" "$mpicc" --explain shares
expect 0 "ranks of a process share:.* libcounts.so" "$mpicc" --explain shares
expect 1 "thread-local variables.*: mine" "$mpicc" --explain thread
if [ -z "${SANITIZE:-}" ]; then
    expect 0 "" ./good +vp 3
    expect 0 "" ./device
    expect 1 "no virtual ranks: thread-local variables" ./thread +vp 3
fi
expect 1 "main' not defined|undefined.*main" "$mpicc" "${flags[@]}" library.c -o nothing
echo "explain: good"
