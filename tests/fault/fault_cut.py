#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The connection of a program is reset after each of many numbers of bytes; the program ends with the exact result.

FAULT_CUTS: how many places in each direction, or "every" for each byte. FAULT_CUTS_DONE: file with the places that are
done; a run that was interrupted goes on behind them."""
import concurrent.futures
import os
import shlex
import subprocess
import tempfile
import unittest

from fault import ICD, LINK, SKIPPED, TELPHERD

WITNESS = os.environ["FAULT_WITNESS"]
DRIVER_FOLDER = os.environ["FAULT_VENDORS"]
CUTS = os.environ.get("FAULT_CUTS", "50")
DONE = os.environ.get("FAULT_CUTS_DONE")
AT_ONCE = int(os.environ.get("FAULT_CUTS_AT_ONCE", "4"))
RUN_S = 120


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def run(event, *arguments, settings=""):
    """One witness over a link of its own. @return (exit status, its output, its errors, what the link counted)"""
    with tempfile.TemporaryDirectory(prefix="telpher-cut-") as folder:
        with open(f"{folder}/telpher.icd", "w", encoding="utf-8") as file:
            file.write(ICD + "\n")
        server = (f"OCL_ICD_VENDORS={shlex.quote(DRIVER_FOLDER)} exec {shlex.quote(TELPHERD)} --socket none --insecure "
                  f"--log error --listen 10.77.0.2")
        client = (f"TELPHER_ON_LOSS=wait {settings} TELPHER_SERVERS=10.77.0.2 OCL_ICD_VENDORS={folder} TELPHER_CONNECT_TIMEOUT=20s "
                  f"{shlex.quote(WITNESS)} {' '.join(arguments)} > {folder}/out 2> {folder}/errors")
        ran = subprocess.run([LINK, "run", "--wait-port", "7717", "--wait-time", "60s", "--stats", *event,
                              "--a", client, "--b", server], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=RUN_S, check=False)
        out, errors = read(f"{folder}/out"), read(f"{folder}/errors")
        return ran.returncode, out, errors, ran.stderr


def bytes_of(stats, direction):
    line = next(line for line in stats.splitlines() if line.startswith(direction))
    words = line.split()
    return int(words[words.index("payload") + 1])


def places(total):
    """Where to cut. Not in the last bytes: a run that ends is not cut."""
    last = total - 100
    if CUTS == "every":
        return range(last)
    return [i * last // int(CUTS) for i in range(int(CUTS))]


def read_done():
    return set(read(DONE).split()) if DONE is not None else set()


class Cut(unittest.TestCase):
    def cut(self, place):
        status, out, errors, _ = run(("--reset-at", place))
        what = f"{place}: status {status}, {out!r}, {errors!r}"
        self.assertEqual((status, out.splitlines()[-1:]), (0, ["exact"]), what)
        if DONE is not None:
            with open(DONE, "a", encoding="utf-8") as file:
                file.write(place + "\n")
        return "connected again" in errors

    def test_resets(self):
        status, out, errors, stats = run(())
        if status == SKIPPED:
            self.skipTest("the kernel does not permit network namespaces or TUN devices here")
        self.assertEqual((status, out.splitlines()[-1:]), (0, ["exact"]), errors)
        self.assertNotIn("connect", errors.replace("connection to", ""))
        done = read_done()
        todo = [f"{direction}:{at}" for direction in ("a2b", "b2a") for at in places(bytes_of(stats, direction))]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            resumed = sum(pool.map(self.cut, [place for place in todo if place not in done]))
        print(f"{len(todo)} resets, {len(done)} of them in an earlier run; {resumed} sessions were resumed")
        self.assertGreater(resumed + len(done), len(todo) // 2)

    def test_fail(self):
        """TELPHER_ON_LOSS=fail: the session ends with its connection."""
        status, out, errors, _ = run(("--reset-at", "a2b:20000"), settings="TELPHER_ON_LOSS=fail")
        if status == SKIPPED:
            self.skipTest("the kernel does not permit network namespaces or TUN devices here")
        self.assertEqual(status, 1, out)
        self.assertIn("session lost", errors)

    def test_too_long(self):
        """A connection that does not come back loses the session after TELPHER_ON_LOSS_TIME."""
        status, out, errors, _ = run(("--cut-at", "a2b:20000"), settings="TELPHER_ON_LOSS_TIME=1s")
        if status == SKIPPED:
            self.skipTest("the kernel does not permit network namespaces or TUN devices here")
        self.assertEqual(status, 1, out)
        self.assertIn("no connection for 1 s", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
