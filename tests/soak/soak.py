#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soak: what cannot be asserted in a test that must not depend on the machine. Prints numbers with what they should
be beside them; the exit status says whether all are there.

usage: soak.py idle|commands|processor [AMOUNT], settings from the environment as for the fault tests"""
import os
import re
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../fault"))
from fault import Server, Session, children  # noqa: E402

SOAK_CLIENT = os.environ["SOAK_CLIENT"]
FAILED = []


def tell(text, value, most=None):
    good = most is None or value <= most
    print(f"{text}: {value:g}" + ("" if most is None else f" (at most {most:g}){'' if good else '  <-- MISSED'}"),
          flush=True)
    if not good:
        FAILED.append(text)


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return int(re.search(r"^Pss:\s+(\d+) kB", file.read(), re.M).group(1))


def resident_kib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def threads(pid):
    """Processor seconds of each thread, by name and number."""
    used = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as file:
            name, rest = re.match(r"\d+ \((.*)\) (.*)", file.read()).groups()
        fields = rest.split()
        used[f"{name}/{task}"] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def client(server, what, amount, **more):
    return subprocess.Popen([SOAK_CLIENT, what, str(amount)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "TELPHER_SERVERS": server.address, "OCL_ICD_VENDORS": server.folder},
                            **more)


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def idle(count):
    """Sessions without a context."""
    server = Server()
    for _ in range(3):  # what is allocated once is allocated now
        with Session(server) as s:
            s.put("devices", struct.pack("<Q", 1))
            s.expect("devices_reply")
    before = pss_kib(server.pid)
    sessions = [Session(server) for _ in range(count)]
    for s in sessions:
        s.put("devices", struct.pack("<Q", 1))
        s.expect("devices_reply")
    with_all, tasks = pss_kib(server.pid), len(threads(server.pid))
    for s in sessions:
        s.socket.close()
    time.sleep(1)
    after = pss_kib(server.pid)
    tell("idle sessions", count)
    tell("threads of the daemon", tasks, 1)
    tell("processes of the daemon beside it", len(children(server.pid)), 0)
    tell("memory for a session [KiB]", (with_all - before) / count, 64)
    tell("memory more than before, when all have ended [KiB]", after - before, 256)
    server.stop()


def commands(count):
    """Memory as commands go by, of the client and of its executor."""
    server = Server()
    process = client(server, "commands", count)
    rows = []
    for line in process.stdout:
        _, at, size, seconds = line.split()
        executors = children(server.pid)
        rows.append((int(at), int(size), resident_kib(executors[0]) if executors else 0,
                     resident_kib(server.pid)))
        print(f"{int(at):>12} commands after {float(seconds):7.1f} s: client {rows[-1][1]} KiB, executor "
              f"{rows[-1][2]} KiB, daemon {rows[-1][3]} KiB", flush=True)
        go_on(process)
    if process.wait() != 0:
        raise SystemExit("the client has failed")
    third = rows[len(rows) // 3]
    for name, column in (("client", 1), ("executor", 2), ("daemon", 3)):
        tell(f"memory of the {name} more than after a third [KiB]", rows[-1][column] - third[column], 1024)
    server.stop()


OURS = ("watchdog", "bulk", "build", "printf")  # and the first thread; the driver's have no name of their own


def processor(seconds):
    """What our own threads use while a kernel runs; those of the driver are the kernel's."""
    server = Server()
    process = client(server, "kernel", seconds)
    assert process.stdout.readline().strip() == "ready"
    executor = children(server.pid)[0]
    before, broker = threads(executor), sum(threads(server.pid).values())
    go_on(process)
    took, used = (float(process.stdout.readline().split()[1]) for _ in range(2))
    after = threads(executor)
    tell("kernel [s]", took)
    own = 0.0
    for name in after:
        part = after[name] - before.get(name, 0)
        ours = name.startswith(OURS) or name.endswith(f"/{executor}")
        own += part if ours else 0
        print(f"  thread {name}: {part:.2f} s{'' if ours else ' (of the driver)'}")
    tell("executor's own threads [s]", round(own, 3), 0.1)
    tell("daemon [s]", round(sum(threads(server.pid).values()) - broker, 3), 0.1)
    tell("client [s]", used, 0.1)
    process.communicate("\n")
    server.stop()


WHAT = {"idle": (idle, 200), "commands": (commands, 10_000_000), "processor": (processor, 3)}


def main():
    words = sys.argv[1:]
    if not words or words[0] not in WHAT:
        raise SystemExit(__doc__)
    function, amount = WHAT[words[0]]
    print(f"== {words[0]}: {function.__doc__.splitlines()[0]}", flush=True)
    function(int(words[1]) if len(words) > 1 else amount)
    if FAILED:
        raise SystemExit(f"missed: {', '.join(FAILED)}")


if __name__ == "__main__":
    main()
