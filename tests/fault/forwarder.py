# SPDX-License-Identifier: Apache-2.0
"""Passes connections on to a server, and loses them after exactly so many bytes, by call, or passes nothing any more.

Everything is one loop of one thread, that of run(), so that many of them, each a process, can run at once; or a thread of its own.

    forwarder.py FILE PROGRAM [ARGUMENT...]

runs the program over a forwarder to the server in TELPHER_SERVERS, and records what passes in FILE."""
import os
import pickle
import queue
import selectors
import socket
import struct
import subprocess
import sys
import threading
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
    """Ends all connections, by "reset" or "close", once so many bytes have passed in a direction, counted over all connections; or, if it is
    only of the first one, that one.

    @p again: how often more, each time when @p step bytes more have passed."""

    def __init__(self, direction, place, how="reset", first_only=False, again=0, step=0): # pylint: disable=too-many-arguments
        self.direction, self.place, self.how, self.first_only, self.again, self.step = direction, place, how, first_only, again, step


class Relay:
    """A connection of the program, and the one to the server that it is passed on to."""

    def __init__(self, near, far, number):
        self.sockets = (near, far) # the index is the direction of what is read from it
        self.number = number
        self.count = [0, 0] # [bytes] that have passed, each way
        self.waiting = [b"", b""] # what the other side does not take yet
        self.is_stalled = False
        for s in self.sockets:
            s.setblocking(False)
            if s.family != socket.AF_UNIX:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def events(self, side):
        """What to wait for at one of the sockets."""
        if self.is_stalled:
            return 0
        return (0 if self.waiting[side] else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self.waiting[1 - side] else 0)


def connect(target):
    """To a port, (host, port), or the path of a Unix socket."""
    if isinstance(target, tuple):
        return socket.create_connection(target)
    s = socket.socket(socket.AF_UNIX)
    s.connect(target)
    return s


class Forwarder:
    """Passes connections on to @p target, which may be set later. Either run() or start() drives it."""

    def __init__(self, target=None, host="127.0.0.1", cut=None):
        self.target = target
        self.listener = socket.create_server((host, 0), backlog=64)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, lambda _: self.accept())
        self.thread = None
        self.begin(cut)

    def begin(self, cut):
        """For the next program."""
        self.cut, self.was_cut = cut, False
        self.count = [0, 0]
        self.counts = [] # of each connection
        self.passed = [] # (number of the connection, direction, bytes)
        self.relays = set()

    def accept(self):
        near, _ = self.listener.accept()
        try:
            far = connect(self.target)
        except OSError: # the server has ended
            near.close()
            return
        relay = Relay(near, far, len(self.counts))
        self.counts.append(relay.count)
        self.relays.add(relay)
        self.opened(relay)
        self.watch(relay)

    def opened(self, relay):
        """For a class that looks into what passes."""

    def watch(self, relay):
        for side, s in enumerate(relay.sockets):
            events = relay.events(side)
            registered = self.selector.get_map().get(s)
            if registered is not None and registered.events == events:
                continue
            if registered is not None:
                self.selector.unregister(s)
            if events:
                self.selector.register(s, events, lambda mask, side=side: self.ready(relay, side, mask))

    def ready(self, relay, side, mask):
        if relay in self.relays and mask & selectors.EVENT_WRITE:
            self.send(relay, 1 - side, b"")
        if relay in self.relays and mask & selectors.EVENT_READ:
            self.forward(relay, side)
        if relay in self.relays:
            self.watch(relay)

    def send(self, relay, direction, data):
        relay.waiting[direction] += data
        try:
            sent = relay.sockets[1 - direction].send(relay.waiting[direction])
            relay.waiting[direction] = relay.waiting[direction][sent:]
        except BlockingIOError:
            pass
        except OSError:
            self.end(relay, "close")

    def end(self, relay, how):
        if relay not in self.relays:
            return
        self.relays.remove(relay)
        for s in relay.sockets:
            if s in self.selector.get_map():
                self.selector.unregister(s)
            if how == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()

    def end_all(self, how="close"):
        for relay in list(self.relays):
            self.end(relay, how)

    def stall(self):
        """Connections that are open stay so, and nothing passes them."""
        for relay in self.relays:
            relay.is_stalled = True
            self.watch(relay)

    def forward(self, relay, direction):
        try:
            data = relay.sockets[direction].recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        cut = self.cut if not self.was_cut else None
        if cut is None or cut.direction != direction or (cut.first_only and relay.number != 0):
            left = None
        else:
            left = cut.place - (relay if cut.first_only else self).count[direction]
        if left is not None and len(data) >= left:
            self.pass_on(relay, direction, data[:left])
            self.was_cut = cut.again == 0
            cut.again, cut.place = cut.again - 1, cut.place + cut.step
            if cut.first_only:
                self.end(relay, cut.how)
            else:
                self.end_all(cut.how)
        elif data:
            self.pass_on(relay, direction, data)
        else:
            self.end(relay, "close")

    def pass_on(self, relay, direction, data):
        relay.count[direction] += len(data)
        self.count[direction] += len(data)
        if self.cut is None:
            self.passed.append((relay.number, direction, data))
        self.send(relay, direction, data)

    def step(self):
        for key, mask in self.selector.select(1):
            key.data(mask)

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
            self.selector.register(stream, selectors.EVENT_READ, lambda _, s=stream: hear(s))
        deadline = time.monotonic() + limit_s
        while left != 0:
            self.step()
            if time.monotonic() > deadline:
                process.kill()
        status = process.wait()
        out, errors = (said[stream].decode(errors="replace") for stream in (process.stdout, process.stderr))
        process.stdout.close()
        process.stderr.close()
        self.end_all()
        return (None if time.monotonic() > deadline else status), out, errors

    def start(self):
        """Drives it by a thread, until close()."""
        self.wake, self.woken = socket.socketpair()
        self.calls = queue.Queue()
        self.selector.register(self.woken, selectors.EVENT_READ, lambda _: self.calls.get()(self.woken.recv(1)))
        self.goes_on = True
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        return self

    def serve(self):
        while self.goes_on:
            self.step()

    def call(self, function, *arguments):
        """Calls a function of the forwarder in its thread."""
        done = threading.Event()
        self.calls.put(lambda _: (function(*arguments), done.set()))
        self.wake.send(b".")
        if not done.wait(60):
            raise AssertionError("the forwarder hangs")

    def stop(self):
        self.goes_on = False
        self.end_all("reset")

    def close(self):
        self.call(self.stop)
        self.thread.join()
        for s in (self.listener, self.wake, self.woken, self.selector):
            s.close()


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
    for number, side, more in passed:
        if side == direction:
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
    forwarder = Forwarder((os.environ["TELPHER_SERVERS"], PORT), os.environ["LINK_ADDR_A"])
    environment = {**os.environ, "TELPHER_SERVERS": forwarder.address}
    status, out, errors = forwarder.run(sys.argv[2:], environment, None, 60)
    with open(sys.argv[1], "wb") as file:
        pickle.dump(forwarder.passed, file)
    print(out, end="")
    print(errors, end="", file=sys.stderr)
    return 1 if status is None else status


if __name__ == "__main__":
    sys.exit(main())
