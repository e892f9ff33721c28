#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program with copies on a second server gets another one after it has lost one: all servers may be replaced, one after the other.

FAULT_REJOINS: how many rounds. A round replaces both servers."""
import os
import random
import re
import time
import unittest

from fault import LIMIT_S, children, main, until
from fault_copies import COPIES
from fault_cut import DRIVER_FOLDER
from fault_kill import SEED, Pair, kill

SPAN_S = 0.2
ROUNDS = int(os.environ.get("FAULT_REJOINS", "5"))
PROTECTED = re.compile(r"copies are kept on \S+ from now on")
TOOK_OVER = "goes on with its work"


def kill_server(server):
    """Its broker and all executors, as if the machine were switched off."""
    executors = children(server.pid)
    server.process.kill()
    for pid in executors:
        kill(pid)
    server.process.wait()


def drain(server):
    server.process.terminate()
    server.process.wait(LIMIT_S)


class Rejoin(unittest.TestCase):
    def start(self, scheme, **settings):
        pair = Pair(scheme, "--drain-timeout", "60s")
        self.addCleanup(pair.end)
        return pair

    def count(self, witness, pattern):
        return len(re.findall(pattern, witness.said()))

    def replace(self, pair, i, end):
        """A server ends, and another begins at the same address."""
        end(pair.servers[i])
        pair.restart(i)

    def rounds(self, scheme, end):
        """Replaces the first server and the second in turn; each time, both sessions of the program lose one."""
        pair = self.start(scheme)
        witness = pair.witness("0", **COPIES)
        witness.wait_line("ready")
        begin = time.monotonic()
        for step in range(2 * ROUNDS):
            before = self.count(witness, PROTECTED)
            self.replace(pair, step % 2, end)
            until(lambda: self.count(witness, PROTECTED) == before + 2,
                  lambda: f"step {step}: both sessions have copies again: {witness.said()}")
        time.sleep(SPAN_S)
        self.assertEqual(witness.result(), "exact", witness.said)
        said = witness.errors_said
        # after the first step, both sessions are with the server that is replaced next
        self.assertEqual(said.count(TOOK_OVER), 1 + 2 * (2 * ROUNDS - 1), said)
        print(f"{scheme}: {2 * ROUNDS} servers replaced in {time.monotonic() - begin:.1f} s; exact")

    def test_drain_unix(self):
        self.rounds("unix", drain)

    def test_kill_unix(self):
        self.rounds("unix", kill_server)

    def test_drain_tls(self):
        self.rounds("tls", drain)

    def test_kill_tcp(self):
        self.rounds("tcp", kill_server)

    def test_drain_at_once(self):
        """The second server is drained before the first is back: its sessions leave as soon as they can."""
        pair = self.start("unix")
        witness = pair.witness("0", **COPIES)
        witness.wait_line("ready")
        self.replace(pair, 0, drain)
        pair.servers[1].process.terminate()
        pair.servers[1].process.wait(LIMIT_S)
        pair.restart(1)
        until(lambda: self.count(witness, PROTECTED) >= 2, witness.said)
        self.assertEqual(witness.result(), "exact")
        self.assertEqual(witness.errors_said.count(TOOK_OVER), 3, witness.errors_said)

    def test_late(self):
        """A program that began with one server has copies once the second is there."""
        pair = self.start("unix")
        drain(pair.servers[1])
        witness = pair.witness("0", **COPIES)
        witness.wait_line("ready")
        self.assertIn("until one is", witness.said())
        pair.restart(1)
        until(lambda: self.count(witness, PROTECTED) == 1, witness.said)
        kill_server(pair.servers[0])
        until(lambda: self.count(witness, TOOK_OVER) == 1, witness.said)
        time.sleep(SPAN_S)
        self.assertEqual(witness.result(), "exact")

    def test_lost_while_joining(self):
        """A server that dies again and again while it gets everything disturbs nobody."""
        pair = self.start("unix")
        witness = pair.witness("0", **COPIES)
        witness.wait_line("ready")
        moments = random.Random(SEED)
        for _ in range(4 * ROUNDS):
            self.replace(pair, 0, kill_server)
            time.sleep(moments.uniform(0, SPAN_S))
        until(lambda: self.count(witness, PROTECTED) >= 2, witness.said)
        time.sleep(SPAN_S)
        self.assertEqual(witness.result(), "exact")
        print(f"second server killed {4 * ROUNDS} times (seed {SEED}): {witness.errors_said.count('from now on')} times with copies")


if __name__ == "__main__":
    main()
