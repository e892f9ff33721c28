# SPDX-License-Identifier: Apache-2.0
"""usage: errors.py METHOD of the class below. Errors that nobody waits for end the job with a trace that names object
and method, or the reduction, or the channel."""
import sys
import threading

from telpher.mdr import Array, Channel, Chare, Future, Reducer, charm


class Unreadable:
    """Is packed, but not unpacked."""

    def __reduce__(self):
        return int, ("no number",)


class Breaker(Chare):
    def migrated(self):
        pass

    def break_it(self, _done):
        if self.thisIndex[0]:
            return 1 // 0

    def pack(self, _done):
        self.state = {"deep": threading.Lock()}
        self.migrate(1 - charm.myPe())

    def unpack(self, _done):
        self.state = [Unreadable()]
        self.migrate(1 - charm.myPe())

    def post(self, _done):
        Channel(self, self.thisProxy[0]).post(bytearray(1))
        self.migrate(1 - charm.myPe())

    def send(self, _done):
        Channel(self, self.thisProxy[1 - self.thisIndex[0]]).send(Unreadable())

    def contribute_lock(self, done):
        self.contribute(threading.Lock(), Reducer.max, done)

    def reduce_it(self, done):
        self.contribute(1, Reducer.sum if self.thisIndex[0] else Reducer.max, done)

    def add_types(self, done):
        self.contribute(1 if self.thisIndex[0] else "one", Reducer.sum, done)


def main(args):
    getattr(Array(Breaker, 2), args[1])(Future())


if len(sys.argv) != 2:
    sys.exit(__doc__)
charm.start(main)
