#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: trace.py PARENTS WORKERS COMMAND...

Runs COMMAND with a trace of each process, and looks whether it has all that happened: when
each call left a parent, and entry and exit of each kernel in each worker, in the order of the calls.
"""
import json
import os
import subprocess
import sys
import tempfile


def fail(words):
    sys.exit("trace.py: " + words)


def name_of(events):
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    return names[0] if names else "?"


def kernels_of(who, events):
    """[(kernel, call, entry, exit)] of a worker; one at a time, entry before exit."""
    ran, inside = [], None
    for e in events:
        if e["ph"] == "B":
            if inside:
                fail(f"{who}: {e['name']} begins inside of {inside['name']}")
            inside = e
        elif e["ph"] == "E":
            if not inside or inside["name"] != e["name"] or e["ts"] < inside["ts"]:
                fail(f"{who}: {e['name']} ends that has not begun")
            ran.append((e["name"], inside["args"]["call"], inside["ts"], e["ts"]))
            inside = None
    if inside:
        fail(f"{who}: {inside['name']} does not end")
    return ran


def check(parents, workers, traces):
    injects = []
    first = None
    for rank in range(parents):
        for e in traces[f"parent {rank}"]:
            if e["name"] == "inject":
                injects.append((e["args"]["call"], e["args"]["last"], e["ts"]))
    left = {}
    for low, high, ts in injects:
        for call in range(low, high + 1):
            left[call] = min(ts, left.get(call, ts))
    for rank in range(workers):
        who = f"worker {rank}"
        ran = kernels_of(who, traces[who])
        first = first or [r[:2] for r in ran]
        if not ran or [r[:2] for r in ran] != first:
            fail(f"{who} has not run what worker 0 has")
        if [r[1] for r in ran] != sorted(r[1] for r in ran):
            fail(f"{who} has not run in the order of the calls")
        for name, call, entry, _ in ran:
            if call not in left or left[call] > entry:
                fail(f"{who} ran {name}, call {call}, which no parent sent before")
    if sum(1 for name, _ in first if name == "numbered") < 1000:
        fail("not all of the program's calls are there")
    print(f"trace: {len(injects)} messages, {len(first)} kernels in {workers} workers")


def main():
    parents, workers, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TELPHER_TRACE=f"{folder}/%p.json")
        if subprocess.run(command, env=environment, timeout=80).returncode != 0:
            fail("the program failed")
        traces = {}
        for file in os.listdir(folder):
            with open(f"{folder}/{file}", encoding="utf-8") as opened:
                events = json.load(opened)["traceEvents"]
            mine = [e for e in events if e.get("cat") == "offload"]
            if len(mine) >= len(traces.get(name_of(events), [])):
                traces[name_of(events)] = mine  # a spawn that hung did less
    wanted = {f"parent {i}" for i in range(parents)}
    wanted |= {f"worker {i}" for i in range(workers)}
    if set(traces) != wanted:
        fail(f"traces of {sorted(traces)}, not of {sorted(wanted)}")
    check(parents, workers, traces)


main()
