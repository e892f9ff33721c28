#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scripts/gpu/python.sh [RESULTS-FOLDER]
# On a machine with an NVIDIA GPU, CuPy or PyTorch, and the Python package and its command installed (`make wheel`, then pip install): what it
# finds, channels of objects into arrays of the GPU (with the package greenlet), and a cube of heat whose ranks exchange faces straight between arrays of the GPU and by way of host memory, each
# compared with one computed alone. PYTHON=python names the interpreter, SIZES="64 256" the edges of the cube.
# shellcheck source=scripts/usage.sh
. "$(dirname "$0")/../usage.sh"
set -uo pipefail
python=${PYTHON:-python3}
results=${1:-gpu-python}
mkdir -p "$results"
results=$(cd "$results" && pwd)
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/scripts/gpu/step.sh"

# cube SIZE MEMORY OPTION…: must end with "equal"
cube() {
    local size=$1 memory=$2
    shift 2
    step "cube-$memory$*-$size" 120 telpher launch -n 2 -- "$python" "$here/examples/python/jacobi3d.py" \
        --size "$size" --memory "$memory" --steps 100 "$@"
}

step doctor 120 "$python" -m telpher.doctor
LINES_SHOWN=4
step ranks 120 telpher launch -n 2 -- "$python" "$here/python/tests/ranks.py"
memories=
for memory in cupy torch; do
    "$python" -c "import $memory" 2>/dev/null && memories="$memories $memory"
done
# shellcheck disable=SC2086
step objects 200 telpher launch -n 2 -- "$python" "$here/python/tests/channels.py" cuda cuda.dlpack cuda.stream \
    $memories ${memories// //.dlpack }
for size in ${SIZES:-64 256 448}; do
    for memory in $memories; do
        cube "$size" $memory
        cube "$size" $memory --staged
    done
done
steps_end
