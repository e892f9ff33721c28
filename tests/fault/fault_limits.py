#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile clients that know the protocol: huge counts in every message, ids of other objects in every field,
bytes that trickle, answers that nobody takes, builds that never end."""
import os
import re
import struct
import time

from fault import (CONTEXT, DRIVER, EVENT, KERNEL, MEM, PROGRAM, PROTOCOL_ERROR, QUEUE, TRANSFER, FaultTest, Session,
                   main, numbers, preface, receive)

SAMPLER = 7 << 56
IDS = tuple(kind | 1 for kind in (CONTEXT, QUEUE, MEM, PROGRAM, KERNEL, EVENT, SAMPLER, TRANSFER))
STRANGE = IDS + (0, 1, 2**63, 2**64 - 1, MEM | 77, EVENT | 77, 9 << 56, 255 << 56)
PLAIN = {"U8": "<B", "U16": "<H", "U32": "<I", "I32": "<i", "U64": "<Q"}
# Each costs a session, so the messages share the claims.
COUNTS = {"U64S": ("<H", (0xffff, 0x8000)), "BYTES": ("<I", (0xffffffff, 0x80000000, 1 << 20)),
          "FEW": ("<B", (0xff, 0x80))}


def messages():
    """(name, type, [(kind, field)]) of what clients say, from the one list there is."""
    path = os.path.join(os.path.dirname(__file__), "../../src/wire/messages.def")
    with open(path, encoding="ascii") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    for name, number, fields in re.findall(r"MSG\(\w+, (\w+), (0x[0-9a-f]+),\s*((?:\w+\(\w+\)\s*)*)\)", text):
        if int(number, 16) < 0x80 and name not in ("ack", "close"):
            yield name, int(number, 16), re.findall(r"(\w+)\((\w+)\)", fields)


MESSAGES = list(messages())


def encode(fields, values, claims=None):
    """A body; @p claims has counts that are not true. What is not given is 0 or empty."""
    body = b""
    for kind, field in fields:
        if kind in PLAIN:
            value = values.get(field, 0)
            body += struct.pack(PLAIN[kind], value % 2**32 if kind == "U32" else value)  # an id's counter
        else:
            form, _ = COUNTS[kind]
            data = values.get(field, b"")
            count = len(data) // 8 if kind == "U64S" else len(data)
            body += struct.pack(form, (claims or {}).get(field, count)) + data
    return body


def likely(name, field):
    """A value that gets a message as far as may be."""
    known = {"context": CONTEXT | 1, "queue": QUEUE | 1, "mem": MEM | 1, "src": MEM | 1, "dst": MEM | 1,
             "parent": MEM | 1, "program": PROGRAM | 1, "kernel": KERNEL | 1, "transfer": TRANSFER | 9,
             "size": 4, "flags": 1, "dims": 1, "index": 0}
    if field == "event" or name.endswith("_create") and field in name:
        return (known.get(field, EVENT | 1) & (255 << 56)) | 1000
    return known.get(field, 0)


class Messages(FaultTest):
    def tearDown(self):
        super().tearDown()
        self.assertNotIn("signal", self.server.read_log(), "no executor has crashed")

    def test_list(self):
        self.assertGreater(len(MESSAGES), 25)

    def started(self):
        s = Session(self.server).start()
        source = b"__kernel void k(__global int *a) { a[0] = 1; }"
        s.put("program_source", struct.pack("<QQQQI", PROGRAM | 1, CONTEXT | 1, len(source), 0, len(source)) + source)
        return s

    def test_counts(self):
        """More than there is, in every field that counts."""
        for name, number, fields in MESSAGES:
            for kind, field in fields:
                if kind not in COUNTS:
                    continue
                claims = COUNTS[kind][1]
                claim = claims[number % len(claims)]
                with self.subTest(message=name, field=field, claim=claim):
                    with Session(self.server) if number < 0x20 else self.started() as s:
                        s.put(number, encode(fields, {f: likely(name, f) for k, f in fields if k in PLAIN},
                                             {field: claim}))
                        while (got := s.get()) is not None and got[0] != "close":
                            pass
                        self.assertIsNotNone(got)
                        if number >= 0x20:
                            self.assertIn(PROTOCOL_ERROR.encode(), got[1])

    def answered(self, s):
        """Waits for PONG; False when the session ended."""
        s.put("ping", struct.pack("<QQI", 9 << 56 | 5, 0, 0))
        while (got := s.get()) is not None:
            if got[0] == "pong":
                return True
        return False

    def test_strange_ids(self):
        """Ids of other objects, of none, and huge numbers, in every field: it lives, or takes leave in order."""
        for name, number, fields in MESSAGES:
            if number < 0x20:
                continue
            s = self.started()
            for kind, field in fields:
                if kind != "U64" and kind != "U64S":
                    continue
                # Each field begins with another one, and goes on until its session ends.
                first = (number + len(field)) % len(STRANGE)
                for strange in (STRANGE + STRANGE)[first:first + len(STRANGE)]:
                    values = {f: likely(name, f) for k, f in fields if k in PLAIN}
                    values[field] = strange if kind == "U64" else struct.pack("<2Q", strange, strange)
                    s.put(number, encode(fields, values))
                    if not self.answered(s):
                        s.socket.close()
                        s = self.started()
                        break
            s.socket.close()

    def test_numbers(self):
        """The largest value in every small field."""
        for name, number, fields in MESSAGES:
            if number < 0x20:
                continue
            s = self.started()
            for kind, field in fields:
                if kind not in ("U8", "U16", "U32", "I32"):
                    continue
                values = {f: likely(name, f) for k, f in fields if k in PLAIN}
                values[field] = 2**31 - 1 if kind == "I32" else 256**struct.calcsize(PLAIN[kind]) - 1
                s.put(number, encode(fields, values))
                if not self.answered(s):
                    s.socket.close()
                    s = self.started()
            s.socket.close()


class Trickle(FaultTest):
    """A byte now and then: the time is that of the whole, not of a byte."""
    options = ("--preface-timeout", "1s", "--stall-timeout", "1s", "--max-half-open", "8")

    def trickle(self, s, data):
        """Sends a byte every 0.1 s. @return seconds until the server closed."""
        start = time.monotonic()
        for at in range(len(data)):
            try:
                s.sendall(data[at:at + 1])
                s.settimeout(0.1)
                while s.recv(4096):
                    pass
                return time.monotonic() - start
            except TimeoutError:
                continue
            except OSError:
                return time.monotonic() - start
        raise AssertionError("it takes all that comes")

    def test_preface(self):
        with self.server.connect() as s:
            self.assertLess(self.trickle(s, preface()), 5)

    def test_header(self):
        with Session(self.server) as s:
            self.assertLess(self.trickle(s.socket, bytes([200, 0, 0, 0]) + bytes(200)), 5)

    def test_body(self):
        body = struct.pack("<QQI", 1, 0, 400) + bytes(400)
        with Session(self.server) as s:
            s.put_raw(struct.pack("<IHHQQ", 24 + len(body), 0x10, 0, 1, 0))
            self.assertLess(self.trickle(s.socket, body), 5)

    def test_slow_but_honest(self):
        """One frame after another, each in pieces, for longer than the limit."""
        with Session(self.server) as s:
            for _ in range(5):
                s.sent += 1
                whole = struct.pack("<IHHQQ", 44, 0x10, 0, s.sent, s.received) + struct.pack("<QQI", 1, 0, 0)
                s.put_raw(whole[:30])
                time.sleep(0.35)
                s.put_raw(whole[30:])
                s.expect("pong")

    def test_answer_not_taken(self):
        with Session(self.server) as s:
            body = struct.pack("<QQI", 1, 0, 1 << 19) + bytes(1 << 19)
            s.socket.settimeout(20)
            start = time.monotonic()
            try:
                for _ in range(64):
                    s.sent += 1
                    s.socket.sendall(struct.pack("<IHHQQ", 24 + len(body), 0x10, 0, s.sent, 0) + body)
                self.fail("it takes all that comes")
            except (BrokenPipeError, ConnectionResetError):
                self.assertLess(time.monotonic() - start, 10)

    def test_many_strangers(self):
        """More than may be: who comes later is served at once."""
        strangers = [self.server.connect() for _ in range(20)]
        try:
            with Session(self.server) as s:
                s.put("devices", struct.pack("<Q", 1))
                s.expect("devices_reply")
        finally:
            for stranger in strangers:
                stranger.close()


class EndlessBuild(FaultTest):
    options = ("--build-timeout", "1s")
    environment = {"TELPHER_LIBOPENCL": DRIVER, "FAULT_DRIVER": "build"}

    def test_endless_build(self):
        with Session(self.server).start() as s:
            s.put("program_source", struct.pack("<QQQQI4s", PROGRAM | 1, CONTEXT | 1, 4, 0, 4, b"hang"))
            build = next(row for row in MESSAGES if row[0] == "program_build")
            s.put(build[1], encode(build[2], {"request": 9 << 56 | 1, "program": PROGRAM | 1}))
            start = time.monotonic()
            s.expect_broken("a build ran longer than 1 s (--build-timeout)")
            self.assertLess(time.monotonic() - start, 20)


if __name__ == "__main__":
    main()
