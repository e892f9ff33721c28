# SPDX-License-Identifier: Apache-2.0
"""Calls of other processes' runtimes, charm.thisProxy, and charm.pool, whose tasks process 0 hands out."""
import itertools
import sys
from collections import deque
from typing import Any, Callable, Iterable, Optional

from .chare import fill_table, how
from .constants import ASYNC, HIDDEN, NO_FUTURE, REMOTE, WAITS
from .proxy import Proxy
from .runtime import charm
from .waiting import Future, coro


class Remote:
    """The runtime of one process, as others call it."""

    _telpher_name, _telpher_entry, _telpher_conditions = "charm", REMOTE, None
    _telpher_mobile, _telpher_target = False, None

    def __init__(self, pe):
        self.thisIndex, self._jobs, self._idle = pe, {}, deque(workers())

    def __repr__(self):
        return f"charm[{self.thisIndex}]"

    def exit(self, exit_code=0):
        charm.exit(exit_code)

    def abort(self, message=""):
        charm.abort(message)

    def myPe(self):
        return charm.myPe()

    def numPes(self):
        return charm.numPes()

    def updateGlobals(self, globals_dict, module_name="__main__"):
        """Sets global names of a module."""
        vars(sys.modules[module_name]).update(globals_dict)

    def members_here(self, array):
        """The indexes of the elements of a sparse array in this process."""
        return [chare.thisIndex for chare in charm._objects.values() if chare.thisProxy._raw.id == array]

    def members_set(self, array, indexes):
        charm._members[array] = indexes
        charm._reducers.counted(array)

    def insert(self, proxy, index, args):
        proxy.ckInsert(index, args)

    def pool_add(self, number, tasks, limit):
        """In process 0: a job of tasks, (function, arguments, future); at most @limit run at a time, -1: any."""
        self._jobs[number] = [deque(tasks), limit, 0]
        self._assign()

    def pool_free(self, pe, number):
        """In process 0: the task of a process has ended, or waits."""
        self._idle.append(pe)
        job = self._jobs.get(number)
        if job is not None:
            job[2] -= 1
        self._assign()

    def _assign(self):
        for number, job in list(self._jobs.items()):
            while job[0] and self._idle and job[2] != job[1]:
                job[2] += 1
                proxy()[self._idle.popleft()].pool_run(number, *job[0].popleft())
            if not job[0]:
                del self._jobs[number]

    def pool_run(self, number, function, args, future):
        charm._ready(self._free, number)  # after the task, or while it waits
        kind = how(function)
        charm._execute(None, getattr(function, "__name__", "task"), function, kind if kind == ASYNC else WAITS, args,
                       future)

    def _free(self, number):
        proxy()[0].pool_free(self.thisIndex, number)

    def _telpher_nothing(self):
        pass

    _telpher_result = _telpher_apply = _telpher_nothing


fill_table(Remote, [*HIDDEN, "exit", "abort", "myPe", "numPes", "updateGlobals", "members_here", "members_set", "insert",
                    "pool_add", "pool_free", "pool_run"])


def workers():
    """Processes that run tasks: process 0 hands them out if there are others."""
    return range(min(1, charm.numPes() - 1), charm.numPes())


@coro
def run_chunk(number, rows):
    """A task of map_async() and submit(): rows of a function and its argument."""
    return number, [function(item) for function, item in rows]


async def run_chunk_async(number, rows):
    return number, [await function(item) for function, item in rows]


class Mapped(Future):
    """The results of all chunks, in the order of the items."""

    def _value(self):
        return [result for _, results in sorted(self._values, key=lambda row: row[0]) for result in results]


class Pool:
    """charm.pool: functions, which all processes know by their name, as tasks of processes that are idle.

    A function with @coro or async may wait, for tasks that it starts for example.
    """

    def __init__(self):
        self._numbers = itertools.count()

    def map(self, func: Callable, iterable: Iterable, chunksize: int = 1, ncores: int = -1) -> list:
        """Waits in a @coro method for map_async()."""
        return self.map_async(func, iterable, chunksize, ncores).get()

    def submit(self, iterable: Iterable, chunksize: int = 1, ncores: int = -1) -> list:
        """Waits in a @coro method for submit_async()."""
        return self.submit_async(iterable, chunksize, ncores).get()

    def map_async(self, func: Callable, iterable: Iterable, chunksize: int = 1, ncores: int = -1) -> Future:
        """Calls @func with each item; a task has @chunksize of them, @ncores tasks run at a time, -1: as many as there
        are processes. @return Future of the list of results"""
        return self.submit_async(((func, item) for item in iterable), chunksize, ncores)

    def submit_async(self, iterable: Iterable, chunksize: int = 1, ncores: int = -1) -> Future:
        """map_async() of rows of a function and its argument; the functions are all async, or none is."""
        items = list(iterable)
        if chunksize < 1 or ncores == 0:
            raise ValueError(f"chunksize={chunksize}, ncores={ncores}: positive numbers, or ncores=-1")
        chunks = [items[at:at + chunksize] for at in range(0, len(items), chunksize)]
        future = Mapped(len(chunks))
        run = run_chunk_async if items and how(items[0][0]) == ASYNC else run_chunk
        self._add([(run, (number, chunk), future._remote()) for number, chunk in enumerate(chunks)], ncores)
        return future

    def Task(self, func: Callable, args: Iterable = (), ret: bool = False, awaitable: bool = False) -> Optional[Future]:
        """Calls func(*args) once. @return with @ret or @awaitable a Future of its result"""
        future = Future() if ret or awaitable else None
        self._add([(func, tuple(args), future._remote() if future else NO_FUTURE)], -1)
        return future

    def _add(self, tasks: Any, limit: int):
        if tasks:
            proxy()[0].pool_add((charm.myPe(), next(self._numbers)), tasks, limit)


this = pool = None


def start():
    """A run begins in this process."""
    global this, pool
    this, pool = Remote(charm.myPe()), Pool()


def proxy():
    return Proxy(charm._manager, Remote)
