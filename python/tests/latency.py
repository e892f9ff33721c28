# SPDX-License-Identifier: Apache-2.0
"""usage: telpher launch -n 2 -- python3 latency.py ranks|objects|into [BYTES…]

Half a round trip of Python's channels, of ranks or of objects; into: that receive into an array of the caller. The
first quartile of the blocks, as telpher-bench mdr, since other programs only add time. Pages are written first: those
that never were are one page of zeros, which stays in the cache. Objects in one process, without
the launcher: the processor time of a message.
"""
import sys
import time

import numpy

import telpher
from telpher.mdr import Array, Channel, Chare, Future, charm, coro

BLOCKS = 100
SIZES = tuple(int(a) for a in sys.argv[2:]) or (8, 4096, 65536, 1 << 20)


def rounds_of(size):
    return 500 if size <= 4096 else 100 if size <= 65536 else 30  # a block of a few ms, which others may spare


def quartile(times):
    return sorted(times)[BLOCKS // 4]


def ranks():
    with telpher.Context() as job:
        channel = job.channel(1 - job.rank)
        for size in SIZES:
            out, back, best = bytearray(b"1" * size), bytearray(size), []
            for _block in range(BLOCKS):
                job.barrier()
                start = time.perf_counter()
                for _ in range(rounds_of(size)):
                    if job.rank == 0:
                        channel.send(out).wait()
                        channel.recv(back).wait()
                    else:
                        channel.recv(back).wait()
                        channel.send(out).wait()
                best.append((time.perf_counter() - start) / rounds_of(size) / 2 * 1e6)
            if job.rank == 0:
                print(f"ranks    {size:8d} B {quartile(best):9.2f} us", flush=True)
        job.barrier()


class End(Chare):
    @coro
    def run(self, size, done):
        channel, best = Channel(self, self.thisProxy[1 - self.thisIndex[0]]), []
        data, mine = numpy.ones(size, "u1"), numpy.ones(size, "u1")
        into = [mine] if sys.argv[1] == "into" else []
        clock = time.process_time if charm.numPes() == 1 else time.perf_counter
        for _block in range(BLOCKS):
            start = clock()
            for _ in range(rounds_of(size)):
                if self.thisIndex[0] == 0:
                    channel.send(data)
                    channel.recv(*into)
                else:
                    channel.recv(*into)
                    channel.send(data)
            best.append((clock() - start) / rounds_of(size) / 2 * 1e6)
        if self.thisIndex[0] == 0:
            done(quartile(best))


def objects(_args):
    for size in SIZES:
        done = Future()
        Array(End, 2).run(size, done)
        print(f"{sys.argv[1]:8s} {size:8d} B {done.get():9.2f} us{' CPU' if charm.numPes() == 1 else ''}", flush=True)
    charm.exit()


if __name__ == "__main__":
    if sys.argv[1:2] == ["ranks"]:
        ranks()
    elif sys.argv[1:2] in (["objects"], ["into"]):
        charm.start(objects)
    else:
        sys.exit(__doc__)
