#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/sycl/ranks.sh BUILD-FOLDER COMMAND...
# Runs a command whose programs see the devices of one server, by TCP.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../../scripts/usage.sh"
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
shift
. scripts/servers.sh
start_tcp_servers 1
ONEAPI_DEVICE_SELECTOR='opencl:*' "$build/bin/telpher" run -s "$servers" -- "$@"
