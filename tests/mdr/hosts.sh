#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: hosts.sh TELPHER MDR_RESTART [KILLS [SEED]]
#        hosts.sh TELPHER AMPI_MIGRATE
# A job on two hosts without a shared folder loses one of them and goes on, with the exact result, from the parts of the
# checkpoint that the other host has copies of. The hosts are namespaces of this machine, each with a /dev/shm of its own:
#
#     here: telpher launch, host a (10.79.0.1 on lo; 10.79.1.1)  ---- veth ----  host b (10.79.1.2)
#
# Host b is lost at once: its link goes down, so that no rank sees its connections end, and all of its processes are
# killed. Once it is the host of the last ranks, once that of rank 0. With KILLS no host is lost, but so many times a rank of
# either host is killed at a random moment.
set -u
telpher=$(realpath "$1")
program=$(realpath "$2")
kills=${3:-0}
if [[ $program == *ampi* ]]; then
    export TELPHER_AMPI_MIGRATE=yes MIGRATE_PAUSE_MS=100
    arguments="100 in_memory +vp 6" exact="6 ranks, . processes, 100 steps, 6 moves: exact" saves=5
else
    arguments="$kills ${4:-1} 50" exact="processes go on from epoch (1[0-9]|[2-3][0-9])" saves=12
    ((kills == 0)) || exact="processes go on from epoch [1-9]"
fi

if [ "${INSIDE:-}" != yes ]; then
    unshare --net --mount --propagation private true 2>/dev/null || {
        echo "skipped: this user may not make namespaces"
        exit 77
    }
    INSIDE=yes exec unshare --net --mount --propagation private --kill-child --pid --fork --mount-proc "$0" "$@"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mount -t tmpfs shm /dev/shm
ip link set lo up
ip addr add 10.79.0.1/32 dev lo
mkdir "$work/bin"
cat >"$work/bin/ssh" <<END
#!/bin/bash
# ssh OPTION… HOST COMMAND for host b
kill -0 "\$(cat "$work/b")" 2>/dev/null || exit 255
trap 'kill \$child' TERM
exec 3<&0
nsenter -t "\$(cat "$work/b")" -n -m sh -c "\${@: -1}" <&3 &
child=\$!
wait \$child
code=\$?
# of a host that vanished ssh hears nothing for a while
kill -0 "\$(cat "$work/b")" 2>/dev/null || exec sleep 30
exit \$code
END
chmod +x "$work/bin/ssh"
PATH=$work/bin:$PATH

make_b() {
    unshare --net --mount --propagation private sh -c 'mount -t tmpfs shm /dev/shm && exec sleep 1000' &
    echo $! >"$work/b"
    disown
    until nsenter -t "$(cat "$work/b")" -m findmnt -n -o SOURCE /dev/shm 2>/dev/null | grep -q '^shm$' &&
        [ "$(readlink "/proc/$(cat "$work/b")/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
        sleep 0.05
    done
    ip link add veth-a type veth peer name veth-b netns "$(cat "$work/b")"
    ip addr add 10.79.1.1/24 dev veth-a
    ip link set veth-a up
    nsenter -t "$(cat "$work/b")" -n sh -c \
        'ip addr add 10.79.1.2/24 dev veth-b && ip link set veth-b up && ip link set lo up &&
        ip route add 10.79.0.1 via 10.79.1.1'
}

lose_b() {
    local b net pid
    b=$(cat "$work/b")
    net=$(readlink "/proc/$b/ns/net")
    ip link set veth-a down
    for pid in /proc/[0-9]*; do
        if [ "$(readlink "$pid/ns/net" 2>/dev/null)" = "$net" ]; then
            kill -KILL "${pid#/proc/}"
        fi
    done
    ip link del veth-a
}

# Whether this host has a part of so many checkpoints or of a later one, whose number stands before its 16 random bits.
has_saved() {
    local part name
    for part in /dev/shm/telpher-restart-*/*.mdr; do
        name=${part##*/}
        [[ ! $name =~ ^[0-9]+- ]] || ((${name%%-*} >> 16 < $1)) || return 0
    done
    return 1
}

# Starts a job, loses b when several checkpoints were written, and looks at the result.
run() {
    local hosts=$1 shrink=$2 pid parts
    make_b
    : >"$work/out"
    # shellcheck disable=SC2086
    timeout 200 "$telpher" launch -n 4 -H "$hosts" --root-host 10.79.0.1 --transports tcp --restart 20 $shrink -- \
        "$program" $arguments >"$work/out" 2>&1 &
    pid=$!
    until has_saved $saves || ! kill -0 $pid 2>/dev/null; do
        sleep 0.05
    done
    for parts in /dev/shm/telpher-restart-*; do
        ((kills == 0)) || break # the job may have ended
        [ "$(cat "$parts/.place")" != "$(cat "/proc/$(cat "$work/b")/root$parts/.place")" ] ||
            echo "the hosts share a folder" >>"$work/out"
    done
    if ((kills == 0)); then
        lose_b
        echo "host b is lost" >>"$work/out"
    fi
    wait $pid
    cat "$work/out"
    if ! grep -q "exact" "$work/out" || grep -q "share a folder" "$work/out" || ! grep -Eq "$exact" "$work/out" ||
        { ((kills == 0)) && ! grep -q "host b does not answer" "$work/out"; }; then
        echo "hosts $hosts $shrink: FAILED"
        exit 1
    fi
    if [ -n "$(ls -d /dev/shm/telpher-restart-* 2>/dev/null)" ]; then
        echo "the folder was left behind"
        exit 1
    fi
    ((kills == 0)) || lose_b
}

run localhost,b ""
run b,localhost --shrink
echo "hosts: OK"
