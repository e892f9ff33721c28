# SPDX-License-Identifier: Apache-2.0
"""Names of Charm4py beside objects, arrays and channels: conditions, sections, tasks, timers, global names. Run alone or by
telpher launch -n P; prints "names: OK" in process 0, and all processes exit with 7."""
import array
import time

import numpy

from checks import expect, must_raise
from telpher.mdr import Array, ArrayMap, Channel, Chare, Future, Group, Reducer, RemoteError, charm, coro, when

GLOBAL = 0


def all_of(contributions):
    """Joins numbers and lists of them."""
    return [number for one in contributions for number in (one if isinstance(one, list) else [one])]


Reducer.addReducer(all_of)


class Steps(Chare):
    """Takes steps in their order, whatever the order of their messages is."""

    def __init__(self):
        self.step, self.taken, self.open = 0, [], False

    @when("self.step == step")
    def take(self, step, text="none"):
        self.taken.append((step, text))
        self.step += 1

    @coro
    @when("self.open and GLOBAL == 33")
    def last(self):
        self.wait("self.step == 5")
        return self.taken

    def let_go(self):
        self.open = True


class Element(Chare):
    def __init__(self, start=0):
        self.value = start

    def add(self, by, *, times=1):
        self.value += by * times
        return self.value

    def total(self, done, section=None):
        self.contribute(self.value, Reducer.sum, done, section)

    @coro
    def everyone(self, section, done):
        self.reduce(done, self.allreduce(1, Reducer.sum, section).get(), Reducer.max, section)

    def where(self):
        return self.thisIndex, charm.myPe()

    def size_of(self, data):
        return len(data)

    def fail(self):
        raise KeyError("on purpose")


def parity(element):
    return sum(element.thisIndex) % 2 if isinstance(element.thisIndex, tuple) else element.thisIndex % 2


def check_conditions():
    steps = Array(Steps, 3)
    charm.thisProxy.updateGlobals({"GLOBAL": 33}, awaitable=True).get()
    taken = steps[1].last(ret=True)
    for step in (3, 0, 4, 2, 1):
        steps[1].take(step, text=str(step))
    expect(taken.ready(), False)
    steps[1].let_go()
    expect(taken.get(), [(i, str(i)) for i in range(5)])
    must_raise(RemoteError, "unexpected keyword", lambda: steps[0].take(0, wrong=1, ret=True).get())


def check_results():
    elements = Array(Element, (2, 3), args=[1])
    charm.awaitCreation(elements)
    expect(elements.add(2, times=3, ret=True).get(), [7] * 6)
    expect(elements.add(0, awaitable=True).get(), None)
    expect([index for index, _ in elements.where(ret=True).get()], [(i, j) for i in range(2) for j in range(3)])
    expect(Array(Element, 1).add(4, ret=True).get(), [4])
    expect(Group(Element).where(ret=True).get(), [(pe, pe) for pe in range(charm.numPes())])
    must_raise(RemoteError, "on purpose", lambda: elements.fail(awaitable=True).get())
    one = Chare(Element, args=[5])
    done = Future()
    one.total(done)
    expect((done.get(), one.add(1, ret=True).get()), (5, 6))


def check_sections():
    elements = Array(Element, (4, 4), args=[1])
    for section, size in (elements[1:3, 1:3], 4), (elements[2, :], 4), (elements[::2, ::2], 4):
        done = Future()
        section.total(done, section)
        expect((len(section), done.get()), (size, size))
        expect(section.size_of("x" * 100_000, ret=True).get(), [100_000] * size)
        section.everyone(section, done := Future())
        expect(done.get(), size)
    corner = elements[0:2, 0:2]
    corner.add(1, awaitable=True).get()
    expect(corner[1, 1].add(0, ret=True).get(), 2)
    expect((corner == corner, corner == elements, elements == elements, elements[0, 0] == corner), (True, False, True, False))
    even, odd = charm.split(elements, 2, parity)
    expect((len(even), len(odd), even[0, 0].where(ret=True).get()[0]), (8, 8, (0, 0)))
    expect([index for index, _ in odd.where(ret=True).get()][:2], [(0, 1), (0, 3)])
    (first,) = charm.split(Group(Element), 1, elems=[[0]])
    expect(first.where(ret=True).get(), [(0, 0)])
    expect(len(charm.split(even, 1, elems=[[(0, 0), (2, 2)]])[0]), 2)
    must_raise(IndexError, "not in the section", lambda: corner[3, 3])
    must_raise(IndexError, "no element is in", lambda: elements[4:, 0])
    must_raise(ValueError, "section 1 has no members", lambda: charm.split(elements, 2, elems=[[(0, 0)], []]))


def square(x):
    return x * x


@coro
def fib(n):
    return n if n < 2 else sum(charm.pool.map(fib, [n - 1, n - 2]))


async def later(x):
    future = Future()
    charm.scheduleCallableAfter(future, 0.001, [x])
    return await future


def fail(_x):
    raise KeyError("on purpose")


class Sparse(Chare):
    def __init__(self, value, done):
        self.value = value
        self.contribute(value, Reducer.sum, done)

    def get(self):
        return self.thisIndex, self.value

    def size_of(self, data):
        return len(data)

    @coro
    def talk(self, other):
        channel = Channel(self, other)
        channel.send(self.thisIndex)
        return channel.recv()


class Votes(Chare):
    def vote(self, either, total, everyone):
        number = self.thisIndex[0]
        self.contribute([number > 0, number > 9], Reducer.logical_or, either)
        self.contribute(array.array("i", [number, 1]), Reducer.sum, total)
        self.contribute(number, Reducer.all_of, everyone)


def check_sparse():
    sparse, done = Array(Sparse), Future()
    indexes = [5, -7, ("left", 3), "text", (1, 2, 3, 4), 1 << 40]
    late = sparse["text"].get(ret=True)  # waits for the insertion
    for i, index in enumerate(indexes):
        sparse.ckInsert(index, [10 ** i, done], onPE=i % charm.numPes() if i < 3 else -1)
    must_raise(TypeError, "call ckDoneInserting", lambda: sparse.get(ret=True))
    sparse.ckDoneInserting()
    expect((done.get(), late.get(), len(sparse)), (111111, (("text",), 1000), 6))
    got = dict(sparse.get(ret=True).get())
    expect(got, {index if isinstance(index, tuple) else (index,): 10 ** i for i, index in enumerate(indexes)})
    expect(sparse.size_of("x" * 100_000, ret=True).get(), [100_000] * 6)
    text = sparse["text"].talk(sparse["left", 3], ret=True)
    expect(sparse["left", 3].talk(sparse["text"], ret=True).get(), ("text",))
    expect(text.get(), ("left", 3))
    must_raise(TypeError, "arrays without dims", lambda: Array(Element, 2).ckInsert(5))
    must_raise(ValueError, "there are", lambda: sparse.ckInsert(99, onPE=99))


def check_reducers():
    either, total, everyone = Future(), Future(), Future()
    Array(Votes, 4).vote(either, total, everyone)
    expect((either.get(), list(total.get()), sorted(everyone.get())), ([True, False], [6, 4], [0, 1, 2, 3]))


def check_pool():
    expect(charm.pool.map(square, range(100), chunksize=7), [i * i for i in range(100)])
    expect(charm.pool.map(square, range(10), ncores=1), [i * i for i in range(10)])
    expect(charm.pool.map(later, range(4)), [0, 1, 2, 3])
    expect(charm.pool.map(square, []), [])
    expect(fib(9), 34)
    expect(charm.pool.Task(square, [5], ret=True).get(), 25)
    must_raise(RemoteError, "on purpose", lambda: charm.pool.map(fail, [1, 2]))
    many = [charm.pool.map_async(square, range(20)) for _ in range(10)]
    charm.wait(many)
    expect([one.get()[19] for one in many], [361] * 10)


def check_timers():
    start, done = time.monotonic(), Future(3)
    for seconds in (0.06, 0.02, 0.04):
        charm.scheduleCallableAfter(done, seconds, [seconds])
    charm.sleep(0.03)
    expect((0.03 <= time.monotonic() - start, done.get(), 0.06 <= time.monotonic() - start), (True, [0.02, 0.04, 0.06], True))


def check_cuda():
    """Where no driver of CUDA is, charm.lib says so."""
    try:
        charm.lib.CudaStreamSynchronize
    except RuntimeError as wrong:
        expect("charm.lib needs the CUDA driver" in str(wrong), True)


class Leaf(Chare):
    """Ends while it waits, with messages of a channel that it has not received, and is inserted again."""

    def __init__(self):
        self.open = False
        self.channel = Channel(self, self.thisProxy[self.thisIndex])

    def index(self):
        return self.thisIndex[0]

    def send(self):
        self.channel.post(numpy.zeros(10_000))
        for i in range(3):
            self.channel.send(numpy.full(10_000, i))

    @coro
    def hold(self, done):
        self.wait("self.open")
        expect((self.channel.recv(), charm.myPe() == self.pe), (None, True))
        done(self.thisIndex[0])

    def release(self):
        self.open, self.pe = True, charm.myPe()


def check_ends():
    leaves, done = Array(Leaf), Future()
    for i in range(6):
        leaves.ckInsert(i)
    leaves.send()
    charm.waitQD()  # a message under way to an element that has ended would wait for another
    leaves[2].ckDestroy()
    leaves[3].hold(done)
    leaves[3].ckDestroy()
    leaves.ckDoneInserting()
    expect(leaves.index(ret=True).get(), [0, 1, 3, 4, 5])
    leaves[3].release()
    expect(done.get(), 3)
    charm.waitQD()
    leaves[2].send()  # waits for the element
    leaves.ckInsert(2)
    expect(leaves[2].index(ret=True).get(), 2)
    leaves.ckDoneInserting()
    expect(leaves.index(ret=True).get(), [0, 1, 2, 4, 5])
    leaves.ckDestroy()
    leaves.ckDoneInserting()
    expect(len(leaves), 0)
    must_raise(RemoteError, "only elements of arrays without dims do", Array(Leaf, 2)[0].ckDestroy(awaitable=True).get)


class Backwards(ArrayMap):
    """The map of an array: the last process has the first element."""

    def __init__(self, by):
        self.by = by

    def procNum(self, index):
        return charm.numPes() - 1 - (sum(index) * self.by) % charm.numPes()


class Mapped(Chare):
    def __init__(self, by):
        expect(charm.myPe(), charm.numPes() - 1 - (sum(self.thisIndex) * by) % charm.numPes())
        self.calls = []

    def migrated(self):
        self.calls.append("migrated")

    def call(self, number):
        self.calls.append(number)

    def all_calls(self):
        return self.calls

    def grow(self, index):
        self.thisProxy.ckInsert(index, [1])

    def add(self, done):
        self.reduce(done, self.thisIndex[0], Reducer.sum)

    def leave(self):
        self.migrate((charm.myPe() + 1) % charm.numPes())


class Wrong(ArrayMap):
    def procNum(self, index):
        return charm.numPes()


def check_maps():
    """The constructors of an array's elements run where its map says; calls that come before wait."""
    by_map = Group(Backwards, args=[1])
    for dims in 5, (3, 4), (2, 2, 2):
        array = Array(Mapped, dims, args=[1], map=by_map)
        for i in range(3):
            array.call(i)
        expect(set(map(tuple, array.all_calls(ret=True).get())), {(0, 1, 2)})
    array, done = Array(Mapped, 5, args=[1], map=by_map), Future()
    array.add(done)
    charm.awaitCreation(array)
    expect(done.get(), 10)
    array[2].leave(awaitable=True).get()
    expect(array[2].all_calls(ret=True).get(), ["migrated"] if charm.numPes() > 1 else [])
    tree = Array(Mapped, map=Group(Backwards, args=[1]))  # elements may be inserted at once
    for i in range(4):
        tree.ckInsert((i, 7), args=[1])
    tree[3, 7].grow((9, 9))
    tree[9, 9].call(5)
    expect(tree[9, 9].all_calls(ret=True).get(), [5])
    must_raise(TypeError, "a class derived from ArrayMap", lambda: Array(Mapped, 3, map=Group(Element)))
    wrong = Group(Wrong)
    charm.awaitCreation(wrong)
    must_raise(ValueError, "gave", lambda: Array(Mapped, map=wrong).ckInsert(1))


def check_missing():
    """What is not there is refused by its name, with what to do instead."""
    must_raise(ValueError, "for more dimensions insert elements", lambda: Array(Steps, (2, 2, 2, 2)))
    grid = Array(Steps)
    grid.ckInsert((1, 0, 2, 0, 3))
    grid[1, 0, 2, 0, 3].take(0)
    charm.waitQD()


class Main(Chare):
    """Its constructor is the main function, and may wait."""

    def __init__(self, args):
        for check in check_conditions, check_results, check_sections, check_sparse, check_reducers, check_pool, check_timers, check_cuda, check_ends, check_maps, check_missing:
            check()
            print(f"{check.__name__}: ok", flush=True)
        self.ended = Future()
        Group(Element).total(self.thisProxy.end)
        self.ended.get()
        print("names: OK", flush=True)
        Group(Element)[charm.numPes() - 1].total(charm.thisProxy[0].exit)
        exit(7)

    def end(self, total):
        self.ended(total)


charm.start(Main)
