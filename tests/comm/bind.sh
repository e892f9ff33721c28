#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: bind.sh TELPHER
# telpher launch --bind: ranks on cores of their own, none where there are too few, and what it refuses.
set -eu
telpher=$1
fail() {
    echo "bind.sh: $*" >&2
    exit 1
}
allowed() { # [OPTION]...: the processors of each rank, one rank a line
    "$telpher" launch "$@" -- sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
}
all=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)

[ "$(allowed -n 1)" = "$all" ] || fail "bound without --bind"
[ "$(allowed -n 1 --bind none)" = "$all" ] || fail "bound by --bind none"
more=$(($(nproc) + 1))
text=$(allowed -n "$more" --bind core 2>&1 >/dev/null)
[ "${text#"telpher: $more ranks on "}" != "$text" ] || fail "$more ranks on $(nproc) processors: '$text'"
[ "$(allowed -n "$more" --bind core 2>/dev/null | sort -u)" = "$all" ] || fail "bound with too few cores"
cores=${text#"telpher: $more ranks on "}
if [ "${cores%% *}" -ge 2 ]; then
    [ "$(allowed -n 2 --bind core | sort -u | wc -l)" = 2 ] || fail "two ranks are not on two cores"
fi
code=0
allowed --bind socket >/dev/null 2>&1 || code=$?
[ $code = 2 ] || fail "--bind socket: exit code $code"
allowed -n 2 -H localhost,198.51.100.1 --bind core >/dev/null 2>&1 && fail "bound on another host"
exit 0
