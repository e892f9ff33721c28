#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands still: a connection that stays up while nothing passes, a stopped executor, a driver that takes its time.

All of it at once, because each takes some 25 s."""
import os
import re
import signal
import time
import unittest

from fault import DRIVER, LIMIT_S, Server, children, listening_server, main, until
from forwarder import Forwarder

# A server that is slow is there, too.
os.environ["TELPHER_CONNECT_TIMEOUT"] = "20s"
# A call that waits hears of it after 20 s; the rest is for a slow machine.
QUIET_S = 20
HEARD_S = QUIET_S + LIMIT_S
SIGNS = "no sign of life"
HOLD_S = 26


class Still(unittest.TestCase):
    def setUp(self):
        self.server, address, self.cookie = listening_server()
        self.slow, slow_address, self.slow_cookie = listening_server(TELPHER_LIBOPENCL=DRIVER, FAULT_DRIVER="slow")
        self.tunnel, self.slow_tunnel = (Forwarder(("127.0.0.1", int(a.rsplit(":", 1)[1]))).start() for a in (address, slow_address))

    def tearDown(self):
        for thing in (self.tunnel, self.slow_tunnel, self.server, self.slow):
            thing.close() if isinstance(thing, Forwarder) else thing.stop()
        for path in (self.cookie, self.slow_cookie):
            os.remove(path)

    def start(self, *words, tunnel=None, server=None, **environment):
        """@return (the client, which is ready, its executor)"""
        server = server or self.server
        before = children(server.pid)
        client = server.client(*words, **({} if tunnel is None else {
            "TELPHER_SERVERS": tunnel.address, "TELPHER_ON_LOSS": "wait",
            "TELPHER_COOKIE": self.cookie if server is self.server else self.slow_cookie, **environment}))
        client.wait_line("ready" if words[0] != "compute" else "round")
        fresh = [pid for pid in children(server.pid) if pid not in before]
        self.assertEqual(len(fresh), 1)
        return client, fresh[0]

    def test_still(self):
        held, _ = self.start("hold", str(HOLD_S * 1000))
        filled, _ = self.start("fill", tunnel=self.slow_tunnel, server=self.slow, TELPHER_ON_LOSS_TIME="12s")
        self.slow_tunnel.call(self.slow_tunnel.end_all, "reset")
        tunneled, _ = self.start("compute", tunnel=self.tunnel)
        self.tunnel.call(self.tunnel.stall)
        tunneled.drop_lines()
        begin = time.monotonic()
        waiting, stopped = self.start("compute")
        os.kill(stopped, signal.SIGSTOP)
        leaving, left = self.start("compute")
        os.kill(left, signal.SIGSTOP)
        leaving.kill()

        # A stopped executor does not outlive its client.
        until(lambda: left not in children(self.server.pid), "the stopped executor of a client that has gone ends")
        self.assertIn(f"executor {left} is stopped and its client has gone", self.server.read_log())
        # The client of a stopped one hears of it, and goes on.
        until(lambda: SIGNS in waiting.said(), "the client hears of a stopped executor", HEARD_S)
        self.assertGreater(time.monotonic() - begin, QUIET_S - 5)
        self.assertIn(f"executor {stopped} is stopped by signal 19", self.server.read_log())
        waiting.drop_lines()
        os.kill(stopped, signal.SIGCONT)
        waiting.wait_line("round")
        self.assertIn("gives signs of life again", waiting.end())
        # A tunnel where nothing passes is a lost connection.
        tunneled.wait_line("round", HEARD_S)
        self.assertEqual(len(re.findall("connected again", tunneled.end())), 1)
        # A call into the driver of 24 s does not end a session that has 12 s to be back, and is no silence.
        filled.wait_line("filled")
        self.assertEqual(filled.end().count("connected again"), 1)
        # The server that waits for its program gives signs.
        held.wait_line("held", HOLD_S + LIMIT_S)
        self.assertNotIn(SIGNS, held.end())
        for server in (self.server, self.slow):
            server.expect_clean()


if __name__ == "__main__":
    main()
