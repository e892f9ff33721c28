#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The connection of a program is lost after each of many numbers of bytes; the program ends with the exact result.

Lost: reset, closed by FIN, with TLS, silent, by a new address of the client, or because a byte changed. FAULT_CUTS: how many places in each direction, or "every" for each byte. FAULT_CUTS_DONE: file with the places that are
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
# Fewer of these: each is the same for the frames.
FEW = 12
SILENT = 4
BEGUN = 1000 # [bytes] of the client until it has found the server, which does not wait for silent ones
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


def run(event, *arguments, settings="", tls=False):
    """One witness over a link of its own. @return (exit status, its output, its errors, what the link counted)"""
    with tempfile.TemporaryDirectory(prefix="telpher-cut-") as folder:
        write_files(folder)
        security = f"--tls-psk {folder}/key" if tls else "--insecure"
        if tls:
            settings += f" TELPHER_INSECURE=no TELPHER_TLS_PSK={folder}/key"
        server = (f"{'TELPHER_INSECURE=no ' if tls else ''}OCL_ICD_VENDORS={shlex.quote(DRIVER_FOLDER)} exec {shlex.quote(TELPHERD)} --socket none {security} "
                  f"--log {'warn' if '--damage-at' in event else 'error'} --listen 10.77.0.2")
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
    def cut(self, kind, place, **how):
        status, out, errors, said = run((*kind, place), **how)
        what = f"{kind} {place}: status {status}, {out!r}, {errors!r}"
        self.assertEqual((status, out.splitlines()[-1:]), (0, ["exact"]), what)
        if DONE is not None:
            with open(DONE, "a", encoding="utf-8") as file:
                file.write(name_of(kind, place, how) + "\n")
        if "--for" in kind:
            self.assertIn("was away", out)
        return "connected again" in errors or "damaged" in errors + said

    def cuts(self, count, kind, directions=("a2b", "b2a"), first=0, **how):
        """Runs that are cut at @p count places in each direction; all of them are exact."""
        status, out, errors, stats = run((), **how)
        if status == SKIPPED:
            self.skipTest("the kernel does not permit network namespaces or TUN devices here")
        self.assertEqual((status, out.splitlines()[-1:]), (0, ["exact"]), errors)
        self.assertNotIn("connect", errors.replace("connection to", ""))
        done = read_done()
        every = [f"{direction}:{at}" for direction in directions
                 for at in places(bytes_of(stats, direction), count, first)]
        todo = [place for place in every if name_of(kind, place, how) not in done]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            resumed = sum(pool.map(lambda place: self.cut(kind, place, **how), todo))
        print(f"{kind[-1]} {how}: {len(every)} cuts, {len(every) - len(todo)} of them in an earlier run; {resumed} "
              "sessions were resumed")
        self.assertGreaterEqual(resumed, len(todo) // 2)

    def test_reset(self):
        self.cuts(CUTS, ("--reset-at",))

    def test_reset_with_tls(self):
        self.cuts("every" if CUTS == "every" else FEW, ("--reset-at",), tls=True)

    def test_close(self):
        self.cuts("every" if CUTS == "every" else FEW, ("--close-at",))

    def test_close_with_tls(self):
        self.cuts("every" if CUTS == "every" else FEW, ("--close-at",), tls=True)

    def test_move(self):
        """The client has another address; the former connection is silent."""
        self.cuts(500 if CUTS == "every" else FEW, ("--move-at",), directions=["a2b"], first=BEGUN)

    def test_silence(self):
        """Longer than the program's setting: another connection."""
        self.cuts(500 if CUTS == "every" else SILENT, ("--for", "3s", "--blackhole-at"),
                  directions=["a2b"], first=BEGUN, settings="TELPHER_SILENCE_TIME=1s")

    def damage(self, count, **how):
        """A bit of a byte changes, which TCP does not notice."""
        self.cuts(count, ("--damage-at",), first=DISCOVERED, **how)

    def test_damage(self):
        self.damage("every" if CUTS == "every" else SILENT)

    def test_damage_with_tls(self):
        self.damage("every" if CUTS == "every" else 2, tls=True)

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
