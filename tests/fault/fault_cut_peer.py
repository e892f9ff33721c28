#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The connection between two servers of a program is lost at each frame; the program ends with the exact result.

The accepting server is reached through a forwarder, which ends connections by RST or FIN after a number of bytes. Where frames
begin is known from a run that is not cut: one byte before and after, too. FAULT_CUTS: how many places in each direction, or
"every". FAULT_CUTS_DONE: as in fault_cut.py."""
import concurrent.futures
import os
import struct
import subprocess
import tempfile
import unittest

from fault import LIMIT_S, TELPHERD, start_on_port, until
from fault_cut import AT_ONCE, CUTS, DONE, DRIVER_FOLDER, RUN_S, WITNESS, name_of, read, read_done, write_files
from forwarder import TO_CLIENT, TO_SERVER, Cut, Forwarder

PREFACE = 64 # [bytes] of the connecting server; with the proof of the key 64 more
PREFACE_REPLY = 72 + 128 # challenge and reply
REFUSAL = 128 # [bytes] that answer a connection of a session that has ended
FEW = 6


class Servers:
    """Two; the client's first server is the one that connects to the other."""

    def __init__(self, folder, forwarder, tls):
        self.scheme = "tls://" if tls else "tcp://"
        security = ["--tls-psk", f"{folder}/key"] if tls else ["--cookie", f"{folder}/cookie"]
        peers = "127.0.0.1:1", f"{self.scheme}127.0.0.1:{forwarder.port}"
        started = [start_on_port(lambda port, peer=peer: [
            TELPHERD, "--socket", "none", "--log", "error", *security, "--listen", f"{self.scheme}127.0.0.1:{port}", "--peer-address", peer],
            folder, DRIVER_FOLDER) for peer in peers]
        self.processes, self.ports = [process for process, _ in started], [port for _, port in started]
        forwarder.target = "127.0.0.1", self.ports[1]

    def addresses(self):
        return ",".join(f"{self.scheme}127.0.0.1:{port}" for port in self.ports)

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(LIMIT_S)


def run(cut=None, how="reset", tls=False):
    """@return (exit status, output, errors, bytes of the first connection each way, how often it was resumed)"""
    with tempfile.TemporaryDirectory(prefix="telpher-cut-") as folder:
        write_files(folder)
        forwarder = Forwarder(cut=None if cut is None else Cut(*cut, how, first_only=True)).start()
        servers = Servers(folder, forwarder, tls)
        settings = {"TELPHER_ON_LOSS": "wait", "TELPHER_SERVERS": servers.addresses(), "OCL_ICD_VENDORS": folder,
                    "TELPHER_CONNECT_TIMEOUT": "20s", "TELPHER_COOKIE": f"{folder}/cookie"}
        if tls:
            settings["TELPHER_TLS_PSK"] = f"{folder}/key"
        try:
            with open(f"{folder}/out", "w", encoding="utf-8") as out, open(f"{folder}/errors", "w", encoding="utf-8") as errors:
                status = subprocess.run([WITNESS, "2"], stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                        env={**os.environ, **settings}, timeout=RUN_S, check=False).returncode
        finally:
            forwarder.close()
            servers.end()
        passed = [b"".join(data for number, way, data in forwarder.passed if number == 0 and way == direction) for direction in (TO_SERVER, TO_CLIENT)]
        resumed = sum(count[TO_CLIENT] > REFUSAL for count in forwarder.counts[1:])
        return status, read(f"{folder}/out"), read(f"{folder}/errors"), passed, resumed


def frames_of(data, at):
    """Where frames begin, and the end. Long headers only: a stream between servers has no others."""
    places = []
    while at < len(data):
        places.append(at)
        at += struct.unpack_from("<I", data, at)[0]
    return places + [at]


class CutPeer(unittest.TestCase):
    def cut(self, place, how, tls):
        status, out, errors, _, count = run(place, how, tls)
        self.assertEqual((status, out.splitlines()[-1:]), (0, ["exact"]), f"{how} at {place}: {status}, {out!r}, {errors!r}")
        if DONE is not None:
            with open(DONE, "a", encoding="utf-8") as file:
                file.write(name_of(("peer", how), f"{place[0]}:{place[1]}", {"tls": tls}) + "\n")
        return count != 0

    def cuts(self, places, how="reset", tls=False):
        done = read_done()
        todo = [place for place in places if name_of(("peer", how), f"{place[0]}:{place[1]}", {"tls": tls}) not in done]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            resumed = sum(pool.map(lambda place: self.cut(place, how, tls), todo))
        print(f"{how} tls={tls}: {len(places)} cuts, {len(places) - len(todo)} of them in an earlier run; {resumed} resumed")
        self.assertGreaterEqual(resumed, len(todo) // 2)

    def places(self, tls, few):
        """At each frame, and a byte before and after it; with TLS, where frames are not seen, at as many places."""
        status, out, errors, passed, count = run(tls=tls)
        self.assertEqual((status, out.splitlines()[-1:], count), (0, ["exact"], 0), errors)
        found = []
        for direction, first in ((TO_SERVER, PREFACE + 64), (TO_CLIENT, PREFACE_REPLY)):
            data = passed[direction]
            if tls:
                at = [first + i * (len(data) - first) // 100 for i in range(1, 100)]
            else:
                at = [place + by for place in frames_of(data, first)[:-1] for by in (-1, 0, 1)]
            at = [place for place in at if place > 0]
            found += [(direction, at[i * len(at) // few]) for i in range(few)] if few else [(direction, place) for place in at]
        return found

    def test_reset(self):
        self.cuts(self.places(False, 0 if CUTS == "every" else FEW))

    def test_close(self):
        self.cuts(self.places(False, 0 if CUTS == "every" else FEW // 3), how="close")

    def test_reset_with_tls(self):
        self.cuts(self.places(True, 0 if CUTS == "every" else FEW // 3), tls=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
