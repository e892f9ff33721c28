#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: moved.sh BUILD COMPILER LIBDIR EXAMPLE MPI MPIRUN
# Installs BUILD below another prefix: nothing lies outside of it. Then moves the prefix: its programs find each other
# there, and programs are built with its libraries through pkg-config and CMake. EXAMPLE is an OpenCL program, or "".
set -euo pipefail
build=$1 compiler=$2 libdir=$3 example=$4 mpi=$5 mpirun=$6
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset TELPHER_SERVERS TELPHER_CONFIG LD_LIBRARY_PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-opencl,-gl ASAN_OPTIONS=detect_leaks=0

fail() {
    echo "FAILED: $*"
    exit 1
}
# expect WORDS COMMAND...: succeeds, and its output has the words
expect() {
    local words=$1 out
    shift
    out=$(timeout 120 "$@" 2>&1) || fail "$*: $out"
    grep -qE -- "$words" <<<"$out" || fail "$*, without \"$words\": $out"
}

# ---- where things are put ----
expect "OCL_ICD_VENDORS=/opt/telpher/etc/OpenCL/vendors" \
    env DESTDIR="$work/stage" cmake --install "$build" --prefix /opt/telpher
outside=$(cd "$work/stage" && find . -type f -not -path './opt/telpher/*')
[ -z "$outside" ] || fail "outside of the prefix: $outside"
prefix=$work/stage/opt/telpher
for file in OpenCL/vendors/telpher.icd telpher/telpherd.conf; do
    [ -f "$prefix/etc/$file" ] || fail "no etc/$file in the prefix"
done
grep -qx "/opt/telpher/$libdir/libtelpher-opencl.so.[0-9.]*" "$prefix/etc/OpenCL/vendors/telpher.icd" || fail "the .icd file"
grep -q "^ExecStart=/opt/telpher/bin/telpherd --config /opt/telpher/etc/telpher/" "$prefix/lib/systemd/system/telpherd.service" ||
    fail "the unit"
for system in /usr /usr/local; do
    env DESTDIR="$work/system" cmake --install "$build" --prefix $system >/dev/null
    grep -q "^$system/" "$work/system/etc/OpenCL/vendors/telpher.icd" || fail "no /etc/OpenCL/vendors for $system"
    [ -f "$work/system/etc/telpher/telpherd.conf" ] || fail "no /etc/telpher for $system"
    rm -rf "$work/system"
done

# ---- the prefix moves ----
moved=$work/moved
mv "$prefix" "$moved"
[ -z "$(grep -rlF "$build" "$moved/etc" "$moved/$libdir/cmake" "$moved/$libdir/pkgconfig" "$moved/lib/systemd")" ] ||
    fail "a file names the build folder"
for file in "$moved"/bin/* "$moved"/libexec/telpher/* "$moved/$libdir"/*.so; do
    if readelf -d "$file" 2>/dev/null | grep -E 'R(UN)?PATH' | grep -qF "$build"; then
        fail "$file is linked to the build folder"
    fi
done
[ "$("$moved/bin/telpher" info -b | grep -c "$moved/")" = 4 ] || fail "telpher info: $("$moved/bin/telpher" info -b)"
expect "^$moved/$libdir/libtelpher-opencl" "$moved/bin/telpher" run -- sh -c 'cat $OCL_ICD_VENDORS/telpher.icd'
if [ -n "$example" ]; then
    expect "all right" "$moved/bin/telpher" run -- "$example"
    mkdir -p "$moved/etc/telpher"
    echo "platform_name = native" >"$moved/etc/telpher/telpher.conf"
    expect "Portable Computing Language, device" "$moved/bin/telpher" run -- "$example"
    rm "$moved/etc/telpher/telpher.conf"
    chmod -x "$moved/libexec/telpher/telpher-executor"
    timeout 120 "$moved/bin/telpher" run -- "$example" >/dev/null 2>&1 && fail "another executor than this prefix's was run"
    chmod +x "$moved/libexec/telpher/telpher-executor"
fi

# ---- programs of others ----
flags=(${SANITIZE:+-fsanitize=$SANITIZE})
export PKG_CONFIG_PATH=$moved/$libdir/pkgconfig
# with_pkg_config PACKAGE SOURCE PROGRAM
with_pkg_config() {
    # shellcheck disable=SC2046
    "$compiler" "${flags[@]}" "$2" $(pkg-config --cflags --libs "$1") "-Wl,-rpath,$(pkg-config --variable=libdir "$1")" -o "$3"
}
with_pkg_config telpher "$here/api.c" "$work/api"
expect "rank 0 of 1" "$work/api"
PKG_CONFIG_PATH=$build with_pkg_config telpher-rma "$here/../../examples/rma/ring.c" "$work/ring"
expect "^120$" "$work/ring"
[ "$(PKG_CONFIG_PATH=$build pkg-config --variable=libdir telpher)" = "$build/lib" ] || fail "pkg-config in the build folder"
with_pkg_config telpher-rma "$here/../../examples/rma/ring.c" "$work/ring"
expect "^120$" "$work/ring"
for example in 06_objects/main 10_charm_tutorial/pi; do # as docs/guide/mdr.md says
    with_pkg_config telpher-mdr "$here/../../examples/$example.c" "$work/objects"
    expect "24 blocks on 2|: equal" "$moved/bin/telpher" launch -n 2 -- "$work/objects"
done
expect_ranks() {
    # copies of a program have the same names: no violation of one definition
    ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 expect "^rank 3 of 4 got 2$" "$moved/bin/telpher" launch -n 2 -- "$1" +vp 4
}
with_pkg_config telpher-ampi "$here/ampi.c" "$work/ampi"
expect_ranks "$work/ampi"
AMPI_CC=$compiler "$moved/bin/telpher-mpicc" "${flags[@]}" "$here/ampi.c" -o "$work/ampi"
expect_ranks "$work/ampi"
if [ -n "$mpi" ]; then
    launch=("$mpirun" -np 1)
    [ "$mpi" = mpich ] || launch=("$mpirun" --oversubscribe -np 1)
    with_pkg_config "telpher-offload-$mpi" "$here/offload.c" "$work/offload"
    expect "^triple: 42$" "${launch[@]}" "$work/offload" : -np 1 "$work/offload" worker
fi
cp "$build"/lib/libtelpher.a "$build"/lib/libtelpher-*.a "$moved/$libdir" # as with TELPHER_STATIC=ON
cmake -S "$here/project" -B "$work/project" -DCMAKE_PREFIX_PATH="$moved" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_C_FLAGS="${flags[*]}" -DTELPHER_MPI="$mpi" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
cmake --build "$work/project" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
expect "rank 0 of 1" "$work/project/api"
expect "^120$" "$work/project/ring"
expect "^120$" "$work/project/ring_static"
expect "24 blocks on 2" "$moved/bin/telpher" launch -n 2 -- "$work/project/objects"
expect_ranks "$work/project/ampi"
if [ -n "$mpi" ]; then
    for program in offload offload_static; do
        expect "^triple: 42$" "${launch[@]}" "$work/project/$program" : -np 1 "$work/project/$program" worker
    done
fi
echo "install: good"
