#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""telpher trace merge: traces of a program and of its server, the latter's clock shifted as that of another machine.

Settings: those of the fault tests, FIGURES_TELPHER and FIGURES_PROGRAM (busy_program)."""
import copy
import glob
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../fault"))
from fault import LIMIT_S, Client, Server, children, until  # noqa: E402

TELPHER = os.environ["FIGURES_TELPHER"]
AHEAD_US = 5_000_000.0
MUTATIONS = 500


def load_command():
    loader = importlib.machinery.SourceFileLoader("trace_command", TELPHER + "-trace")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("trace_command", loader))
    loader.exec_module(module)
    return module


trace_command = load_command()


class Busy(Client):
    program = os.environ["FIGURES_PROGRAM"]


def frame(name, seq, ts, stream=1):
    return {"ph": "i", "pid": 7, "tid": 7, "ts": ts, "s": "t", "cat": "frame", "name": name,
            "args": {"stream": stream, "seq": seq}}


def made(clock, streams, *frames):
    return {"displayTimeUnit": "ns", "otherData": {"records": len(frames), "dropped": 0, "clock": clock,
                                                   "streams": streams},
            "traceEvents": [{"ph": "M", "name": "process_name", "pid": 7, "tid": 7, "args": {"name": "x"}}, *frames]}


CLIENT = made("here", [[3, "5e"]], frame("send launch", 1, 100.0, 3), frame("send marker", 2, 200.0, 3),
              frame("recv done", 1, 260.0, 3))
SERVER = made("there", [[1, "5e"]], frame("recv launch", 1, 1140.0), frame("recv marker", 2, 1210.0),
              frame("send done", 1, 1250.0))


class Merge(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="telpher-merge-")
        self.addCleanup(self.folder.cleanup)

    def write(self, name, data):
        path = f"{self.folder.name}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(data if isinstance(data, str) else json.dumps(data))
        return path

    def merge(self, *paths, code=0):
        run = subprocess.run([TELPHER, "trace", "merge", *paths], capture_output=True, text=True, timeout=LIMIT_S,
                             check=False)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertNotIn("Traceback", run.stderr)
        return json.loads(run.stdout) if code == 0 else run.stderr

    def test_offset(self):
        """1010 us at most by the marker, 990 at least by the answer: 1000 to within 10."""
        merged = self.merge(self.write("a", CLIENT), self.write("b", SERVER))
        self.assertEqual(merged["otherData"]["clocks"][1],
                         {"machine": 2, "clock": "there", "offset_us": 1000.0, "error_us": 10.0})
        times = {record["name"]: record["ts"] for record in merged["traceEvents"] if "ts" in record}
        self.assertEqual(times["recv launch"], 140.0)
        self.assertEqual(times["send done"], 250.0)
        self.assertEqual(len({record["pid"] for record in merged["traceEvents"]}), 2, "two machines, one pid")

    def test_chain(self):
        """A third machine that only the second knows."""
        second = copy.deepcopy(SERVER)
        second["otherData"]["streams"].append([2, "6f"])
        second["traceEvents"] += [frame("send write", 1, 1300.0, 2), frame("recv done", 1, 1330.0, 2)]
        third = made("far", [[1, "6f"]], frame("recv write", 1, 510.0), frame("send done", 1, 520.0))
        clocks = self.merge(self.write("a", CLIENT), self.write("c", third), self.write("b", second))["otherData"]["clocks"]
        self.assertEqual({clock["clock"]: clock["offset_us"] for clock in clocks}, {"here": 0, "there": 1000, "far": 200})

    def test_refused(self):
        good = self.write("a", CLIENT)
        lone = made("there", [[1, "99"]])
        for data, text in (("", "not JSON"), ("[]", "no traceEvents"), ("[" * 100000, "not JSON"),
                           ('{"traceEvents":[],"otherData":{}}', "names no clock"), (lone, "no session of another"),
                           (json.dumps(SERVER).replace("1140.0", "NaN"), "not JSON"),
                           (json.dumps(SERVER).replace("1140.0", "1e400"), "not JSON"),
                           (json.dumps(SERVER).replace("1140.0", "1e18"), "without a time"),
                           (json.dumps(SERVER).replace('"otherData": {', '"otherData": {"dropped": 1e999, '), "not JSON"),
                           (json.dumps(SERVER).replace('"pid": 7', '"pid": -1'), "without a process")):
            self.assertIn(text, self.merge(good, self.write("b", data), code=1))
        self.assertIn("No such file", self.merge(good, "/nowhere", code=1))

    def test_mutations(self):
        """What is not a trace is refused, or merged: no other end."""
        source = random.Random(1)
        bytes_of = json.dumps(SERVER).encode()
        for _ in range(MUTATIONS):
            data = bytearray(bytes_of)
            for _ in range(source.randint(1, 4)):
                at = source.randrange(len(data))
                if source.random() < 0.5:
                    data[at] = source.choice(b'0123456789-eE."[]{},:tfn \xff')
                else:
                    del data[at:at + source.randint(1, 40)]
            path = f"{self.folder.name}/m"
            with open(path, "wb") as file:
                file.write(data)
            try:
                json.dumps(trace_command.merge([trace_command.Trace(self.write("a", CLIENT)), trace_command.Trace(path)]))
            except trace_command.Bad as error:
                self.assertTrue(str(error))

    def test_program(self):
        traces = f"{self.folder.name}/t-%p.json"
        server = Server(TELPHER_TRACE=traces)
        program = Busy(server.folder, server.address, "1", "2", TELPHER_TRACE=traces)
        program.wait_line("ready")
        executor = children(server.pid)[0]
        program.process.stdin.close()
        program.process.stdin = None
        program.end()
        until(lambda: not children(server.pid), "the executor ends")
        server.stop()
        paths = [f"{self.folder.name}/t-{pid}.json" for pid in (program.pid, executor, server.pid)]
        self.assertEqual(len(self.merge(*paths)["otherData"]["clocks"]), 1, "one machine")
        for path in paths[1:]:  # now on another one
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
            trace["otherData"]["clock"] = "another"
            for record in trace["traceEvents"]:
                if "ts" in record:
                    record["ts"] += AHEAD_US
            self.write(os.path.basename(path), trace)
        merged = self.merge(*paths)
        clock = merged["otherData"]["clocks"][1]
        self.assertLessEqual(abs(clock["offset_us"] - AHEAD_US), clock["error_us"] + 0.002)
        self.assertEqual(self.count_early(merged), 0, "no frame is received before it was sent")
        self.assertFalse(glob.glob(f"{self.folder.name}/*.new"))

    def count_early(self, merged):
        frames = {}
        for record in merged["traceEvents"]:
            if record.get("cat") == "frame" and record["args"].get("stream"):
                way, what = record["name"].split(" ", 1)
                frames.setdefault((what, record["args"]["seq"]), {}).setdefault(way, record["ts"])
        pairs = [pair for pair in frames.values() if len(pair) == 2]
        self.assertGreater(len(pairs), 10)
        return sum(pair["recv"] < pair["send"] - 0.002 for pair in pairs)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main()
