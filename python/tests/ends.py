# SPDX-License-Identifier: Apache-2.0
"""Arrays that are on their way when a job ends are kept until the library has ended. Run by telpher launch -n 2; prints
"ends: OK" in process 0."""
import weakref

import numpy

from telpher.mdr import Array, Channel, Chare, charm, coro, runtime

SIZE = 8 << 20
events = []


class Watched:
    """The library, with a note of when it ends."""

    def __getattr__(self, name):
        return getattr(library, name)

    def telpher_mdr_destroy(self, raw):
        events.append("destroy")
        library.telpher_mdr_destroy(raw)
        events.append("destroyed")


library = runtime.lib


class Deaf(Chare):
    """Has nothing that receives what the other end sends."""

    @coro
    def talk(self):
        channel = Channel(self, self.thisProxy[1 - self.thisIndex[0]])
        if self.thisIndex[0] == 0:
            array = numpy.zeros(SIZE, "u1")
            weakref.finalize(array, events.append, "array")
            for _ in range(4):
                channel.send(array)
            runtime.lib = Watched()
            charm.exit()


def main(_args):
    Array(Deaf, 2).talk()


charm.start(main)
if events:  # process 0
    print("ends: OK" if events == ["destroy", "destroyed", "array"] else f"wrong order: {events}", flush=True)
