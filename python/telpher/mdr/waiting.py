# SPDX-License-Identifier: Apache-2.0
"""Futures: what methods wait for."""
from typing import Any, Callable

try:
    import greenlet
except ImportError:
    greenlet = None

from .._telpher import ffi
from .runtime import charm

class RemoteError(Exception):
    """A method that the caller waits for raised an exception; the text has its trace."""


def coro(method: Callable) -> Callable:
    """The method may call get() of futures and recv() of channels."""
    method._telpher_waits = True
    return method


def _expects_nothing():
    return ffi.NULL


def wait_for(waiting, is_ready=None, expect=_expects_nothing):
    """Suspends a @coro method until what @waiting gets is called. While no other method may run, the method makes the
    turns of the scheduler itself until is_ready(), which saves two switches. expect() is called before; it gives the
    receive that has landed when is_ready(), or NULL."""
    if greenlet is None:
        raise RuntimeError("get() and recv() in methods need the package greenlet; or use async def and await")
    me = greenlet.getcurrent()
    if me.parent is None:
        raise RuntimeError("only a method with @coro may wait; give it the decorator, or make it async def")
    posted, chare = expect(), getattr(me, "chare", None)
    if chare is not None and chare._telpher_mobile:
        chare._telpher_suspended += 1
        waiting(lambda *value: charm._measured(chare, me.switch, *value))
        me.parent.switch()
        chare._telpher_suspended -= 1
    else:
        if is_ready is not None and charm._turn_until(is_ready, posted):
            return
        waiting(me.switch)  # from where it was started: methods run between turns of the scheduler
        me.parent.switch()
    if chare is not None:
        charm._touch(chare)


class RemoteFuture:
    """Names a future: what another process gets as an argument of a call."""

    def __init__(self, home, number):
        self._home, self._number = home, number

    def _remote(self):
        return self._home, self._number

    def __reduce__(self):
        return RemoteFuture, self._remote()

    def __call__(self, value: Any = None) -> None:
        """Sets the future, from any process."""
        charm._set_future(self._remote(), value)

    send = __call__

    def get(self) -> Any:
        """Only the process that made the future waits for it."""
        raise TypeError(f"the value of this future arrives in process {self._home}, which made it: wait there, or send it on")


class Future(RemoteFuture):
    """A value, or @num_vals of them as a list, that arrive later in the process that created it.

    May be an argument of a call: `future(value)` sets it from any process. `get()` waits in a @coro method,
    `await future` in an async one.
    """

    def __init__(self, num_vals: int = 1):
        self._left, self._values, self._callbacks = num_vals, [], []
        self._single, self._failed = num_vals == 1, None
        super().__init__(charm.myPe(), next(charm._future_numbers))
        charm._futures[self._number] = self

    def ready(self) -> bool:
        """Whether get() would return at once."""
        return self._left == 0

    def get(self) -> Any:
        """Waits for the value. Raises RemoteError if the method that should give it raised an exception."""
        if self._left:
            wait_for(self._callbacks.append, self.ready)
        return self._result()

    def __await__(self):
        if self._left:
            yield self._callbacks.append
        return self._result()

    def _when_ready(self, callback):
        self._callbacks.append(callback)

    def _not_waiting(self, callback):
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def _result(self):
        if self._failed is not None:
            raise RemoteError(self._failed)
        return self._value()

    def _value(self):
        return self._values[0] if self._single else self._values

    def _arrived(self, value, failed):
        if failed:
            self._failed, self._left = value, 1
        self._values.append(value)
        self._left -= 1
        if self._left == 0:
            charm._futures.pop(self._number, None)
            for callback in self._callbacks:
                charm._ready(callback)
