#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that die or stand still: client, executor, broker, driver."""
import os
import time
import unittest

from fault import DRIVER, LIMIT_S, FaultTest, Server, children, is_running, kill, listening_server, main, until

# Here a server is there, however slow; how long one that is not is waited for, fault_server looks at.
os.environ["TELPHER_CONNECT_TIMEOUT"] = "20s"
OUT_OF_RESOURCES = -5
KERNEL_TIMEOUT_S = 2
# Seen once a second; the rest is for a slow machine.
TIMEOUT_SEEN_S = KERNEL_TIMEOUT_S + 2


class Processes(FaultTest):
    options = ("--kernel-timeout", f"{KERNEL_TIMEOUT_S}s")

    def executor_of(self, client):
        """The one that was not there before @p client, which is ready."""
        client.wait_line("ready")
        fresh = [pid for pid in children(self.server.pid) if pid not in self.executors]
        self.assertEqual(len(fresh), 1)
        return fresh[0]

    def expect_lost(self, client, words, end="again"):
        client.wait_line("lost")
        client.wait_line(end)
        said = client.end()
        self.assertIn("session lost", said)
        self.assertRegex(said, words)
        self.assertEqual(said.count("session lost"), 1, "one message")

    def test_crashing_kernel(self):
        # a sanitizer catches the signal and ends with a status
        self.expect_lost(self.server.client("lose", "crash", "again"), r"signal 11|ended with status \d")

    def test_hanging_kernel(self):
        client = self.server.client("lose", "hang", "again")
        client.wait_line("ready")
        start = time.monotonic()
        client.wait_line("lost")
        took = time.monotonic() - start
        self.assertGreater(took, KERNEL_TIMEOUT_S * 0.9)
        self.assertLess(took, TIMEOUT_SEEN_S * 2)
        client.wait_line("again")
        said = client.end()
        self.assertIn("kernel ran longer than 2 s (--kernel-timeout)", said)

    def test_killed_executor(self):
        for what in ("loop", "write", "hang"):
            with self.subTest(what):
                self.expect_alone()
                client = self.server.client("lose", what, "again")
                kill(self.executor_of(client))
                self.expect_lost(client, "signal 9")

    def test_killed_client(self):
        """In the middle of 64 MiB."""
        for pause_s in (0, 0.003, 0.01, 0.03, 0.05):
            client = self.server.client("lose", "write", "again")
            client.wait_line("ready")
            time.sleep(pause_s)
            client.kill()


class HangingCall(FaultTest):
    """A call into the driver that does not return, which is not the same as a command that does not end."""
    options = ("--kernel-timeout", "1s")
    environment = {"TELPHER_LIBOPENCL": DRIVER, "FAULT_DRIVER": "hang"}

    def test_hanging_call(self):
        client = self.server.client("lose", "fill", "again")
        client.wait_line("ready")
        start = time.monotonic()
        client.wait_line("lost")
        self.assertLess(time.monotonic() - start, TIMEOUT_SEEN_S * 2)
        client.wait_line("again")
        self.assertIn("a call into the driver ran longer than 1 s (--kernel-timeout)", client.end())


class PatientHangingCall(FaultTest):
    """The same without a limit: its executor ends with the client at the latest."""
    environment = {"TELPHER_LIBOPENCL": DRIVER, "FAULT_DRIVER": "hang"}

    def test_killed_client(self):
        client = self.server.client("lose", "fill", "again")
        client.wait_line("ready")
        time.sleep(0.2)
        client.kill()


class CrashingCall(FaultTest):
    environment = {"TELPHER_LIBOPENCL": DRIVER, "FAULT_DRIVER": "crash"}

    def test_crashing_call(self):
        client = self.server.client("lose", "fill", "again")
        client.wait_line("lost")
        client.wait_line("again")
        self.assertIn("signal 11", client.end())


class FailingCall(FaultTest):
    environment = {"TELPHER_LIBOPENCL": DRIVER, "FAULT_DRIVER": "fail"}

    def test_failing_call(self):
        """The driver's own error comes through, and the session goes on."""
        client = self.server.client("fail", str(OUT_OF_RESOURCES))
        client.wait_line("failed")
        client.end()


class Patient(FaultTest):
    """Without a time limit for kernels."""

    def test_killed_client(self):
        client = self.server.client("lose", "hang", "again")
        client.wait_line("ready")
        client.kill()


class KilledBroker(unittest.TestCase):
    def test_killed_broker(self):
        """Its executors and clients end, each with the right error; no other may take its place."""
        server = Server()
        clients = [server.client("lose", what, "gone") for what in ("loop", "write", "hang")]
        for client in clients:
            client.wait_line("ready")
        executors = children(server.pid)
        self.assertEqual(len(executors), 3)
        kill(server.pid)
        server.process.wait(LIMIT_S)
        for client in clients:
            client.wait_line("lost")
            client.wait_line("gone")
            self.assertIn("session lost", client.end())
        until(lambda: not any(is_running(pid) for pid in executors), "the executors end")
        self.assertEqual(server.files_left(), [])
        server.remove()

    def test_next_at_its_port(self):
        """A program that waits for its session hears from the next broker at the port that there is none, and may start another."""
        first, address, cookie = listening_server()
        settings = {"TELPHER_SERVERS": address, "TELPHER_COOKIE": cookie, "TELPHER_ON_LOSS": "wait", "TELPHER_ON_LOSS_TIME": "1h"}
        client = first.client("lose", "loop", "retry", **settings)
        client.wait_line("ready")
        kill(first.pid)
        first.process.wait(LIMIT_S)
        second = Server("--listen", address, "--cookie", cookie)
        client.wait_line("lost")
        client.wait_line("again")
        self.assertEqual(client.end().count("session lost"), 1)
        second.expect_clean()
        second.stop()
        first.remove()
        os.remove(cookie)

    def test_next_broker(self):
        """A killed broker's socket is in nobody's way."""
        first = Server()
        kill(first.pid)
        first.process.wait(LIMIT_S)
        second = Server(path=first.path)
        client = second.client("any")
        client.wait_line("any: error 0")
        client.end()
        second.expect_clean()
        second.stop()
        first.remove()


if __name__ == "__main__":
    main()
