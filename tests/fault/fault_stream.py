#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile bytes: to the broker, to an executor, to a bulk stream. Each costs its own session and nothing else."""
import random
import struct
import time

from fault import (CONTEXT, EVENT, KERNEL, MAGIC, MEM, NOTIFY, PROTOCOL_ERROR, QUEUE, TRANSFER, FaultTest, Session,
                   frame, main, numbers, preface, receive)

INVALID_VALUE, INVALID_QUEUE, INVALID_MEM_OBJECT, INVALID_KERNEL = -30, -36, -38, -48
INVALID_WAIT_LIST, INVALID_BUFFER_SIZE = -57, -61
PREFACE_S = 2


def garbage(length, seed):
    return random.Random(seed).randbytes(length)


class Preface(FaultTest):
    def refusal(self, data):
        """Status and text of the answer to a preface; None where there is just an end."""
        s = self.server.connect()
        with s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            reply = receive(s, 128)
            if reply is None:
                return None
            self.assertEqual(reply[:8], MAGIC)
            self.assertIsNone(receive(s, 1), "it closes")
            return struct.unpack_from("<i", reply, 12)[0], reply[64:].split(b"\0")[0].decode()

    def test_garbage(self):
        for seed in range(8):
            answer = self.refusal(garbage(65536, seed))
            self.assertTrue(answer is None or answer[0] < 0, answer)

    def test_other_protocol(self):
        answer = self.refusal(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes(64))
        self.assertTrue(answer is None or answer[0] < 0, answer)

    def test_wrong_version(self):
        for versions in ((2, 9), (99, 99)):
            status, text = self.refusal(preface(versions))
            self.assertLess(status, 0)
            self.assertIn("version", text)
        for nonsense in ((0, 0), (3, 2)):
            self.assertLess(self.refusal(preface(nonsense))[0], 0)

    def test_unknown_session(self):
        status, text = self.refusal(preface(stream=2, session=b"?" * 16))
        self.assertLess(status, 0)
        self.assertIn("session", text)

    def test_long_credentials(self):
        self.assertLess(self.refusal(preface(auth_len=2**31))[0], 0)

    def test_cut_preface(self):
        for length in (0, 1, 8, 63):
            s = self.server.connect()
            s.sendall(preface()[:length])
            s.close()

    def test_silent_stranger(self):
        start = time.monotonic()
        with self.server.connect() as s:
            s.sendall(preface()[:10])
            self.assertIsNone(receive(s, 1))
        self.assertLess(time.monotonic() - start, 5 * PREFACE_S)


class Broker(FaultTest):
    def test_garbage(self):
        for seed in range(8):
            with Session(self.server) as s:
                s.put_raw(garbage(65536, seed))
                s.expect_broken("")

    def test_length(self):
        for length in (0, 23, 24, (1 << 20) + 1, 2**31, 2**32 - 1):
            with Session(self.server) as s:
                s.put("ping", bytes(20), length=length)
                s.expect_broken("frame")

    def test_truncated(self):
        for length in (1, 23, 24, 30):
            with Session(self.server) as s:
                s.put_raw(frame("ping", struct.pack("<QQI", 1, 0, 1000) + bytes(1000), 1)[:length])

    def test_inner_length(self):
        with Session(self.server) as s:
            s.put("ping", struct.pack("<QQI", 1, 0, 2**31))
            s.expect_broken("")

    def test_numbers(self):
        for seq, ack in ((2, 0), (0, 0), (2**63, 0), (1, 1), (1, 2**63)):
            with Session(self.server) as s:
                s.put_raw(frame("devices", struct.pack("<Q", 1), seq, ack))
                s.expect_broken("")

    def test_unknown_message(self):
        for kind in ("launch", "done", 0x7777, 0xffff):
            with Session(self.server) as s:
                s.put(kind, bytes(40))
                s.expect_broken("")

    def test_unknown_platform(self):
        for platform in (1, 2**31, 2**32 - 1):
            with Session(self.server) as s:
                s.put("start", struct.pack("<I", platform))
                self.assertLess(struct.unpack_from("<i", s.expect("started"))[0], 0)
                s.expect_broken("platform")


class Executor(FaultTest):
    def started(self):
        return Session(self.server).start()

    def test_garbage(self):
        for seed in range(3):
            with self.started() as s:
                s.expect_alive()
                s.put_raw(garbage(65536, seed))
                s.expect_broken(PROTOCOL_ERROR)

    def test_length(self):
        for length in (0, 2**31):
            with self.started() as s:
                s.put("marker", bytes(20), length=length)
                s.expect_broken(PROTOCOL_ERROR)

    def test_truncated(self):
        with self.started() as s:
            s.expect_alive()
            whole = frame("write", bytes(16000), s.sent + 1)
            s.put_raw(whole[:5000])

    def test_inner_count(self):
        with self.started() as s:
            s.put("release", struct.pack("<H", 65535) + bytes(8))
            s.expect_broken(PROTOCOL_ERROR)

    def test_gap(self):
        with self.started() as s:
            s.put_raw(frame("marker", struct.pack("<QQB", EVENT | 1, QUEUE | 1, NOTIFY) + numbers(), s.sent + 5))
            s.expect_broken(PROTOCOL_ERROR)

    def test_unknown_ids(self):
        with self.started() as s:
            s.read(1, queue=QUEUE | 77)
            s.expect_done(1, INVALID_QUEUE)
            s.read(2, mem=MEM | 77)
            s.expect_done(2, INVALID_MEM_OBJECT)
            s.read(3, mem=CONTEXT | 1)
            s.expect_done(3, INVALID_MEM_OBJECT)
            s.read(4, wait=(EVENT | 77,))
            s.expect_done(4, INVALID_WAIT_LIST)
            s.put("launch", struct.pack("<QQQBB", EVENT | 5, QUEUE | 1, KERNEL | 77, NOTIFY, 1) +
                  numbers(0, 1) + numbers())
            s.expect_done(5, INVALID_KERNEL)
            s.put("release", numbers(MEM | 77, KERNEL | 77, 2**64 - 1, 0))
            s.expect_alive()

    def test_sizes(self):
        """2^63 in every field that is a size; nothing is allocated for it, and the session goes on."""
        big = 2**63
        with self.started() as s:
            s.put("buffer_create", struct.pack("<QQQQ", MEM | 2, CONTEXT | 1, 1, big))
            failed = struct.unpack_from("<Qi", s.expect("failed"))
            self.assertEqual(failed[0], MEM | 2)
            self.assertLess(failed[1], 0)
            s.read(1, size=big, transfer=TRANSFER | 1)
            s.expect_done(1, INVALID_VALUE)
            s.read(2, offset=big)
            s.expect_done(2, INVALID_VALUE)
            s.read(3, offset=2**64 - 2)
            s.expect_done(3, INVALID_VALUE)
            s.put("fill", struct.pack("<QQQBQQ", EVENT | 4, QUEUE | 1, MEM | 1, NOTIFY, 0, big) + numbers() +
                  struct.pack("<I4s", 4, b"abcd"))
            s.expect_done(4, INVALID_VALUE)
            s.expect_alive()

    def test_large_transfer(self):
        for size in (2**47 + 1, 2**63, 2**64 - 1):
            with self.started() as s:
                s.put("write", struct.pack("<QQQBQQQ", EVENT | 1, QUEUE | 1, MEM | 1, NOTIFY, 0, size, TRANSFER | 1) +
                      numbers() + numbers() + struct.pack("<I", 0))
                got = s.get()
                self.assertIsNotNone(got)
                self.assertIn(got[0], ("done", "close"))
                if got[0] == "done":
                    self.assertEqual(struct.unpack_from("<Qi", got[1]), (EVENT | 1, INVALID_VALUE))
                    s.expect_alive()

    def test_same_id_twice(self):
        with self.started() as s:
            s.put("context_create", struct.pack("<Q", CONTEXT | 1) + numbers(0))
            s.expect_broken(PROTOCOL_ERROR)

    def bulk(self, session):
        s = self.server.connect()
        s.sendall(preface(stream=2, session=session.id))
        reply = receive(s, 128)
        self.assertEqual(struct.unpack_from("<i", reply, 12)[0], 0)
        return s

    def test_bulk_garbage(self):
        with self.started() as s, self.bulk(s) as bulk:
            s.expect_alive()
            bulk.sendall(garbage(65536, 1))
            s.expect_broken(PROTOCOL_ERROR)

    def test_bulk_offset(self):
        """Content where none belongs: beyond the window, beyond the end, backwards."""
        for offset in (2**63, 2**64 - 1, 1 << 40):
            with self.started() as s, self.bulk(s) as bulk:
                s.expect_alive()
                bulk.sendall(frame("data", struct.pack("<QQI4s", TRANSFER | 1, offset, 4, b"abcd"), 1))
                s.expect_broken(PROTOCOL_ERROR)


if __name__ == "__main__":
    main()
