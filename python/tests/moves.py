# SPDX-License-Identifier: Apache-2.0
"""Objects in Python that move, with what is on its way to them, and that a balancer spreads. Run alone or by telpher launch -n
P; prints "moves: OK" in process 0."""
import random
import sys
import time

import numpy

from checks import expect
from telpher.mdr import Array, Channel, Chare, Future, Reducer, RemoteError, charm, coro, when

ROUNDS, OBJECTS, CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 20, 6, 50


class Walker(Chare):
    """Sends to the next object by a channel, receives from the one before, and moves after each round."""

    def __init__(self):
        me = self.thisIndex[0]
        self.to, self.source = ((me + by) % OBJECTS for by in (1, -1))
        self.out, self.back = (Channel(self, self.thisProxy[i]) for i in (self.to, self.source))
        self.round = self.calls = self.moves = self.turn = 0
        self.random, self.memory, self.turns = random.Random(me), {"me": self}, []

    def migrated(self):
        self.moves += 1
        expect((self.memory["me"] is self, self.back._end._chare is self), (True, True))

    @coro
    def go(self, done):
        if self.round == 0:  # more than the other end receives in a round: it moves with full channels
            for i in range(3):
                self.out.send(numpy.full(2000, i), i)
        self.out.send(numpy.full(2000, self.round + 3), self.round + 3)
        array, number = self.back.recv()
        expect((number, (array == number).all(), len(array)), (self.round, True, 2000))
        self.round += 1
        if self.round == ROUNDS:
            self.reduce(done)
            return
        self.thisProxy[self.thisIndex].go(done)
        self.migrate(self.random.randrange(charm.numPes()))

    def call(self):
        self.calls += 1

    @when("self.turn == turn")
    def take(self, turn):
        self.turns.append(turn)
        self.turn += 1

    def report(self):
        return self.calls, self.turns

    def count_moves(self, done):
        self.contribute(self.moves, Reducer.sum, done)


class Worker(Chare):
    """The first three take processor time. They begin in one process, where one of them stays."""

    def __init__(self, done):
        self.period, self.done = 0, done
        self.setMigratable(self.thisIndex[0] != 2)

    @coro
    def work(self):
        end = time.thread_time_ns() + 20_000_000
        while self.thisIndex[0] < 3 and time.thread_time_ns() < end:
            pass
        self.period += 1
        if self.period < 4:
            self.AtSync()
        else:
            self.contribute([(self.thisIndex[0], charm.myPe())], Reducer.gather, self.done)

    def resumeFromSync(self):
        self.thisProxy[self.thisIndex].work()


class Hopper(Chare):
    """Sends and moves until the run ends."""

    def __init__(self):
        self.out = Channel(self, self.thisProxy[1 - self.thisIndex[0]])

    def hop(self):
        self.thisProxy[self.thisIndex].hop()
        for _ in range(10):
            self.out.send(numpy.zeros(2000))
        self.migrate((charm.myPe() + 1) % charm.numPes())

    def migrated(self):
        pass


class Fixed(Chare):
    def go(self):
        self.migrate(0)


def check_walk():
    walkers, done = Array(Walker, OBJECTS), Future()
    for i in range(OBJECTS):
        for turn in (2, 3, 1):
            walkers[i].take(turn)
    walkers.go(done)
    for _ in range(CALLS):
        for i in range(OBJECTS):
            walkers[i].call()
    walkers.take(0)
    done.get()
    charm.waitQD()
    expect(walkers.report(ret=True).get(), [(CALLS, [0, 1, 2, 3])] * OBJECTS)
    done = Future()
    walkers.count_moves(done)
    expect(done.get() > 0, charm.numPes() > 1)


def check_balance():
    done = Future()
    Array(Worker, 12, args=[done], useAtSync=True).work()
    places = dict(row for rows in done.get() for row in rows)
    expect(len(places), 12)
    expect((len({places[i] for i in range(3)}), places[2]), (min(3, charm.numPes()), 0))


def check_wrong():
    try:
        Array(Fixed, 1)[0].go(ret=True).get()
    except RemoteError as wrong:
        expect("cannot move: make it by Array" in str(wrong), True)
    else:
        raise AssertionError("no exception")


def main(_args):
    for check in check_walk, check_balance, check_wrong:
        check()
        print(f"{check.__name__}: ok", flush=True)
    hoppers = Array(Hopper, 2)
    hoppers.hop()
    charm.sleep(0.1)
    print("moves: OK", flush=True)
    charm.exit()  # ends it all in the middle
    hoppers.hop()  # as a method does that does not know of it


charm.start(main)
