# SPDX-License-Identifier: Apache-2.0
# For the scripts in this folder: steps that are counted and bounded in time. Set $results first.
passed=0 failed=0
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

# step NAME SECONDS COMMAND…: output to a file and its last LINES_SHOWN lines to the screen. A skip is a failure here.
step() {
    local name=$1 limit=$2
    shift 2
    echo "== $name"
    if timeout "$limit" "$@" >"$results/$name.txt" 2>&1; then
        passed=$((passed + 1))
    else
        echo "FAILED ($?): $name"
        failed=$((failed + 1))
    fi
    tail -n "${LINES_SHOWN:-36}" "$results/$name.txt" | cut -c1-200
}

# steps_end: the count; false if one failed
steps_end() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
