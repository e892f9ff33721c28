# SPDX-License-Identifier: Apache-2.0
"""An exception that nobody waits for ends the job, with its trace."""
from telpher.mdr import Array, Chare, charm


class Breaker(Chare):
    def break_it(self):
        return 1 // 0


def main(_args):
    Array(Breaker, 2)[1].break_it()


charm.start(main)
