#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/domains.sh BUILD-FOLDER [RESULTS-FOLDER]
# On a machine with an NVIDIA GPU: the memory domains of jobs of ranks (docs/memory.md) on its CUDA driver and on its
# OpenCL driver, tests and figures. Needs src/builtin_mem_test and tests/perf/mem_perf of the build, the driver, an
# OpenCL loader, and libcmocka; libraries in BUILD-FOLDER/lib are found. ICD=libname chooses another OpenCL driver.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
build=$(cd "$1" && pwd)
results=${2:-$build/gpu}
mkdir -p "$results"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
echo "${ICD:-libnvidia-opencl.so.1}" >"$work/gpu.icd"
export OCL_ICD_VENDORS=$work
. "$(dirname "$0")/step.sh"

step cuda-figures 60 "$build/tests/perf/mem_perf" cuda
TELPHER_CHUNK=4194304 step cuda-figures-4M 60 "$build/tests/perf/mem_perf" cuda
step cuda-tests 60 "$build/src/builtin_mem_test" cuda
step cuda-programs 60 "$build/src/device/cuda/device_cuda_driver_test"
step opencl-figures 60 "$build/tests/perf/mem_perf" opencl
step opencl-tests 60 "$build/src/builtin_mem_test" opencl
step opencl-programs 60 "$build/src/device/opencl/device_opencl_memory_test"
steps_end
