# SPDX-License-Identifier: Apache-2.0
"""Futures and channels: what methods wait for."""
try:
    import greenlet
except ImportError:
    greenlet = None

from .constants import CHANNEL, CHANNEL_HEAD, CHANNEL_NAME
from .runtime import charm

class RemoteError(Exception):
    """A method that the caller waits for raised an exception; the text has its trace."""


def coro(method):
    """The method may call get() of futures and recv() of channels."""
    method._telpher_waits = True
    return method


def wait_for(waiting):
    """Suspends a @coro method until what @waiting gets is called."""
    if greenlet is None:
        raise RuntimeError("get() and recv() in methods need the package greenlet; or use async def and await")
    me = greenlet.getcurrent()
    if me.parent is None:
        raise RuntimeError("only a method with @coro may wait; give it the decorator, or make it async def")
    waiting(me.switch)  # from where it was started: methods run between turns of the scheduler
    me.parent.switch()


class RemoteFuture:
    """Names a future: what another process gets as an argument of a call."""

    def __init__(self, home, number):
        self._home, self._number = home, number

    def _remote(self):
        return self._home, self._number

    def __reduce__(self):
        return RemoteFuture, self._remote()

    def __call__(self, value=None):
        charm._set_future(self._remote(), value)

    send = __call__


class Future(RemoteFuture):
    """A value, or @num_vals of them as a list, that arrive later in the process that created it.

    May be an argument of a call: `future(value)` sets it from any process. `get()` waits in a @coro method,
    `await future` in an async one.
    """

    def __init__(self, num_vals=1):
        self._left, self._values, self._callbacks = num_vals, [], []
        self._single, self._failed = num_vals == 1, None
        super().__init__(charm.myPe(), next(charm._future_numbers))
        charm._futures[self._number] = self

    def ready(self):
        """Whether get() would return at once."""
        return self._left == 0

    def get(self):
        """Waits for the value. Raises RemoteError if the method that should give it raised an exception."""
        if self._left:
            wait_for(self._callbacks.append)
        return self._result()

    def __await__(self):
        if self._left:
            yield self._callbacks.append
        return self._result()

    def _result(self):
        if self._failed is not None:
            raise RemoteError(self._failed)
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


def _padded(index):
    return tuple(index) + (0,) * (3 - len(index))


class Channel:
    """An ordered channel between two elements: `Channel(self, remote=self.thisProxy[1])` in both.

    send(): arrays are borrowed until they have been sent: change them after the other end has answered.
    recv(): the next values; waits in a @coro method. `await channel.arrival()` does so in an async one.
    """

    def __init__(self, chare, remote, local=None):
        if remote._index is None:
            raise ValueError("the other end of a channel is an element: proxy[index]")
        self._remote = remote
        peer = remote._raw.id, *_padded(remote._index)
        number = chare._telpher_opened.get(peer, 0)  # the nth of one end is joined with the nth of the other
        chare._telpher_opened[peer] = number + 1
        name = CHANNEL_HEAD.pack(*peer, number, 0)[:CHANNEL_NAME]
        self._end = chare._telpher_channels.setdefault(name, End())
        self._name = CHANNEL_HEAD.pack(chare.thisProxy._raw.id, *_padded(chare.thisIndex), number, 0)[:CHANNEL_NAME]
        self._sent = 0

    def send(self, *values):
        """Starts to send values: numbers, arrays, device memory, any that can be pickled."""
        charm._send(self._remote._place(), CHANNEL, self._name + self._sent.to_bytes(4, "little"), values)
        self._sent = (self._sent + 1) & 0xFFFFFFFF

    def recv(self):
        """The values of the other end's next send(): one, or a tuple."""
        if not self._end.has_next():
            wait_for(self._end.wait)
        return self._end.take()

    def ready(self):
        """Whether recv() would return at once."""
        return self._end.has_next()

    async def arrival(self):
        """recv() for async methods."""
        if not self._end.has_next():
            await _Suspend(self._end.wait)
        return self._end.take()


class _Suspend:
    def __init__(self, waiting):
        self.waiting = waiting

    def __await__(self):
        yield self.waiting


class End:
    """What has arrived on a channel."""
    __slots__ = ("next", "arrived", "waiter")

    def __init__(self):
        self.next, self.arrived, self.waiter = 0, {}, None

    def has_next(self):
        return self.next in self.arrived

    def wait(self, callback):
        if self.waiter is not None:
            raise RuntimeError("two methods wait for the same channel")
        self.waiter = callback

    def take(self):
        values = self.arrived.pop(self.next)
        self.next = (self.next + 1) & 0xFFFFFFFF
        return values[0] if len(values) == 1 else values

    def put(self, sequence, values):
        self.arrived[sequence] = values
        if self.waiter is not None and self.next in self.arrived:
            callback, self.waiter = self.waiter, None
            charm._queue.append((callback, ()))
