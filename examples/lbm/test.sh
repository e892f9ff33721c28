#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh LBM: the flow must be the same, bit for bit, on one device and on two, the
# vortices must move, and a comparison of different fields must fail.
set -eu
lbm=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { "$lbm" --platform "Portable Computing Language" --size 192x64 "$@"; }

run --steps 401 --devices 1 --dump "$dir/one.bin" --out "$dir/flow.png"
run --steps 401 --devices 2 --compare "$dir/one.bin" --rtol 0 --atol 0 | tee "$dir/said"
grep -q "2 devices" "$dir/said"
grep -q "equal bit for bit" "$dir/said"
head -c 8 "$dir/flow.png" | grep -q PNG
if run --steps 431 --devices 2 --compare "$dir/one.bin" >"$dir/said"; then
    echo "fields 30 steps apart were taken for equal"
    exit 1
fi
grep -q "largest difference" "$dir/said"
