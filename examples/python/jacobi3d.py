# SPDX-License-Identifier: Apache-2.0
"""Heat in a cube: each rank has a slab, in host or device memory, and exchanges its faces through channels.

    telpher launch -n 2 -- python3 jacobi3d.py --memory cupy

The cube is compared with one that rank 0 computes alone, bit for bit.
"""
import argparse
import sys
import time

import numpy

import telpher


class Numpy:
    """Arrays in host memory."""
    zeros = staticmethod(numpy.zeros)

    @staticmethod
    def finish():
        """Returns when the device has done its work."""

    @staticmethod
    def to_host(array):
        return array

    @staticmethod
    def from_host(array, host):
        array[...] = host


class Cupy:
    """CuPy arrays of the first GPU."""

    def __init__(self):
        import cupy
        self.zeros, self.to_host = cupy.zeros, cupy.asnumpy
        self.finish = cupy.cuda.Device().synchronize

    @staticmethod
    def from_host(array, host):
        array.set(host)


class Torch:
    """PyTorch tensors, of the first GPU unless another device is named."""

    def __init__(self, device="cuda"):
        import torch
        self._torch, self._device = torch, device
        self.finish = torch.cuda.synchronize if device == "cuda" else Numpy.finish

    def zeros(self, shape):
        return self._torch.zeros(shape, dtype=self._torch.float64, device=self._device)

    @staticmethod
    def to_host(array):
        return array.cpu().numpy()

    def from_host(self, array, host):
        array.copy_(self._torch.from_numpy(host))


MEMORIES = {"numpy": Numpy, "cupy": Cupy, "torch": Torch, "torch-cpu": lambda: Torch("cpu")}


def step(old, new):
    """One step: the mean of the six neighbours; the faces of the cube are fixed."""
    new[1:-1, 1:-1, 1:-1] = (old[:-2, 1:-1, 1:-1] + old[2:, 1:-1, 1:-1] + old[1:-1, :-2, 1:-1]
                             + old[1:-1, 2:, 1:-1] + old[1:-1, 1:-1, :-2] + old[1:-1, 1:-1, 2:]) / 6


def first(memory, planes, size, begin):
    """Two grids of planes from @begin of the cube; its first face is hot."""
    grids = memory.zeros((planes, size, size)), memory.zeros((planes, size, size))
    if begin == 0:
        for grid in grids:
            grid[0] = 100.0
    return grids


class Neighbour:
    """The exchange of faces with a rank: straight between the arrays, or by way of host memory."""

    def __init__(self, job, rank, memory, size, staged):
        self.channel, self.memory = job.channel(rank), memory
        self.staging = (numpy.zeros((size, size)), numpy.zeros((size, size))) if staged else None

    def start(self, own, halo):
        if not self.staging:
            return self.channel.recv(halo), self.channel.send(own)
        self.staging[0][...] = self.memory.to_host(own)
        return self.channel.recv(self.staging[1]), self.channel.send(self.staging[0])

    def end(self, requests, halo):
        for request in requests:
            request.wait()
        if self.staging:
            self.memory.from_host(halo, self.staging[1])


def exchange(grid, below, above):
    """Fills the outermost planes with the neighbours' faces."""
    started = []
    if below:
        started.append((below, grid[0], below.start(grid[1], grid[0])))
    if above:
        started.append((above, grid[-1], above.start(grid[-2], grid[-1])))
    for neighbour, halo, requests in started:
        neighbour.end(requests, halo)


def run(job, memory, size, steps, staged):
    """@return (this rank's planes in host memory, seconds a step)"""
    begin, end = job.rank * size // job.size, (job.rank + 1) * size // job.size
    bottom, top = int(job.rank > 0), int(job.rank < job.size - 1)  # planes that belong to neighbours
    below = Neighbour(job, job.rank - 1, memory, size, staged) if bottom else None
    above = Neighbour(job, job.rank + 1, memory, size, staged) if top else None
    old, new = first(memory, end - begin + bottom + top, size, begin - bottom)
    step(old, new)  # compiles kernels; the first step computes the same again
    job.barrier()
    start = time.perf_counter()
    for _ in range(steps):
        memory.finish()
        exchange(old, below, above)
        step(old, new)
        old, new = new, old
    memory.finish()
    job.barrier()
    return memory.to_host(old[bottom:old.shape[0] - top]), (time.perf_counter() - start) / steps


def alone(memory, size, steps):
    old, new = first(memory, size, size, 0)
    for _ in range(steps):
        step(old, new)
        old, new = new, old
    return memory.to_host(old)


def gather(job, planes, size):
    """All planes of the cube, in rank 0."""
    if job.rank > 0:
        job.channel(0, 1).send(numpy.ascontiguousarray(planes)).wait()
        job.barrier()
        return None
    cube = numpy.zeros((size, size, size))
    cube[:len(planes)] = planes
    for rank in range(1, job.size):
        part = cube[rank * size // job.size:(rank + 1) * size // job.size]
        job.channel(rank, 1).recv(part).wait()
    job.barrier()
    return cube


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", choices=MEMORIES, default="numpy", help="where the grids are (numpy)")
    parser.add_argument("--staged", action="store_true", help="copy faces to host memory before they are sent")
    parser.add_argument("--size", type=int, default=48, metavar="N", help="cells of an edge of the cube (48)")
    parser.add_argument("--steps", type=int, default=50, metavar="N", help="steps (50)")
    args = parser.parse_args()
    with telpher.Context() as job:
        if not 3 * job.size <= args.size:
            parser.error(f"--size {args.size}: {job.size} ranks need at least {3 * job.size}")
        memory = MEMORIES[args.memory]()
        planes, seconds = run(job, memory, args.size, args.steps, args.staged)
        cube = gather(job, planes, args.size)
        if job.rank > 0:
            return 0
        equal = (cube == alone(memory, args.size, args.steps)).all()
        print(f"{args.memory}, {'staged' if args.staged else 'direct'}: {job.size} ranks, {args.size}^3, "
              f"{seconds * 1e6:.1f} us a step: {'equal' if equal else 'DIFFERENT'}", flush=True)
        return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
