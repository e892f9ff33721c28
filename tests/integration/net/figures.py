#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of sessions: telpher top, the metrics, and shares of a device by counted kernels.

Settings: those of the fault tests, FIGURES_TELPHER and FIGURES_PROGRAM (busy_program). Nothing here is a time: what a
session has of a device is the number of its kernels that ended while another's did."""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../fault"))
from fault import LIMIT_S, SKIPPED, Client, Server, children, until  # noqa: E402

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
except ImportError:
    parse_openmetrics = None
TELPHER = os.environ["FIGURES_TELPHER"]
HTTP_MAX = 4096


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Busy(Client):
    program = os.environ["FIGURES_PROGRAM"]


class Figures(unittest.TestCase):
    def serve(self, *options):
        self.port, self.tcp = free_port(), free_port()
        folder = tempfile.TemporaryDirectory(prefix="telpher-figures-")
        self.addCleanup(folder.cleanup)
        self.control = f"{folder.name}/control"
        self.server = Server("--control", self.control, "--metrics", f"127.0.0.1:{self.port}",
                             "--listen", f"127.0.0.1:{self.tcp}", "--cookie", self.control + ".cookie", *options)

    def end_server(self):
        self.server.expect_clean()
        self.server.stop()

    def start(self, ms, flight, address=None, *how):
        client = Busy(self.server.folder, address or self.server.address, str(ms), str(flight), *how,
                      TELPHER_COOKIE=self.control + ".cookie")
        client.wait_line("ready")
        return client

    def stop(self, *clients):
        for client in clients:
            client.process.stdin.close()
            client.process.stdin = None
        for client in clients:
            client.end()

    def telpher(self, *words, code=0):
        run = subprocess.run([TELPHER, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout

    def top(self):
        return json.loads(self.telpher("top", "--control", self.control, "--json", "--delay", "0.1"))[0]["sessions"]

    def http(self, data):
        """The answer to these bytes, to its end."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as s:
            s.sendall(data)
            while more := s.recv(65536):
                answer += more
        return answer.decode()

    def scrape(self):
        """Values of the samples, by name with labels."""
        head, _, body = self.http(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").partition("\r\n\r\n")
        self.assertTrue(head.startswith("HTTP/1.1 200 OK\r\n"), head)
        self.assertIn("application/openmetrics-text; version=1.0.0", head)
        self.assertTrue(body.endswith("\n# EOF\n"), body)
        if parse_openmetrics is not None:
            self.assertGreater(len(list(parse_openmetrics(body))), 10)
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))}


class Seen(Figures):
    def setUp(self):
        self.serve()

    def tearDown(self):
        self.end_server()

    def test_top(self):
        client = self.start(1, 4)
        row = until(lambda: next((r for r in self.top() if r["device_ns"] > 0 and r["device_percent"] > 0), None),
                    "the device time of a session that is alone")
        self.assertEqual((row["state"], row["host"], row["owner"]), ("connected", "local", f"user {os.geteuid()}"))
        self.assertEqual(row["program"], "busy_program")
        self.assertEqual(row["weight"], 1)
        self.assertGreaterEqual(row["memory"], 4096)
        self.assertGreaterEqual(row["launches"], 4)
        self.assertGreaterEqual(row["written"], 4 * 4096)
        self.assertGreaterEqual(row["read"], 4096)
        table = self.telpher("top", "--control", self.control, "--once", "--delay", "0.1").splitlines()
        self.assertRegex(table[0], "1 session,")
        self.assertRegex(table[1], "^ SESSION USER .* DEV% ")
        self.assertRegex(table[2], f"^ *{row['session']} .* busy_program ")
        self.telpher("kill", "--control", self.control, str(row["session"]))
        until(lambda: self.top() == [], "the session has ended")
        client.kill()

    def test_terminal(self):
        """On a terminal: sorts, asks before it ends a session, and leaves with q."""
        client = self.start(1, 4)
        session = children(self.server.pid)[0]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(TELPHER, [TELPHER, "top", "--control", self.control, "--delay", "0.1"],
                      {**os.environ, "TERM": "xterm", "LINES": "24", "COLUMNS": "160"})
        seen = b""

        def reads(pattern):
            nonlocal seen
            while not re.search(pattern, seen):
                more = os.read(terminal, 65536)
                self.assertTrue(more)
                seen += more
            seen = b""
        reads(str(session).encode())
        os.write(terminal, b"mk")
        reads(b"end session ")
        os.write(terminal, b"n")
        os.write(terminal, b"k")
        reads(b"end session ")
        os.write(terminal, b"y")
        until(lambda: not children(self.server.pid), "the session has ended")
        os.write(terminal, b"q")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(terminal)
        client.kill()

    def test_top_refuses(self):
        self.telpher("top", "--control", self.control, code=2)  # no terminal
        self.telpher("top", "--control", "/nowhere", "--once", "--delay", "0.1", code=1)

    def test_metrics(self):
        user = f'{{user="user {os.geteuid()}"}}'
        self.assertEqual(self.scrape()["telpherd_devices"], 2)
        client = self.start(1, 4)
        values = until(lambda: next((v for v in [self.scrape()] if v[f"telpherd_device_seconds_total{user}"] > 0), None),
                       "device time")
        self.assertEqual(values['telpherd_sessions{state="connected"}'], 1)
        self.assertEqual(values[f"telpherd_user_sessions{user}"], 1)
        self.assertGreaterEqual(values[f"telpherd_memory_bytes{user}"], 4096)
        self.stop(client)
        until(lambda: not children(self.server.pid), "the executor ends")
        after = until(lambda: next((v for v in [self.scrape()] if v[f"telpherd_user_sessions{user}"] == 0), None),
                      "the session is gone")
        for name in values:  # counters outlive the session
            if "_total" in name:
                self.assertGreaterEqual(after[name], values[name], name)
        self.assertEqual(after[f"telpherd_memory_bytes{user}"], 0)
        self.assertEqual(after["telpherd_sessions_started_total"], 1)

    def test_dashboard(self):
        """Each metric of the dashboard is served."""
        with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../packaging/grafana.json"),
                  encoding="utf-8") as file:
            wanted = set(re.findall(r"telpherd_\w+", json.dumps(json.load(file))))
        client = self.start(1, 4)
        served = {name.split("{")[0] for name in self.scrape()}
        self.assertGreater(len(wanted), 5)
        self.assertLessEqual(wanted, served)
        self.stop(client)

    def test_reload(self):
        """A new telpherd under running sessions serves both as before."""
        client = self.start(1, 4)
        before = self.top()[0]
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: "has taken over" in self.server.read_log(), "the new telpherd runs")
        until(lambda: self.top()[0]["launches"] > before["launches"], "the session goes on")
        self.assertEqual(self.top()[0]["program"], "busy_program")
        self.assertEqual(self.scrape()['telpherd_sessions{state="connected"}'], 1)
        self.stop(client)
        until(lambda: not children(self.server.pid), "the executor ends")
        self.server.descriptors = self.server.settled_descriptors()

    def test_http(self):
        for data, status in (
                (b"GET / HTTP/1.1\r\n\r\n", 404), (b"GET /metricsx HTTP/1.0\r\n\r\n", 404),
                (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405), (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
                (b"GET /metrics\r\n\r\n", 400), (b"\r\n\r\n", 400), (b"\n", 400), (b"GET metrics HTTP/1.1\r\n\r\n", 400),
                (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * HTTP_MAX, 431),
                (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", 200)):
            data = data[:HTTP_MAX]  # what is not read would reset the connection
            self.assertRegex(self.http(data), f"^HTTP/1.1 {status} ", data)

    def test_http_hostile(self):
        """Silent, slow and very many connections keep neither scrapes nor the control socket away."""
        silent = [socket.create_connection(("127.0.0.1", self.port), LIMIT_S) for _ in range(100)]
        for s in silent[90:]:
            s.send(b"GET /met")
        self.scrape()
        self.assertEqual(self.top(), [])
        for s in silent:
            s.close()

    def test_not_loopback(self):
        run = subprocess.run([os.environ["FAULT_TELPHERD"], "--socket", self.control + ".other", "--metrics",
                              f"0.0.0.0:{free_port()}"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("not a loopback address", run.stderr)


class Shares(Figures):
    """Two users with kernels of 20 ms, sixteen of each under way: kernels that end of the one while others do of the
    other. On a machine that is short of processors a session may miss its turns, so that many kernels may be counted
    before weights show."""
    KERNELS = 40

    def rows(self):
        return {row["host"]: row for row in self.top()}

    def expect_more(self, favoured, other, *options):
        """Of KERNELS, more than two of three are the favoured user's."""
        self.serve(*options)
        clients = [self.start(20, 16), self.start(20, 16, f"127.0.0.1:{self.tcp}")]
        first = self.rows()

        def shows():
            nonlocal first
            last = self.rows()
            ended = {host: last[host]["launches"] - first[host]["launches"] for host in last}
            if sum(ended.values()) < self.KERNELS:
                return False
            first = last
            return ended[favoured] > 2 * ended[other]
        until(shows, f"the weight of {favoured} shows", 4 * LIMIT_S)
        self.assertGreater(min(row["waits"] for row in self.top()), 0, "sessions take turns")
        self.stop(*clients)
        self.end_server()

    def test_weights(self):
        me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        self.expect_more("local", "127.0.0.1", "--share", f"{me}=9")
        self.expect_more("127.0.0.1", "local", "--share", "127.0.0.1=9")

    def test_blocked(self):
        """Kernels that cannot run before a user event use no device time, and hold up no other session."""
        self.serve()
        blocked = self.start(2, 8, None, "blocked")
        busy = self.start(2, 1, f"127.0.0.1:{self.tcp}")
        until(lambda: self.rows()["local"]["launches"] == 8 and self.rows()["127.0.0.1"]["launches"] > 40,
              "kernels end", 4 * LIMIT_S)
        row = self.rows()["local"]
        self.assertEqual((row["depth"], row["device_ns"]), (0, 0))
        self.assertEqual(self.rows()["127.0.0.1"]["waits"], 0)
        self.stop(busy)
        until(lambda: len(self.top()) == 1, "the other session has ended")
        self.stop(blocked)
        self.end_server()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    program = unittest.main(exit=False)
    if program.result.wasSuccessful() and parse_openmetrics is None:
        print("skipped: prometheus_client is not there to parse the metrics")
        sys.exit(SKIPPED)
    sys.exit(not program.result.wasSuccessful())
