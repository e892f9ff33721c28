#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: telpher-bench build-mpi [CC] [-o MODULE.so]
set -eu
usage() {
    cat <<'END'
Usage: telpher-bench build-mpi [CC] [-o MODULE.so]
Compiles runtime mpi for another MPI than those that this program was built for:

  telpher-bench build-mpi /opt/some/bin/mpicc -o some.so
  /opt/some/bin/mpirun -n 2 telpher-bench latency --mpi ./some.so
  telpher-bench build-mpi telpher-mpicc -o ampi.so            adaptive MPI
  telpher launch -n 2 -- telpher-bench latency --mpi ./ampi.so

CC is its compiler (mpicc), MODULE.so what is written (telpher-bench-mpi.so).
END
}
here=$(cd "$(dirname "$0")" && pwd)
compiler='' module=telpher-bench-mpi.so
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    -o) [ $# -gt 1 ] || { usage >&2 && exit 2; }
        module=$2 && shift ;;
    -*) usage >&2 && exit 2 ;;
    *) [ -z "$compiler" ] || { usage >&2 && exit 2; }
        compiler=$1 ;;
    esac
    shift
done
compiler=${compiler:-mpicc}
command -v "$compiler" >/dev/null || { echo "telpher-bench: build-mpi: no compiler $compiler; name the MPI's mpicc" >&2 && exit 1; }
# the second is of a build folder
set -- -I"$here/../../include" -I"@PROJECT_SOURCE_DIR@/include" -I"$here/build-mpi"
if ! "$compiler" -shared -fPIC -O2 -Wno-deprecated-declarations "$@" "$here"/build-mpi/bench/mpi/*.c -o "$module"; then
    echo "telpher-bench: build-mpi: $compiler cannot compile runtime mpi: see above" >&2
    exit 1
fi
case $module in */*) ;; *) module=./$module ;; esac # --mpi takes a path
echo "telpher-bench: wrote $module; run it as --mpi $module"
