#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_mpi.sh LBM LAUNCHER LBM_MPI: three ranks, each with a strip, compute the field of one device bit for bit.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
options="--size 192x64 --steps 401"

"$1" --platform "Portable Computing Language" $options --devices 1 --dump "$dir/one.bin"
# shellcheck disable=SC2086 # the launcher and the options are words
$2 "$3" --platform "Portable Computing Language" $options --compare "$dir/one.bin" --rtol 0 --atol 0 --json \
    --label ranks | tee "$dir/said"
grep -q "equal bit for bit" "$dir/said"
grep -q '"label": "ranks", "devices": 3, .*"right": true' "$dir/said"
