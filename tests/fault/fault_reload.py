#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that are reloaded (SIGHUP) while a program uses them: no session ends or is even disturbed.

A witness runs on two servers, on each kind of address. Its result is exact, its executors stay, and it has nothing to
report. A program that has found the devices uses them after the reload. A telpherd that refuses its settings leaves
the one that runs in place."""
import os
import shutil
import signal
import tempfile
import unittest

from fault import TELPHERD, Client, Server, children, is_running, main, until
from fault_kill import Pair

RELOADS = 20
OTHER_STATE = os.environ["FAULT_OTHER_STATE"] # a telpherd whose state has another version
PROGRAMS = ("telpher-executor", "telpher-handshake", "telpher-relay") # which a broker looks for beside itself
TAKEN_OVER = "has taken over"


def executors(server):
    """Those of sessions; others have ended soon."""
    names = []
    for pid in children(server.pid):
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            names.append((pid, "--serve" in file.read().split("\0")))
    return [pid for pid, serves in names if serves]


def reload(server):
    before = server.read_log().count(TAKEN_OVER)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.read_log().count(TAKEN_OVER) > before, lambda: f"a reload: {server.read_log()}")


class Reload(unittest.TestCase):
    def start(self, scheme, *options):
        pair = Pair(scheme, "--log", "info", *options)
        self.addCleanup(pair.end)
        return pair

    def client(self, pair, *words):
        insecure = {"TELPHER_INSECURE": "yes"} if pair.scheme == "tcp" else {}
        return Client(pair.servers[0].folder, pair.servers[0].reached, *words, **pair.settings, **insecure)

    def reload_after_discovery(self, pair):
        later = self.client(pair, "later")
        later.wait_line("found")
        reload(pair.servers[0])
        self.assertEqual(later.end(), "")
        self.assertIn("computed", later.text)

    def reload_while_used(self, scheme):
        pair = self.start(scheme)
        witness = pair.witness("0")
        witness.wait_line("ready")
        until(lambda: all(executors(server) for server in pair.servers), "both servers have an executor")
        before = [executors(server) for server in pair.servers]
        for i in range(RELOADS):
            reload(pair.servers[i % 2])
            if i % 5 == 0:
                self.reload_after_discovery(pair)
        self.assertEqual([[pid for pid in pids if is_running(pid)] for pids in before], before)
        self.assertEqual(witness.end(), "")
        self.assertNotIn("was away", witness.text)
        self.assertTrue(witness.text.endswith("exact\n"), witness.text)
        for server in pair.servers:
            server.expect_clean()

    def test_unix(self):
        self.reload_while_used("unix")

    def test_tcp(self):
        self.reload_while_used("tcp")

    def test_tls(self):
        self.reload_while_used("tls")

    def test_bad_settings(self):
        """The settings that the server reads again are wrong: it goes on with the old ones."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
            server = Server("--config", config.name)
            self.addCleanup(server.stop)
            client = server.client("compute")
            client.wait_line("round")
            config.write("nonsense = 1\n")
            config.flush()
            server.process.send_signal(signal.SIGHUP)
            until(lambda: "is not reloaded" in server.read_log(), "the reload is refused")
            client.drop_lines()
            client.wait_line("round")
            self.assertEqual(client.end(), "")
            server.client("devices").end()
            config.truncate(0)
            reload(server)
            server.client("devices").end()

    @staticmethod
    def install(folder, telpherd):
        """Replaces the installed telpherd, as a package manager does: by a file that is renamed."""
        shutil.copy(telpherd, f"{folder}/new")
        os.replace(f"{folder}/new", f"{folder}/telpherd")

    def test_other_version(self):
        """The installed telpherd cannot take over the state: the old one goes on, until that one is installed again."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in PROGRAMS:
            os.symlink(f"{os.path.dirname(TELPHERD)}/../libexec/telpher/{name}", f"{folder.name}/{name}")
        self.install(folder.name, TELPHERD)
        server = Server(program=f"{folder.name}/telpherd")
        self.addCleanup(server.stop)
        client = server.client("compute")
        client.wait_line("round")
        before = executors(server)
        self.install(folder.name, OTHER_STATE)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "is not reloaded" in server.read_log(), "the reload is refused")
        self.assertIn("this version cannot take over the sessions of the one that runs", server.read_log())
        self.assertNotIn(TAKEN_OVER, server.read_log())
        client.drop_lines()
        client.wait_line("round")
        server.client("devices").end()
        self.install(folder.name, TELPHERD)
        reload(server)
        self.assertEqual(executors(server), before)
        client.drop_lines()
        client.wait_line("round")
        self.assertEqual(client.end(), "")
        server.expect_clean()


if __name__ == "__main__":
    main()
