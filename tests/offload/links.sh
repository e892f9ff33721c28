#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: links.sh MPI MPIRUN MPICC WORKER-CC BUILD PROGRAM
# Workers linked in each way that people link: kernels are found in all of them, without -rdynamic. PROGRAM
# calls the kernels "dic" (double, int, char), "pair" (a struct, float) and "part" (telpher_bytes, telpher_block) and no
# other: tests/offload/links.c.
set -uo pipefail
mpi=$1 mpirun=$2 mpicc=$3 worker_cc=$4 build=$5 program=$6
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0 sanitize=${SANITIZE:+-fsanitize=$SANITIZE}
# shellcheck disable=SC2206
flags=($sanitize -g "-I$here/../../include" "-I$build/include")
libs=("-L$build/lib" "-Wl,-rpath,$build/lib" -Wl,--no-as-needed "-ltelpher-worker-$mpi" "-ltelpher-offload-$mpi")

cat >kernels.inc <<'C'
#include <stdlib.h>
#include <string.h>
#include <telpher/kernel.h>
struct pair { double d; long l; };
VISIBLE void dic(double a, int b, char c) { if (a != 1.5 || b != 42 || c != 'x') abort(); }
VISIBLE int pair(struct pair p, float f) { return p.d == 2.5 && p.l == -3 && f == 0.5f ? 0 : 1; }
VISIBLE int part(telpher_bytes bytes, telpher_block b) {
    if (bytes.len != b.rows * b.row_bytes || b.all_rows != 3 || b.first != 0) abort();
    return memcmp(bytes.data, b.data, bytes.len) == 0 ? 0 : 1;
}
C
printf '#define VISIBLE\n#include "kernels.inc"\n' >plain.c
cat >typed.c <<'C'
#define VISIBLE
#include "kernels.inc"
#include <telpher/kernel.h>
TELPHER_KERNEL(dic, double, int, char)
TELPHER_KERNEL(pair, struct pair, float)
TELPHER_KERNEL(part, telpher_bytes, telpher_block)
C
sed 's/#define VISIBLE/#define VISIBLE static/' typed.c >static.c
sed 's/#define VISIBLE/#define VISIBLE __attribute__((visibility("hidden")))/' typed.c >hidden.c
{ echo '#include <telpher/kernel.h>'; echo 'extern "C" {'; echo '#define VISIBLE'; echo '#include "kernels.inc"'; echo '}'; sed -n 3,6p typed.c; } >typed.cpp
printf '#include <telpher/kernel.h>\nextern "C" {\n#define VISIBLE\n#include "kernels.inc"\n}\n' >plain.cpp
echo 'void touch(void) {}' | cat typed.c - >archived.c
cat >touches.c <<'C'
void touch(void);
__attribute__((constructor)) static void touches(void) { touch(); }
C
cat >kernels.f90 <<'F'
subroutine dic(a, b, c) bind(C, name="dic")
  use iso_c_binding
  real(c_double), value :: a
  integer(c_int), value :: b
  character(c_char), value :: c
  if (a /= 1.5d0 .or. b /= 42 .or. c /= 'x') stop 1
end subroutine
F
cat >fortran.c <<'C'
#define VISIBLE
#define dic unused_dic
#include "kernels.inc"
#undef dic
#include <telpher/kernel.h>
void dic(double, int, char);
TELPHER_KERNEL_TEXT(dic, "dic", "dic")
TELPHER_KERNEL(pair, struct pair, float)
TELPHER_KERNEL(part, telpher_bytes, telpher_block)
C

# try NAME WORDS [ARGUMENT-OF-THE-WORKER...]: runs PROGRAM with the worker NAME; WORDS are those it must say.
try() {
    local name=$1 words=$2 out
    shift 2
    out=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-opencl,-gl ASAN_OPTIONS=detect_leaks=0 \
        timeout 30 "$mpirun" ${oversubscribe:-} -np 1 "$program" : -np 1 "./$name" "$@" 2>&1)
    if grep -q "$words" <<<"$out"; then
        echo "$name: $words"
    else
        printf '%s, without "%s":\n%s\n' "$name" "$words" "$out"
        bad=$((bad + 1))
    fi
}
build() { # NAME COMMAND...
    local name=$1
    shift
    "$@" -o "$name" || { echo "$name cannot be built"; bad=$((bad + 1)); }
}
[ "$mpi" = mpich ] || oversubscribe=--oversubscribe

build registered "$mpicc" "${flags[@]}" typed.c "${libs[@]}" && try registered "all kernels"
# How things are linked is no matter of the MPI: most of them once.
if [ "$mpi" = openmpi ]; then
build stripped "$mpicc" "${flags[@]}" -s -O2 -Wl,--gc-sections -ffunction-sections -fvisibility=hidden typed.c "${libs[@]}" &&
    try stripped "all kernels"
build static "$mpicc" "${flags[@]}" static.c "${libs[@]}" && try static "all kernels"
build hidden "$mpicc" "${flags[@]}" hidden.c "${libs[@]}" && try hidden "all kernels"
build lto "$mpicc" "${flags[@]}" -O2 -flto typed.c "${libs[@]}" && try lto "all kernels"
"$mpicc" "${flags[@]}" -c archived.c && ar rcs libarchived.a archived.o
build archived "$mpicc" "${flags[@]}" touches.c -L. -larchived "${libs[@]}" && try archived "all kernels"

fi
build unregistered "$mpicc" "${flags[@]}" -rdynamic plain.c "${libs[@]}" && try unregistered "no kernel dic"
build derived "$worker_cc" --mpi "$mpi" "${flags[@]}" plain.c && try derived "all kernels"
# a plugin
"$mpicc" "${flags[@]}" -fPIC -shared typed.c -o plugin.so
cp "$build/bin/telpher-worker.$mpi" own && try own "all kernels" ./plugin.so
if command -v g++ >/dev/null; then
    g++ "${flags[@]}" -c typed.cpp -o typed_cpp.o
    build cplusplus "$mpicc" "${flags[@]}" typed_cpp.o "${libs[@]}" -lstdc++ && try cplusplus "all kernels"
fi
if command -v gfortran >/dev/null; then
    gfortran -g -c kernels.f90 -o kernels_f.o
    build fortran "$mpicc" "${flags[@]}" kernels_f.o fortran.c "${libs[@]}" -lgfortran && try fortran "all kernels"
fi
exit $((bad > 0))
