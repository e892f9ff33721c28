# SPDX-License-Identifier: Apache-2.0
"""The runtime of this process."""
import itertools
import struct
import sys
import traceback
from collections import deque

try:
    import greenlet
except ImportError:
    greenlet = None

from .._telpher import ffi, lib
from ..core import Context
from ..errors import error
from .constants import ASYNC, FUTURE, FUTURE_HEAD, MANAGER_CLASS, NO_FUTURE, QUIET, WAITS

AGAIN, IN_PROGRESS = lib.TELPHER_ERR_AGAIN, lib.TELPHER_IN_PROGRESS
MARGIN = 256  # [bytes] of parameters for headers


def trace(wrong):
    return "".join(traceback.format_exception(type(wrong), wrong, wrong.__traceback__))


class _Runtime:
    def __init__(self):
        self._raw, self._cuda = ffi.NULL, None
        self._reset()

    def _reset(self):
        self._objects, self._futures, self._sending = {}, {}, {}
        self._future_numbers, self._keep_numbers, self._object_numbers, self._end_numbers = (
            itertools.count(1) for _ in range(4))
        self._ends = {}  # of channels that receive into buffers
        self._landing = self._reducers = self._making = None
        self._manager, self._failure, self._main, self._queue = None, None, None, deque()

    def start(self, entry, classes=None, modules=None, interactive=False):
        """Runs entry(sys.argv) in process 0, methods in all, until charm.exit(). Collective.

        Joins the job that the launcher started. Raises Error if a process died, and whatever a method raised.
        """
        if self._raw:
            raise RuntimeError("charm.start() runs already")
        self._reset()
        from . import callbacks, channel, proxy, reduce, waiting, wire  # they import charm from here
        self._future, self._send, self._place = waiting.Future, proxy.send, proxy.place
        self._wait_for, self._iwait = waiting.wait_for, channel.iwait
        self._landing, self._reducers, self._callbacks = wire.Landing(), reduce.ReductionManager(), callbacks
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
        classes = [self._callbacks.register(*row) for row in self._callbacks.mdr_classes()]
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
        self._check(self._turn_status)

    def _turns(self):
        turn, raw, queue, done = lib.telpher_mdr_turn, self._raw, self._queue, lib.mdr_done
        while self._turn_status == IN_PROGRESS:
            if done.count:
                self._forget_sent(done)
            while queue:
                callback, args = queue.popleft()
                callback(*args)
            if self._turn_status == IN_PROGRESS:  # _sent() makes turns, too
                self._turn_status = turn(raw)

    def _turn_until(self, is_ready):
        """Makes turns while no method may run. @return whether is_ready() ended them"""
        turn, raw, queue, done = lib.telpher_mdr_turn, self._raw, self._queue, lib.mdr_done
        while not queue and self._turn_status == IN_PROGRESS:
            if done.count:
                self._forget_sent(done)
            self._turn_status = turn(raw)
            if is_ready():
                return True
        return False

    def exit(self, code=0):
        """Ends the run in all processes. Messages under way are dropped."""
        lib.telpher_mdr_exit(self._raw, lib.TELPHER_OK if code == 0 else lib.TELPHER_ERR_CANCELED)

    abort = exit

    @property
    def lib(self):
        """Copies between host and CUDA memory: CudaDtoH(), CudaHtoD(), CudaStreamSynchronize()."""
        if self._cuda is None:
            from .cuda import CudaLibrary
            self._cuda = CudaLibrary()
        return self._cuda

    def numPes(self):
        """Number of processes."""
        return lib.telpher_mdr_size(self._raw)

    def myPe(self):
        """Number of this process."""
        return lib.telpher_mdr_rank(self._raw)

    def startQD(self, callback):
        """Calls @callback, a Future or a method of a proxy, when no method runs and no message is under way."""
        future = self._future()
        future._callbacks.append(lambda _value=None: callback())
        number = struct.pack("<Q", future._number)
        self._sent(lib.mdr_send, self._place(self._manager, (self.myPe(),)), QUIET, number, len(number))

    def waitQD(self):
        """Waits in a @coro method until no method runs and no message is under way."""
        future = self._future()
        self.startQD(future)
        future.get()

    def iwait(self, objects):
        """Gives each of @objects, channels and futures, in a @coro method, when get() or recv() would return at once."""
        return self._iwait(objects)

    def wait(self, futures):
        """Waits in a @coro method for all of @futures."""
        for future in futures:
            future.get()

    # -- for the classes above --

    def _check(self, status):
        if status < 0:
            raise error(status, ffi.string(lib.telpher_mdr_last_error(self._raw)).decode(errors="replace"))

    def _sent(self, call, *args):
        """Calls what sends. While too many messages wait, some are received and sent first; a @coro method lets
        other methods run as well, which cannot run below methods of other kinds."""
        status = call(*args)
        while status == AGAIN:
            self._turn_status = lib.telpher_mdr_turn(self._raw)
            self._check(self._turn_status)
            if greenlet is not None and greenlet.getcurrent().parent is not None:
                self._wait_for(self._ready)
            status = call(*args)
        if status < 0:
            self._check(status)

    def _manager_bytes(self):
        return ffi.buffer(ffi.addressof(self._manager))

    def _keep(self, what):
        """Transfer options that release @what when its memory may be reused."""
        number = self._keep_number(what)
        xfer = ffi.new("telpher_xfer_params *")
        xfer.struct_size = ffi.sizeof("telpher_xfer_params")
        xfer.on_done, xfer.user = lib.mdr_sent, ffi.cast("void *", number)
        return xfer

    def _keep_number(self, what):
        """Keeps @what until mdr_sent() is called with the number."""
        number = next(self._keep_numbers)
        self._sending[number] = what
        return number

    def _forget_sent(self, done):
        for i in range(done.count):
            self._sending.pop(done.numbers[i], None)
        done.count = 0

    def _set_future(self, remote, value, failed=False):
        home, number = remote
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
        if how == ASYNC:
            self._step((chare, name), function(*args), None, future)
        elif how == WAITS and greenlet is not None:
            greenlet.greenlet(self._finish).switch(chare, name, function, args, future)
        else:
            self._finish(chare, name, function, args, future)

    def _finish(self, chare, name, function, args, future):
        try:
            result = function(*args)
        except BaseException as wrong:  # also SystemExit: the job must end
            self._raised((chare, name), wrong, future)
        else:
            if future != NO_FUTURE:
                self._set_future(future, result)

    def _step(self, what, coroutine, value, future):
        """Runs an async method to its next wait."""
        try:
            waiting = coroutine.send(value)
        except StopIteration as end:
            if future != NO_FUTURE:
                self._set_future(future, end.value)
        except BaseException as wrong:
            self._raised(what, wrong, future)
        else:
            waiting(lambda result=None: self._step(what, coroutine, result, future))

    def _raised(self, what, wrong, future):
        chare, name = what
        text = trace(wrong)
        text = f"process {self.myPe()}, {name if chare is None else f'{chare!r}.{name}'}:\n{text}"
        if future != NO_FUTURE and isinstance(wrong, Exception):
            self._set_future(future, text, failed=True)
        else:
            self._fail(wrong, text)

    def _fail(self, wrong, text):
        if self._failure is None:
            self._failure = wrong
            if not isinstance(wrong, (SystemExit, KeyboardInterrupt)):
                sys.stderr.write(f"telpher: {text}")
        lib.telpher_mdr_exit(self._raw, lib.TELPHER_ERR_CANCELED)


charm = _Runtime()
