#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soak: what cannot be asserted in a test that must not depend on the machine. Prints numbers with what they should
be beside them; the exit status says whether all are there.

usage: soak.py idle|latency|commands|processor [AMOUNT], settings from the environment as for the fault tests"""
import os
import random
import re
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../fault"))
from fault import (CONTEXT, EVENT, MEM, PROGRAM, QUEUE, Server, Session, children, frame,  # noqa: E402
                   numbers, preface)

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


class Hostile(threading.Thread):
    """One kind of hostile client, again and again until told to stop."""

    def __init__(self, server, act):
        super().__init__(daemon=True)
        self.server, self.act, self.stop, self.rounds = server, act, False, 0

    def run(self):
        while not self.stop:
            try:
                self.act(self)
            except (OSError, AssertionError, struct.error):
                time.sleep(0.01)
            self.rounds += 1
            time.sleep(0.02)  # this machine has to run the honest one, too


def strangers(t):
    """Half-open connections, and prefaces that trickle."""
    held = [t.server.connect() for _ in range(16)]
    for s in held:
        s.sendall(preface()[:random.randrange(64)])
    time.sleep(0.5)
    for s in held:
        s.close()


def garbage(t):
    with t.server.connect() as s:
        s.sendall(random.randbytes(4096))
    with Session(t.server) as s:
        s.put_raw(random.randbytes(65536))


def many_objects(t):
    """10,000 of each kind, then garbage."""
    with Session(t.server).start() as s:
        for i in range(2, 10002):
            s.put("buffer_create", struct.pack("<QQQQ", MEM | i, CONTEXT | 1, 1, 64))
            if i <= 200:
                s.put("context_create", struct.pack("<Q", CONTEXT | i) + numbers(0))
                s.put("queue_create", struct.pack("<QQIQ", QUEUE | i, CONTEXT | 1, 0, 0))
            s.put("program_source", struct.pack("<QQQQI1s", PROGRAM | i, CONTEXT | 1, 1, 0, 1, b"x"))
            s.put(0x2a, struct.pack("<QQ", EVENT | i, CONTEXT | 1))
            if t.stop:
                return
        s.put_raw(random.randbytes(64))


def unread(t):
    """Asks and does not listen."""
    with Session(t.server).start() as s:
        for i in range(200):
            s.put("ping", struct.pack("<QQI", i, 0, 65536) + bytes(65536))


def half_frames(t):
    with Session(t.server) as s:
        s.put_raw(frame("ping", bytes(1000), 1)[:500])
        time.sleep(0.2)


def value(text, name):
    return float(re.search(rf"^{name} (\S+)", text, re.M).group(1))


def place(pid, processors):
    """All threads of a process."""
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), processors)


def measure(server, seconds, honest, crowd=()):
    """Median and p99 of a client that has processors of its own, and so has its executor; the crowd is there meanwhile."""
    before = set(children(server.pid))
    process = client(server, "latency", seconds, preexec_fn=lambda: os.sched_setaffinity(0, honest))
    assert process.stdout.readline().strip() == "ready"
    for pid in set(children(server.pid)) - before:
        place(pid, honest)
    for t in crowd:
        t.start()
    text = process.communicate("\n")[0]
    for t in crowd:
        t.stop = True
    for t in crowd:
        t.join(20)
    return value(text, "median_us"), value(text, "p99_us")


def latency(seconds):
    """An honest client beside hostile ones, in turns with the same without them.

    Half of the processors are the honest client's and its executor's: that hostile clients compute is their right, and
    what is asked is whether they hold up others in any other way."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        raise SystemExit("skipped: one processor")
    honest, others = set(processors[:len(processors) // 2]), set(processors[len(processors) // 2:])
    os.sched_setaffinity(0, others)
    server = Server("--build-timeout", "5s", "--preface-timeout", "1s")
    alone, beside = [], []
    for turn in range(5):
        alone.append(measure(server, seconds, honest))
        crowd = [Hostile(server, act) for act in (strangers, garbage, unread, half_frames, many_objects)]
        beside.append(measure(server, seconds, honest, crowd))
        print(f"turn {turn + 1}: alone median {alone[-1][0]} us, p99 {alone[-1][1]} us; beside hostile clients median "
              f"{beside[-1][0]} us, p99 {beside[-1][1]} us; "
              f"{', '.join(f'{t.act.__name__} x {t.rounds}' for t in crowd)}", flush=True)
    p99 = [sorted(row[1] for row in rows)[2] for rows in (alone, beside)]
    tell("processors", os.cpu_count())
    tell("p99 alone, median of 5 [us]", p99[0])
    tell("p99 beside hostile clients, median of 5 [us]", p99[1], 2 * p99[0])
    server.stop()


WHAT = {"idle": (idle, 200), "commands": (commands, 10_000_000), "processor": (processor, 3), "latency": (latency, 4)}


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
