# SPDX-License-Identifier: Apache-2.0
"""Heat in a square plate: strips of rows exchange their edges through channels.

    telpher launch -n 2 -- python3 jacobi.py [strips [size [steps]]]

More strips than processes hide the time of messages. The result is compared with one computation alone.
"""
import sys

import numpy

from telpher.mdr import Array, Channel, Chare, Future, Reducer, charm, coro


def step(grid):
    """One step: the mean of the four neighbours; the outermost rows and columns are fixed."""
    new = grid.copy()
    new[1:-1, 1:-1] = (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]) / 4
    return new


def first(rows, size, begin):
    """Rows from @begin of the plate; the upper edge is hot."""
    grid = numpy.zeros((rows, size))
    if begin == 0:
        grid[0] = 100.0
    return grid


class Strip(Chare):
    @coro
    def run(self, size, steps, done):
        me, strips = self.thisIndex[0], len(self.thisProxy)
        begin, end = me * size // strips, (me + 1) * size // strips
        above = Channel(self, self.thisProxy[me - 1]) if me > 0 else None
        below = Channel(self, self.thisProxy[me + 1]) if me < strips - 1 else None
        top, bottom = (above is not None), (below is not None)  # rows that belong to neighbours
        grid = first(end - begin + top + bottom, size, begin - top)
        for _ in range(steps):
            if above:
                above.send(grid[1].copy())
            if below:
                below.send(grid[-2].copy())
            if above:
                grid[0] = above.recv()
            if below:
                grid[-1] = below.recv()
            grid = step(grid)
        own = grid[top:len(grid) - bottom]
        self.contribute(numpy.array([own.sum(), (own ** 2).sum()]), Reducer.sum, done)


def main(args):
    strips, size, steps = (int(a) for a in (args[1:] + ["6", "240", "100"][len(args) - 1:]))
    done = Future()
    Array(Strip, strips).run(size, steps, done)
    alone = first(size, size, 0)
    for _ in range(steps):
        alone = step(alone)
    got, wanted = done.get(), numpy.array([alone.sum(), (alone ** 2).sum()])
    equal = numpy.allclose(got, wanted, rtol=1e-12)
    print(f"{strips} strips on {charm.numPes()} processes: heat {got[0]:.6f}, alone {wanted[0]:.6f}:",
          "equal" if equal else "DIFFERENT", flush=True)
    charm.exit(0 if equal else 1)


if __name__ == "__main__":
    charm.start(main)
    sys.exit(0)
