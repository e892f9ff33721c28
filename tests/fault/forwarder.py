# SPDX-License-Identifier: Apache-2.0
"""Runs one program at a time against a server that it reaches through a forwarder, which loses connections after exactly so many bytes.

Everything is one loop of one thread, so that many of them, each a process, can run at once.

    forwarder.py FILE PROGRAM [ARGUMENT...]

runs the program over a forwarder to the server in TELPHER_SERVERS, and records what passes in FILE."""
import os
import pickle
import selectors
import socket
import struct
import subprocess
import sys
import time

TO_SERVER, TO_CLIENT = 0, 1
PORT = 7717
RECORD_HEADER = 5 # [bytes]
# Where the messages before the first frame or record begin: docs/protocol.md 2, 2.1 and 2.2. By the kind of connection, each way.
CONNECT = {
    "cookie": ((0, 96, 128), (0, 72, 200)), # preface and nonce, proof; challenge, reply
    "records": ((0, 64), (0, 128)), # preface; reply
    "tls": ((0, 64), (0,)), # preface
}


class Cut:
    """Ends all connections, by "reset" or "close", once so many bytes have passed in a direction, counted over all connections.

    @p again: how often more, each time when @p step bytes more have passed."""

    def __init__(self, direction, place, how, again=0, step=0): # pylint: disable=too-many-arguments
        self.direction, self.place, self.how, self.again, self.step = direction, place, how, again, step


class Way:
    """A connection of the program, and the one to the server that it is passed on to."""

    def __init__(self, near, far, number):
        self.sockets = (near, far) # the index is the direction of what is read from it
        self.number = number
        for s in self.sockets:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Forwarder:
    """Passes connections to a port of @p host on to port @p target, there or on another host."""

    def __init__(self, host, target, target_host=None):
        self.target = target_host or host, target
        self.listener = socket.create_server((host, 0), backlog=64)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.begin(None)

    def begin(self, cut):
        """For the next program."""
        self.cut, self.was_cut = cut, False
        self.count = [0, 0]
        self.accepted = 0
        self.passed = [] # (number of the connection, direction, bytes)
        self.ways = set()

    def accept(self):
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(self.target)
        except OSError: # the server has ended
            near.close()
            return
        way = Way(near, far, self.accepted)
        self.accepted += 1
        self.ways.add(way)
        for direction, s in enumerate(way.sockets):
            self.selector.register(s, selectors.EVENT_READ, lambda d=direction: self.forward(way, d))

    def end(self, way, how):
        if way not in self.ways:
            return
        self.ways.remove(way)
        for s in way.sockets:
            self.selector.unregister(s)
            if how == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()

    def end_all(self, how="close"):
        for way in list(self.ways):
            self.end(way, how)

    def forward(self, way, direction):
        if way not in self.ways: # ended by an event before
            return
        try:
            data = way.sockets[direction].recv(65536)
        except OSError:
            data = b""
        cut = self.cut
        now = cut is not None and not self.was_cut and cut.direction == direction and self.count[direction] + len(data) >= cut.place
        if now:
            data = data[:cut.place - self.count[direction]]
        try:
            way.sockets[1 - direction].sendall(data)
        except OSError:
            data = b""
        self.count[direction] += len(data)
        self.note(way, direction, data)
        if now:
            self.was_cut = cut.again == 0
            cut.again, cut.place = cut.again - 1, cut.place + cut.step
            self.end_all(cut.how)
        elif not data:
            self.end(way, "close")

    def note(self, way, direction, data):
        if self.cut is None:
            self.passed.append((way.number, direction, data))

    def run(self, command, environment, cut, limit_s):
        """@return (exit status or None if it hangs, its output, its errors)"""
        self.begin(cut)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        said = {process.stdout: b"", process.stderr: b""}
        left = len(said)

        def hear(stream):
            nonlocal left
            data = os.read(stream.fileno(), 65536)
            said[stream] += data
            if not data:
                self.selector.unregister(stream)
                left -= 1

        for stream in said:
            self.selector.register(stream, selectors.EVENT_READ, lambda s=stream: hear(s))
        deadline = time.monotonic() + limit_s
        while left != 0:
            for key, _ in self.selector.select(1):
                key.data()
            if time.monotonic() > deadline:
                process.kill()
        status = process.wait()
        out, errors = (said[stream].decode(errors="replace") for stream in (process.stdout, process.stderr))
        process.stdout.close()
        process.stderr.close()
        self.end_all()
        return (None if time.monotonic() > deadline else status), out, errors


# ---- where frames begin ----


def frame_length(data, at):
    """Of a frame with a long or a short header."""
    if data[at + 3] == 0x80:
        return 4 + struct.unpack_from("<H", data, at)[0]
    return struct.unpack_from("<I", data, at)[0]


def starts_in(data, direction, kind):
    """Where something begins in the bytes of one connection: messages of the connect, then frames or records."""
    at = list(CONNECT[kind][direction])
    while at[-1] + RECORD_HEADER <= len(data):
        where = at[-1]
        at.append(where + (frame_length(data, where) if kind == "cookie" else RECORD_HEADER + struct.unpack_from(">H", data, where + 3)[0]))
        if at[-1] == where:
            raise ValueError(f"no frame at byte {where}")
    return at


def boundaries(passed, direction, kind):
    """@return (where frames or records begin, in bytes of all connections as they were counted, and the bytes beside; how many bytes)"""
    data, total = {}, 0 # by connection: its bytes, and which byte of all each is
    for number, way, more in passed:
        if way == direction:
            content, numbers = data.setdefault(number, (bytearray(), []))
            content += more
            numbers.extend(range(total, total + len(more)))
            total += len(more)
    found = set()
    for content, numbers in data.values():
        for place in starts_in(content, direction, kind):
            found.update(numbers[place] + by for by in (-1, 0, 1) if place < len(numbers))
    return sorted(place for place in found if 0 < place < total), total


def main():
    address = os.environ["TELPHER_SERVERS"]
    forwarder = Forwarder(os.environ["LINK_ADDR_A"], PORT, address)
    environment = {**os.environ, "TELPHER_SERVERS": f"{os.environ['LINK_ADDR_A']}:{forwarder.port}"}
    status, out, errors = forwarder.run(sys.argv[2:], environment, None, 60)
    with open(sys.argv[1], "wb") as file:
        pickle.dump(forwarder.passed, file)
    print(out, end="")
    print(errors, end="", file=sys.stderr)
    return 1 if status is None else status


if __name__ == "__main__":
    sys.exit(main())
