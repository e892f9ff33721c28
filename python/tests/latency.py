# SPDX-License-Identifier: Apache-2.0
"""usage: telpher launch -n 2 -- python3 latency.py ranks|objects [BYTES…]

Half a round trip of Python's channels, of ranks or of objects.
"""
import sys
import time

import numpy

import telpher
from telpher.mdr import Array, Channel, Chare, Future, charm, coro

SIZES = tuple(int(a) for a in sys.argv[2:]) or (8, 4096, 65536, 1 << 20)


def rounds_of(size):
    return 2000 if size <= 65536 else 300


def ranks():
    with telpher.Context() as job:
        channel = job.channel(1 - job.rank)
        for size in SIZES:
            out, back, best = bytearray(size), bytearray(size), []
            for _block in range(5):
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
                print(f"ranks    {size:8d} B {sorted(best)[2]:9.2f} us", flush=True)
        job.barrier()


class End(Chare):
    @coro
    def run(self, size, done):
        channel, best = Channel(self, self.thisProxy[1 - self.thisIndex[0]]), []
        data = numpy.zeros(size, "u1") if size > 8 else b"12345678"
        for _block in range(5):
            start = time.perf_counter()
            for _ in range(rounds_of(size)):
                if self.thisIndex[0] == 0:
                    channel.send(data)
                    channel.recv()
                else:
                    channel.recv()
                    channel.send(data)
            best.append((time.perf_counter() - start) / rounds_of(size) / 2 * 1e6)
        if self.thisIndex[0] == 0:
            done(sorted(best)[2])


def objects(_args):
    for size in SIZES:
        done = Future()
        Array(End, 2).run(size, done)
        print(f"objects  {size:8d} B {done.get():9.2f} us", flush=True)
    charm.exit()


if __name__ == "__main__":
    if sys.argv[1:2] == ["ranks"]:
        ranks()
    elif sys.argv[1:2] == ["objects"]:
        charm.start(objects)
    else:
        sys.exit(__doc__)
