#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: telpher_test.sh TELPHER
# The telpher command as a user types it: help, wrong use, exit codes, a private daemon that is gone afterwards.
set -uo pipefail
telpher=$1
failed=0 passed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
unset TELPHER_SERVERS

# expect NAME EXIT-CODE PATTERN COMMAND…: the output of both streams must match.
expect() {
    local name=$1 code=$2 pattern=$3 out got
    shift 3
    out=$(timeout 60 "$@" 2>&1 </dev/null)
    got=$?
    if [ "$got" = "$code" ] && grep -Eq -- "$pattern" <<<"$out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s: exit %s (wanted %s), output (wanted /%s/):\n%s\n' "$name" "$got" "$code" "$pattern" "$out"
    fi
}

expect help 0 'telpher run' "$telpher" --help
expect version 0 '^telpher [0-9]+\.[0-9]+\.[0-9]+$' "$telpher" --version
expect no-command 2 'usage: telpher' "$telpher"
expect bad-command 2 "no command 'fly'" "$telpher" fly
for c in run launch devices info ping sessions kill keygen; do
    expect "$c-help" 0 "usage: telpher $c" "$telpher" "$c" --help
    expect "$c-bad-option" 2 'unknown option' "$telpher" "$c" --no-such-option
done
expect launch-nothing 2 'no program given' "$telpher" launch
expect launch-bad-count 2 '1 to 4096' "$telpher" launch -n 0 -- true
expect launch-labels 0 '^2: 2 of 3$' "$telpher" launch -l -n 3 -- sh -c 'echo $TELPHER_RANK of $TELPHER_SIZE'
expect launch-exit-code 7 'rank 1 .* exit code 7' "$telpher" launch -n 2 -- sh -c 'test $TELPHER_RANK = 0 || exit 7; exec sleep 50'
expect launch-keeps-going 7 '^on$' "$telpher" launch -k -n 2 -- sh -c 'test $TELPHER_RANK = 0 || exit 7; sleep 0.3; echo on'
expect launch-signal 137 'signal 9' "$telpher" launch -n 2 -- sh -c 'kill -KILL $$'
expect launch-restarts 137 'starting again, 1 rank' "$telpher" launch -r 1 -- sh -c 'kill -KILL $$'
expect launch-restarts-signals-only 0 '^0$' sh -c '"$0" launch -r 1 -- sh -c "exit 255" 2>&1 | grep -c "starting again" || true' "$telpher"
expect launch-not-found 127 'No such file' "$telpher" launch -n 2 -- "$work/none"
expect launch-bad-timeout 2 'TELPHER_START_TIMEOUT "soon" is no time' env TELPHER_START_TIMEOUT=soon "$telpher" launch -- true
expect launch-timeout 0 '^7.000s$' env TELPHER_START_TIMEOUT=7s "$telpher" launch -- sh -c 'echo $TELPHER_START_TIMEOUT'
expect launch-like-mpirun 2 'write -n 4' "$telpher" launch -np 4 true
expect misspelt 1 'TELPHER_SERVER; did you mean TELPHER_SERVERS' env TELPHER_SERVER=x "$telpher" devices -t 500ms "unix:$work/nobody.sock"
echo "servers = unix:$work/nobody.sock" >"$work/telpher.conf"
expect config-file 1 'nobody.sock' env TELPHER_CONFIG="$work/telpher.conf" "$telpher" devices -t 500ms
expect run-unreachable 0 'the program has no device: .*nobody.sock' "$telpher" run -s "unix:$work/nobody.sock" -- true
expect run-no-driver 0 'no device: this machine has no OpenCL device' env OCL_ICD_VENDORS=/nonexistent "$telpher" run -- true
expect run-nothing 2 'no program given' "$telpher" run
expect run-bad-list 2 'telpher run: ' "$telpher" run -s 'a,,b' -- true
expect run-true 0 '' "$telpher" run -- true
expect run-exit-code 7 '' "$telpher" run -- sh -c 'exit 7'
expect run-signal 143 '' "$telpher" run -- sh -c 'kill -TERM $$'
expect run-not-found 127 'No such file' "$telpher" run -- "$work/none"
touch "$work/plain"
expect run-not-executable 126 'Permission denied' "$telpher" run -- "$work/plain"
expect run-folder 126 'it is a folder' "$telpher" run -- "$work"
expect run-environment 0 '^unix:|^/.*telpherd.sock' "$telpher" run -- sh -c 'echo "$TELPHER_SERVERS"'
expect devices-svm 0 'shared virtual memory: ' "$telpher" run -- "$telpher" devices -v -t 30s
expect run-devices 0 '^ +0 ' "$telpher" run -- "$telpher" devices -t 30s
expect run-ping 0 'round trip: min' "$telpher" run -- sh -c "$telpher ping -t 30s -c 3 -i 1ms \$TELPHER_SERVERS"
expect ping-nobody 1 'telpher: ' "$telpher" ping -t 500ms "unix:$work/nobody.sock"
if [ ! -S /run/telpher/telpherd.sock ]; then # an installed server would answer
    expect devices-nobody 1 'No server was named' env XDG_RUNTIME_DIR="$work" HOME="$work" "$telpher" devices -t 500ms
fi
expect devices-peer 1 'between servers: TELPHER_PEER=off' env TELPHER_PEER=off "$telpher" devices -t 500ms "unix:$work/nobody.sock" "unix:$work/none.sock"
expect devices-named 1 'No such file' "$telpher" devices -t 500ms "unix:$work/nobody.sock"
expect ping-wrong 2 'name one server' "$telpher" ping
expect info 0 'TELPHER_SERVERS' "$telpher" info --config
expect info-build 0 'OpenCL library' "$telpher" info --build
# By hand, telpherd shows that it works; a private one does not disturb the program's terminal. --foreground: else timeout sends
# SIGCONT, too, which takes away the stop that the leak sanitizer waits for.
telpherd=$(dirname "$telpher")/telpherd
expect telpherd-terminal 0 'listening on unix:' script -qec "timeout --foreground --preserve-status 2 $telpherd --socket $work/s" /dev/null
expect telpherd-quiet 0 '^[^a-z]*$' script -qec "timeout --foreground --preserve-status 2 $telpherd --socket $work/s --log warn" /dev/null
expect run-terminal 0 '^[^a-z]*$' script -qec "$telpher run -- true" /dev/null
# A server that is not there: the program still runs, without devices.
expect run-down 0 '' "$telpher" run -s "unix:$work/nobody.sock" -- true

left=$(find "$work" -mindepth 1 ! -name plain ! -name telpher.conf)
if [ -z "$left" ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    printf 'FAILED clean-up, left behind:\n%s\n' "$left"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
