# SPDX-License-Identifier: Apache-2.0
"""Objects in one process without a launcher, as a notebook runs them: cells in one name space, below the event loop
of the kernel, again after a change, an exception and an interrupt. Prints "notebook: OK"."""
import asyncio
import os
import signal
import threading

CELL = """
from telpher.mdr import Array, Channel, Chare, Future, Reducer, charm, coro

class Block(Chare):
    def value(self, done):
        self.contribute(self.thisIndex[0] * FACTOR, Reducer.sum, done)

    @coro
    def pass_on(self, done):
        channel = Channel(self, self.thisProxy[1 - self.thisIndex[0]])
        channel.send(bytearray(10_000))
        room = bytearray(10_000)
        channel.recv(room)
        self.reduce(done)

async def main(args):
    blocks, done, passed = Array(Block, 10), Future(), Future()
    blocks.value(done)
    results.append(await done)
    Array(Block, 2).pass_on(passed)
    await passed
    charm.exit()

charm.start(main)
"""
FAILS = CELL.replace("self.thisIndex[0] * FACTOR", "1 // 0")
WAITS = """
async def main(args):
    await Future()

charm.start(main)
"""


def run(cell, names):
    exec(compile(cell, "<cell>", "exec"), names)  # as a kernel does


def must_raise(kind, cell, names):
    try:
        run(cell, names)
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


async def kernel():
    names = {"__name__": "__main__", "results": [], "FACTOR": 1}
    run(CELL, names)
    names["FACTOR"] = 2
    run(CELL, names)  # the class is defined again
    must_raise(ZeroDivisionError, FAILS, names)
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    must_raise(KeyboardInterrupt, WAITS, names)
    run(CELL, names)
    if names["results"] != [45, 90, 90]:
        raise AssertionError(names["results"])
    print("notebook: OK", flush=True)


loop = asyncio.new_event_loop()
loop.run_until_complete(kernel())
