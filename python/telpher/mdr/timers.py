# SPDX-License-Identifier: Apache-2.0
"""Calls after some time."""
import heapq
import itertools
import time

from .._telpher import lib
from .runtime import charm
from .waiting import greenlet, wait_for


class Timers:
    """Calls by their time. The scheduler waits for messages until the first of them at most."""

    def __init__(self):
        self.rows, self._order = [], itertools.count()

    def add(self, seconds, callback, *args):
        heapq.heappush(self.rows, (time.monotonic_ns() + int(seconds * 1e9), next(self._order), callback, args))
        self._tell()

    def _tell(self):
        """Says the time of the first call to C code, which waits for messages."""
        lib.mdr_wake(charm._raw, self.rows[0][0] if self.rows else 0)

    def run(self):
        """Makes the calls whose time has come, when no method runs."""
        now = time.monotonic_ns()
        while self.rows and self.rows[0][0] <= now:
            _time, _order, callback, args = heapq.heappop(self.rows)
            charm._ready(callback, *args)
        self._tell()

    def sleep(self, seconds):
        if greenlet is None or greenlet.getcurrent().parent is None:
            time.sleep(seconds)
        else:
            wait_for(lambda resume: self.add(seconds, resume))
