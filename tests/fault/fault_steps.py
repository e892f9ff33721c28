#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server dies, or stops answering, at each step of a migration between two servers.

The client reaches both servers through forwarders, and so does the second server the first one, which has the content. A forwarder that sees the step
kills or stops a process, and then passes on what it holds. What needed that server ends with an error in bounded time, content
that is current elsewhere survives, and a third server does not notice. FAULT_STEPS=every also stops brokers at every step, and
loses sessions at once."""
import concurrent.futures
import os
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from fault import LIMIT_S, REPORT, TELPHERD, TYPES, Client, children, start_on_port, until
from fault_cut import DRIVER_FOLDER, read, write_files
from fault_cut_peer import PREFACE, PREFACE_REPLY
from forwarder import TO_CLIENT, TO_SERVER, Forwarder

STEPS_CLIENT = os.environ["FAULT_STEPS_CLIENT"]
EVERY = os.environ.get("FAULT_STEPS") == "every"
AT_ONCE = int(os.environ.get("FAULT_CUTS_AT_ONCE", "4"))
SIZE = 24 << 20 # [bytes] that move, as in step_client.c
PEER_SILENCE_S, SERVER_SILENCE_S = 8, 15 # of a stopped server, that fails what waits for it
BOUND_S = 60 # to the end of all events, on a busy machine
PROOF = 64 # [bytes] of nonce and proof after a preface
CONTENT, ANSWERS = TO_CLIENT, TO_SERVER # between servers: the one that has the content accepts
DATA, DATA_HEAD = TYPES["data"], 24 + 20
PEER_ACCEPT, PEER_CONNECT, PUSH, PULL, PEER_READY = 0x72, 0x73, 0x74, 0x75, 0xc1

# A step: the forwarder that sees it, and the frame at whose first byte the process ends; others have a rule of their own.
STEPS = {
    "stream expected": ("client-first", PEER_ACCEPT),
    "stream asked": ("client-second", PEER_CONNECT),
    "stream opened": ("peer", None),
    "handshake": ("peer", None),
    "stream ready": ("peer", PEER_READY),
    "push asked": ("client-first", PUSH),
    "pull asked": ("client-second", PULL),
    "first chunk": ("peer", DATA),
    "middle": ("peer", DATA),
    "last chunk": ("peer", DATA),
    "acknowledgement": ("peer", None),
}
EARLY = ("stream expected", "stream asked", "stream opened", "handshake", "stream ready")


class Frames:
    """Finds where frames begin in one direction of a connection."""

    def __init__(self, first):
        self.at, self.passed, self.head = first, 0, b""

    def feed(self, data):
        """@return list of (place in @p data of a frame's first byte, its type, its first bytes); heads may come in pieces"""
        found, begin = [], self.passed
        self.passed += len(data)
        while self.at < self.passed:
            offset = max(0, self.at + len(self.head) - begin)
            self.head += data[offset:offset + DATA_HEAD - len(self.head)]
            if len(self.head) < 4:
                break
            short = self.head[3] == 0x80
            if not short and (len(self.head) < 6 or (self.head[4] == DATA and len(self.head) < DATA_HEAD)):
                break
            length = 4 + struct.unpack_from("<H", self.head)[0] if short else struct.unpack_from("<I", self.head)[0]
            kind = self.head[2] if short else struct.unpack_from("<H", self.head, 4)[0]
            found.append((max(0, self.at - begin), kind, self.head))
            self.at, self.head = self.at + length, b""
        return found


class Moment:
    """When one step is seen, acts once."""

    def __init__(self, step, act):
        self.step, self.act, self.seen = step, act, threading.Event()
        self.content = 0

    def reach(self):
        if not self.seen.is_set():
            self.seen.set()
            self.act()

    def place(self, direction, data, frames):
        """@return place in @p data at which the step is, or None"""
        wanted = STEPS[self.step][1]
        if self.step == "handshake":
            return len(data) if direction == TO_SERVER else None # preface and nonce have passed
        for at, kind, head in frames:
            if kind == DATA and direction == CONTENT:
                _, offset, count = struct.unpack_from("<QQI", head, 24)
                inside = min(len(data), at + DATA_HEAD + count // 2)
                self.content = max(self.content, offset + count)
                if self.step == "first chunk" or (self.step == "middle" and offset + count >= SIZE // 2) or (
                        self.step == "last chunk" and offset + count == SIZE):
                    return inside
            elif wanted == kind:
                return at
        if self.step == "acknowledgement" and direction == ANSWERS and self.content == SIZE:
            return 0
        return None


class StepForwarder(Forwarder):
    """Acts when a step is seen, between what passes before and after it."""

    def __init__(self, commands, moment=None):
        super().__init__()
        self.commands = commands # of the client; else content between servers
        self.moment = moment
        self.armed = False
        self.start()

    def opened(self, relay):
        relay.moment = self.moment if self.armed or self.commands else None # not for streams of an earlier migration
        relay.frames = Frames(PREFACE + PROOF), Frames(PREFACE_REPLY)
        if relay.moment is not None and relay.moment.step == "stream opened":
            relay.moment.reach()

    def pass_on(self, relay, direction, data):
        found = relay.frames[direction].feed(data)
        at = relay.moment.place(direction, data, found) if relay.moment is not None and self.armed else None
        if at is not None and not relay.moment.seen.is_set():
            self.send(relay, direction, data[:at])
            time.sleep(0.02 if at else 0) # what has passed is taken
            relay.moment.reach()
            data = data[at:]
        self.send(relay, direction, data)


class Scene:
    """Three servers, and a program that waits for a line."""

    def __init__(self, step, victim, how, on_loss):
        self.folder = tempfile.TemporaryDirectory(prefix="telpher-steps-")
        folder = self.folder.name
        write_files(folder)
        self.victim, self.how = victim, how
        self.moment = Moment(step, self.act)
        self.forwarders = {name: StepForwarder(name != "peer", self.moment if STEPS[step][0] == name else None)
                           for name in ("client-first", "client-second", "peer")}
        self.log = open(f"{folder}/log", "w", encoding="utf-8")
        started = [start_on_port(lambda port, peer=peer: [
            TELPHERD, "--socket", "none", "--log", "error", "--cookie", f"{folder}/cookie", "--listen", f"tcp://127.0.0.1:{port}",
            "--peer-address", f"127.0.0.1:{peer or port}", "--peer-silence", f"{PEER_SILENCE_S}s", "--peer-timeout", "10s"],
            folder, DRIVER_FOLDER, stderr=self.log) for peer in (self.forwarders["peer"].port, None, None)]
        self.brokers, ports = [broker for broker, _ in started], [port for _, port in started]
        self.forwarders["client-first"].target = self.forwarders["peer"].target = "127.0.0.1", ports[0]
        self.forwarders["client-second"].target = "127.0.0.1", ports[1]
        addresses = [self.forwarders["client-first"].port, self.forwarders["client-second"].port, ports[2]]
        Client.program = STEPS_CLIENT
        self.client = Client(folder, ",".join(f"tcp://127.0.0.1:{port}" for port in addresses), TELPHER_COOKIE=f"{folder}/cookie",
                             TELPHER_ON_LOSS=on_loss, TELPHER_SERVER_SILENCE=f"{SERVER_SILENCE_S}s", TELPHER_CONNECT_TIMEOUT="20s")
        self.client.wait_line("ready")
        until(lambda: all(len(children(broker.pid)) == 1 for broker in self.brokers), "each server has one executor")
        self.pids = {"first": children(self.brokers[0].pid)[0], "second": children(self.brokers[1].pid)[0],
                     "first broker": self.brokers[0].pid, "second broker": self.brokers[1].pid}

    def act(self):
        os.kill(self.pids[self.victim], self.how)

    def run(self):
        """@return (numbers of each line by its first word)"""
        for forwarder in self.forwarders.values():
            forwarder.armed = True
        self.client.process.stdin.write(b"\n")
        self.client.process.stdin.flush()
        lines = {word: [int(number) for number in self.client.wait_line(word, 3 * BOUND_S).split()[1:]] for word in ("ended", "alive")}
        lines["quiet"] = [int(number) for number in self.client.wait_line("quiet", 3 * BOUND_S).split()[1:]]
        self.client.end()
        return lines

    def close(self):
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        if self.client.process.poll() is None:
            self.client.kill()
        for broker in self.brokers:
            broker.terminate()
        for broker in self.brokers:
            broker.wait(LIMIT_S)
        for forwarder in self.forwarders.values():
            forwarder.close()
        self.log.close()
        reports = REPORT.findall(read(f"{self.folder.name}/log"))
        self.folder.cleanup()
        assert not reports, f"a sanitizer has found: {reports}"


class Steps(unittest.TestCase):
    def check(self, step, victim, how, on_loss="wait"):
        scene = Scene(step, victim, how, on_loss)
        try:
            lines = scene.run()
            self.assertTrue(scene.moment.seen.is_set(), "the step is never seen")
        finally:
            scene.close()
        stopped_broker = "broker" in victim and how == signal.SIGSTOP
        lost = None if stopped_broker else 0 if "first" in victim else 1
        self.assertEqual(lines["alive"], [int(i != lost) for i in range(3)])
        *status, took = lines["ended"]
        self.assertLess(took, BOUND_S * 1000)
        self.assertLess(lines["quiet"][0], BOUND_S * 1000 // 3, "the third server is held up")
        if stopped_broker:
            self.assertEqual(status, [0, 0, 0], "streams that exist need no broker, and others are not needed")
        return f"{step}, {victim}, {how.name}: {status} after {took} ms; beside at most {lines['quiet'][0]} ms"

    def check_all(self, cases):
        failed = []
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            runs = {pool.submit(self.check, *case): case for case in cases}
            for run in concurrent.futures.as_completed(runs):
                case = " ".join(getattr(word, "name", word) for word in runs[run])
                if run.exception() is None:
                    print(run.result())
                else:
                    failed.append(f"{case}: {run.exception()}")
                    print(failed[-1])
        self.assertEqual(failed, [])

    def test_executors(self):
        self.check_all([(step, victim, how) for step in STEPS for victim in ("first", "second") for how in (signal.SIGKILL, signal.SIGSTOP)])

    def test_brokers(self):
        self.check_all([(step, f"{victim} broker", how) for victim in ("first", "second") for how in (signal.SIGKILL, signal.SIGSTOP)
                        for step in (STEPS if EVERY else (EARLY if victim == "first" else ()) + ("middle",))])

    def test_sessions_that_do_not_resume(self):
        self.check_all([(step, victim, how, "fail") for step in STEPS for victim in ("first", "second")
                        for how in (signal.SIGKILL, signal.SIGSTOP) if (EVERY or step == "middle") and step != "acknowledgement"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
