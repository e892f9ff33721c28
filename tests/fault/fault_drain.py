#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that gets SIGTERM: its sessions go on for a while, new ones are refused, and then it ends."""
import signal
import time
import unittest

from fault import LIMIT_S, Server, Session, children, main, until

REFUSED = "takes no new sessions"

class Drain(unittest.TestCase):
    def start(self, timeout):
        server = Server("--drain-timeout", timeout)
        self.addCleanup(lambda: server.process.poll() is not None or server.process.kill())
        client = server.client("compute")
        client.wait_line("round")
        return server, client

    def drain(self, server, client):
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "shuts down" in client.said(), "the client is warned")

    def ended(self, server):
        self.assertEqual(server.process.wait(LIMIT_S), 0)
        server.remove()

    def test_ends_with_the_last_session(self):
        server, client = self.start("100s")
        idle = Session(server)
        self.drain(server, client)
        refused = server.client("devices")
        self.assertIn(REFUSED, refused.end())
        idle.expect_broken("shutting down")
        idle.socket.close()
        client.drop_lines()
        for _ in range(3):
            client.wait_line("round")
        said = client.end()
        self.assertNotIn("session lost", said)
        self.ended(server)

    def test_timeout(self):
        server, client = self.start("1s")
        since = time.monotonic()
        self.drain(server, client)
        self.ended(server)
        self.assertGreaterEqual(time.monotonic() - since, 0.9)
        until(lambda: "session lost" in client.said(), "the client reports the loss")
        client.kill()

    def test_second_signal(self):
        server, client = self.start("100s")
        self.drain(server, client)
        executors = children(server.pid)
        self.assertTrue(executors)
        server.process.send_signal(signal.SIGTERM)
        self.ended(server)
        client.kill()

    def test_no_session(self):
        server, client = self.start("100s")
        client.end()
        until(lambda: not children(server.pid), "the executor ends")
        server.process.send_signal(signal.SIGTERM)
        self.ended(server)


if __name__ == "__main__":
    main()
