# SPDX-License-Identifier: Apache-2.0
"""Message-driven objects, with the names of Charm4py.

    from telpher.mdr import charm, Chare, Array, Future, coro

    class Hello(Chare):
        def greet(self, done):
            self.contribute(self.thisIndex[0], Reducer.sum, done)

    def main(args):
        done = Future()
        Array(Hello, 8).greet(done)
        print(done.get())
        charm.exit()

    charm.start(main)

Run it alone, with `telpher launch -n 4 -- python3 program.py`, or with `mpirun`.

Methods run one at a time in a process. A method that waits is an `async def` and awaits futures, or has the
decorator @coro and calls get() and recv(); the latter needs the package greenlet. Top-level arguments that are
in device memory, and NumPy arrays at any depth, are sent from where they are, without pickling.

Source: Charm4py; channels as in "Accelerating Communication for Parallel Programming Models on GPU Systems".
"""
from .channel import Channel
from .chare import Array, ArrayMap, Chare, Group
from .conditions import when
from .reduce import Reducer
from .runtime import charm
from .waiting import Future, RemoteError, coro

threaded = coro  # its earlier name


def register(cls: type) -> type:
    """Does nothing: classes of objects are registered when they are defined."""
    return cls


__all__ = ["charm", "Chare", "Array", "ArrayMap", "Group", "Future", "Channel", "Reducer", "coro", "threaded", "register",
           "when", "RemoteError"]
