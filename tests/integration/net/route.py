#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that are reached through another one: `gateway/inner`.

Far: client --- link --- gateway 10.77.0.2:7717, and on the loopback interface of that side alone the inner servers. What
passes between two inner servers does not pass the client's link. The other cases are on one machine.

Settings: those of tls.py, and ROUTE_ICD, ROUTE_PROGRAM, the program peer_bytes, and ROUTE_EXPORT, the example
07_exported_buffer, empty where it was not built."""
import hmac
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from tls import Authority, Base, LIMIT_S, LINK, TELPHER, TELPHERD, children, clean_environment, command_name, free_port, until

ICD, PROGRAM, EXPORT = (os.environ[f"ROUTE_{name}"] for name in ("ICD", "PROGRAM", "EXPORT"))
PIECE = 64 << 10  # [bytes] of content with a meaning; the program's buffer has 64 times as much
REPLY_BYTES = 128
CLOSE, ROUTE_ACCEPT, PEER_REPLY = 0x02, 0x14, 0x9B  # types of frames


# Uses a token as a job that has no key: not with one bit of the token's key changed; then it keeps the token for later.
USE_TOKEN = """
import os, subprocess, sys
mark, name, key, rest = os.environ["BUFFER_TOKEN"].split(":", 3)
other = ":".join((mark, name, format(int(key, 16) ^ 1, "064x"), rest))
assert subprocess.run(sys.argv[2:], env={**os.environ, "BUFFER_TOKEN": other}).returncode != 0
with open(sys.argv[1], "w", encoding="ascii") as file:
    file.write(os.environ["BUFFER_TOKEN"])
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""


def preface(route, stream=1, auth_len=0, session=bytes(16)):
    return struct.pack("<8sHHIQ16sQIIQ", b"TELPHER\n", 1, 1, stream, 0, session, route, 0, auth_len, 0)


def frame(number, kind, body):
    return struct.pack("<IHHQQ", 24 + len(body), kind, 0, number, 0) + body


def accept_body(*parts):
    """The body of a ROUTE_ACCEPT of a name, a key and a route."""
    return struct.pack("<Q", 9 << 56 | 1) + b"".join(struct.pack("<I", len(part)) + part for part in parts)


def status_of(reply):
    return struct.unpack_from("<i", reply, 12)[0]


def receive(s, count):
    """Bytes until there are so many, or the end."""
    data = b""
    while len(data) < count and (more := s.recv(count - len(data))):
        data += more
    return data


class Route(Base):
    def setUp(self):
        self.inner = self.serve("--tls-psk", self.key)
        self.gateway = self.serve("--tls-psk", self.key, "--relay-to", f"127.0.0.1:{self.inner.port}")

    def relays(self, server=None):
        return [p for p in children((server or self.gateway).process.pid) if command_name(p) == "telpher-relay"]

    def through(self, *servers):
        return "/".join(server.address for server in servers)

    def hold(self, *servers):
        """A client that keeps its connection, and has had an answer: before, it could still give up."""
        client = subprocess.Popen([TELPHER, "ping", "-c", "10000", "-i", "0.1", "--timeout", "60s", self.through(*servers)],
                                  env={**clean_environment(self.folder), "TELPHER_TLS_PSK": self.key},
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertIn(b"seq", client.stdout.readline())
        return client

    def expect_refused(self, pattern, *servers, **settings):
        self.expect_out(pattern, self.through(*servers), TELPHER_TLS_PSK=self.key, **settings)

    def test_reached(self):
        self.expect_in(self.through(self.gateway, self.inner), TELPHER_TLS_PSK=self.key)
        self.assertIn("relays a connection", self.gateway.log())
        until(lambda: not self.relays(), "relays end with their connections")

    def test_two_gateways(self):
        second = self.serve("--tls-psk", self.key, "--relay-to", f"127.0.0.0/8:{self.gateway.port}")
        self.expect_in(self.through(second, self.gateway, self.inner), TELPHER_TLS_PSK=self.key)

    def routes(self, *servers, key=None, **settings):
        code, text = self.ask(",".join(servers), "-v", TELPHER_TLS_PSK=key or self.key, TELPHER_LOG="error", **settings)
        self.assertEqual(code, 0, text)
        return text

    def test_routes_are_shown(self):
        inner, nowhere = self.through(self.gateway, self.inner), f"127.0.0.1:{free_port()}"
        other, cut = self.serve("--tls-psk", self.key), self.serve("--tls-psk", self.key, "--peer-address", nowhere)
        text = self.routes(other.address, inner)
        self.assertIn(f"{other.address} - {inner}: TCP through the server {self.gateway.address}, to {inner}", text)
        text = self.routes(other.address, cut.address) # which connects, as it is not reached itself
        self.assertIn(f"{other.address} - {cut.address}: TCP, to {other.address}", text)
        text = self.routes(cut.address, self.serve("--tls-psk", self.key, "--peer-address", nowhere).address)
        self.assertRegex(text, f"{cut.address} - tls://[0-9.:]+: through this program: .*{nowhere}.*refused")

    def test_not_allowed(self):
        other = self.serve("--tls-psk", self.key)
        self.expect_refused("does not allow", self.gateway, other)
        self.expect_refused("relays nothing", other, self.inner)
        self.assertEqual(self.relays(other), [])

    def test_nothing_listens(self):
        self.inner.stop()
        self.expect_refused("(?i)refused", self.gateway, self.inner)

    def test_keys_are_end_to_end(self):
        """The gateway's key does not admit to the inner server."""
        other = self.make_key("other.key", "bob")
        inner = self.serve("--tls-psk", other)
        gateway = self.serve("--tls-psk", self.key, "--relay-to", f"127.0.0.1:{inner.port}")
        self.expect_refused(f"server tls://127.0.0.1:{inner.port}: .*key", gateway, inner)
        self.expect_out(f"server {gateway.address}: .*key", self.through(gateway, inner), TELPHER_TLS_PSK=other)

    def join_keys(self, name, *keys):
        """A file of keys: of each the file, and the host it is for."""
        path = os.path.join(self.folder, name)
        with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="ascii") as file:
            for key, host in keys:
                with open(key, encoding="ascii") as one:
                    file.write(one.read().strip() + host + "\n")
        return path

    def test_gateway_with_a_key_of_its_own(self):
        """The client has a key for each; servers that it joins have neither."""
        key = self.make_key("gateway.key", "gate")
        gateway = self.serve("--tls-psk", key, "--relay-to", f"127.0.0.1:{self.inner.port}")
        both = self.join_keys("both.key", (key, " localhost"), (self.key, ""))
        named = f"tls://localhost:{gateway.port}"
        inner = f"{named}/{self.inner.address}"
        self.expect_in(inner, TELPHER_TLS_PSK=both)
        self.expect_out(f"server {named}: .*key", inner, TELPHER_TLS_PSK=self.key)
        other = self.serve("--tls-psk", self.key)
        text = self.routes(other.address, inner, key=both)
        self.assertIn(f"{other.address} - {inner}: TCP through the server {named}, to {inner}", text)

    def test_gateway_with_a_certificate(self):
        """A client shows its certificate to the gateway and its key to the servers, which have none for the gateway."""
        authority = Authority(self.folder, "ours")
        (cert, key), mine = authority.sign("host", "DNS:localhost", "serverAuth"), authority.sign("me", usage="clientAuth")
        gateway = self.serve("--tls-cert", cert, "--tls-key", key, "--tls-ca", authority.ca, "--relay-to",
                             f"127.0.0.1:{self.inner.port}")
        shown = {"TELPHER_TLS_CERT": mine[0], "TELPHER_TLS_KEY": mine[1], "TELPHER_TLS_CA": authority.ca}
        named, other = f"tls://localhost:{gateway.port}", self.serve("--tls-psk", self.key)
        inner = f"{named}/{self.inner.address}"
        self.expect_out(f"server {named}: .*key", inner, TELPHER_TLS_PSK=self.key)
        self.expect_out(f"server {self.inner.address}: ", inner, **shown)
        text = self.routes(other.address, inner, **shown)
        self.assertIn(f"{other.address} - {inner}: TCP through the server {named}, to {inner}", text)

    def run_job(self, *command, **settings):
        return subprocess.run(command, env={**clean_environment(self.folder), **settings}, capture_output=True, text=True,
                              timeout=2 * LIMIT_S)

    def test_token(self):
        """A job without keys puts into a buffer that is reached through two gateways, while the exporting program lives."""
        if not EXPORT:
            self.skipTest("the example 07_exported_buffer was not built")
        key = self.make_key("token.key", "gate")
        second = self.serve("--tls-psk", key, "--relay-to", f"127.0.0.1:{self.gateway.port}")
        keys = self.join_keys("chain.key", (key, " localhost"), (self.key, ""))
        kept, job = os.path.join(self.folder, "token"), ("launch", "-n", "2", "--", f"{EXPORT}_job")
        address = f"tls://localhost:{second.port}/{self.through(self.gateway, self.inner)}"
        run = self.run_job(TELPHER, "run", "-s", address, "--", EXPORT, "env", "-u", "TELPHER_TLS_PSK", sys.executable, "-c",
                           USE_TOKEN, kept, TELPHER, *job, TELPHER_TLS_PSK=keys)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("does not know this token", run.stderr)
        with open(kept, encoding="ascii") as file:
            run = self.run_job(TELPHER, *job, BUFFER_TOKEN=file.read())
        self.assertNotEqual(run.returncode, 0, run.stdout)
        self.assertIn("does not know this token", run.stderr)

    def test_servers_pass_two_gateways(self):
        second = self.serve("--tls-psk", self.key, "--relay-to", f"127.0.0.0/8:{self.gateway.port}")
        other, inner = self.serve("--tls-psk", self.key), self.through(second, self.gateway, self.inner)
        text = self.routes(other.address, inner)
        self.assertIn(f"{other.address} - {inner}: TCP through the server {second.address}, to {inner}", text)

    def test_limit(self):
        gateway = self.serve("--tls-psk", self.key, "--relay-to", f"127.0.0.1:{self.inner.port}", "--max-relays", "1")
        hold = self.hold(gateway, self.inner)
        try:
            self.expect_refused("max-relays", gateway, self.inner)
        finally:
            hold.kill()
            hold.communicate()
        until(lambda: not self.relays(gateway), "the relay ends with its client")
        self.expect_in(self.through(gateway, self.inner), TELPHER_TLS_PSK=self.key)

    def test_sandbox(self):
        hold = self.hold(self.gateway, self.inner)

        def filtered():
            for pid in self.relays():
                with open(f"/proc/{pid}/status", encoding="ascii") as file:
                    status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
                if status.get("Seccomp") == "2":
                    return status
            return None

        try:
            status = until(filtered, "the relay is in its sandbox")
            self.assertEqual(int(status["CapEff"], 16), 0)
            self.assertNotEqual(status["Uid"].split()[1], "0")
            for pid in self.relays():
                os.kill(pid, signal.SIGKILL)
            self.assertNotEqual(hold.wait(LIMIT_S), 0)
        finally:
            hold.kill()
            hold.communicate()

    def test_bad_settings(self):
        for entry in ("10.0.0.0/33", "a b", "x/8"):
            run = subprocess.run([TELPHERD, "--socket", "none", "--listen", "127.0.0.1:0", "--relay-to", entry],
                                 env=clean_environment(self.folder), capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(run.returncode, 78, run.stderr)
            self.assertIn("--relay-to", run.stderr)

    def test_bad_addresses(self):
        for rest in ("", "/", "unix:/tmp/x", "a b", "x" * 250):
            code, text = self.ask(f"{self.gateway.address}/{rest}", TELPHER_TLS_PSK=self.key)
            self.assertNotEqual(code, 0, text)
        self.assertEqual(self.relays(), [])


class Hostile(Base):
    """Bytes at a gateway in clear, on its Unix socket: nothing follows an address that is not allowed."""

    def setUp(self):
        self.sink = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.sink.close)
        self.port = self.sink.getsockname()[1]
        self.path = os.path.join(self.folder, f"s{self.port}")
        self.gateway = self.serve("--socket", self.path, "--tls-psk", self.key, "--relay-to", f"127.0.0.1:{self.port}",
                                  "--preface-timeout", "1s")

    def send(self, data):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(LIMIT_S)
        s.connect(self.path)
        s.sendall(data)
        return s

    def answer(self, data):
        with self.send(data) as s:
            reply = receive(s, REPLY_BYTES)
            return status_of(reply) if len(reply) == REPLY_BYTES else None

    def test_prefaces(self):
        bad = [preface(201) + b"x" * 201, preface(1 << 63), preface(4, stream=2) + b"abcd", preface(4, stream=3) + b"abcd",
               preface(4, session=b"s" * 16) + b"abcd", preface(4, auth_len=257)]
        for data in bad:
            self.assertLess(self.answer(data), 0)
        self.assertIsNone(self.answer(preface(10) + b"abc"))  # the rest never comes
        for address in (b"\0\0\0\0", b"\xff\xfe\x00\x01", b"a/b/c", b"127.0.0.1:22", b"[::1", b"%s%n:1", b":", b"x" * 200,
                        f"127.0.0.1:{self.port}\0x".encode(), f"unix:{self.path}".encode()):
            status = self.answer(preface(len(address)) + address)
            self.assertLess(status, 0, address)
        self.assertIsNone(self.gateway.process.poll())

    def send_route(self, name, key, route):
        """A client's connection that asks for a route, and the type of the answer."""
        client = self.send(preface(0) + frame(1, ROUTE_ACCEPT, accept_body(name, key, route)))
        self.addCleanup(client.close)
        self.assertEqual(status_of(receive(client, REPLY_BYTES)), 0)
        return client, struct.unpack_from("<IH", receive(client, 24 + 16))[1]

    def open_route(self, name, key, route):
        """A client's connection that lets a server pass to one address."""
        client, answer = self.send_route(name, key, route)
        self.assertEqual(answer, PEER_REPLY)
        return client

    def pass_route(self, name, key, route):
        """The status that a server gets that asks for a route with a key."""
        head, nonce = preface(len(route), stream=3, auth_len=32, session=name), os.urandom(32)
        with self.send(head + nonce + route) as s:
            challenge = receive(s, 72)
            if challenge.startswith(b"TELPHER?"):
                s.sendall(hmac.new(key, b"client" + head + nonce + challenge[8:40], "sha256").digest())
                challenge = receive(s, REPLY_BYTES)
            return status_of(challenge)

    def test_routes_of_servers(self):
        """A server passes with the client's key for it alone, to the one address, while the client is there."""
        name, key, route = os.urandom(16), os.urandom(32), f"127.0.0.1:{self.port}".encode()
        self.assertLess(self.pass_route(name, key, route), 0)
        client = self.open_route(name, key, route)
        self.assertEqual(self.pass_route(name, key, route), 0)
        self.assertLess(self.pass_route(name, os.urandom(32), route), 0)
        self.assertLess(self.pass_route(os.urandom(16), key, route), 0)
        self.assertLess(self.pass_route(name, key, b"localhost:%d" % self.port), 0)
        client.close()
        until(lambda: self.pass_route(name, key, route) < 0, "the route ends with the client")

    def test_bad_routes(self):
        """Sizes out of range, and a route that has no address, which would make a route a stream to this server."""
        name, key, route = os.urandom(16), os.urandom(32), b"127.0.0.1:%d" % self.port
        for bad in ((name[1:], key, route), (name * 200, key, route), (name, key + b"x", route), (name, b"", route),
                    (name, key, b""), (name, key, b"x" * 201), (name, key, b"\0"), (name, key, route + b"\0x")):
            self.assertEqual(self.send_route(*bad)[1], CLOSE, bad)
            self.assertLess(self.pass_route(name, key, route), 0)

    def test_many_routes(self):
        """Of one connection, the last 512; the gateway keeps no descriptor of streams that have ended."""
        names, key, route = [os.urandom(16) for _ in range(600)], os.urandom(32), b"127.0.0.1:%d" % self.port
        held = f"/proc/{self.gateway.process.pid}/fd"
        client = self.open_route(names[0], key, route)
        before = len(os.listdir(held))
        for i, name in enumerate(names[1:], 2):
            client.sendall(frame(i, ROUTE_ACCEPT, accept_body(name, key, route)))
            receive(client, 24 + 16)
        self.assertEqual([self.pass_route(names[i], key, route) < 0 for i in (0, -513, -512, -1)], [True, True, False, False])
        until(lambda: not children(self.gateway.process.pid), "relays end")
        self.assertEqual(len(os.listdir(held)), before)

    def test_bytes_pass(self):
        """Both directions, more than the buffers hold, while one side does not read; ends are passed on."""
        address = f"127.0.0.1:{self.port}".encode()
        early, bulk = b"early bytes", os.urandom(1 << 20)
        with self.send(preface(len(address)) + address + early) as s:
            self.assertEqual(status_of(receive(s, REPLY_BYTES)), 0)
            server, _ = self.sink.accept()
            with server:
                server.settimeout(LIMIT_S)
                self.assertEqual(receive(server, len(early)), early)
                s.setblocking(False)
                sent, stalled = 0, 0
                while stalled < 20:  # the server does not read: a relay holds no more than its buffer
                    try:
                        sent += s.send(bulk)
                        stalled = 0
                    except BlockingIOError:
                        stalled += 1
                        time.sleep(0.02)
                self.assertLess(sent, 64 << 20)
                s.settimeout(LIMIT_S)
                server.sendall(bulk)
                self.assertEqual(receive(s, len(bulk)), bulk)
                got = 0
                while got < sent:
                    got += len(server.recv(1 << 20))
                server.sendall(b"last")
            self.assertEqual(receive(s, 4), b"last")
            self.assertEqual(s.recv(1), b"")


class Far(Base):
    SERVERS = (7801, 7802)

    def run_far(self, what, *servers, before=""):
        """Runs peer_bytes on the client's side; the servers as the client names them."""
        if not LINK:
            self.skipTest("the program link was not built")
        with open(f"{self.folder}/telpher.icd", "w", encoding="utf-8") as file:
            file.write(ICD + "\n")
        common = f"--socket none --log warn --tls-psk {self.key} --device 'Portable Computing Language: *'"
        inner = "".join(f"{TELPHERD} {common} --listen tls://127.0.0.1:{port} & " for port in self.SERVERS)
        gateway = f"{TELPHERD} {common} --listen 10.77.0.2 --relay-to 127.0.0.0/8:7801 --relay-to 127.0.0.1:7802 & wait"
        env = clean_environment(self.folder)
        env.update(TELPHER_INSECURE="no", TELPHER_TLS_PSK=self.key, TELPHER_LOG="info", TELPHER_CONNECT_TIMEOUT="60s",
                   TELPHER_PREFACE_TIMEOUT="30s", TELPHER_HANDSHAKE_TIMEOUT="60s", TELPHER_PEER_TIMEOUT="30s",
                   TELPHER_SERVERS=",".join(servers))
        out = f"{self.folder}/out"
        run = subprocess.run(
            [LINK, "run", "--delay", "150us", "--rate", "1Gbit", "--wait-port", "7717", "--wait-time", "120s", "--b",
             inner + gateway, "--a", f"sleep 1; OCL_ICD_VENDORS={self.folder} {before} {shlex.quote(PROGRAM)} {what} {len(servers)} </dev/null >{out}"],
            env=env, capture_output=True, text=True, timeout=400)
        if run.returncode == 77:
            self.skipTest(f"no network of our own: {run.stdout}{run.stderr}")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        with open(out, encoding="utf-8") as file:
            return [int(word) for word in file.read().split()[1:]], run.stderr

    def inner(self, port):
        return f"10.77.0.2/tls://127.0.0.1:{port}"

    def check(self, *servers):
        (between, read), log = self.run_far("sized", *servers)
        self.assertRegex(log, "is connected to .* by stream [0-9]+: TCP, to ")
        self.assertLess(between, PIECE)  # two servers pass content past the client's link
        self.assertLess(PIECE, read)  # what the program reads comes by the gateway
        self.assertLess(read, 2 * PIECE)

    def test_two_inner(self):
        self.check(self.inner(7801), self.inner(7802))

    def test_gateway_and_inner(self):
        self.check("10.77.0.2", self.inner(7801))

    def test_not_reached_directly(self):
        """The control: without a gateway there is no route."""
        if not LINK:
            self.skipTest("the program link was not built")
        with self.assertRaises(AssertionError):
            self.run_far("sized", "tls://127.0.0.1:7801", "tls://127.0.0.1:7802",
                         before="TELPHER_CONNECT_TIMEOUT=1s timeout 60")


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=1).result
    if result.wasSuccessful() and result.skipped:
        print(f"skipped: one case at least: {result.skipped[-1][1].strip()}")
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
