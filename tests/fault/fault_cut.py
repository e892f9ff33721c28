#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The connection of a program is lost after each of many numbers of bytes; the program ends with the exact result.

Lost: reset, closed by FIN, with TLS, silent, by a new address of the client, or because a byte changed. FAULT_CUTS: how many places in each
direction, or "every": a new address where each record begins and the bytes beside, silence of 1 s at 500 places and of 20 s at 100, and 100 places
of each other kind in each direction (fault_cut_near.py has every byte). FAULT_CUTS_DONE: file with the places that are done; a run that was
interrupted goes on after them. FAULT_CUTS_AT_ONCE, FAULT_SILENT_AT_ONCE: how many programs at once."""
import concurrent.futures
import os
import pickle
import shlex
import subprocess
import sys
import tempfile
import unittest

from fault import ICD, LINK, SKIPPED, TELPHERD
from forwarder import TO_CLIENT, TO_SERVER, boundaries

WITNESS = os.environ["FAULT_WITNESS"]
DRIVER_FOLDER = os.environ["FAULT_VENDORS"]
CUTS = os.environ.get("FAULT_CUTS", "50")
DONE = os.environ.get("FAULT_CUTS_DONE")
EVERY = CUTS == "every"
AT_ONCE = int(os.environ.get("FAULT_CUTS_AT_ONCE", "16" if EVERY else "4"))
SILENT_AT_ONCE = int(os.environ.get("FAULT_SILENT_AT_ONCE", "40" if EVERY else "4"))
RUN_S = 120
# Fewer of these: each is the same for the frames.
FEW = 100 if EVERY else 12
SILENT = 4
SHORT = ("3", "0", "8192") if EVERY else () # rounds and bytes of the witness
BEGUN = 1000 # [bytes] of the client until it has found the server, which does not wait for silent ones
DISCOVERING = "b2a:4000" # while the server tells its devices
DISCOVERED = 10000 # the same, of either side, with TLS and what the devices are
KEY = "alice " + "4e" * 32 + "\n"


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_files(folder):
    """The client's driver list, and a TLS key that only its owner reads."""
    with open(f"{folder}/telpher.icd", "w", encoding="utf-8") as file:
        file.write(ICD + "\n")
    with open(f"{folder}/key", "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(KEY)


def run(event, settings="", tls=False, record=None):
    """One witness over a link of its own. @p record: file for what passes. @return (exit status, its output, its errors, what the link
    counted)"""
    with tempfile.TemporaryDirectory(prefix="telpher-cut-") as folder:
        write_files(folder)
        security = f"--tls-psk {folder}/key" if tls else "--insecure"
        if tls:
            settings += f" TELPHER_INSECURE=no TELPHER_TLS_PSK={folder}/key"
        server = (f"{'TELPHER_INSECURE=no ' if tls else ''}OCL_ICD_VENDORS={shlex.quote(DRIVER_FOLDER)} exec {shlex.quote(TELPHERD)} --socket none {security} "
                  f"--log {'warn' if '--damage-at' in event else 'error'} --listen 10.77.0.2")
        recorder = f"{sys.executable} -B {os.path.dirname(os.path.abspath(__file__))}/forwarder.py {record}" if record is not None else ""
        client = (f"TELPHER_ON_LOSS=wait TELPHER_SERVERS=10.77.0.2 OCL_ICD_VENDORS={folder} TELPHER_CONNECT_TIMEOUT=20s {settings} "
                  f"{recorder} {shlex.quote(WITNESS)} {' '.join(SHORT)} > {folder}/out 2> {folder}/errors")
        ran = subprocess.run([LINK, "run", "--wait-port", "7717", "--wait-time", "60s", "--stats", *event,
                              "--a", client, "--b", server], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=RUN_S, check=False)
        out, errors = read(f"{folder}/out"), read(f"{folder}/errors")
        return ran.returncode, out, errors, ran.stderr


def bytes_of(stats, direction):
    line = next(line for line in stats.splitlines() if line.startswith(direction))
    words = line.split()
    return int(words[words.index("payload") + 1])


def places(total, count, first):
    """Where to cut. Not in the last bytes: a run that ends is not cut."""
    last = total - 100
    if count == "every":
        return range(first, last)
    return [first + i * (last - first) // int(count) for i in range(int(count))]


def name_of(kind, place, how):
    """Of a cut, in the file of those that are done."""
    return "_".join([*kind, place, *(f"{name}={value}" for name, value in how.items())]).replace(" ", "_")


def read_done():
    return set(read(DONE).split()) if DONE is not None else set()


class Cut(unittest.TestCase):
    @staticmethod
    def cut(kind, place, **how):
        """@return (what is wrong, if anything; whether the session was resumed; whether the program saw the device away)"""
        status, out, errors, said = run((*kind, place), **how)
        if (status, out.splitlines()[-1:]) != (0, ["exact"]):
            return [f"{kind} {place}: status {status}, {out!r}, {errors!r}"], False, False
        if DONE is not None:
            with open(DONE, "a", encoding="utf-8") as file:
                file.write(name_of(kind, place, how) + "\n")
        return [], "connected again" in errors or "damaged" in errors + said, "was away" in out

    def record(self, **how):
        """@return statistics of a run that is not cut"""
        status, out, errors, stats = run((), **how)
        if status == SKIPPED:
            self.skipTest("the kernel does not permit network namespaces or TUN devices here")
        self.assertEqual((status, out.splitlines()[-1:]), (0, ["exact"]), errors)
        self.assertNotIn("connect", errors.replace("connection to", ""))
        return stats

    def run_all(self, kind, every, at_once=AT_ONCE, **how):
        """Runs that are cut at all places, except those that are done; all of them are exact.
        @return (how many ran, how many were resumed, how many programs saw the device away)"""
        done = read_done()
        todo = [place for place in every if name_of(kind, place, how) not in done]
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            ran = list(pool.map(lambda place: self.cut(kind, place, **how), todo))
        resumed, away = sum(one[1] for one in ran), sum(one[2] for one in ran)
        print(f"{' '.join(kind)} {how}: {len(every)} cuts, {len(every) - len(todo)} of them in an earlier run; {resumed} "
              "sessions were resumed", flush=True)
        self.assertEqual([text for one in ran for text in one[0]], [])
        return len(todo), resumed, away

    def cuts(self, count, kind, directions=("a2b", "b2a"), first=0, **how):
        """Runs that are cut at @p count places in each direction; half of them must resume."""
        stats = self.record(**how)
        ran, resumed, _ = self.run_all(kind, [f"{direction}:{at}" for direction in directions
                                              for at in places(bytes_of(stats, direction), count, first)], **how)
        self.assertGreaterEqual(resumed, ran // 2)

    def test_reset(self):
        self.cuts(FEW if EVERY else CUTS, ("--reset-at",))

    def test_reset_with_tls(self):
        self.cuts(FEW, ("--reset-at",), tls=True)

    def test_close(self):
        self.cuts(FEW, ("--close-at",))

    def test_close_with_tls(self):
        self.cuts(FEW, ("--close-at",), tls=True)

    def test_move(self):
        """The client has another address; the former connection is silent."""
        if not EVERY:
            self.cuts(FEW, ("--move-at",), directions=["a2b"], first=BEGUN)
            self.run_all(("--move-at",), [DISCOVERING])
            return
        with tempfile.NamedTemporaryFile() as file:
            self.record(record=file.name)
            passed = pickle.load(file)
        at = [f"{name}:{place}" for name, direction in (("a2b", TO_SERVER), ("b2a", TO_CLIENT)) for place in
              boundaries(passed, direction, "records")[0] if place >= BEGUN]
        ran, resumed, _ = self.run_all(("--move-at",), at)
        self.assertGreaterEqual(resumed, ran // 2)

    def silences(self, duration, count, settings=""):
        """@return how many ran, were resumed, and saw the device away"""
        stats = self.record(settings=settings)
        directions = ("a2b", "b2a") if count > SILENT else ("a2b",)
        every = [f"{direction}:{at}" for direction in directions
                 for at in places(bytes_of(stats, direction), count // len(directions), BEGUN)]
        return self.run_all(("--for", duration, "--blackhole-at"), every, SILENT_AT_ONCE, settings=settings)

    def test_silence(self):
        """Longer than the program's setting: another connection."""
        ran, _, away = self.silences("3s", SILENT, "TELPHER_SILENCE_TIME=1s")
        self.assertEqual(away, ran)

    def test_silence_short(self):
        """TCP goes on by itself."""
        self.silences("1s", 500 if EVERY else SILENT)

    @unittest.skipUnless(EVERY, "a minute")
    def test_silence_long(self):
        """Longer than a program or a server waits, by default."""
        ran, resumed, away = self.silences("20s", 100, "TELPHER_CONNECT_TIMEOUT=60s")
        self.assertGreaterEqual(resumed, ran // 2)
        self.assertGreaterEqual(away, ran // 2)

    def damage(self, count, **how):
        """A bit of a byte changes, which TCP does not notice."""
        self.cuts(count, ("--damage-at",), first=DISCOVERED, **how)

    def test_damage(self):
        self.damage(FEW if EVERY else SILENT)

    def test_damage_with_tls(self):
        self.damage(FEW if EVERY else 2, tls=True)

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
