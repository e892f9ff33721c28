#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The connection of a program to the first of two servers is lost at every byte of its run; each run ends with the exact result.

On this machine, through a forwarder: many runs in a second, where fault_cut.py needs seconds for one. Plain connections are reset at every byte;
closed ones, and those with TLS, end where a frame (with TLS, a record) begins, and a byte before and after it. FAULT_CUTS: "every", else
few of these places. FAULT_CUTS_DONE: as in fault_cut.py. FAULT_CUTS_AT_ONCE: how many programs at once."""
import concurrent.futures
import contextlib
import multiprocessing
import os
import subprocess
import tempfile
import time
import unittest

from fault import LIMIT_S, TELPHERD, children, start_on_port, until
from fault_cut import AT_ONCE, CUTS, DONE, DRIVER_FOLDER, EVERY, FEW, RUN_S, WITNESS, name_of, places, read_done, write_files
from forwarder import TO_CLIENT, TO_SERVER, Cut, Forwarder, boundaries

LOCALHOST = "127.0.0.1"
ROUNDS, BYTES = "3", "4000"
AGAIN = 20 # losses in a row, each a few bytes after the reply to the connect
STEPS = range(200, 400, 8)
KEPT_S = 60 # --keep-session, by default
RECORDED = 20000 # [bytes] at least, in each direction
NAMES = ("to server", "to client")
worker = None # of a process of the pool: its Forwarder, and the environment of its programs


class Servers:
    """Two, which many programs use at once."""

    def __init__(self, folder, tls):
        self.scheme = "tls" if tls else "tcp"
        security = ["--tls-psk", f"{folder}/key"] if tls else ["--cookie", f"{folder}/cookie"]
        self.environment = {**os.environ, "TELPHER_ON_LOSS": "wait", "OCL_ICD_VENDORS": folder, "TELPHER_CONNECT_TIMEOUT": "20s",
                            "TELPHER_COOKIE": f"{folder}/cookie", **({"TELPHER_TLS_PSK": f"{folder}/key"} if tls else {})}
        started = [start_on_port(lambda port: [
            TELPHERD, "--socket", "none", "--log", "error", *security, "--listen", f"{self.scheme}://{LOCALHOST}:{port}",
            "--peer-address", f"{self.scheme}://{LOCALHOST}:{port}", "--max-user-sessions", "4096"], folder, DRIVER_FOLDER) for _ in range(2)]
        self.processes, self.ports = [process for process, _ in started], [port for _, port in started]

    def addresses(self, port):
        return f"{self.scheme}://{LOCALHOST}:{port},{self.scheme}://{LOCALHOST}:{self.ports[1]}"

    def expect_alone(self):
        """No executor is left: also those whose programs never heard of them are gone, which a server keeps for a while."""
        for process in self.processes:
            until(lambda: not children(process.pid), "the executors end", KEPT_S + LIMIT_S)

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(LIMIT_S)


def begin_worker(servers):
    global worker # pylint: disable=global-statement
    forwarder = Forwarder((LOCALHOST, servers.ports[0]))
    worker = forwarder, {**servers.environment, "TELPHER_SERVERS": servers.addresses(forwarder.port)}


def run(cut):
    """One program. @return (status, output, errors, what passed if there is no cut, whether it was cut)"""
    forwarder, environment = worker
    status, out, errors = forwarder.run([WITNESS, ROUNDS, "0", BYTES], environment, cut, RUN_S)
    return status, out, errors, forwarder.passed, forwarder.was_cut


def run_cut(how, direction, place):
    return (how, direction, place), run(Cut(direction, place, how))


def run_again(step):
    """Connections that are lost soon after the session has taken them into use."""
    return ("reset", TO_CLIENT, step), run(Cut(TO_CLIENT, RECORDED * 3 // 4, again=AGAIN, step=step))


class CutNear(unittest.TestCase):
    def record(self, pool, tls):
        """@return what passes if nothing is cut"""
        status, out, errors, passed, _ = pool.submit(run, None).result()
        self.assertEqual((status, out.splitlines()[-1:], errors), (0, ["exact"], ""))
        for direction, name in enumerate(NAMES):
            count = sum(len(data) for _, way, data in passed if way == direction)
            print(f"{'tls' if tls else 'plain'}, {name}: {count} bytes")
            self.assertGreaterEqual(count, RECORDED)
        return passed

    def places(self, passed, tls, at_frames):
        found = []
        for direction in (TO_SERVER, TO_CLIENT):
            starts, total = boundaries(passed, direction, "tls" if tls else "cookie")
            if not at_frames:
                at = places(total, CUTS if EVERY else FEW, 1)
            else:
                count = len(starts) if EVERY else FEW
                at = [starts[i * len(starts) // count] for i in range(count)]
            found += [(direction, place) for place in at]
        return found

    @staticmethod
    def wrong(ran):
        """What is not as it must be; or nothing."""
        (how, direction, place), (status, out, errors, _, _) = ran
        if (status, out.splitlines()[-1:]) == (0, ["exact"]):
            return []
        return [f"{how} after {place} bytes {NAMES[direction]}: status {status}, {out!r}, {errors!r}"]

    @contextlib.contextmanager
    def pool(self, tls=False):
        with tempfile.TemporaryDirectory(prefix="telpher-cut-") as folder:
            write_files(folder)
            servers = Servers(folder, tls)
            try:
                with concurrent.futures.ProcessPoolExecutor(AT_ONCE, multiprocessing.get_context("fork"), begin_worker, (servers,)) as pool:
                    yield pool
                servers.expect_alone()
            finally:
                servers.end()

    def cuts(self, how, tls=False, at_frames=True):
        with self.pool(tls) as pool:
            self.run_all(pool, how, tls, at_frames)

    def run_all(self, pool, how, tls, at_frames):
        name = ("near", how + ("-tls" if tls else ""))
        every = self.places(self.record(pool, tls), tls, at_frames)
        done = read_done()
        todo = [place for place in every if name_of(name, f"{place[0]}:{place[1]}", {}) not in done]
        begin = time.monotonic()
        count = cut = resumed = 0
        wrong = []
        for ran in concurrent.futures.as_completed([pool.submit(run_cut, how, *place) for place in todo]):
            (_, direction, place), (_, _, errors, _, was_cut) = ran.result()
            wrong += self.wrong(ran.result())
            count, cut, resumed = count + 1, cut + was_cut, resumed + ("connected again" in errors)
            if DONE is not None and not self.wrong(ran.result()):
                with open(DONE, "a", encoding="utf-8") as file:
                    file.write(name_of(name, f"{direction}:{place}", {}) + "\n")
        print(f"{' '.join(name)}: {len(every)} places, {len(every) - count} of them in an earlier run; {cut} cut, {resumed} sessions resumed; "
              f"{count - len(wrong)} exact; {time.monotonic() - begin:.0f} s")
        self.assertEqual(wrong, [])
        self.assertGreaterEqual(cut, count * 9 // 10)
        self.assertGreaterEqual(resumed, count // 4)

    def test_reset(self):
        self.cuts("reset", at_frames=False)

    def test_reset_again(self):
        with self.pool() as pool:
            ran = [future.result() for future in [pool.submit(run_again, step) for step in STEPS]]
        self.assertEqual(sum(map(self.wrong, ran), []), [])
        self.assertGreaterEqual(sum(errors.count("connected again") for _, (_, _, errors, _, _) in ran), len(STEPS) * AGAIN // 2)

    def test_close(self):
        self.cuts("close")

    def test_reset_with_tls(self):
        self.cuts("reset", tls=True)

    def test_close_with_tls(self):
        self.cuts("close", tls=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
