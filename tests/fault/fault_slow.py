#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that gives a server more than it takes at once: the program's calls wait, and nothing is lost.

FAULT_SLOW=full: as many writes and contexts as have ended sessions, for 15 minutes."""
import concurrent.futures
import os
import unittest

from fault import Client, Server, main

DRIVER_FOLDER = os.environ["FAULT_VENDORS"]
FULL = os.environ.get("FAULT_SLOW") == "full"
WRITES, SLEEP_MS = (770000, 30000) if FULL else (20000, 2000)
CONTEXTS = 300 if FULL else 40
REFUSED = 5000 # in the test driver, the time grows with the square
RUN_S = 900 if FULL else 200


class Slow(Client):
    program = os.environ["FAULT_SLOW_CLIENT"]


def run(server, *words):
    """One program. @return what it reports"""
    client = Slow(server.folder, server.address, *(str(word) for word in words))
    said = client.end(RUN_S)
    print(client.text, end="", flush=True)
    return said


class SlowServer(unittest.TestCase):
    """Each with a server of its own, all at once."""

    def start(self, *options, **environment):
        server = Server(*options, OCL_ICD_VENDORS=DRIVER_FOLDER, **environment)
        self.addCleanup(server.stop)
        return server

    def expect_nothing_lost(self, server, *words):
        self.assertEqual(run(server, *words), "")
        server.expect_clean()

    def writes(self, memory):
        self.expect_nothing_lost(self.start("--max-host-memory", memory), "writes", WRITES, SLEEP_MS)

    def refused(self):
        """The server cannot wait for a user event, which the program sets later. A write takes what it has of the memory, and little more.
        Many short calls are not one that does not return."""
        server = self.start("--max-host-memory", "1M", "--kernel-warning", "1s", TESTDRV_PAUSE="clEnqueueWriteBuffer", TESTDRV_PAUSE_MS="10")
        said = run(server, "refused", REFUSED, (1 << 20) // 4096 * 3 // 4)
        self.assertNotIn("session lost", said)
        self.assertNotIn("has not returned", said)
        server.expect_clean()

    def contexts(self):
        """A driver that needs a second for each context is slow, not dead."""
        self.expect_nothing_lost(self.start(TESTDRV_PAUSE="clCreateContext", TESTDRV_PAUSE_MS="1000"), "contexts", CONTEXTS)

    def test_all(self):
        cases = {"writes that fit": (self.writes, "4G"), "writes that do not fit": (self.writes, "64M" if FULL else "1M"),
                 "writes behind a user event": (self.refused,), "slow contexts": (self.contexts,)}
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            runs = {name: pool.submit(*case) for name, case in cases.items()}
        for name, ran in runs.items():
            with self.subTest(name):
                ran.result()


if __name__ == "__main__":
    main()
