#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Patterns between processes by Python's calls, of mpi4py and of Telpher; `telpher-bench python` becomes this script.

A *runtime* sends, receives and has collectives; a *memory* makes buffers and copies them to and from host memory. The twin
of a runtime with _host behind its name is given host memory and copies around each call, as programs do whose runtime
knows no devices.
"""
import functools
import json
import operator
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True  # beside installed programs
import telpher_bench_arguments as arguments  # noqa: E402

USAGE = """Usage: mpirun -n N telpher-bench python PATTERN -r mpi4py [OPTION]...
       telpher launch -n 2 -- telpher-bench python PATTERN [OPTION]...
PATTERN: latency, bw, bibw; with mpi4py also allgather, allreduce, alltoall, bcast, gather, reduce, scatter.

  -r, --runtime NAME    telpher (channels of ranks), objects (channels of objects), mpi4py; with _host
                        behind it, copies to and from host memory around each call (telpher)
  -d, --device KIND     where the buffers are. telpher, objects: host, opencl, cuda, sim; mpi4py: host, cuda (of
                        cupy), sycl (unified shared memory of dpctl) (host)
  -m, --message-size [MIN:]MAX  bytes, or 64K, 1M (1:1M)
  -i, --iterations N    (1000, 100 above 8 KiB)
  -W, --window-size N   (64)
  -c, --validation      check all content that every iteration received
  -f, --format text|json
  -h, --help            this text
"""
NUMBERS = bytes(i * 7 % 251 for i in range(251))  # what content is made of
PAIRS = {"latency": "Latency (us)", "bw": "Bandwidth (MB/s)", "bibw": "Bandwidth (MB/s)"}


class Refused(Exception):
    """One line that says why it cannot be measured."""


# ---- memories ----

class HostMemory:
    def __init__(self, _runtime):
        pass

    def make(self, size):
        return bytearray(size)

    def write(self, buffer, source):
        buffer[:] = source

    def read(self, buffer):
        return buffer


class TelpherMemory(HostMemory):
    """Memory that Telpher allocates on a device."""

    def __init__(self, runtime, kind):
        super().__init__(runtime)
        self.job, self.kind = runtime.job, kind

    def make(self, size):
        return self.job.alloc(size, self.kind)

    def write(self, buffer, source):
        buffer.copy_from(source)

    def read(self, buffer):
        copy = bytearray(len(buffer))
        buffer.copy_to(copy)
        return copy


class SyclMemory(HostMemory):
    """Unified shared memory that dpctl allocates on SYCL's default device."""

    def __init__(self, runtime):
        super().__init__(runtime)
        self.usm, self.queue = load("dpctl.memory"), load("dpctl").SyclQueue()

    def make(self, size):
        return self.usm.MemoryUSMDevice(size, queue=self.queue)

    def write(self, buffer, source):
        buffer.copy_from_host(source)

    def read(self, buffer):
        return bytearray(buffer.copy_to_host())


class CudaMemory(HostMemory):
    """Arrays of cupy, which mpi4py knows."""

    def __init__(self, runtime):
        super().__init__(runtime)
        self.cupy, self.numpy = load("cupy"), load("numpy")

    def make(self, size):
        return self.cupy.zeros(size, "u1")

    def write(self, buffer, source):
        buffer.set(self.numpy.frombuffer(source, "u1"))

    def read(self, buffer):
        return bytearray(self.cupy.asnumpy(buffer))


# ---- runtimes ----

def load(name):
    try:
        module = __import__(name)
        for part in name.split(".")[1:]:
            module = getattr(module, part)
        return module
    except ImportError as error:
        raise Refused(f"no Python package {name.split('.')[0]} here ({error})") from error


class Mpi:
    memories = {"host": HostMemory, "sycl": SyclMemory, "cuda": CudaMemory}

    def __init__(self):
        self.mpi = load("mpi4py.MPI")
        self.comm = self.mpi.COMM_WORLD
        self.rank, self.size, self.barrier = self.comm.rank, self.comm.size, self.comm.Barrier
        self.name = self.mpi.Get_library_version().split("\n")[0].split(",")[0]

    def wrap(self, buffer):
        """What the calls take: a device's address where the buffer says no more of itself."""
        if hasattr(buffer, "_pointer") and hasattr(buffer, "sycl_context"):
            buffer = self.mpi.memory.fromaddress(buffer._pointer, buffer.nbytes)
        return [buffer, self.mpi.BYTE]

    def begin_send(self, buffer, peer):
        return self.comm.Isend(self.wrap(buffer), peer)

    def begin_recv(self, buffer, peer):
        return self.comm.Irecv(self.wrap(buffer), peer)

    def wait(self, requests):
        self.mpi.Request.Waitall(requests)

    def collective(self, name, out, into):
        call = getattr(self.comm, name.capitalize())
        if name == "bcast":
            call(self.wrap(out if self.rank == 0 else into))
        elif name in ("allreduce", "reduce"):
            call(self.wrap(out), self.wrap(into), self.mpi.BXOR)
        else:
            call(self.wrap(out), self.wrap(into))


class Telpher:
    memories = {"host": HostMemory, **{kind: lambda runtime, kind=kind: TelpherMemory(runtime, kind)
                                       for kind in ("opencl", "cuda", "sim")}}

    def __init__(self):
        telpher = load("telpher")
        if "TELPHER_RANK" not in os.environ and "PMI_RANK" not in os.environ and "OMPI_COMM_WORLD_RANK" not in os.environ:
            raise Refused("no rank: start this by telpher launch -n 2 -- telpher-bench python ...")
        self.job = telpher.Context()
        self.rank, self.size, self.barrier = self.job.rank, self.job.size, self.job.barrier
        self.channel = self.job.channel(1 - self.rank) if self.size == 2 else None
        self.name = "telpher, " + (self.job.transport(1 - self.rank) if self.size == 2 else "no pair")

    def begin_send(self, buffer, _peer):
        return self.channel.send(buffer)

    def begin_recv(self, buffer, _peer):
        return self.channel.recv(buffer)

    def wait(self, requests):
        for request in requests:
            request.wait()

    def collective(self, name, _out, _into):
        raise Refused(f"Telpher's Python has no {name}; use -r mpi4py")


class Objects(Telpher):
    """Channels of objects; made in a method that may wait, of one object in each of two processes."""

    def __init__(self, chare):
        mdr = load("telpher.mdr")
        self.job, self.name = mdr.charm.context, "telpher"
        self.rank, self.size = chare.thisIndex[0], mdr.charm.numPes()
        self.channel, self.meeting = (mdr.Channel(chare, chare.thisProxy[1 - self.rank]) for _ in range(2))

    def barrier(self):
        self.meeting.send(self.rank)
        self.meeting.recv()

    def begin_send(self, buffer, _peer):
        self.channel.send(buffer)

    def begin_recv(self, buffer, _peer):
        self.channel.post(buffer)
        return self.channel

    def wait(self, requests):
        for channel in requests:
            if channel is not None:
                channel.recv()


RUNTIMES = {"telpher": Telpher, "objects": Objects, "mpi4py": Mpi}


def run_objects(args):
    """Measures in a method of one object in each process."""
    mdr = load("telpher.mdr")
    load("greenlet")

    class End(mdr.Chare):
        @mdr.coro
        def run(self):
            try:
                measure_all(args, Objects(self))
            except Refused as refused:
                refuse(refused)

    def main(_arguments):
        if mdr.charm.numPes() != 2:
            refuse(f"-r objects is for 2 processes, this job has {mdr.charm.numPes()}")
        mdr.Array(End, 2).run(awaitable=True).get()
        mdr.charm.exit()

    mdr.charm.start(main)


# ---- patterns ----

class Pattern:
    """One pattern at one size: its buffers, an iteration, and what must have been received."""

    def __init__(self, args, runtime, memory, size):
        self.args, self.runtime, self.memory, self.size = args, runtime, memory, size
        self.staged, self.host, self.byte = args.staged, HostMemory(runtime), bytearray(1)
        ranks, name = runtime.size, args.pattern
        self.sends = ranks if name in ("alltoall", "scatter") else 1
        self.receives = ranks if name in ("alltoall", "allgather", "gather") else 1
        self.out, self.into = memory.make(self.sends * size), memory.make(self.receives * size)
        self.host_out, self.host_into = (self.host.make(n * size) for n in (self.sends, self.receives))

    def content(self, rank, block, iteration):
        """Of the block that a rank sends to another, or to all."""
        start = (31 * rank + 101 * block + iteration) % 251
        return (NUMBERS * (self.size // 251 + 2))[start:start + self.size]

    def fill(self, iteration):
        rank = self.runtime.rank
        self.memory.write(self.out, b"".join(self.content(rank, block, iteration) for block in range(self.sends)))
        self.memory.write(self.into, b"\xff" * (self.receives * self.size))

    def wanted(self, iteration):
        """What this rank must have received, or None."""
        name, rank, ranks = self.args.pattern, self.runtime.rank, self.runtime.size
        if name in PAIRS:
            return None if name == "bw" and rank == 0 else self.content(1 - rank, 0, iteration)
        if name == "bcast":
            return None if rank == 0 else self.content(0, 0, iteration)
        if name == "scatter":
            return self.content(0, rank, iteration)
        if name in ("gather", "reduce") and rank != 0:
            return None
        blocks = [self.content(peer, rank if name == "alltoall" else 0, iteration) for peer in range(ranks)]
        if "reduce" not in name:
            return b"".join(blocks)
        return functools.reduce(operator.xor, (int.from_bytes(block, "little") for block in blocks)).to_bytes(self.size, "little")

    def check(self, iteration):
        wanted = self.wanted(iteration)
        if wanted is None:
            return
        got = bytearray(self.memory.read(self.into))
        if self.args.flip:
            got[self.size // 2] ^= 1
        if got != wanted:
            wrong = next(i for i, byte in enumerate(got) if byte != wanted[i])
            raise Refused(f"rank {self.runtime.rank}: byte {wrong} is {got[wrong]}, not {wanted[wrong]}, "
                          f"in iteration {iteration} of {self.size} bytes")

    def run(self):
        """One iteration. @return [us]"""
        start = time.perf_counter()
        if self.staged:
            self.host.write(self.host_out, self.memory.read(self.out))
        out, into = (self.host_out, self.host_into) if self.staged else (self.out, self.into)
        if self.args.pattern in PAIRS:
            getattr(self, self.args.pattern)(out, into, 1 - self.runtime.rank)
        else:
            self.runtime.collective(self.args.pattern, out, into)
        if self.staged:
            self.memory.write(self.into, self.host_into)
        us = (time.perf_counter() - start) * 1e6
        return us / 2 if self.args.pattern == "latency" else us

    def latency(self, out, into, peer):
        steps = [lambda: self.runtime.begin_send(out, peer), lambda: self.runtime.begin_recv(into, peer)]
        for step in steps if self.runtime.rank == 0 else reversed(steps):
            self.runtime.wait([step()])

    def bw(self, out, into, peer):
        runtime, window = self.runtime, range(self.args.window_size)
        if runtime.rank == 0:
            runtime.wait([runtime.begin_send(out, peer) for _ in window])
            runtime.wait([runtime.begin_recv(self.byte, peer)])
        else:
            runtime.wait([runtime.begin_recv(into, peer) for _ in window])
            runtime.wait([runtime.begin_send(self.byte, peer)])

    def bibw(self, out, into, peer):
        runtime, window = self.runtime, range(self.args.window_size)
        receives = [runtime.begin_recv(into, peer) for _ in window]
        runtime.wait(receives + [runtime.begin_send(out, peer) for _ in window])


# ---- the command ----

def measure(args, runtime, memory, size):
    pattern = Pattern(args, runtime, memory, size)
    count, times = args.iterations or (1000 if size <= 8192 else 100), []
    for iteration in range(-max(count // 10, 2), count):
        if args.validation:
            pattern.fill(iteration % 251)
            runtime.barrier()
        us = pattern.run()
        if iteration >= 0:
            times.append(us)
        if args.validation or args.pattern not in PAIRS:
            runtime.barrier()
        if args.validation:
            pattern.check(iteration % 251)
    return times


def show(args, runtime, size, times):
    rate = args.pattern in ("bw", "bibw")
    total = size * args.window_size * (2 if args.pattern == "bibw" else 1)
    points = [statistics.median(times), *(sorted(times)[int(len(times) * part)] for part in (0.9, 0.99))]
    values = [total / us if rate else us for us in points]
    if args.format == "json":
        print(json.dumps({"test": args.pattern, "runtime": args.runtime, "library": runtime.name, "device": args.device, "ranks": runtime.size,
                          "bytes": size, "median": round(values[0], 3), "p90": round(values[1], 3), "p99": round(values[2], 3),
                          "unit": "MB/s" if rate else "us", "samples": len(times), "validated": args.validation}), flush=True)
    else:
        print(f"{size:<10}" + "".join(f"{value:18.2f}" for value in values) + ("              Pass" if args.validation else ""), flush=True)


def parse_args():
    parser = arguments.Parser("python")
    parser.add_argument("pattern", choices=[*PAIRS, "allgather", "allreduce", "alltoall", "bcast", "gather", "reduce", "scatter"])
    parser.add_argument("-r", "--runtime", default="telpher", choices=[name + twin for name in RUNTIMES for twin in ("", "_host")])
    parser.add_argument("-d", "--device", default="host", choices=["host", "opencl", "cuda", "sim", "sycl"])
    parser.add_argument("-m", "--message-size", type=arguments.bounds, default="1:1M")
    parser.add_argument("-i", "--iterations", type=arguments.count, default=0)
    parser.add_argument("-W", "--window-size", type=arguments.count, default=64)
    parser.add_argument("-c", "--validation", action="store_true")
    parser.add_argument("--flip", action="store_true")  # of tests: ranks see a wrong byte
    parser.add_argument("-f", "--format", default="text", choices=["text", "json"])
    args = parser.parse_args()
    args.least, args.most = args.message_size
    args.staged = args.runtime.endswith("_host")
    return args


def measure_all(args, runtime):
    if args.device not in runtime.memories:
        raise Refused(f"-r {args.runtime} has no -d {args.device}, but {', '.join(runtime.memories)}")
    if runtime.size < 2 or (args.pattern in PAIRS and runtime.size != 2):
        raise Refused(f"{args.pattern} is for 2 ranks{'' if args.pattern in PAIRS else ' or more'}, this job has {runtime.size}")
    memory = runtime.memories[args.device](runtime)
    if runtime.rank == 0 and args.format == "text":
        print(f"# Telpher {args.pattern}, {args.runtime}, {args.device} memory, {runtime.name}, {runtime.size} ranks; the median of all iterations")
        print(f"# Size    {PAIRS.get(args.pattern, 'Latency (us)'):>18}               P90               P99", flush=True)
    size = max(args.least, 1)
    while size <= args.most:
        times = measure(args, runtime, memory, size)
        if runtime.rank == 0:
            show(args, runtime, size, times)
        size *= 2
    runtime.barrier()


def main():
    if "-h" in sys.argv[1:] or "--help" in sys.argv[1:]:
        sys.stdout.write(USAGE)
        return
    args = parse_args()
    runtime = RUNTIMES[args.runtime.removesuffix("_host")]
    if runtime is Objects:
        run_objects(args)
    else:
        measure_all(args, runtime())


def refuse(refused):
    sys.stderr.write(f"telpher-bench: python: {refused}\n")
    sys.stderr.flush()
    os._exit(1)  # no MPI_Finalize, in which the other ranks would wait for this one


if __name__ == "__main__":
    try:
        main()
    except Refused as error:
        refuse(error)
