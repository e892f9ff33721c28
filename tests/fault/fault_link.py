#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network that fails between client and server: cut, silent, reset. Both ends notice, in bounded time.

A peer that vanished without a word is noticed after 25 s (src/transport/tcp); so these cases run at once."""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from fault import CLIENT, ICD, LIMIT_S, LINK, SKIPPED, TELPHERD, children, is_running, until

DEAD_AFTER_S = 25
NOTICED_S = DEAD_AFTER_S + 10


class Case:
    """A link with telpherd on one side and a client that loses it on the other."""

    def __init__(self, what, end, event):
        """@p event: arguments of link ctl"""
        self.event = event
        self.folder = tempfile.mkdtemp(prefix="telpher-fault-")
        with open(f"{self.folder}/telpher.icd", "w", encoding="utf-8") as file:
            file.write(ICD + "\n")
        self.control = f"{self.folder}/control"
        server = (f"echo $$ > {self.folder}/server; exec {shlex.quote(TELPHERD)} --socket none --insecure --log error "
                  "--listen 10.77.0.2")
        # The client ends, the link waits until we have looked at the server.
        client = (f"TELPHER_SERVERS=10.77.0.2 OCL_ICD_VENDORS={self.folder} {shlex.quote(CLIENT)} lose {what} {end} "
                  f"> {self.folder}/out 2> {self.folder}/errors; echo $? > {self.folder}/status; "
                  f"while [ ! -e {self.folder}/over ]; do sleep 0.05; done")
        self.log = open(f"{self.folder}/link", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [LINK, "run", "--delay", "100us", "--rate", "1Gbit", "--control", self.control, "--wait-port", "7717",
             "--wait-time", "30s", "--a", client, "--b", server],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.begin = None

    def read(self, name):
        try:
            with open(f"{self.folder}/{name}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def start(self):
        """Waits until the client is at work, then lets it happen."""
        until(lambda: "ready" in self.read("out") or self.process.poll() is not None, "the client works")
        if self.process.poll() == SKIPPED:
            print("skipped: the kernel does not permit network namespaces or TUN devices here")
            sys.exit(SKIPPED)
        time.sleep(0.05)
        self.server = int(self.read("server"))
        self.executors = children(self.server)
        self.begin = time.monotonic()
        subprocess.run([LINK, "ctl", self.control, *self.event], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)

    def expect(self, test, least_s, most_s):
        status = until(lambda: self.read("status"), "the client ends", NOTICED_S + LIMIT_S).strip()
        took = time.monotonic() - self.begin
        what = f"{self.event}: {took:.1f} s, {self.read('out')[-200:]!r}, {self.read('errors')!r}"
        test.assertEqual(status, "0", what)
        test.assertEqual(self.read("errors").count("session lost"), 1, what)
        test.assertTrue(least_s <= took < most_s, what)
        print(f"{' '.join(self.event)}: noticed after {took:.1f} s")
        if self.executors:
            until(lambda: not any(is_running(pid) for pid in self.executors), "the executor ends", NOTICED_S)
        test.assertTrue(is_running(self.server), "telpherd goes on")

    def close(self):
        with open(f"{self.folder}/over", "w", encoding="utf-8"):
            pass
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(LIMIT_S)
        self.log.close()
        shutil.rmtree(self.folder)


class Network(unittest.TestCase):
    def test_network(self):
        slow = [Case("hang", "gone", ("blackhole",)), Case("write", "gone", ("blackhole",)),
                Case("loop", "gone", ("cut",))]
        quick = [Case("loop", "again", ("reset",)), Case("write", "again", ("reset",))]
        try:
            for case in slow + quick:
                case.start()
            for case in quick:
                case.expect(self, 0, DEAD_AFTER_S)
            for case in slow:
                case.expect(self, 5, NOTICED_S)
        finally:
            for case in slow + quick:
                case.close()

    def test_short_silence(self):
        """A network that comes back in time is no reason to give up."""
        case = Case("loop", "again", ("blackhole", "1s"))
        try:
            case.start()
            before = len(case.read("out"))
            until(lambda: len(case.read("out")) > before + 1000, "it goes on")
            self.assertEqual(case.read("status"), "")
            subprocess.run([LINK, "ctl", case.control, "reset"], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
            case.expect(self, 0, LIMIT_S)
        finally:
            case.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
