# SPDX-License-Identifier: Apache-2.0
"""Objects in Python. Run alone or by telpher launch -n P; prints "objects: OK" in process 0."""
import itertools
import os
import resource
import sys
import threading

from checks import expect, must_raise
from telpher.mdr import Array, Channel, Chare, Future, Group, Reducer, RemoteError, charm, coro

try:
    import numpy
except ImportError:
    numpy = None

Reducer.add(lambda a, b: a + b if len(a) + len(b) < 100 else a, "join")


class Counter(Chare):
    def __init__(self, start=0):
        self.value = start

    def add(self, by):
        self.value += by
        return self.value

    def total(self, done):
        self.contribute(self.value, Reducer.sum, done)

    def where(self):
        return self.thisIndex[0], charm.myPe()

    def gather(self, done):
        self.contribute(self.thisIndex[0] ** 2, Reducer.gather, done)

    def fail(self):
        raise KeyError("on purpose")

    def join(self, done):
        self.contribute(str(self.thisIndex[0]), Reducer.join, done)


class Ring(Chare):
    """A value goes around the array, with a payload."""

    def go(self, hops, payload, done):
        if hops == 0:
            done((self.thisIndex[0], len(payload), bytes(memoryview(payload).cast("B")[:3])))
        else:
            self.thisProxy[(self.thisIndex[0] + 1) % len(self.thisProxy)].go(hops - 1, payload, done)

    def same(self, payload):
        return payload


class Worker(Chare):
    async def sum_of(self, counters):
        """Waits for others without a stack of its own."""
        values = [counters[i].add(0, ret=True) for i in range(len(counters))]
        return sum([await value for value in values])

    async def all(self, done):
        total = await self.allreduce(self.thisIndex, Reducer.sum)
        self.contribute(total, Reducer.max, done)


class Talker(Chare):
    @coro
    def talk(self, rounds, size, done):
        me = self.thisIndex[0]
        channel = Channel(self, remote=self.thisProxy[1 - me])
        for i in range(rounds):
            if me == 0:
                channel.send(i, bytes([i & 255]) * size)
                expect(channel.recv(), i + 1)
            else:
                number, payload = channel.recv()
                expect((number, bytes(payload)), (i, bytes([i & 255]) * size))
                channel.send(number + 1)
        self.contribute(None, None, done)

    async def talk_async(self, done):
        channel = Channel(self, remote=self.thisProxy[1 - self.thisIndex[0]])
        for i in range(50):  # all before the first receive: they are kept in order
            channel.send(i, bytearray(i * 300))
        for i in range(50):
            number, payload = await channel.arrival()
            expect((number, len(payload)), (i, i * 300))
        self.contribute(1, Reducer.sum, done)


class Device(Chare):
    def put(self, memory, text):
        host = memory.copy_to(bytearray(memory.nbytes))
        return memory.kind, bytes(host[:4]), text


class Slow(Chare):
    def __init__(self):
        self.seen = 0

    def take(self, number, _text):
        expect(number, self.seen)
        self.seen += 1

    def count(self):
        return self.seen


class Grid(Chare):
    def corner(self):
        return self.thisIndex


class Flood(Chare):
    def __init__(self):
        self.seen = 0

    def hit(self, hops):
        self.seen += 1
        if hops:
            self.thisProxy[(self.thisIndex[0] * 5 + hops) % len(self.thisProxy)].hit(hops - 1)

    def count(self, done):
        self.contribute(self.seen, Reducer.sum, done)


class Sender(Chare):
    def __init__(self):
        self.stopped = False

    @coro
    def send(self, slow, text):
        for number in itertools.count():
            if self.stopped:
                return
            slow.take(number, text)

    def stop(self):
        self.stopped = True


def check_sleep():
    """A sender without end that is held back lets others wake."""
    for pe in {0, charm.numPes() - 1}:
        sender = Array(Sender, 1)[0]
        sender.send(Array(Slow, charm.numPes())[pe], "x" * 500)
        charm.sleep(0.1)
        sender.stop()


def check_flood():
    """TELPHER_MDR_MEMORY holds back a sender that is faster than an object of this or another process."""
    slow, count, text = Array(Slow, charm.numPes()), 50_000, "x" * 500
    for pe in {0, charm.numPes() - 1}:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(count):
            slow[pe].take(i, text)
        seen = slow[pe].count(ret=True).get()
        expect(seen, count)
        expect(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10, True)


def reduced(call):
    done = Future()
    call(done)
    return done.get()


def check_calls(n):
    counters = Array(Counter, n, args=[10])
    expect(counters[n - 1].add(5, ret=True).get(), 15)
    expect([i for i, _ in counters.where(ret=True).get()], list(range(n)))
    expect(reduced(counters.total), 10 * n + 5)
    expect(reduced(counters.gather), [i * i for i in range(n)])
    expect(sorted(reduced(counters.join)), sorted("".join(str(i) for i in range(n))))
    try:
        counters[1].fail(ret=True).get()
    except RemoteError as error:
        expect("on purpose" in str(error) and "Counter[1].fail" in str(error), True)
    else:
        raise AssertionError("no exception came back")
    group = Group(Worker)
    expect(group[charm.numPes() - 1].sum_of(counters, ret=True).get(), 10 * n + 5)
    expect(reduced(group.all), sum(range(charm.numPes())))
    one = Chare(Counter, onPE=charm.numPes() - 1, args=[3])
    expect(one.where(ret=True).get()[1], charm.numPes() - 1)


def check_payloads():
    ring = Array(Ring, 5)
    for size in (0, 10, 5000, 300_000):
        expect(reduced(lambda done, size=size: ring[0].go(12, b"abc" + bytes(size), done)),
               (2, size + 3, b"abc"))
        expect(reduced(lambda done, size=size: ring[0].go(7, bytearray(b"xyz") + bytearray(size), done)),
               (2, size + 3, b"xyz"))
    if numpy is not None:
        for size in 3, 3000:
            masked = numpy.ma.array(numpy.ones(size), mask=numpy.arange(size) % 2)
            came = ring[0].same(masked, ret=True).get()
            expect((type(came), (came.mask == masked.mask).all()), (numpy.ma.MaskedArray, True))
        data = numpy.arange(100_000, dtype="u1")
        expect(reduced(lambda done: ring[0].go(3, data, done)), (3, 100_000, b"\0\1\2"))


def check_channels():
    for size in (1, 100_000):
        expect(reduced(lambda done, size=size: Array(Talker, 2).talk(40, size, done)), None)
    expect(reduced(Array(Talker, 2).talk_async), 2)


def check_device():
    memory = charm.context.alloc(70_000, "sim")
    memory.copy_from(b"here" + bytes(69_996))
    for device in [Array(Device, charm.numPes())[i] for i in range(charm.numPes())]:
        expect(device.put(memory, "text", ret=True).get(), ("sim", b"here", "text"))


class Bad:
    """Is packed, but not unpacked."""

    def __reduce__(self):
        return int, ("no number",)


class Wrong(Chare):
    """Gets and gives values that no message may have, and arrays that have more than numbers."""

    def take(self, value):
        return value

    def give(self, name):
        return {"packed": threading.Lock, "unpacked": Bad}[name]()

    async def give_later(self, name):
        return self.give(name)

    def wait_for(self, future):
        future.get()


def check_wrong_values():
    """The caller that waits is told the object and its method, and what failed."""
    there = Array(Wrong, charm.numPes())[charm.numPes() - 1]
    must_raise(RemoteError, "Wrong[%d].take:" % (charm.numPes() - 1), lambda: there.take(Bad(), ret=True).get())
    must_raise(RemoteError, "invalid literal", lambda: there.take(Bad(), ret=True).get())
    must_raise(RemoteError, "which made it", lambda: there.wait_for(Future(), ret=True).get())
    if charm.numPes() > 1:
        must_raise(RemoteError, "invalid literal", lambda: there.give("unpacked", ret=True).get())
        for method in there.give, there.give_later:
            must_raise(RemoteError, "].%s:" % method.name, lambda method=method: method("packed", ret=True).get())
            must_raise(RemoteError, "cannot pickle", lambda method=method: method("packed", ret=True).get())


def check_misuse():
    counters = Array(Counter, 4)
    for wrong, error in ((lambda: counters[4], IndexError), (lambda: counters.nothing, AttributeError),
                         (lambda: counters["1"], IndexError), (lambda: counters[1.0], IndexError),
                         (lambda: Counter(), TypeError), (lambda: Array(Counter, 0), ValueError),
                         (lambda: Reducer.nothing, AttributeError)):
        try:
            wrong()
        except error:
            continue
        raise AssertionError("no exception")


def main(args):
    check_calls(int(args[1]) if len(args) > 1 else 8)
    grid = Array(Grid, (2, 3, 2))
    expect(grid[1, 2, 0].corner(ret=True).get(), (1, 2, 0))
    check_payloads()
    check_channels()
    check_device()
    check_misuse()
    check_wrong_values()
    if "TELPHER_MDR_MEMORY" in os.environ:
        check_sleep()
        if "LD_PRELOAD" not in os.environ:  # a sanitizer keeps freed memory
            check_flood()
    flood = Array(Flood, 20)
    for i in range(20):
        flood[i].hit(100)
    charm.waitQD()
    expect(reduced(flood.count), 20 * 101)
    print("objects: OK", flush=True)
    charm.exit()


charm.start(main)
