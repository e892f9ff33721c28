# SPDX-License-Identifier: Apache-2.0
"""usage: channels.py [sim|cuda.stream|KIND|KIND.dlpack…], KIND: cupy, torch, cuda

Channels between objects that receive into memory of the caller, also into arrays of a GPU. Run alone or by telpher launch
-n 2; prints "channels: OK" in process 0."""
import ctypes
import os
import time

import numpy

import device_arrays
from checks import expect, must_raise
from telpher._telpher import lib
from telpher.mdr import Array, Channel, Chare, Future, charm, coro
from telpher.mdr import channel as channels

SIZES, MANY = (1, 8, 4095, 4096, 70_000, 1 << 20), 2000


def pattern(size, number):
    return (numpy.arange(size) * 7 + number).astype("u1")


class Tensor:
    """Memory that only DLPack names: a NumPy array's, or an array's of a GPU."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **_how):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Svm:
    """Shared virtual memory as PyOpenCL's SVMPointer names it."""

    def __init__(self, size):
        self._memory, self.size = ctypes.create_string_buffer(size), size

    @property
    def svm_ptr(self):
        return ctypes.addressof(self._memory)

    def content(self):
        return numpy.frombuffer(self._memory, "u1")


class Counting:
    """Counts new memory for messages, and copies out of it."""

    def __enter__(self):
        self.made = self.copied = 0
        self._make, self._copy = charm._landing.make, channels._copy
        charm._landing.make, channels._copy = self._count_make, self._count_copy
        return self

    def _count_make(self, *args):
        self.made += 1
        return self._make(*args)

    def _count_copy(self, *args):
        self.copied += 1
        return self._copy(*args)

    def __exit__(self, *_what):
        charm._landing.make, channels._copy = self._make, self._copy


class Runs:
    """Counts the runs of a method."""

    def __init__(self, cls, name):
        self._cls, self._name, self._method, self.count = cls, name, getattr(cls, name), 0

    def __enter__(self):
        setattr(self._cls, self._name, lambda *args: self._run(*args))
        return self

    def _run(self, *args):
        self.count += 1
        return self._method(*args)

    def __exit__(self, *_what):
        setattr(self._cls, self._name, self._method)


class End(Chare):
    """Element 0 sends, element 1 receives and answers; each test opens channels of its own."""

    def __init__(self):
        self.peer = self.thisProxy[1 - self.thisIndex[0]]

    def _open(self):
        return Channel(self, self.peer), Channel(self, self.peer)

    @coro
    def into_arrays(self, done):
        data, back = self._open()
        for number, size in enumerate(SIZES):
            if self.thisIndex[0] == 0:
                expect(back.recv(), "ready")
                data.send(pattern(size, number))
                expect(back.recv(), "taken")
            else:
                mine = numpy.zeros(size, "u1")
                with Counting() as counting:
                    data.post(mine)  # the message is sent after this
                    back.send("ready")
                    expect(data.recv(), None)
                expect((mine == pattern(size, number)).all(), True)
                if size >= 4096:
                    expect((counting.made, counting.copied), (0, 0))
                back.send("taken")
        self.reduce(done)

    @coro
    def like_the_last(self, done):
        """New arrays: of one type and shape for a while, then of others, and what is no array."""
        data, back = self._open()
        values = [numpy.full(3, i) for i in range(5)] + [numpy.full(70_000, i, "f4") for i in range(4)]
        values += [numpy.full((3, 1), 7), numpy.full(3, 8.0), numpy.full(3, 9), "text", numpy.full(3, 10), (1, 2)]
        values += [numpy.full((), i) for i in range(4)] + [numpy.full(3, i) for i in range(4)]
        got = []
        for value in values:
            if self.thisIndex[0] == 0:
                expect(back.recv(), "ready")
                data.send(*value if type(value) is tuple else (value,))
            else:
                back.send("ready")  # so that the receive waits
                got.append(data.recv())
        for value, one in zip(values, got):
            expect(type(one), type(value))
            if type(value) is numpy.ndarray:
                expect((one.dtype, one.shape, one.flags.writeable), (value.dtype, value.shape, True))
                expect((one == value).all(), True)
            else:
                expect(one, value)
        self.reduce(done)

    @coro
    def without_python(self, done):
        """C code receives arrays that are like the last ones: Python runs for the first two of them only."""
        data, back = self._open()
        for size in 8, 5000:
            if self.thisIndex[0] == 0:
                for i in range(10):
                    expect(back.recv(), "ready")
                    data.send(numpy.full(size, i, "u1"))
                continue
            with Runs(channels.End, "put") as arrivals:
                for i in range(10):
                    back.send("ready")
                    expect((data.recv() == i).all(), True)
            if charm.numPes() == 2:  # otherwise the other element's are counted, too
                expect(arrivals.count, 2)
        self.reduce(done)

    @coro
    def sent_at_once(self, done):
        """The data of a large message leaves in send() if the other end waits for it: once at least if both have a
        processor."""
        data, back = self._open()
        out, mine, tries = pattern(1 << 17, 1), numpy.zeros(1 << 17, "u1"), 20_000
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[charm.myPe() % len(processors)]})
        found = charm.numPes() == 1 or len(processors) == 1
        while self.thisIndex[0] == 0 and tries:
            data.send(True)
            expect(back.recv(), "ready")
            sum(range(500))  # the other end reaches its wait
            charm._forget_sent(lib.mdr_done)
            data.send(out)
            found = found or not charm._sending
            tries = 0 if found else tries - 1
        if self.thisIndex[0] == 0:
            data.send(False)
            expect(found, True)
        while self.thisIndex[0] == 1 and data.recv():
            data.post(mine)
            back.send("ready")
            data.recv()
            expect((mine == out).all(), True)
        os.sched_setaffinity(0, processors)
        self.reduce(done)

    @coro
    def two_senders(self, done):
        """Two methods send through one channel, and are held back if TELPHER_MDR_MEMORY is small: all messages arrive."""
        self._opened = data, _ = self._open()
        if self.thisIndex[0] == 0:
            charm.wait([self.thisProxy[0].send_many(pair, awaitable=True) for pair in (False, True)])
        else:
            time.sleep(0.5)
            got = [type(data.recv()) for _ in range(2 * MANY)]
            expect(got.count(tuple), MANY)
        self.reduce(done)

    @coro
    def send_many(self, pair):
        for i in range(MANY):
            self._opened[0].send(*([i, "x" * 3000] if pair else [numpy.zeros(3000, "u1")]))

    @coro
    def exchange(self, done):
        """Both ends send, then receive into an array: also what arrives while send() lets data leave."""
        data, _ = self._open()
        mine = numpy.zeros(100_000, "u1")
        for i in range(100):
            data.send(pattern(100_000, i + self.thisIndex[0]))
            data.recv(mine)
            expect((mine == pattern(100_000, i + 1 - self.thisIndex[0])).all(), True)
        self.reduce(done)

    @coro
    def reshaped(self, done):
        """One array after the other with the same type or the same memory: each message has its own shape."""
        data, _ = self._open()
        array = numpy.arange(3000.0)
        views = [array, array.reshape(30, 100), array.reshape(30, 100).T, array[::3], array.view("i8"), array[:0],
                 array.reshape(30, 100), numpy.asfortranarray(array.reshape(30, 100)), array.astype(">f8"), array]
        array.setflags(write=False)
        if self.thisIndex[0] == 0:
            for view in views:
                data.send(view)
        else:
            for view in views:
                got = data.recv()
                expect((got.dtype, got.shape, (got == view).all()), (view.dtype, view.shape, True))
        self.reduce(done)

    @coro
    def freed(self, done):
        """An array may be dropped as soon as it is sent; it is kept until then, and no longer."""
        data, back = self._open()
        if self.thisIndex[0] == 0:
            for i in range(20):
                data.send(pattern(1 << 20, i))
            expect(back.recv(), "taken")
            charm.waitQD()
            charm._forget_sent(lib.mdr_done)
            expect(len(charm._sending), 0)
        else:
            for i in range(20):
                expect((data.recv() == pattern(1 << 20, i)).all(), True)
            back.send("taken")
        self.reduce(done)

    async def like_the_last_async(self, done):
        data, back = self._open()
        for i in range(6):
            if self.thisIndex[0] == 0:
                expect(await back.arrival(), "ready")
                data.send(numpy.full(4, i))
            else:
                back.send("ready")
                mine = numpy.zeros(4, int)
                one = await data.arrival(*[mine] if i == 4 else [])
                expect(list(mine if i == 4 else one), [i] * 4)
        self.reduce(done)

    @coro
    def into_kinds(self, done):
        """Buffers of each kind on either side."""
        data, back = self._open()
        size = 50_000
        for number, make in enumerate((bytearray, memory_of, Svm, numpy_of, lambda n: Tensor(numpy_of(n)),
                                       lambda n: memoryview(bytearray(n)))):
            buffer = make(size)
            if self.thisIndex[0] == 0:
                store(buffer, pattern(size, number))
                data.send(buffer)
                expect(back.recv(), number)
            else:
                data.recv(buffer)
                expect((load(buffer) == pattern(size, number)).all(), True)
                back.send(number)
        self.reduce(done)

    @coro
    def on_gpu(self, name, done):
        """Arrays of a GPU, straight between two of them, and from and to host memory."""
        data, back = self._open()
        gpu = GPU_ARRAYS[name]
        for number, size in enumerate(SIZES):
            for out, into in (gpu, gpu), (gpu, numpy_of), (numpy_of, gpu):
                if self.thisIndex[0] == 0:
                    buffer = out(size)
                    store(buffer, pattern(size, number))
                    expect(back.recv(), "ready")
                    data.send(buffer, number)
                    expect(back.recv(), "taken")
                else:
                    mine = into(size)
                    with Counting() as counting:
                        data.post(mine)
                        back.send("ready")
                        expect(data.recv(), number)
                    expect(((load(mine) == pattern(size, number)).all(), counting.made, counting.copied), (True, 0, 0))
                    back.send("taken")
        self.reduce(done)

    @coro
    def mixed(self, done):
        """Several arrays, other values, plain receives and more messages than receives."""
        data, back = self._open()
        first, second = numpy.arange(2000.0), numpy.arange(10, dtype="i4").reshape(2, 5)
        if self.thisIndex[0] == 0:
            for i in range(30):
                data.send(first + i, f"text {i}", second * i)
            data.send(first)
            data.send(first[::2])
            data.send(b"bytes")
            expect(back.recv(), "done")
        else:
            a, b = numpy.zeros(2000), numpy.zeros((2, 5), "i4")
            for i in range(30):
                if i % 3 == 0:
                    x, text, y = data.recv()
                    expect((x.dtype, y.shape, text), (first.dtype, second.shape, f"text {i}"))
                    a[...], b[...] = x, y
                else:
                    if i % 3 == 1:
                        data.post(a, b)
                        text = data.recv()
                    else:
                        text = data.recv(a, b)
                    expect(text, f"text {i}")
                expect(((a == first + i).all(), (b == second * i).all()), (True, True))
            room = bytearray(first.nbytes + 100)
            expect(data.recv(room, first.nbytes), None)
            expect(bytes(room[:first.nbytes]), first.tobytes())
            half = data.recv()
            expect(((half == first[::2]).all(), half.shape), (True, (1000,)))
            five = bytearray(5)
            data.recv(five)
            expect(five, b"bytes")
            back.send("done")
        self.reduce(done)

    @coro
    def wrong(self, done):
        data, back = self._open()
        if self.thisIndex[0] == 0:
            for size in (100, 5000):
                data.send(pattern(size, 1))
            data.send(pattern(5000, 1))
            data.send("no array")
            data.send(7)
            expect(back.recv(), "done")
        else:
            for room, text in ((99, "100 bytes arrived for a buffer of 99"), (4999, "5000 bytes arrived"),
                               ((5000, 10), "names 2 buffers"), (1, "names 1 buffers")):
                sizes = room if isinstance(room, tuple) else (room,)
                must_raise(ValueError, text, lambda: data.recv(*(bytearray(n) for n in sizes)))
            must_raise(TypeError, "writable", lambda: data.recv(b"read-only"))
            must_raise(ValueError, "name a buffer", lambda: data.recv(bytearray(4), 5))
            must_raise(ValueError, "as many sizes", lambda: data.recv(post_buf_addresses=[1, 2], post_buf_sizes=[1]))
            expect(data.recv(), 7)
            data.post(bytearray(1))
            must_raise(ValueError, "named buffers already", lambda: data.recv(bytearray(1)))
            back.send("done")
        self.reduce(done)

    @coro
    def several(self, done):
        """Methods of one object that receive from one channel get a message each, in the order of their calls."""
        self._opened = data, back = self._open()
        for _ in range(3):
            if self.thisIndex[0] == 0:
                expect(back.recv(), "ready")
                for i in range(8):
                    data.send(numpy.full(5000, i, "u1"))
                continue
            methods = "new", "watched", "into", "new_async", "into", "new", "into_async", "late"
            calls = [getattr(self.thisProxy[1], name)(ret=True) for name in methods]
            expect(calls.pop(1).get(), 7)
            expect([one.get() for one in calls], list(range(7)))
        self.reduce(done)

    @coro
    def new(self):
        return int(self._opened[0].recv()[0])

    @coro
    def into(self):
        mine = numpy.zeros(5000, "u1")
        expect(self._opened[0].recv(mine), None)
        return int(mine[-1])

    async def new_async(self):
        return int((await self._opened[0].arrival())[0])

    async def into_async(self):
        mine = numpy.zeros(5000, "u1")
        expect(await self._opened[0].arrival(mine), None)
        return int(mine[-1])

    @coro
    def watched(self):
        """The channel is ready when the messages of the methods that wait have arrived, and one more."""
        return [int(one.recv()[0]) for one in charm.iwait([self._opened[0]])][0]

    @coro
    def late(self):
        """Receives when a message is there that another method waits for, which has not gone on yet."""
        data, back = self._opened
        back.send("ready")
        while not charm._queue:
            charm._turn_status = lib.telpher_mdr_turn(charm._raw)
        return int(data.recv()[0])

    async def arrivals(self, done):
        data, _ = self._open()
        mine = numpy.zeros(9000, "u1")
        data.send(pattern(9000, self.thisIndex[0]), "more")
        expect(await data.arrival(mine), "more")
        expect((mine == pattern(9000, 1 - self.thisIndex[0])).all(), True)
        self.reduce(done)

    @coro
    def any_of(self, done):
        """iwait() gives channels and futures as they become ready."""
        opened = [Channel(self, self.peer) for _ in range(4)]
        if self.thisIndex[0] == 0:
            for i in (2, 0, 3, 1):
                opened[i].send(i)
        else:
            future = Future()
            future(5)
            got = [one.get() if one is future else one.recv() for one in charm.iwait(opened + [future])]
            expect(sorted(got), [0, 1, 2, 3, 5])
        self.reduce(done)


def memory_of(size):
    return charm.context.alloc(size, "sim")


def numpy_of(size):
    return numpy.zeros(size, "u1")


def cupy_of(size):
    import cupy
    return cupy.zeros(size, "u1")


def torch_of(size):
    import torch
    return torch.zeros(size, dtype=torch.uint8, device="cuda")


GPU_ARRAYS = {"sim": memory_of, "cupy": cupy_of, "torch": torch_of, "cuda": lambda size: charm.context.alloc(size, "cuda")}
GPU_ARRAYS["cuda.stream"] = device_arrays.StreamArray
for _name in "cupy", "torch", "cuda":
    GPU_ARRAYS[_name + ".dlpack"] = lambda size, make=GPU_ARRAYS[_name]: Tensor(make(size))


def store(buffer, data):
    if isinstance(buffer, Tensor):
        store(buffer._array, data)
    elif hasattr(buffer, "copy_from"):
        buffer.copy_from(data)
    elif hasattr(buffer, "set"):  # of CuPy
        buffer.set(data)
    elif hasattr(buffer, "cpu"):  # of PyTorch
        import torch
        buffer.copy_(torch.from_numpy(data))
        torch.cuda.synchronize()
    else:
        load(buffer)[:] = data


def load(buffer):
    if isinstance(buffer, Tensor):
        return load(buffer._array)
    if hasattr(buffer, "copy_to"):
        return buffer.copy_to(numpy.zeros(buffer.nbytes, "u1"))
    if isinstance(buffer, Svm):
        return buffer.content()
    if hasattr(buffer, "get"):
        return buffer.get()
    if hasattr(buffer, "cpu"):
        return buffer.cpu().numpy()
    return numpy.frombuffer(buffer, "u1")


def main(args):
    for test in "into_arrays", "like_the_last", "like_the_last_async", "without_python", \
            "sent_at_once", "two_senders", "exchange", "reshaped", "freed", "into_kinds", "mixed", "wrong", "several", "arrivals", "any_of":
        done = Future()
        getattr(Array(End, 2), test)(done)
        done.get()
        print(f"{test}: ok", flush=True)
    for name in args[1:]:
        done = Future()
        Array(End, 2).on_gpu(name, done)
        done.get()
        print(f"{name}: ok", flush=True)
    print("channels: OK", flush=True)
    charm.exit()


charm.start(main)
