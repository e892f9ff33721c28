#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a client makes of servers that are not there, not ours, or cut off at any byte."""
import os
import re
import shutil
import socket
import struct
import tempfile
import threading
import unittest

from fault import ICD, LIMIT_S, MAGIC, Client, FaultTest, frame, main, receive
from forwarder import TO_CLIENT, TO_SERVER, Cut, Forwarder

# TELPHER_CONNECT_TIMEOUT is 1.5 s.
DISCOVERY_MS = 1500
SLOW_MS = 2000
ANY_MAX_S = 30
PLATFORM_NOT_FOUND, DEVICE_NOT_AVAILABLE, WAIT_LIST_FAILED = -1001, -2, -14


def reply(version=1, status=0, text=b""):
    return struct.pack("<8sHHiQ16sQQII64s", MAGIC, version, 0, status, 0, b"s" * 16, 0, 1 << 24, 4, 1 << 20, text)


def devices_reply(facts, length=None):
    return frame("devices_reply", struct.pack("<QiI", (9 << 56) | 1, 0, len(facts) if length is None else length) +
                 facts, 1, 1)


class OddServer:
    """Takes connections on a Unix socket and answers each with fixed bytes."""

    def __init__(self, folder, answer, hang_up=False):
        self.path = f"{folder}/odd-{os.urandom(4).hex()}"
        self.answer, self.hang_up, self.open = answer, hang_up, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(LIMIT_S)
            try:
                receive(connection, 64)
                connection.sendall(self.answer)
            except OSError:
                pass  # it has gone, as it may
            if self.hang_up:
                connection.close()
            else:
                self.open.append(connection)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(LIMIT_S)
        for connection in self.open + [self.listener]:
            connection.close()


class Discovery(unittest.TestCase):
    """No platform, in bounded time, and one warning that says which server and why."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="telpher-fault-")
        with open(f"{self.folder}/telpher.icd", "w", encoding="utf-8") as file:
            file.write(ICD + "\n")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def expect_none(self, servers, words, count=1):
        client = Client(self.folder, servers, "devices")
        said = client.end()
        line = client.text.strip()
        self.assertTrue(line.startswith("0 platforms, 0 devices, "), line)
        took = int(re.search(r"(\d+) ms", line).group(1))
        self.assertLess(took, DISCOVERY_MS + SLOW_MS)
        self.assertEqual(said.count("is left out"), count, said)
        self.assertRegex(said, words)

    def expect_refused(self, answer, words, hang_up=False):
        odd = OddServer(self.folder, answer, hang_up)
        try:
            self.expect_none(f"unix:{odd.path}", words)
        finally:
            odd.close()

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_socket_of_another_user(self):
        """A socket of another user is refused where any user can make one, and not in a folder of that user."""
        public, theirs = f"{self.folder}/public", f"{self.folder}/theirs"
        for folder, mode in ((public, 0o1777), (theirs, 0o755)):
            os.mkdir(folder)
            os.chmod(folder, mode)
            os.chown(folder, *((0, 0) if folder == public else (65534, 65534)))
        os.chmod(self.folder, 0o755)
        for folder, words in ((public, "user 65534 listens there"), (theirs, "closed the connection")):
            os.seteuid(65534)
            try:
                odd = OddServer(folder, b"", hang_up=True)
            finally:
                os.seteuid(0)
            try:
                self.expect_none(f"unix:{odd.path}", words)
            finally:
                odd.close()

    def test_no_setting(self):
        self.expect_none("", "^$", 0)

    def test_no_socket(self):
        self.expect_none(f"unix:{self.folder}/nothing", "nothing.*(No such file|no such)")

    def test_nobody_listens(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.expect_none(f"127.0.0.1:{s.getsockname()[1]}", "refused")

    def test_several(self):
        """All are asked at once: their time limits do not add up."""
        odd = [OddServer(self.folder, b"") for _ in range(4)]
        try:
            self.expect_none(",".join(f"unix:{o.path}" for o in odd), "no answer in time", 4)
        finally:
            for o in odd:
                o.close()

    def test_mute(self):
        self.expect_refused(b"", "no answer in time")

    def test_mute_after_preface(self):
        self.expect_refused(reply(), "did not list its devices in time")

    def test_hangs_up(self):
        self.expect_refused(b"", "closed the connection", hang_up=True)
        self.expect_refused(reply()[:50], "closed the connection", hang_up=True)
        self.expect_refused(reply(), "left out", hang_up=True)

    def test_wrong_version(self):
        self.expect_refused(reply(status=-1, text=b"the server speaks version 7 only"), "version 7 only")
        self.expect_refused(reply(version=7), "left out")

    def test_not_ours(self):
        self.expect_refused(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(200), "something else than telpherd")

    def test_terminal_codes(self):
        """What a stranger says does not reach the terminal as it is."""
        odd = OddServer(self.folder, reply(status=-1, text=b"\x1b[2Jgone\x07"))
        client = Client(self.folder, f"unix:{odd.path}", "devices")
        said = client.end()
        odd.close()
        self.assertIn("gone", said)
        self.assertNotIn("\x1b", said)
        self.assertNotIn("\x07", said)

    def test_broken_frames(self):
        answers = (
            b"\xff" * 64,
            frame("devices_reply", bytes(16), 1, 1, length=2**31),
            frame("devices_reply", bytes(16), 2, 1),
            frame("done", bytes(14), 1, 1),
            devices_reply(b"", 2**31),
            devices_reply(b"\xff" * 240),
            devices_reply(struct.pack("<HHIIIiI", 2, 0, 0, 7, 0x102b, 0, 2**31)),
        )
        for answer in answers:
            with self.subTest(answer=answer[:40]):
                self.expect_refused(reply() + answer, "left out")


class Reset(FaultTest):
    """A connection reset at byte N, either way: an error or right values, never a hang."""

    def reset_at(self, way, count):
        forwarder = Forwarder(self.server.path, cut=Cut(way, count)).start()
        client = Client(self.server.folder, forwarder.address, "any", TELPHER_COOKIE="/nonexistent",
                        TELPHER_INSECURE="yes")  # the server is behind a Unix socket and proves nothing
        try:
            said = client.end(ANY_MAX_S)
        finally:
            forwarder.close()
        error = int(client.text.strip().rsplit(" ", 1)[1])
        if error != 0:
            self.assertIn(error, (PLATFORM_NOT_FOUND, DEVICE_NOT_AVAILABLE, WAIT_LIST_FAILED), said)
            self.assertTrue("session lost" in said or "left out" in said, f"{way} {count}: error {error}, {said!r}")
        return forwarder.was_cut

    def test_up(self):
        counts = (1, 63, 64, 80, 100, 124, 130, 500, 700, 1100, 5000, 17000, 40000)
        self.assertGreater(sum(self.reset_at(TO_SERVER, count) for count in counts), 8)

    def test_down(self):
        counts = (1, 127, 128, 140, 152, 1000, 4000, 8000, 10000, 18000, 40000)
        self.assertGreater(sum(self.reset_at(TO_CLIENT, count) for count in counts), 6)


if __name__ == "__main__":
    main()
