# SPDX-License-Identifier: Apache-2.0
"""The runtime of this process."""
import inspect
import itertools
import struct
import sys
import time
import traceback
import types
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional

try:
    import greenlet
except ImportError:
    greenlet = None

from .._telpher import ffi, lib
from ..core import Context
from ..errors import error
from .constants import (ASYNC, FUTURE, FUTURE_HEAD, FUTURE_NUMBER, MANAGER_CLASS, NO_FUTURE, NO_RESULT,
                        NOTHING, QUIET, WAITS)

if TYPE_CHECKING:
    from .proxy import Proxy
    from .remote import Pool

AGAIN, CANCELED, IN_PROGRESS, LANDED = lib.TELPHER_ERR_AGAIN, lib.TELPHER_ERR_CANCELED, lib.TELPHER_IN_PROGRESS, lib.LANDED
MARGIN = 256  # [bytes] of parameters for headers
EXIT = 1 << 8  # statuses of the run from here on: the exit code of charm.exit()


class RunEnds(BaseException):
    """Ends a method that sends while the run ends: nobody waits for what it does."""


def trace(wrong):
    return "".join(traceback.format_exception(type(wrong), wrong, wrong.__traceback__))


class _Runtime:
    def __init__(self):
        self._raw, self._cuda = ffi.NULL, None
        self.options = types.SimpleNamespace()  # those of Charm4py may be set, and do nothing
        self._reset()

    def _reset(self):
        self._objects, self._futures, self._sending = {}, {}, {}
        self._future_numbers, self._object_numbers, self._end_numbers = (itertools.count(1) for _ in range(3))
        self._ends = {}  # of channels that receive into buffers
        self._landing = self._reducers = self._making = None
        self._manager, self._failure, self._main, self._queue = None, None, None, deque()
        self._members = {}  # of sparse arrays, by their number: the indexes
        self._maps = {}  # this process's objects of groups of ArrayMap, by the group's number
        self._touched = []  # objects with conditions, whose methods ran
        self._remote = self._timers = None

    def start(self, entry: Callable, classes: Any = None, modules: Any = None, interactive: bool = False) -> None:
        """Runs entry(sys.argv) in process 0, methods in all, until charm.exit(). Collective.

        entry: a function, or a class of objects, of which one is made. Joins the job that the launcher started.
        Raises Error if a process died, and what a method raised; SystemExit for an exit code, or if a method raised
        in another process, which prints the trace.
        """
        if self._raw:
            raise RuntimeError("charm.start() runs already")
        self._reset()
        # they import charm from here
        from . import callbacks, channel, conditions, moves, proxy, reduce, remote, section, timers, waiting, wire
        self._future, self._send, self._place, self._split = waiting.Future, proxy.send, proxy.place, section.split
        self._wait_for, self._iwait = waiting.wait_for, channel.iwait
        self._landing, self._reducers, self._callbacks = wire.Landing(), reduce.ReductionManager(), callbacks
        self._remote, self._timers, self._moves, self._conditions = remote, timers.Timers(), moves, conditions
        self._main = entry
        raw, err = ffi.new("telpher_mdr **"), ffi.new("telpher_error *")
        status = lib.telpher_mdr_create(ffi.NULL, raw, err)
        if status != 0:
            raise error(status, ffi.string(err.text).decode(errors="replace"))
        self._raw = raw[0]
        try:
            self._run()
        finally:
            raw, self._raw, left = self._raw, ffi.NULL, self.context._left
            self.context.close()  # before: memory of the job ends with it, and is not freed one by one
            lib.telpher_mdr_destroy(raw)
            self._reset()  # after: transfers may use what is kept, and @left, until then
            left.clear()

    def _run(self):
        self.context = Context._of(lib.telpher_mdr_context(self._raw))
        self._params_max = min(lib.telpher_msg_params_max(self.context._raw, rank) or 1 << 30
                               for rank in range(self.numPes())) - MARGIN
        self._inline_max = min(self._params_max, lib.INLINE_MAX)
        classes = [self._callbacks.register(*row) for row in self._callbacks.mdr_classes()]
        self._remote.start()
        class_id = ffi.new("uint32_t *", classes[MANAGER_CLASS])
        self._check(lib.telpher_mdr_begin(self._raw, ffi.addressof(lib, "mdr_main"), class_id))
        self._turn_status = IN_PROGRESS
        while self._turn_status == IN_PROGRESS:
            try:
                self._turns()
            except BaseException as wrong:  # KeyboardInterrupt: the other processes end as well
                self._fail(wrong, trace(wrong))
        if self._failure is not None:
            raise self._failure
        if self._turn_status == CANCELED:
            raise SystemExit(1)  # a method failed in another process, which printed the trace
        self._check(self._turn_status)
        if self._turn_status >= EXIT:
            raise SystemExit(self._turn_status - EXIT)

    def _turns(self):
        turns, raw, queue, done = lib.mdr_turns, self._raw, self._queue, lib.mdr_done
        touched, timers = self._touched, self._timers.rows
        while self._turn_status == IN_PROGRESS:
            if done.count:
                self._forget_sent(done)
            while queue:
                callback, args = queue.popleft()
                callback(*args)
                if touched:
                    self._check_conditions()
                if timers:
                    self._timers.run()  # a sender without end that is held back leaves the queue never empty
            if timers:
                self._timers.run()
            if self._turn_status == IN_PROGRESS:  # _sent() makes turns, too
                self._turn_status = turns(raw, ffi.NULL)

    def _turn_until(self, is_ready, posted):
        """Makes turns while no method may run; @posted: the receive that has landed when is_ready(), or NULL.
        @return whether is_ready() ended them"""
        turns, raw, queue, done = lib.mdr_turns, self._raw, self._queue, lib.mdr_done
        if self._timers.rows:
            return False
        while not queue and self._turn_status == IN_PROGRESS:
            if done.count:
                self._forget_sent(done)
            status = turns(raw, posted)
            if status == LANDED:
                return True
            self._turn_status = status
            if is_ready():
                return True
        return False

    def exit(self, exit_code: int = 0) -> None:
        """Ends the run in all processes, which exit with @exit_code unless it is 0. Messages under way are dropped.
        exit() and sys.exit() in a method do the same."""
        lib.telpher_mdr_exit(self._raw, EXIT + (exit_code & 0xFF) if exit_code else lib.TELPHER_OK)

    def abort(self, message: str = "") -> None:
        """Prints @message and the place of the call, and ends the run in all processes with exit code 1."""
        place = "".join(traceback.format_stack(inspect.currentframe().f_back, 4))
        sys.stderr.write(f"telpher: process {self.myPe()}: charm.abort({message!r})\n{place}")
        self.exit(1)

    @property
    def thisProxy(self) -> "Proxy":
        """The runtimes of all processes, [i] of one: exit(), abort() and updateGlobals() may be called there."""
        return self._remote.proxy()

    @property
    def pool(self) -> "Pool":
        """Runs functions as tasks in idle processes: map(), map_async(), Task()."""
        return self._remote.pool

    @property
    def lib(self) -> Any:
        """Copies between host and CUDA memory: CudaDtoH(), CudaHtoD(), CudaStreamSynchronize()."""
        if self._cuda is None:
            from .cuda import CudaLibrary
            self._cuda = CudaLibrary()
        return self._cuda

    def numPes(self) -> int:
        """Number of processes."""
        return lib.telpher_mdr_size(self._raw)

    def myPe(self) -> int:
        """Number of this process."""
        return lib.telpher_mdr_rank(self._raw)

    def startQD(self, callback: Callable) -> None:
        """Calls @callback, a Future or a method of a proxy, when no method runs and no message is under way."""
        future = self._future()
        future._callbacks.append(lambda _value=None: callback())
        number = struct.pack("<Q", future._number)
        self._sent(lib.mdr_send, self._place(self._manager, (self.myPe(),)), QUIET, number, len(number))

    def waitQD(self) -> None:
        """Waits in a @coro method until no method runs and no message is under way."""
        future = self._future()
        self.startQD(future)
        future.get()

    def Future(self, num_vals: int = 1) -> Any:
        """A telpher.mdr.Future."""
        return self._future(num_vals)

    def awaitCreation(self, *proxies: Any) -> None:
        """Waits in a @coro method until the constructors of all objects of @proxies have run."""
        self.wait([proxy._call_number(NOTHING, (), awaitable=True) for proxy in proxies])

    def sleep(self, secs: float) -> None:
        """Waits; other methods run meanwhile if the caller has @coro."""
        self._timers.sleep(secs)

    def scheduleCallableAfter(self, callable_obj: Callable, secs: float, args: Iterable = ()) -> None:
        """Calls @callable_obj, a Future or a method of a proxy for example, with @args after @secs seconds or later."""
        self._timers.add(secs, callable_obj, *args)

    def split(self, proxy: "Proxy", numsections: int, section_func: Optional[Callable] = None,
              elems: Optional[List[list]] = None) -> "List[Proxy]":
        """Makes sections of an array, a group or a section. @return their proxies

        elems: for each section a list of indexes. section_func(object): the numbers of the sections that the object
        is in, a number or a list, below 0: none; evaluated where the object is. It waits, in a @coro method.
        """
        return self._split(proxy, numsections, section_func, elems)

    def iwait(self, objects: Iterable) -> Iterator:
        """Gives each of @objects, channels and futures, in a @coro method, when get() or recv() would return at once."""
        return self._iwait(objects)

    def wait(self, awaitables: Iterable) -> None:
        """Waits in a @coro method until all of @awaitables, futures and channels, are ready. Raises RemoteError."""
        for one in self.iwait(awaitables):
            if isinstance(one, self._future):
                one.get()

    # -- for the classes above --

    def _check(self, status):
        if status == CANCELED:
            raise RunEnds
        if status < 0:
            raise error(status, ffi.string(lib.telpher_mdr_last_error(self._raw)).decode(errors="replace"))

    def _sent(self, call, *args):
        """Calls what sends. While too many messages wait, some are received and sent first; a @coro method lets
        other methods run as well, which cannot run below methods of other kinds. @return what @call gave"""
        status = call(*args)
        while status == AGAIN:
            self._turn_status = lib.telpher_mdr_turn(self._raw)
            self._check(self._turn_status)
            if greenlet is not None and greenlet.getcurrent().parent is not None:
                self._wait_for(self._ready)
            status = call(*args)
        if status < 0:
            self._check(status)
        return status

    def _manager_bytes(self):
        return ffi.buffer(ffi.addressof(self._manager))

    def _keep(self, what):
        """Transfer options that release @what when its memory may be reused."""
        number = lib.mdr_number()
        self._sending[number] = what
        xfer = ffi.new("telpher_xfer_params *")
        xfer.struct_size = ffi.sizeof("telpher_xfer_params")
        xfer.on_done, xfer.user = lib.mdr_sent, ffi.cast("void *", number)
        return xfer

    def _forget_sent(self, done):
        for i in range(done.count):
            self._sending.pop(done.numbers[i], None)
        done.count = 0

    def _set_future(self, remote, value, failed=False):
        home, number = remote[0], remote[1] & FUTURE_NUMBER
        if home == self.myPe() and not failed:
            future = self._futures.get(number)
            if future is not None:
                future._arrived(value, failed)
            return
        self._send_manager(home, FUTURE, FUTURE_HEAD.pack(number, failed), (value,))

    def _send_manager(self, pe, entry, head, args):
        self._send(self._place(self._manager, (pe,)), entry, head, args)

    def _ready(self, callback, *args):
        """Calls @callback when no method runs: methods run between turns of the scheduler, never below C."""
        self._queue.append((callback, args))

    def _execute(self, chare, name, function, how, args, future):
        """Runs a method; its result goes to the future."""
        if chare is None or not chare._telpher_mobile:
            self._run_method(chare, name, function, how, args, future)
        elif chare._telpher_held is not None:  # it leaves, or waits for its array
            chare._telpher_held.append((name, args, future))
        else:
            self._measured(chare, self._run_method, chare, name, function, how, args, future)

    @staticmethod
    def _measured(chare, call, *args):
        """Counts the processor time for the balancer."""
        start = time.thread_time_ns()
        call(*args)
        chare._telpher_ns += time.thread_time_ns() - start

    def _run_method(self, chare, name, function, how, args, future):
        keywords = args[-1].names if args and type(args[-1]) is Keywords else {}
        if keywords:
            args = args[:-1]
        if how == ASYNC:
            self._step((chare, name), function(*args, **keywords), None, future)
            return
        self._touch(chare)
        if how == WAITS and greenlet is not None:
            light = greenlet.greenlet(self._finish)
            light.chare = chare
            light.switch(chare, name, function, args, keywords, future)
        else:
            self._finish(chare, name, function, args, keywords, future)

    def _execute_when(self, chare, name, function, how, args, future):
        """The same for a method with a condition: when that holds."""
        attempt = self._conditions.Attempt(chare, name, function, how, args, future)
        if not attempt():
            self._conditions.add(chare, attempt)

    def _touch(self, chare):
        """The object may change: its conditions are evaluated afterwards."""
        if chare is not None and (chare._telpher_conditions is not None or chare._telpher_target is not None):
            self._touched.append(chare)

    def _check_conditions(self):
        """Runs what waited for conditions that hold now, and begins moves."""
        while self._touched:
            chare = self._touched.pop()
            if chare._telpher_conditions is not None:
                chare._telpher_conditions.run(chare)
            if chare._telpher_target is not None and chare._telpher_suspended == 0:
                self._moves.leave(chare)

    def _finish(self, chare, name, function, args, keywords, future):
        try:
            result = function(*args, **keywords)
            if future != NO_FUTURE:
                self._answer(chare, future, result)
        except BaseException as wrong:  # also SystemExit: the job must end
            self._raised((chare, name), wrong, future)

    def _answer(self, chare, future, result):
        """Gives the result of a method to the future that its caller got."""
        number = future[1]
        if number > FUTURE_NUMBER:
            result = None if number & NO_RESULT else (chare.thisIndex, result)
        self._set_future(future, result)

    def _step(self, what, coroutine, value, future):
        """Runs an async method to its next wait."""
        self._touch(what[0])
        try:
            try:
                waiting = coroutine.send(value)
            except StopIteration as end:
                if future != NO_FUTURE:
                    self._answer(what[0], future, end.value)
                return
        except BaseException as wrong:
            self._raised(what, wrong, future)
        else:
            self._suspend(what, coroutine, waiting, future)

    def _suspend(self, what, coroutine, waiting, future):
        """The async method waits: _step() goes on."""
        chare = what[0]
        if chare is None or not chare._telpher_mobile:
            waiting(lambda result=None: self._step(what, coroutine, result, future))
            return

        def go_on(result=None):
            chare._telpher_suspended -= 1
            self._measured(chare, self._step, what, coroutine, result, future)
        chare._telpher_suspended += 1
        waiting(go_on)

    def _raised(self, what, wrong, future):
        if isinstance(wrong, RunEnds):
            return
        chare, name = what
        text = trace(wrong)
        text = f"process {self.myPe()}, {name if chare is None else f'{chare!r}.{name}'}:\n{text}"
        if future != NO_FUTURE and isinstance(wrong, Exception):
            self._set_future(future, text, failed=True)
        else:
            self._fail(wrong, text)

    def _fail(self, wrong, text):
        if isinstance(wrong, RunEnds):
            return
        if isinstance(wrong, SystemExit):  # of exit(): as with charm.exit()
            if isinstance(wrong.code, str):
                sys.stderr.write(wrong.code + "\n")
            self.exit(1 if isinstance(wrong.code, str) else wrong.code or 0)
            return
        if self._failure is None:
            self._failure = wrong
            if not isinstance(wrong, KeyboardInterrupt):
                sys.stderr.write(f"telpher: {text}")
        lib.telpher_mdr_exit(self._raw, CANCELED)


class Keywords:
    """Arguments with names, the last argument of a message."""

    def __init__(self, names):
        self.names = names

    def __reduce__(self):
        return Keywords, (self.names,)


charm = _Runtime()
