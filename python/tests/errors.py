# SPDX-License-Identifier: Apache-2.0
"""usage: errors.py raise|reduce|type: what a method does wrong, and nobody waits for, ends the job with a trace that names
object and method, or the reduction."""
import sys

from telpher.mdr import Array, Chare, Future, Reducer, charm


class Breaker(Chare):
    def break_it(self):
        return 1 // 0

    def reduce_it(self, done):
        self.contribute(1, Reducer.sum if self.thisIndex[0] else Reducer.max, done)

    def add_types(self, done):
        self.contribute(1 if self.thisIndex[0] else "one", Reducer.sum, done)


def main(args):
    breakers = Array(Breaker, 2)
    if args[1] == "raise":
        breakers[1].break_it()
    else:
        getattr(breakers, {"reduce": "reduce_it", "type": "add_types"}[args[1]])(Future())


if len(sys.argv) != 2:
    sys.exit(__doc__)
charm.start(main)
