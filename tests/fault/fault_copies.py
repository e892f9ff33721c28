#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program with copies on a second server has the exact result when one of the two is killed at a random moment.

FAULT_KILLS: how many moments for each victim and connection. FAULT_KILLS_SEED: repeats the moments of a run."""
import queue
import random
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from fault import LIMIT_S, children, is_running, until
from fault_cut import AT_ONCE
from fault_kill import KILLS, SEED, Pair, kill, name_of

COPIES = {"TELPHER_KEEP_COPIES": "yes", "TELPHER_ON_LOSS_TIME": "300ms"}
SPAN_S = 0.1
SERVERS, VICTIMS = 2, 4 # two servers, then one executor of each


def kill_server(server):
    """Its broker and all executors, as if the machine were switched off."""
    executors = children(server.pid)
    server.process.kill()
    for pid in executors:
        kill(pid)
    server.process.wait()


class Trial:
    def __init__(self, pair, victim, moment):
        self.pair, self.victim, self.moment = pair, victim, moment

    def strike(self):
        server = self.pair.servers[self.victim % SERVERS]
        if self.victim < SERVERS:
            kill_server(server)
            return
        executors = [pid for pid in children(server.pid) if name_of(pid) != ""]
        kill(executors[int(self.moment * 1e6) % len(executors)])

    def run(self):
        """@return result of the program, and what it said"""
        witness = self.pair.witness("0", **COPIES) # until its input ends
        witness.wait_line("ready")
        time.sleep(self.moment)
        executors = {pid for server in self.pair.servers for pid in children(server.pid)}
        self.strike()
        time.sleep(SPAN_S / 2)
        result = witness.result()
        until(lambda: not any(is_running(pid) for pid in executors), lambda: f"executors end: {executors}")
        return result, witness.errors_said


class Copies(unittest.TestCase):
    def trial(self, pairs, way, victim, moment):
        """@return true if another server went on with the work"""
        pair = pairs.get()
        try:
            if pair is None:
                pair = Pair(way)
            result, said = Trial(pair, victim, moment).run()
            if victim < SERVERS:
                ended, pair = pair, None
                ended.end()
        finally:
            pairs.put(pair)
        self.assertEqual(result, "exact", f"{way}, victim {victim} after {moment:.4f} s: {said}")
        if victim < SERVERS:
            self.assertIn("goes on with its work", said)
        return "goes on with its work" in said

    def kills(self, way):
        moments = random.Random(SEED)
        work = [(way, victim, moments.uniform(0, SPAN_S)) for _ in range(KILLS) for victim in range(VICTIMS)]
        at_once = min(AT_ONCE, 2 * KILLS)
        pairs = queue.Queue()
        for _ in range(at_once):
            pairs.put(None)
        try:
            with ThreadPoolExecutor(at_once) as pool:
                took_over = sum(pool.map(lambda w: self.trial(pairs, *w), work))
        finally:
            for _ in range(at_once):
                pair = pairs.get()
                if pair is not None:
                    pair.end()
        print(f"{way}: {len(work)} kills (seed {SEED}), another server went on {took_over} times; all exact")

    def test_unix(self):
        self.kills("unix")

    def test_tcp(self):
        self.kills("tcp")

    def test_tls(self):
        self.kills("tls")

    def test_drain(self):
        """A server that shuts down passes its work on at once."""
        pair = Pair("unix", "--drain-timeout", "30s")
        witness = pair.witness("0", TELPHER_INSECURE="yes", **COPIES) # no matter, with Unix sockets
        witness.wait_line("ready")
        time.sleep(SPAN_S)
        pair.servers[0].process.terminate()
        pair.servers[0].process.wait(LIMIT_S / 4)
        self.assertEqual(witness.result(), "exact")
        self.assertIn("goes on with its work", witness.errors_said)
        pair.end()

    def test_without_second(self):
        """With one server alone the setting does nothing, and says so."""
        pair = Pair("unix")
        pair.servers.pop().stop()
        witness = pair.witness(**COPIES)
        self.assertEqual(witness.result(), "exact")
        self.assertIn("no other server has the same devices", witness.errors_said)
        pair.end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
