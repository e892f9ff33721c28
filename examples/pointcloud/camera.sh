#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# camera.sh BUILD-FOLDER PROGRAM DRIVER-FOLDER: frames of a camera on one server, which is a custom device of the test
# driver, are sorted on another server, with and without content size.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 program=$2 driver=$3
. scripts/servers.sh
"$program" --points 4096 --frames 5 --write-frames "$work/frames"
start_unix_servers 1 --device "${NATIVE_PLATFORM:-Portable Computing Language}: *"
export TESTDRV_DEVICES=1 TESTDRV_TYPE=custom TESTDRV_CAMERA=$work/frames
OCL_ICD_VENDORS=$driver start_server "unix:$work/camera.sock" --socket "$work/camera.sock" --device 'Telpher Test Driver: *' \
    --driver-files "$work/frames"
for size in '' --content-size; do
    "$build/bin/telpher" run -s "$servers" -- "$program" --platform Telpher --camera $size --points 4096 --frames 5
done
