#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soak: what cannot be asserted in a test that must not depend on the machine. Prints numbers with what they should
be beside them; the exit status says whether all are there.

usage: soak.py idle|commands|processor|deaths|floods [AMOUNT], settings from the environment as for the fault tests"""
import os
import re
import resource
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../fault"))
from fault import Server, Session, children  # noqa: E402

IDLE_S = 20
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
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4 * count + 256), most))
    server = Server("--max-sessions", str(count + 8), "--max-user-sessions", str(count + 8))
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
    used, start = sum(threads(server.pid).values()), time.monotonic()
    time.sleep(IDLE_S)
    used = (sum(threads(server.pid).values()) - used) / (time.monotonic() - start)
    for s in sessions:
        s.socket.close()
    time.sleep(1)
    after = pss_kib(server.pid)
    tell("idle sessions", count)
    tell("threads of the daemon", tasks, 1)
    tell("processes of the daemon beside it", len(children(server.pid)), 0)
    tell("memory for a session [KiB]", (with_all - before) / count, 64)
    tell("processor time of the daemon meanwhile [% of a core]", 100 * used, 1)
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


def figures_of(witness):
    out, _ = witness.communicate("\n")
    return {name: float(value) for name, value in (line.split() for line in out.splitlines())}


def deaths(seconds):
    """Three clients come and go, and one is killed every second. The witness of another server is the floor."""
    server, other = Server(), Server()
    witnesses = [client(server, "latency", seconds), client(other, "latency", seconds)]
    for witness in witnesses:
        assert witness.stdout.readline().strip() == "ready"
    for witness in witnesses:
        go_on(witness)
    live, rows, start = [], [], time.monotonic()
    for second in range(seconds):
        live.append(server.client("compute"))
        if len(live) > 3:
            live.pop(0).kill()
        server.client("devices").end()
        if second % 10 == 9:
            rows.append((pss_kib(server.pid), server.count_descriptors(), len(server.files_left())))
            print(f"{second + 1:>6} s: daemon {rows[-1][0]} KiB, {rows[-1][1]} descriptors, {rows[-1][2]} files",
                  flush=True)
        time.sleep(max(0, start + second + 1 - time.monotonic()))
    with_deaths, alone = (figures_of(witness) for witness in witnesses)
    for one in live:
        one.kill()
    settled = rows[min(5, len(rows) // 2)]  # after the first minute
    last = [max(row[i] for row in rows[-3:]) for i in range(3)]
    tell("longest kernel and finish on a server without deaths [ms]", alone["most_us"] / 1e3)
    tell("longest with deaths, more than that [ms]", max(0.0, with_deaths["most_us"] - alone["most_us"]) / 1e3, 50)
    tell("p99 with deaths, without [us]", with_deaths["p99_us"] - alone["p99_us"])
    tell("memory of the daemon more than after a minute [KiB]", last[0] - settled[0], 256)
    tell("descriptors more than after a minute", last[1] - settled[1], 4)
    tell("files more than after a minute", last[2] - settled[2], 0)
    server.expect_clean()
    server.stop()
    other.stop()


FLOODS = {"kernels": 1_000_000, "writes": 4096, "builds": 1_000_000, "endless": 1}


def floods(seconds):
    """One session floods a server; what another one notices, beside the same while there is none."""
    for kind, amount in FLOODS.items():
        server = Server()
        p99, used = [], 0.0
        for flood in (None, client(server, kind, amount)):
            before = 0.0
            if flood:
                assert flood.stdout.readline().strip() == "ready"
                before = sum(threads(children(server.pid)[0]).values())
                go_on(flood)
            witness = client(server, "latency", seconds)
            assert witness.stdout.readline().strip() == "ready"
            p99.append(figures_of(witness)["p99_us"] / 1e3)
            if flood:
                assert flood.poll() is None, "the flood has ended"
                used = sum(threads(children(server.pid)[0]).values()) - before
                flood.kill()
                flood.communicate()
        tell(f"p99 of kernel and finish [ms] without {kind}", p99[0])
        tell(f"  more with {kind} of another session, which used {used:.1f} s of processors", p99[1] - p99[0], 10)
        server.stop()


WHAT = {"idle": (idle, 512), "floods": (floods, 10), "deaths": (deaths, 600),
        "commands": (commands, 10_000_000), "processor": (processor, 3)}


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
