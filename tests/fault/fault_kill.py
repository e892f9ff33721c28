#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process is killed at a random moment while two programs run on two servers.

Whatever it is (a program, an executor, a broker, a handshake process), no program gets a wrong result: each is exact, or fails with an error
in bounded time, or is the one that was killed. Those that lost nothing are exact. Afterwards no process and no file is left, and the servers
serve a new program. FAULT_KILLS: how many moments for each kind of process and connection. FAULT_KILLS_SEED: repeats the moments of a run."""
import concurrent.futures
import os
import queue
import random
import tempfile
import time
import unittest

from fault import LIMIT_S, Client, Server, children, free_port, is_running, until
from fault_cut import AT_ONCE, DRIVER_FOLDER, KEY, WITNESS

KILLS = int(os.environ.get("FAULT_KILLS", "1"))
SEED = int(os.environ.get("FAULT_KILLS_SEED", str(time.time_ns() % 1000000)))
ROUNDS = "6"
HANDSHAKE = "telpher-handsha" # as the kernel has the name


class Pair:
    """Two servers that programs reach by one scheme."""

    def __init__(self, scheme, *options):
        self.scheme = scheme
        self.options = options
        self.folder = tempfile.TemporaryDirectory(prefix="telpher-kill-")
        with open(f"{self.folder.name}/key", "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(KEY)
        self.servers = [self.start(i) for i in range(2)]
        self.ended = []
        self.settings = {"TELPHER_TLS_PSK": f"{self.folder.name}/key",
                         "TELPHER_ON_LOSS": "fail" if scheme == "unix" else "wait", "TELPHER_CONNECT_TIMEOUT": "20s"}

    def start(self, i, path=None, port=None):
        options = ["--keep-session", "1s", "--log", "warn"]
        port = port or free_port()
        address = f"{self.scheme}://127.0.0.1:{port}"
        if self.scheme == "tls":
            options += ["--listen", address, "--tls-psk", f"{self.folder.name}/key"]
        if self.scheme == "tcp": # each with a cookie of its own would need two settings of the client
            options += ["--listen", address, "--insecure"]
        server = Server(*options, *self.options, path=path, is_known=path is not None, OCL_ICD_VENDORS=DRIVER_FOLDER)
        server.reached = server.address if self.scheme == "unix" else address
        server.port = port
        return server

    def restart(self, i):
        """Starts a server at the address of one that has ended."""
        old = self.servers[i]
        self.servers[i] = self.start(i, old.path, old.port)
        self.ended.append(old)

    def witness(self, rounds=ROUNDS, **settings):
        insecure = {"TELPHER_INSECURE": "yes"} if self.scheme == "tcp" else {}
        return Witness(self.servers[0].folder, ",".join(server.reached for server in self.servers), rounds,
                       **self.settings, **insecure, **settings)

    def end(self):
        for server in self.servers + self.ended:
            if server.process.poll() is None:
                server.stop()
            else:
                server.remove()
        self.folder.cleanup()


class Witness(Client):
    program = WITNESS

    def result(self):
        """"exact", "failed" or "killed"; anything else is wrong. In bounded time."""
        try:
            out, _ = self.process.communicate(timeout=LIMIT_S)
        except Exception:
            self.kill()
            raise
        lines = out.decode().splitlines()
        said = self.errors_said = self.said()
        self.errors.close()
        if self.process.returncode == -9:
            return "killed"
        if self.process.returncode == 0 and lines[-1:] == ["exact"]:
            return "exact"
        if self.process.returncode == 1 and lines[-1].startswith("failed: "):
            return "failed"
        raise AssertionError(f"status {self.process.returncode}: {lines}, {said!r}")


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def kill(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return False
    return True


def kill_child(server, wanted, seconds):
    """Kills the first child for which @p wanted holds. @return true if there was one"""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pid in children(server.pid):
            if wanted(name_of(pid)) and kill(pid):
                return True
        time.sleep(0.0005)
    return False


class Trial:
    """One kill."""

    def __init__(self, pair, victim, moment):
        self.pair, self.victim, self.moment = pair, victim, moment

    def strike(self, witness):
        first, second = self.pair.servers
        if self.victim == "client":
            return kill(witness.pid)
        if self.victim in ("broker", "second broker"):
            broker = (first if self.victim == "broker" else second).process
            broker.kill()
            broker.wait()
            return True
        if self.victim == "handshake":
            return kill_child(first, lambda name: name == HANDSHAKE, 1)
        return kill_child(first if self.victim == "executor" else second, lambda name: name not in ("", HANDSHAKE), 0.5)

    def run(self):
        """@return results of the two programs"""
        executors = set()
        witnesses = [self.pair.witness() for _ in range(2)]
        end = time.monotonic() + self.moment
        while time.monotonic() < end:
            executors.update(pid for server in self.pair.servers for pid in children(server.pid))
            time.sleep(0.002)
        self.struck = self.strike(witnesses[0])
        results = [witness.result() for witness in witnesses]
        until(lambda: not any(is_running(pid) for pid in executors), lambda: f"executors end: {executors}")
        return results

    def expect(self, test, results):
        what = f"{self.pair.scheme}, {self.victim} after {self.moment:.4f} s: {results}"
        if not self.struck:
            test.assertEqual(results, ["exact"] * 2, what)
        elif self.victim == "client":
            test.assertIn(results[0], ("killed", "exact"), what)
            test.assertEqual(results[1], "exact", what)
        elif "broker" in self.victim:
            test.assertNotIn("killed", results, what)
        else: # the session of one program
            test.assertIn("exact", results, what)
            test.assertNotIn("killed", results, what)
        for server in self.pair.servers:
            if server.process.poll() is None:
                server.expect_clean()
            else:
                test.assertEqual(server.files_left(), [], what)


class Kill(unittest.TestCase):
    def trial(self, pairs, scheme, victim, moment):
        pair = pairs.get()
        try:
            if pair is None:
                pair = Pair(scheme)
            trial = Trial(pair, victim, moment)
            results = trial.run()
            trial.expect(self, results)
            if "broker" in victim and trial.struck:
                ended, pair = pair, None
                ended.end()
            else:
                self.assertEqual(pair.witness().result(), "exact")
        finally:
            pairs.put(pair)
        return trial.struck, results

    def kills(self, scheme):
        moments = random.Random(SEED)
        victims = ["client", "executor", "second executor", "broker", "second broker"] + (["handshake"] if scheme == "tls" else [])
        work = [(scheme, victim, moments.uniform(0, self.span(scheme))) for _ in range(KILLS) for victim in victims]
        at_once = min(AT_ONCE, 2 * KILLS)
        pairs = queue.Queue()
        for _ in range(at_once):
            pairs.put(None)
        try:
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                done = list(pool.map(lambda w: self.trial(pairs, *w), work))
        finally:
            for _ in range(at_once):
                pair = pairs.get()
                if pair is not None:
                    pair.end()
        print(f"{scheme}: {len(work)} kills (seed {SEED}), {sum(struck for struck, _ in done)} met a process; results: " +
              ", ".join(f"{result} {sum(results.count(result) for _, results in done)}" for result in ("exact", "failed", "killed")))
        self.assertGreater(sum(struck for struck, _ in done), len(work) // 2)

    def span(self, scheme):
        """How long two programs run that are not disturbed."""
        pair = Pair(scheme)
        begin = time.monotonic()
        witnesses = [pair.witness() for _ in range(2)]
        self.assertEqual([witness.result() for witness in witnesses], ["exact"] * 2)
        span = time.monotonic() - begin
        for server in pair.servers:
            server.expect_clean()
        pair.end()
        return span

    def test_unix(self):
        self.kills("unix")

    def test_tcp(self):
        self.kills("tcp")

    def test_tls(self):
        self.kills("tls")


if __name__ == "__main__":
    unittest.main(verbosity=2)
