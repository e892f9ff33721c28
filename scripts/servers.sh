# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by scripts that need servers on this machine. Needs $build, the build folder. Everything lives
# in the temporary folder $work and ends with the script.

work=$(mktemp -d)
server_pids=()
servers='' # host:port or socket path of each, as TELPHER_SERVERS wants them
export TELPHER_COOKIE=$work/cookie

stop_servers() {
    if [ ${#server_pids[@]} -gt 0 ]; then
        kill "${server_pids[@]}" 2>/dev/null || true
        wait "${server_pids[@]}" 2>/dev/null || true
    fi
    server_pids=() servers=''
}
trap 'stop_servers; rm -rf "$work"' EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_server ADDRESS OPTION...: starts telpherd and waits until it answers at ADDRESS.
start_server() {
    local address=$1 log=$work/telpherd-${#server_pids[@]}.log
    shift
    TELPHER_DRAIN_TIMEOUT=0 "$build/bin/telpherd" "$@" >"$log" 2>&1 &
    server_pids+=($!)
    for _ in $(seq 100); do
        if timeout 5 "$build/bin/telpher" ping -q -c 1 "$address" >/dev/null 2>&1; then
            servers=${servers:+$servers,}$address
            return 0
        fi
        kill -0 "${server_pids[-1]}" 2>/dev/null || break
        sleep 0.1
    done
    echo "telpherd did not start at $address:" >&2
    cat "$log" >&2
    return 1
}

# start_tcp_servers N OPTION..., start_unix_servers N OPTION...
start_tcp_servers() {
    local i count=$1 address
    shift
    for i in $(seq "$count"); do
        address=127.0.0.1:$(free_port)
        start_server "$address" --socket none --listen "$address" "$@"
    done
}
start_unix_servers() {
    local i count=$1
    shift
    for i in $(seq "$count"); do
        start_server "unix:$work/server-$i.sock" --socket "$work/server-$i.sock" "$@"
    done
}
