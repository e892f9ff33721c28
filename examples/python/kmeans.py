# SPDX-License-Identifier: Apache-2.0
"""k-means: each element has a part of the points; a reduction of arrays gives the next centres.

    telpher launch -n 2 -- python3 kmeans.py [points [clusters [parts]]]
"""
import numpy

from telpher.mdr import Array, Chare, Future, Reducer, charm

STEPS = 10


def points_of(part, parts, total):
    """The points of a part: clouds around 5 places, from a seed."""
    count = (part + 1) * total // parts - part * total // parts
    random = numpy.random.default_rng(part)
    return random.normal(random.integers(0, 5, size=(count, 1)) * 10.0, 1.0, size=(count, 2))


def sums_of(points, centres):
    """For each centre the sum of its points, and their number."""
    nearest = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    sums = numpy.zeros((len(centres), 3))
    numpy.add.at(sums, nearest, numpy.column_stack([points, numpy.ones(len(points))]))
    return sums


def move(centres, sums):
    """Centres that have points move to their mean."""
    used = sums[:, 2] > 0
    moved = centres.copy()
    moved[used] = sums[used, :2] / sums[used, 2:]
    return moved


class Part(Chare):
    def __init__(self, parts, total):
        self.points = points_of(self.thisIndex[0], parts, total)

    def assign(self, centres, done):
        self.contribute(sums_of(self.points, centres), Reducer.sum, done)


async def main(args):
    total, clusters, parts = (int(a) for a in (args[1:] + ["20000", "5", "8"][len(args) - 1:]))
    begin = numpy.random.default_rng(0).uniform(0, 40, size=(clusters, 2))
    array, centres = Array(Part, parts, args=[parts, total]), begin
    for _ in range(STEPS):
        done = Future()
        array.assign(centres, done)
        centres = move(centres, await done)

    alone, everything = begin, numpy.concatenate([points_of(i, parts, total) for i in range(parts)])
    for _ in range(STEPS):
        alone = move(alone, sums_of(everything, alone))
    equal = numpy.allclose(centres, alone)
    print(f"{total} points in {parts} parts on {charm.numPes()} processes, alone:",
          "equal" if equal else "DIFFERENT", flush=True)
    charm.exit(0 if equal else 1)


if __name__ == "__main__":
    charm.start(main)
