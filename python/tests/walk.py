# SPDX-License-Identifier: Apache-2.0
"""usage: walk.py ROUNDS: objects move at random after each round, while their channels hold messages of the last two; messages
of all kinds are received with and without buffers. Nothing may be lost, doubled or out of order. Prints "walk: OK"."""
import random
import sys

import numpy

from checks import expect
from telpher.mdr import Array, Channel, Chare, Future, Reducer, charm, coro

ROUNDS, OBJECTS, HOPS, BEHIND = int(sys.argv[1]), 20, (1, 3, 7), 2


def batch(channel, of_round):
    """The number of messages of a round."""
    return random.Random(channel * 1_000_003 + of_round).randrange(4)


def message(channel, number):
    chance, value = random.Random(channel * 7919 + number), (channel * 131 + number) % 251
    kinds = (
        lambda: numpy.full(chance.randrange(1, 500), value, "u1"), lambda: numpy.full((chance.randrange(1, 50), 1000), value),
        lambda: numpy.full(5000, float(value)), lambda: numpy.zeros(0, "f4"), lambda: numpy.arange(20_000)[::2] + number,
        lambda: bytearray([value]) * chance.randrange(1, 20_000), lambda: bytes([value]) * chance.randrange(9000),
        lambda: {"number": number, "channel": channel}, lambda: (numpy.full(3000, value), number, "text"))
    return chance.choice(kinds)()


def content(value):
    """What is compared: of arrays their type, too."""
    if isinstance(value, tuple):
        return tuple(map(content, value))
    if isinstance(value, numpy.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return bytes(value) if isinstance(value, bytearray) else value


class Node(Chare):
    def __init__(self):
        me = self.thisIndex[0]
        self.outs = [Channel(self, self.thisProxy[(me + hop) % OBJECTS]) for hop in HOPS]
        self.ins = [Channel(self, self.thisProxy[(me - hop) % OBJECTS]) for hop in HOPS]
        self.sent, self.got = [0] * len(HOPS), [0] * len(HOPS)
        self.round = self.moves = self.calls = 0
        self.random = random.Random(me)

    def migrated(self):
        self.moves += 1

    def call(self):
        self.calls += 1

    def count(self, done):
        self.contribute(self.calls, Reducer.sum, done)

    def send_round(self):
        for i, out in enumerate(self.outs):
            channel = self.thisIndex[0] * len(HOPS) + i
            for _ in range(batch(channel, self.round)):
                value = message(channel, self.sent[i])
                out.send(*(value if isinstance(value, tuple) else (value,)))
                self.sent[i] += 1

    def receive_round(self, of_round):
        for i, (hop, source) in enumerate(zip(HOPS, self.ins)):
            channel = (self.thisIndex[0] - hop) % OBJECTS * len(HOPS) + i
            for _ in range(batch(channel, of_round)):
                self.receive(source, message(channel, self.got[i]))
                self.got[i] += 1

    def receive(self, source, wanted):
        first, *rest = wanted if isinstance(wanted, tuple) else (wanted,)
        way = self.random.randrange(4) if isinstance(first, (numpy.ndarray, bytearray)) else 0
        if way == 0:
            expect(content(source.recv()), content(wanted))
            return
        size = memoryview(first).nbytes
        room = bytearray(size + 100) if way == 1 else numpy.zeros(size, "u1")
        if way == 3:
            source.post(room)
            others = source.recv()
        else:
            others = source.recv(room, size) if way == 1 else source.recv(room)
        expect(others, tuple(rest) if rest else None)
        expect(bytes(room)[:size], content(first)[2] if isinstance(first, numpy.ndarray) else bytes(first))

    @coro
    def step(self, done):
        self.send_round()
        self.round += 1
        last = self.round == ROUNDS
        for of_round in range(max(self.round - BEHIND, 1), self.round + 1 if last else self.round - BEHIND + 1):
            self.receive_round(of_round - 1)
        if last:
            expect([source.ready() for source in self.ins], [False] * len(HOPS))
            self.contribute(self.moves, Reducer.sum, done)
        else:
            self.thisProxy[self.thisIndex].step(done)
            self.migrate(self.random.randrange(charm.numPes()))


def main(_args):
    nodes, done, counted = Array(Node, OBJECTS), Future(), Future()
    nodes.step(done)
    for _ in range(100):
        for i in range(OBJECTS):
            nodes[i].call()
    print(f"{done.get()} moves", flush=True)
    charm.waitQD()
    nodes.count(counted)
    expect(counted.get(), 100 * OBJECTS)
    print("walk: OK", flush=True)
    charm.exit()


charm.start(main)
