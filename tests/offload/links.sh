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
# an object in an archive counts once something of it is used, or with all of the archive
"$mpicc" "${flags[@]}" -c archived.c && ar rcs libarchived.a archived.o
build archived "$mpicc" "${flags[@]}" touches.c -L. -larchived "${libs[@]}" && try archived "all kernels"
echo 'void unrelated(void); void unrelated(void) {}' >unrelated.c
build unused_archive "$mpicc" "${flags[@]}" unrelated.c -L. -larchived "${libs[@]}" && try unused_archive "no kernel dic"
build whole_archive "$mpicc" "${flags[@]}" unrelated.c -L. -Wl,--whole-archive -larchived -Wl,--no-whole-archive "${libs[@]}" &&
    try whole_archive "all kernels"
# a shared library that nothing refers to is not loaded when --as-needed is the linker's default
"$mpicc" "${flags[@]}" -fPIC -shared typed.c -o libshared.so
shared=(-L. "-Wl,-rpath,$work")
build as_needed "$mpicc" "${flags[@]}" unrelated.c "${shared[@]}" -Wl,--as-needed -lshared "${libs[@]}" && try as_needed "no kernel dic"
build no_as_needed "$mpicc" "${flags[@]}" unrelated.c "${shared[@]}" -Wl,--no-as-needed -lshared "${libs[@]}" &&
    try no_as_needed "all kernels"
# static programs: MPIs come as shared libraries, so this is the registry alone
if [ -z "$sanitize" ]; then
    for how in static static-pie; do
        build "$how" cc "${flags[@]}" -fPIE "-$how" typed.c "$here/links_static.c" "-I$here/../../src" \
            -Wl,--start-group "$build"/src/offload/libtp_offload_core.a "$build"/src/base/libtp_base.a -Wl,--end-group -lffi &&
            { "./$how" | grep "static: all kernels" || { echo "$how: no kernels"; bad=$((bad + 1)); }; }
    done
fi
fi
build unregistered "$mpicc" "${flags[@]}" -rdynamic plain.c "${libs[@]}" && try unregistered "no kernel dic"
build derived "$worker_cc" --mpi "$mpi" "${flags[@]}" plain.c && try derived "all kernels"
if [ "$mpi" = openmpi ]; then # debug information is for the wrapper, not for the worker
    said=$("$worker_cc" --mpi "$mpi" "${flags[@]}" -s plain.c -o none 2>&1) && bad=$((bad + 1))
    grep "no debug information" <<<"$said" || { echo "telpher-worker-cc -s says nothing"; bad=$((bad + 1)); }
    cp derived derived_stripped && strip derived_stripped && try derived_stripped "all kernels"
fi
# a plugin
"$mpicc" "${flags[@]}" -fPIC -shared typed.c -o plugin.so
cp "$build/bin/telpher-worker.$mpi" own && try own "all kernels" ./plugin.so
if command -v g++ >/dev/null; then
    g++ "${flags[@]}" -c typed.cpp -o typed_cpp.o
    build cplusplus "$mpicc" "${flags[@]}" typed_cpp.o "${libs[@]}" -lstdc++ && try cplusplus "all kernels"
    g++ "${flags[@]}" -c plain.cpp -o plain_cpp.o
    build derived_cplusplus "$worker_cc" --mpi "$mpi" "${flags[@]}" plain_cpp.o -lstdc++ && try derived_cplusplus "all kernels"
fi
if command -v gfortran >/dev/null; then
    gfortran -g -c kernels.f90 -o kernels_f.o
    build fortran "$mpicc" "${flags[@]}" kernels_f.o fortran.c "${libs[@]}" -lgfortran && try fortran "all kernels"
fi
exit $((bad > 0))
