# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced first by scripts: --help shows the comment at their head.
case "${1:-}" in
-h | --help)
    sed -n '3,/^[^#]/{/^# shellcheck/d;s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac
