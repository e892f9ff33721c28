#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program with copies on a second server has the exact result when one of the two is killed at a random moment.

Victims are a server, an executor, a broker alone, a handshake process (the program may end with an error) and the program. After each kill
nothing is left: processes, descriptors of the brokers, files, shared memory. A server that drains, or whose executor stops, is replaced, too.
FAULT_KILLS: how many moments for each victim and connection. FAULT_KILLS_SEED: repeats the moments of a run."""
import os
import queue
import random
import signal
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from fault import LIMIT_S, children, is_running, until
from fault_cut import AT_ONCE
from fault_kill import HANDSHAKE, KILLS, SEED, Pair, kill, kill_child, name_of

COPIES = {"TELPHER_KEEP_COPIES": "yes", "TELPHER_ON_LOSS_TIME": "300ms"}
SPAN_S = 0.1
# A server is its broker and all executors, as if the machine were switched off.
SERVERS, EXECUTORS, BROKERS = ("server", "second server"), ("executor", "second executor"), ("broker", "second broker")
VICTIMS = SERVERS + EXECUTORS + BROKERS + ("client",)
STOPPED_S = 40 # [s] a stopped executor is silent for 20 s until the client gives it up
GOES_ON = "goes on with its work"


def shared_files():
    """Names of shared memory that Telpher may have made. Other tests have some, too."""
    return {name for name in os.listdir("/dev/shm") if "telpher" in name}


def executors_of(server):
    return [pid for pid in children(server.pid) if name_of(pid) not in ("", HANDSHAKE)]


class Trial:
    """One program, and one kill."""

    def __init__(self, pair, victim, moment):
        self.pair, self.victim, self.moment = pair, victim, moment
        self.server = pair.servers[victim.startswith("second")]
        self.struck = False

    def strike(self):
        if self.victim == "client":
            return kill(self.witness.pid)
        if self.victim == "handshake":
            return kill_child(self.server, lambda name: name == HANDSHAKE, 1)
        executors = executors_of(self.server)
        if self.victim in EXECUTORS:
            return bool(executors) and kill(executors[int(self.moment * 1e6) % len(executors)])
        self.server.process.kill()
        for pid in executors if self.victim in SERVERS else ():
            kill(pid)
        self.server.process.wait()
        return True

    def run(self):
        """@return result of the program"""
        before = shared_files()
        self.witness = self.pair.witness("0", **COPIES) # until its input ends
        if self.victim != "handshake": # which runs before the program does anything
            self.witness.wait_line("ready")
        time.sleep(self.moment)
        executors = {pid for server in self.pair.servers for pid in children(server.pid)}
        self.struck = self.strike()
        time.sleep(SPAN_S / 2)
        result = self.witness.result()
        until(lambda: not any(is_running(pid) for pid in executors), lambda: f"executors end: {executors}")
        left = shared_files() - before
        until(lambda: not left & shared_files(), lambda: f"shared memory is freed: {left}")
        return result

    def kills_broker(self):
        return self.victim in SERVERS + BROKERS

    def expect(self, test, result):
        said = self.witness.errors_said
        what = f"{self.pair.scheme}, {self.victim} after {self.moment:.4f} s: {said}"
        test.assertIn(result, {"client": ("killed", "exact"), "handshake": ("exact", "failed")}.get(self.victim, ("exact",)), what)
        if self.victim in SERVERS:
            test.assertIn(GOES_ON, said, what)
        for server in self.pair.servers:
            if server.process.poll() is None:
                server.expect_clean()
            else:
                test.assertEqual(server.files_left(), [], what)


class Copies(unittest.TestCase):
    def trial(self, pairs, scheme, victim, moment):
        """@return whether a process was killed, and whether another server went on with the work"""
        pair = pairs.get()
        try:
            if pair is None:
                pair = Pair(scheme)
            trial = Trial(pair, victim, moment)
            result = trial.run()
            trial.expect(self, result)
            if trial.kills_broker():
                ended, pair = pair, None
                ended.end()
        finally:
            pairs.put(pair)
        return trial.struck, GOES_ON in trial.witness.errors_said

    def kills(self, scheme):
        moments = random.Random(SEED)
        victims = VICTIMS + (("handshake",) if scheme == "tls" else ())
        work = [(scheme, victim, moments.uniform(0, SPAN_S)) for _ in range(KILLS) for victim in victims]
        at_once = min(AT_ONCE, 2 * KILLS)
        pairs = queue.Queue()
        for _ in range(at_once):
            pairs.put(None)
        try:
            with ThreadPoolExecutor(at_once) as pool:
                done = list(pool.map(lambda w: self.trial(pairs, *w), work))
        finally:
            for _ in range(at_once):
                pair = pairs.get()
                if pair is not None:
                    pair.end()
        struck, went_on = (sum(column) for column in zip(*done))
        print(f"{scheme}: {len(work)} kills (seed {SEED}), {struck} met a process, another server went on {went_on} times; all as promised")
        self.assertGreaterEqual(struck, len(work) * 3 // 4)
        self.assertGreaterEqual(went_on, len(SERVERS) * KILLS)

    def test_unix(self):
        self.kills("unix")

    def test_tcp(self):
        self.kills("tcp")

    def test_tls(self):
        self.kills("tls")

    def drain(self, scheme, second):
        """A server that shuts down passes its work on at once."""
        pair = Pair(scheme, "--drain-timeout", "100s")
        insecure = {"TELPHER_INSECURE": "yes"} if scheme == "unix" else {} # no matter, with Unix sockets
        witness = pair.witness("0", **insecure, **COPIES)
        witness.wait_line("ready")
        time.sleep(random.Random(f"{SEED} {scheme} {second}").uniform(0, SPAN_S))
        pair.servers[second].process.terminate()
        pair.servers[second].process.wait(LIMIT_S)
        self.assertEqual(witness.result(), "exact", witness.errors_said)
        self.assertIn(GOES_ON, witness.errors_said)
        pair.servers[1 - second].expect_clean()
        pair.end()

    def test_drain(self):
        for scheme in ("unix", "tcp", "tls"):
            for second in range(2):
                with self.subTest(scheme=scheme, second=second):
                    self.drain(scheme, second)

    def test_stopped(self):
        """An executor that is stopped keeps its TCP connection, but says nothing. Another server takes over."""
        pair = Pair("tcp")
        witness = pair.witness("0", **COPIES)
        witness.wait_line("ready")
        executors = executors_of(pair.servers[0])
        for pid in executors:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: GOES_ON in witness.said(), lambda: f"another server takes over: {witness.said()}", STOPPED_S)
        self.assertEqual(witness.result(), "exact", witness.errors_said)
        until(lambda: not any(is_running(pid) for pid in executors), "the stopped executors end")
        for server in pair.servers:
            server.expect_clean()
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
