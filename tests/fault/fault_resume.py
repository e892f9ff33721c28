#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile ways to resume a session: each is refused and logged once, and the session and all others go on."""
import hmac
import os
import random
import socket
import struct
import tempfile

from fault import LIMIT_S, MAGIC, FaultTest, Session, frame, free_port, main, preface, receive, until

RESUMES = 1 << 21
NOT_RESUMED = "there is no such session"
GUESSES = 32


def resuming(session, received=0, stream=1, index=0):
    """The preface of a connection that resumes a stream, or opens one that can be resumed."""
    data = bytearray(preface(stream=stream, session=session, index=index, auth_len=32))
    struct.pack_into("<Q", data, 16, RESUMES)
    struct.pack_into("<Q", data, 56, received)
    return bytes(data)


def send_proven(s, data, cookie):
    """Sends a preface, and proves the knowledge of the cookie. @return (nonce, proof)"""
    nonce = os.urandom(32)
    s.sendall(data + nonce)
    challenge = receive(s, 72)
    if challenge is None or challenge[:8] != b"TELPHER?":
        raise AssertionError(f"no challenge: {challenge!r}")
    proof = hmac.digest(cookie, b"client" + data + nonce + challenge[8:40], "sha256")
    s.sendall(proof)
    return nonce, proof


class Resumed(Session):
    """A session on TCP whose connection may be replaced."""

    def __init__(self, port, cookie):
        self.port, self.cookie = port, cookie
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self.sent = self.received = 0
        send_proven(self.socket, resuming(bytes(16)), cookie)
        reply = receive(self.socket, 128)
        if struct.unpack_from("<iQ", reply, 12) != (0, RESUMES):
            raise AssertionError(f"no session: {reply!r}")
        self.id = reply[24:40]

    def __exit__(self, *_):
        """Else the server would keep the session for a while."""
        self.end()
        self.socket.close()

    def end(self):
        self.put("goodbye", struct.pack("<iI", 0, 0))
        while self.get() is not None:
            pass

    def again(self):
        """Resumes it, and sends no frame again: the server has all."""
        self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        login = send_proven(self.socket, resuming(self.id, self.received), self.cookie)
        reply = receive(self.socket, 128)
        if struct.unpack_from("<i", reply, 12) != (0,) or struct.unpack_from("<Q", reply, 40) != (self.sent,):
            raise AssertionError(f"not resumed: {reply!r}")
        return login


class Resume(FaultTest):
    folder = tempfile.TemporaryDirectory(prefix="telpher-resume-")
    port = free_port()
    options = ("--listen", f"127.0.0.1:{port}", "--cookie", f"{folder.name}/cookie")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(f"{cls.folder.name}/cookie", "rb") as file:
            cls.cookie = file.read()

    def open(self):
        return Resumed(self.port, self.cookie)

    def ask(self, data, more=b""):
        """Status and text of the answer; None: the connection ended without one."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as s:
            send_proven(s, data, self.cookie)
            try:
                s.sendall(more)
            except (BrokenPipeError, ConnectionResetError):
                pass
            reply = receive(s, 128)
        if reply is None:
            return None
        self.assertEqual(reply[:8], MAGIC)
        return struct.unpack_from("<i", reply, 12)[0], reply[64:].split(b"\0")[0].decode()

    def refusals(self):
        return self.server.read_log().count(NOT_RESUMED)

    def expect_refused(self, prefaces):
        before = self.refusals()
        for data in prefaces:
            status, text = self.ask(data)
            self.assertLess(status, 0)
            self.assertEqual(text, NOT_RESUMED)
        until(lambda: self.refusals() == before + len(prefaces), "each refusal is logged once")

    def test_resumes(self):
        """What the others try in vain works for the client."""
        with self.open() as s:
            s.start().expect_alive()
            s.again()
            s.expect_alive(1000)

    def test_replayed(self):
        """All that a client sent to resume, sent again: the server's nonce is another one."""
        with self.open() as s:
            s.start().expect_alive()
            data = resuming(s.id, s.received)
            nonce, proof = s.again()
            for _ in range(4):
                with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as replay:
                    replay.sendall(data + nonce + proof)
                    self.assertEqual(receive(replay, 72)[:8], b"TELPHER?")
                    reply = receive(replay, 128)
                    self.assertLess(struct.unpack_from("<i", reply, 12)[0], 0)
            s.expect_alive(1000)

    def test_guessed(self):
        source = random.Random(1)
        with self.open() as s:
            s.start().expect_alive()
            near = [bytes(byte ^ (1 << bit) if at == i else byte for at, byte in enumerate(s.id))
                    for i in range(16) for bit in (0, 7)]
            guesses = near + [source.randbytes(16) for _ in range(GUESSES)]
            self.expect_refused([resuming(guess, stream=stream) for guess in guesses for stream in (1, 2)])
            s.expect_alive(1000)

    def test_before_an_executor(self):
        with self.open() as s:
            s.put("devices", struct.pack("<Q", 1))
            s.expect("devices_reply")
            self.expect_refused([resuming(s.id, s.received)])
            s.put("devices", struct.pack("<Q", 2))
            s.expect("devices_reply")

    def test_without_the_feature(self):
        """A session of the Unix socket does not outlive its connection: its name resumes nothing."""
        with Session(self.server) as s:
            s.start().expect_alive()
            self.expect_refused([resuming(s.id, s.received)])
            s.expect_alive(1000)

    def test_ended(self):
        """A preface of a session that has ended, sent again."""
        with self.open() as s:
            s.start().expect_alive()
            s.end()
            until(lambda: (self.ask(resuming(s.id, s.received)) or (0, ""))[1] == NOT_RESUMED, "it has ended")
            self.expect_refused([resuming(s.id, s.received)])

    def test_wrong_number(self):
        """Frames that the server has not sent, or does not keep."""
        with self.open() as s:
            s.start().expect_alive()
            for received in (s.received + 1, 2**32, 2**63, 2**64 - 1):
                answer = self.ask(resuming(s.id, received))
                self.assertTrue(answer is None or answer[0] < 0, answer)
            s.again()
            s.expect_alive(1000)

    def test_garbage_after(self):
        """Whoever knows the name may end the session, and nothing else."""
        for seed in range(4):
            with self.open() as s:
                s.start().expect_alive()
                self.ask(resuming(s.id, s.received),
                         frame("ping", bytes(20), s.sent + 2) + random.Random(seed).randbytes(4096))

    def test_cut_prefaces(self):
        with self.open() as s:
            s.start().expect_alive()
            for length in (1, 24, 40, 63):
                with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as cut:
                    cut.sendall(resuming(s.id, s.received)[:length])
            s.expect_alive(1000)


if __name__ == "__main__":
    main()
