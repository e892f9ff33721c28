#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh FALLBACK LINK TELPHERD ICD: frames come from the server, from the local device while the link is down, and from the
# server again, with the session that it had.
set -eu
fallback=$1 link=$2 telpherd=$3 icd=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/vendors" "$dir/server"
vendors=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}
cp "$vendors"/pocl*.icd "$dir/vendors"
cp "$vendors"/pocl*.icd "$dir/server"
echo "$icd" >"$dir/vendors/telpher.icd"
mkfifo "$dir/stop"
cat >"$dir/client.sh" <<SCRIPT
switches() { grep -c '^frame' "$dir/said" || true; }
wait_for() { # COUNT: so many switches have been printed
    for i in \$(seq 3000); do
        [ "\$(switches)" -lt "\$1" ] || return 0
        sleep 0.02
    done
    echo "no switch number \$1" >&2
    exit 1
}
: >"$dir/said"
TELPHER_SERVERS=10.77.0.2 TELPHER_INSECURE=yes TELPHER_CONNECT_TIMEOUT=30s OCL_ICD_VENDORS=$dir/vendors \\
    "$fallback" --budget 1000 <"$dir/stop" >>"$dir/said" 2>"$dir/errors" &
exec 9>"$dir/stop"
until tail -n 1 "$dir/said" | grep -q ': remote'; do wait_for \$((\$(switches) + 1)); done
before=\$(switches)
"$link" ctl "$dir/control" cut
wait_for \$((before + 1))
tail -n 1 "$dir/said" | grep -q ': local'
"$link" ctl "$dir/control" heal
wait_for \$((before + 2))
exec 9>&-
wait \$!
SCRIPT
status=0
"$link" run --wait-port 7717 --wait-time 60s --control "$dir/control" --a "exec sh -e '$dir/client.sh'" \
    --b "OCL_ICD_VENDORS='$dir/server' exec '$telpherd' --socket none --insecure --log error --listen 10.77.0.2" || status=$?
[ $status -ne 77 ] || exit 77
cat "$dir/said" "$dir/errors"
[ $status -eq 0 ]
grep -q "none lost" "$dir/said"
grep -q "connected again" "$dir/errors"
