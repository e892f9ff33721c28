#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile ways to resume a session, and to join and resume a stream between servers: each is refused, and the session and all others go on."""
import hmac
import os
import random
import socket
import struct
import tempfile

from fault import (EVENT, LIMIT_S, MAGIC, MEM, NOTIFY, QUEUE, TRANSFER, FaultTest, Session, frame, free_port, main, numbers,
                   preface, receive, until)

RESUMES, HAS_PEERS = 1 << 21, 1 << 19
PEERS_MAX = 256 # streams of a session to other servers
NOT_RESUMED = "there is no such session"
GUESSES = 32


def resuming(session, received=0, stream=1, index=0):
    """The preface of a connection that resumes a stream, or opens one that can be resumed."""
    data = bytearray(preface(stream=stream, session=session, index=index, auth_len=32))
    struct.pack_into("<Q", data, 16, RESUMES | HAS_PEERS)
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
        if struct.unpack_from("<iQ", reply, 12) != (0, RESUMES | HAS_PEERS):
            raise AssertionError(f"no session: {reply!r}")
        self.id = reply[24:40]

    def preface(self):
        return resuming(self.id, self.received)

    def __exit__(self, *_):
        """Else the server would keep the session for a while."""
        self.end()
        self.socket.close()

    def end(self):
        self.put("close", struct.pack("<iI", 0, 0))
        while self.get() is not None:
            pass

    def again(self):
        """Resumes it, and sends no frame again: the server has all."""
        self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        login = send_proven(self.socket, self.preface(), self.cookie)
        reply = receive(self.socket, 128)
        if struct.unpack_from("<i", reply, 12) != (0,) or struct.unpack_from("<Q", reply, 40) != (self.sent,):
            raise AssertionError(f"not resumed: {reply!r}")
        return login


class OtherServer(Resumed):
    """The other end of a stream that a client has arranged between two servers."""

    def __init__(self, port, name, key):
        self.id, self.sent, self.received = name, 0, 0
        self.port, self.cookie = port, key
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        send_proven(self.socket, self.preface(), key)
        status, = struct.unpack_from("<i", receive(self.socket, 128) or bytes(128), 12)
        if status != 0:
            raise AssertionError(f"no stream: {status}")
        self.expect("peer_ready")

    def preface(self):
        return resuming(self.id, self.received, stream=3)

    def send_content(self, transfer, content):
        self.put("data", struct.pack("<QQI", TRANSFER | transfer, 0, len(content)) + content)


class Listening(FaultTest):
    """A server with a port, and ways to say something odd there."""
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

    def ask(self, data, more=b"", key=None):
        """Status and text of the answer; None: the connection ended without one."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as s:
            send_proven(s, data, key or self.cookie)
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


class Resume(Listening):
    def test_resumes(self):
        """The client may do what the other connections may not."""
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


class ResumePeer(Listening):
    """The same for a stream between servers, where the proof is that of a key of the pair."""

    def accept(self, s, number, name, key):
        """Has the session expect another server. @return status"""
        s.put("peer_accept", struct.pack("<QI", 9 << 56 | number, number) + struct.pack("<I", len(name)) + name +
              struct.pack("<I", len(key)) + key)
        return struct.unpack_from("<Qi", s.expect("peer_reply"))[1]

    def pair(self, s, number=1):
        """@return (name, key) of an arranged pair"""
        name, key = os.urandom(16), os.urandom(32)
        self.assertEqual(self.accept(s, number, name, key), 0)
        return name, key

    def pull(self, s, number, event):
        """A command that needs 4 bytes of the other server."""
        s.put("pull", struct.pack("<QQQBIQQQ", EVENT | event, QUEUE | 1, MEM | 1, NOTIFY, number, 0, 4, TRANSFER | event) +
              numbers() + numbers())

    def expect_content(self, s, peer, event, number=1):
        self.pull(s, number, event)
        peer.send_content(event, b"1234")
        s.expect_done(event, 0)

    def expect_refused_peer(self, data, key):
        answer = self.ask(data, key=key)
        self.assertTrue(answer is None or answer[0] < 0, answer)

    def test_resumes(self):
        """What the others try in vain works for the other server."""
        with self.open() as s:
            s.start().expect_alive()
            peer = OtherServer(self.port, *self.pair(s))
            self.expect_content(s, peer, 5)
            peer.again()
            self.expect_content(s, peer, 6)
            peer.socket.close()

    def test_wrong_key(self):
        """Before and after the other server has come; by the cookie, too, which every client of this machine knows."""
        with self.open() as s:
            s.start().expect_alive()
            name, key = self.pair(s)
            for wrong in (os.urandom(32), self.cookie):
                self.expect_refused_peer(resuming(name, 0, stream=3), wrong)
            peer = OtherServer(self.port, name, key)
            self.expect_content(s, peer, 5)
            for wrong in (os.urandom(32), self.cookie):
                self.expect_refused_peer(resuming(name, peer.received, stream=3), wrong)
            self.expect_content(s, peer, 6)
            peer.socket.close()

    def test_other_names(self):
        """A session's name is no pair's, nor a pair's a session's; nor is a name that nobody has."""
        with self.open() as s:
            s.start().expect_alive()
            name, key = self.pair(s)
            for wrong in (s.id, os.urandom(16), bytes(16)):
                with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as stranger:
                    stranger.sendall(resuming(wrong, 0, stream=3) + os.urandom(32))
                    reply = receive(stranger, 128)
                    self.assertTrue(reply is None or struct.unpack_from("<i", reply, 12)[0] < 0)
            self.assertLess(self.ask(resuming(name, 0))[0], 0)
            OtherServer(self.port, name, key).socket.close()
            s.expect_alive(1000)

    def test_replayed(self):
        with self.open() as s:
            s.start().expect_alive()
            peer = OtherServer(self.port, *self.pair(s))
            data = peer.preface()
            nonce, proof = peer.again()
            for _ in range(4):
                with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as replay:
                    replay.sendall(data + nonce + proof)
                    self.assertEqual(receive(replay, 72)[:8], b"TELPHER?")
                    reply = receive(replay, 128)
                    self.assertLess(struct.unpack_from("<i", reply, 12)[0], 0)
            self.expect_content(s, peer, 5)
            peer.socket.close()

    def test_wrong_number(self):
        with self.open() as s:
            s.start().expect_alive()
            name, key = self.pair(s)
            peer = OtherServer(self.port, name, key)
            for received in (peer.received + 1, 2**32, 2**64 - 1):
                self.expect_refused_peer(resuming(name, received, stream=3), key)
            peer.again()
            self.expect_content(s, peer, 5)
            peer.socket.close()

    def test_frames_of_others(self):
        """A server that sends what only clients, servers or brokers send loses its stream; the session goes on."""
        with self.open() as s:
            s.start().expect_alive()
            for number, kind in enumerate(("peer_accept", "pull", "buffer_create", "launch", "started", "done", 0x74, 0x79, 0xffff), 1):
                peer = OtherServer(self.port, *self.pair(s, number))
                self.pull(s, number, number)
                peer.put(kind, bytes(200))
                said = dict(s.get() for _ in range(2)) # in any order
                self.assertLess(struct.unpack_from("<Qi", said["done"])[1], 0)
                self.assertEqual(struct.unpack_from("<I", said["peer_lost"])[0], number)
                s.expect_alive(1000 + number)
                peer.socket.close()

    def test_flood_of_joins(self):
        """Connections that prove nothing keep the other server away no longer than any."""
        with self.open() as s:
            s.start().expect_alive()
            name, key = self.pair(s)
            strangers = [socket.create_connection(("127.0.0.1", self.port), LIMIT_S) for _ in range(100)]
            try:
                for stranger in strangers:
                    try:
                        stranger.sendall(resuming(name, 0, stream=3) + os.urandom(32))
                    except (BrokenPipeError, ConnectionResetError):
                        pass # the oldest give way
                peer = OtherServer(self.port, name, key)
                self.expect_content(s, peer, 5)
                peer.socket.close()
            finally:
                for stranger in strangers:
                    stranger.close()

    def test_too_many(self):
        """A client that arranges more streams than a session may have is told; its session goes on."""
        with self.open() as s:
            s.start().expect_alive()
            for number in range(1, PEERS_MAX + 1):
                self.pair(s, number)
            self.assertLess(self.accept(s, PEERS_MAX + 1, os.urandom(16), os.urandom(32)), 0)
            s.expect_alive(1000)


if __name__ == "__main__":
    main()
