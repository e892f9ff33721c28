#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on_pocl.sh LISTER COMMAND...: runs COMMAND with two PoCL devices, or exits with 77 (skipped)
# where there is no PoCL. LISTER is the program 01_hello_device.
set -eu
lister=$1
shift
export POCL_DEVICES="pthread pthread"
if ! "$lister" --platform "Portable Computing Language" --list >/dev/null 2>&1; then
    echo "skipped: no OpenCL platform called Portable Computing Language (package pocl-opencl-icd)"
    exit 77
fi
exec "$@"
