# SPDX-License-Identifier: Apache-2.0
"""Ordered channels between two elements, and memory that receives name before messages arrive."""
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from .._telpher import ffi, lib
from ..buffers import PLAIN, address_of
from .constants import CHANNEL, CHANNEL_HEAD, CHANNEL_NAME, IS_ARGUMENT
from .proxy import Proxy, index_at, index_tuple, send_rows
from .runtime import charm
from .waiting import wait_for
from .wire import HOST_ARRAY, IN_BAND, IS_NUMPY, Arrived, array_of, described, encode, is_memory, like, new_like

if TYPE_CHECKING:
    from .chare import Chare

Numbers = Optional[Union[int, Sequence[int]]]  # one or several
_MASK, _HALF = 0xFFFFFFFF, 0x7FFFFFFF
_BYTES = (bytes, bytearray, memoryview)
_UNUSED = object()


class Channel:
    """An ordered channel between two elements: `Channel(self, remote=self.thisProxy[1])` in both.

    send(): arrays are borrowed until they have been sent: change them after the other end has answered.
    recv(): the next values; waits in a @coro method. `await channel.arrival()` does so in an async one.
    recv(buffer, …): receives arrays straight into memory of the caller, host or device.
    """

    def __init__(self, chare: "Chare", remote: Proxy, local: Any = None):
        if remote._index is None:
            raise ValueError("the other end of a channel is an element: proxy[index]")
        self.remote = remote
        peer = remote._raw.id, *_raw_index(remote._index, remote._raw)
        number = chare._telpher_opened.get(peer, 0)  # the nth of one end is joined with the nth of the other
        chare._telpher_opened[peer] = number + 1
        name = CHANNEL_HEAD.pack(*peer, number, 0)[:CHANNEL_NAME]
        self._end = _end_of(chare, name)
        name = CHANNEL_HEAD.pack(chare.thisProxy._raw.id, *_raw_index(chare.thisIndex, chare.thisProxy._raw), number, 0)
        self._make_out(name[:CHANNEL_NAME], 0)

    def _make_out(self, name, sequence):
        self._out = out = ffi.new("mdr_out *")
        out.to, out.sequence = self.remote._place()[0], sequence
        ffi.memmove(out.name, name, CHANNEL_NAME)
        self._type = self._dtype = self._shape = self._described = self._call = None  # of the last array

    def __getstate__(self):
        return self.remote, bytes(ffi.buffer(self._out.name)), self._end, self._out.sequence

    def __setstate__(self, state):
        self.remote, name, self._end, sequence = state
        self._make_out(name, sequence)

    def send(self, *values: Any, gpu_src_ptrs: Numbers = None, gpu_src_sizes: Numbers = None) -> None:
        """Starts to send values: numbers, arrays, device memory, any that can be pickled.

        gpu_src_ptrs, gpu_src_sizes: addresses and bytes of more arrays in CUDA memory; a number or a sequence each.
        """
        if gpu_src_ptrs is not None:
            self._send_values(values, _pairs(gpu_src_ptrs, gpu_src_sizes))
            return
        value = values[0] if len(values) == 1 else None
        if (type(value) is self._type and value.dtype is self._dtype and value.shape == self._shape
                and value.flags.c_contiguous):
            keep = ffi.from_buffer(value)
            number = self._call(self._out, self._described, keep, len(keep))
            if number:  # an error, or it is still being sent
                self._send_or_keep(number, self._call, self._described, keep, len(keep), keep)
        elif value is None or not self._send_other_array(value):
            self._send_values(values)

    def _send_other_array(self, value):
        """Sends a message of one array, without pickling. @return False: @value is none"""
        row = array_of(value)
        if row is None:
            return False
        text, pointer, size, kind, keep = row
        description = described(text, kind)
        is_small = size < IN_BAND and kind == HOST_ARRAY and len(text) + size <= charm._inline_max
        call = lib.mdr_send_inline if is_small else lib.mdr_send_array
        if IS_NUMPY[type(value)]:
            self._type, self._dtype, self._shape, self._described, self._call = (
                type(value), value.dtype, value.shape, description, call)
        number = call(self._out, description, pointer, size)
        if number:
            self._send_or_keep(number, call, description, pointer, size, keep)
        return True

    def _send_or_keep(self, number, call, description, pointer, size, keep):
        """After a call that gave @number: calls again when fewer messages wait, and keeps what has not been sent."""
        if number < 0:
            number = charm._sent(call, self._out, description, pointer, size)
        if number:
            charm._sending[number] = keep

    def _send_values(self, values, pairs=()):
        data, rows = encode(values, arrays=True, addresses=pairs)
        out = self._out
        head = ffi.buffer(out.name)[:] + out.sequence.to_bytes(4, "little")
        out.sequence = (out.sequence + 1) & _MASK  # before: another method may send while this one is held back
        send_rows(self.remote._place(), CHANNEL, head, data, rows)

    def post(self, *buffers: Any, post_buf_addresses: Numbers = None, post_buf_sizes: Numbers = None) -> None:
        """Names the buffers of the next receive that has none, before it is called: recv() then takes no argument.

        A message that arrives afterwards goes straight there.
        """
        self._end.post(_rows(buffers, post_buf_addresses, post_buf_sizes))

    def recv(self, *buffers: Any, post_buf_addresses: Numbers = None, post_buf_sizes: Numbers = None) -> Any:
        """The values of the other end's next send(): one, or a tuple.

        With buffers, the arrays of the message are received into them, in order, and the other values are returned,
        None if there are none. A number after a buffer says how many bytes of it may be used. Anything
        that core.Channel takes is a buffer; post_buf_addresses and post_buf_sizes name more by address and bytes.
        Several methods may wait: they get the messages in the order of their calls.
        """
        end = self._end
        at = end.next
        if buffers or post_buf_addresses is not None:
            end.post_now(_rows(buffers, post_buf_addresses, post_buf_sizes))
        if not end.has_next():
            wait_for(end.wait, end.has_next, end.expect_next)
        return end.take(at)

    def ready(self) -> bool:
        """Whether recv() would return at once."""
        return self._end.has_next()

    async def arrival(self, *buffers: Any, post_buf_addresses: Numbers = None, post_buf_sizes: Numbers = None) -> Any:
        """recv() for async methods."""
        end = self._end
        at = end.next
        if buffers or post_buf_addresses is not None:
            end.post_now(_rows(buffers, post_buf_addresses, post_buf_sizes))
        if not end.has_next():
            end.expect_next()
            await _Suspend(end.wait)
        return end.take(at)

    def _when_ready(self, callback):
        self._end.watch(callback)

    def _not_waiting(self, callback):
        self._end.watchers.remove(callback)


def _end_of(chare, name):
    end = chare._telpher_channels.get(name)
    if end is None:
        end = chare._telpher_channels[name] = End(chare, name)
    return end


def _raw_index(index, array):
    return tuple(index_at(index_tuple(index), array).at)


def _pairs(addresses, sizes):
    """[(address, bytes)] of numbers or sequences of them."""
    if isinstance(addresses, int):
        addresses = (addresses,)
    if isinstance(sizes, int):
        sizes = (sizes,)
    if sizes is None or len(addresses) != len(sizes):
        raise ValueError("addresses of buffers need as many sizes")
    return [(ffi.cast("void *", int(address)), int(size)) for address, size in zip(addresses, sizes)]


def _rows(buffers, addresses, sizes):
    """[(pointer, bytes, what keeps it alive, whether it is in host memory)] of what a receive names."""
    if len(buffers) == 1 and addresses is None and PLAIN[type(buffers[0])]:
        return [(*address_of(buffers[0], True), True)]
    rows = []
    for buffer in buffers:
        if type(buffer) is int:
            if not rows or not 0 <= buffer <= rows[-1][1]:
                raise ValueError(f"{buffer} stands for the bytes to receive: name a buffer of at least that size before it")
            rows[-1] = (rows[-1][0], buffer, *rows[-1][2:])
        else:
            rows.append((*address_of(buffer, writable=True), not is_memory(buffer)))
    if addresses is not None:
        rows.extend((pointer, size, None, False) for pointer, size in _pairs(addresses, sizes))
    return rows


class _Suspend:
    def __init__(self, waiting):
        self.waiting = waiting

    def __await__(self):
        yield self.waiting


class Posted:
    """The buffers of one receive."""
    __slots__ = ("rows", "landed")

    def __init__(self, rows):
        self.rows, self.landed = rows, frozenset()

    def place(self, buffers, kinds):
        """Has the transport write the arrays of a message to the buffers that have room for them."""
        arguments = (i for i, kind in enumerate(kinds) if kind & IS_ARGUMENT)
        landed = [(i, row) for i, row in zip(arguments, self.rows) if buffers[i].len <= row[1]]
        for i, row in landed:
            buffers[i].data = ffi.cast("void *", row[0])
        self.landed = frozenset(i for i, _ in landed)

    def fill(self, items):
        """Copies what did not arrive in place. @return the other values"""
        rows, rest = iter(self.rows), []
        arrays = any(type(item) is Arrived for item in items)
        for item in items:
            takes = type(item) is Arrived if arrays else isinstance(item, _BYTES) or IS_NUMPY[type(item)]
            row = next(rows, None) if takes else None
            if row is None:
                rest.append(item.value() if type(item) is Arrived else item)
            elif type(item) is not Arrived:
                _copy(row, item)
            elif item.content is not None:
                _copy(row, item.content)
        if next(rows, _UNUSED) is not _UNUSED:
            raise ValueError(f"the receive names {len(self.rows)} buffers; the message has fewer arrays")
        return rest


def _copy(row, content):
    pointer, size, _keep = address_of(content)
    if size > row[1]:
        raise ValueError(f"an array of {size} bytes arrived for a buffer of {row[1]} bytes")
    if size:
        charm._check(lib.telpher_mem_copy(charm.context._raw, row[0], pointer, size))


class End:
    """What has arrived on a channel, and who receives it. A receive into one buffer is in the slot, which C code knows.

    A receive that begins takes the number @next of its message, at the latest when its method is suspended.
    recv() without a buffer has a new array in the slot, made while it waits, of the type and shape of the last
    messages: @_like. A message of another kind is received as if there were none.
    """
    __slots__ = ("next", "arrived", "waiters", "watchers", "posted", "_free", "_chare", "_name", "_slot", "_in_slot", "_row",
                 "_array", "_seen", "_like")

    def __init__(self, chare, name):
        self.next, self.arrived, self.waiters, self.watchers, self.posted = 0, {}, {}, [], {}
        self._free = 0  # the first message that post() has not named memory for, unless it is older than the next
        self._chare, self._name, self._slot, self._in_slot, self._row = chare, name, None, None, None
        self._array = self._seen = self._like = None

    def __getstate__(self):
        if self.posted or self._in_slot is not None:
            raise TypeError("an object whose channel has buffers of post() cannot move: receive first")
        self.forget_slot()
        return self._chare, self._name, self.next, self.arrived

    def forget_slot(self):
        if self._slot is not None:
            charm._ends.pop(self._slot.end, None)

    def __setstate__(self, state):
        chare, name, after, arrived = state
        self.__init__(chare, name)
        self.next, self.arrived, self._free = after, arrived, after

    def has_next(self):
        if self._in_slot == self.next:
            return self._slot.landed != 0
        return self.next in self.arrived

    def wait(self, callback):
        """@callback is called when the message is there that was the next before."""
        at, self.next = self.next, (self.next + 1) & _MASK
        self.waiters[at] = callback
        if self._in_slot == at:
            self._slot.waits = 1
        if self.watchers and self.has_next():
            self._call_watchers()

    def watch(self, callback):
        """@callback is called when the next message is there, which any method may receive."""
        self.watchers.append(callback)
        if self._in_slot is not None:
            self._slot.waits = 1

    def posted_for(self, sequence):
        """The buffers that a receive has named for a message that C code does not place, or None."""
        if sequence == self._in_slot:
            self._leave_slot()
        return self.posted.get(sequence) if self.posted else None

    def _leave_slot(self):
        """The message does not fit, or is no single array."""
        lib.mdr_forget(self._chare._telpher_state, self._slot)
        if self._array is None:
            self.posted[self._in_slot] = Posted([self._row])
        self._in_slot = self._row = self._array = None

    def post(self, rows):
        """Names memory for the first message that has none."""
        self._name_memory(self._free if (self._free - self.next) & _MASK <= _HALF else self.next, rows)

    def post_now(self, rows):
        """Names memory for the next message."""
        if 0 < (self._free - self.next) & _MASK <= _HALF:
            raise ValueError("post() has named buffers already: recv() takes none")
        self._name_memory(self.next, rows)

    def _name_memory(self, at, rows):
        self._free = (at + 1) & _MASK
        if len(rows) != 1 or self._in_slot is not None or at in self.arrived:
            self.posted[at] = Posted(rows)
            return
        pointer, size, _keep, on_host = rows[0]
        lib.mdr_expect(self._chare._telpher_state, self._slot or self._make_slot(), at, pointer, size, on_host)
        self._in_slot, self._row = at, rows[0]
        if self.watchers:
            self._slot.waits = 1

    def _make_slot(self):
        self._slot = slot = ffi.new("mdr_posted *")
        slot.end = next(charm._end_numbers)
        ffi.memmove(slot.head, self._name, CHANNEL_NAME)
        charm._ends[slot.end] = self
        return slot

    def expect_next(self):
        """Before the next message, which has not arrived, is waited for. @return the receive that C code knows, or NULL"""
        if self._in_slot is None and self._like is not None and self.next not in self.posted:
            self._expect_like()
        return self._slot if self._in_slot == self.next else ffi.NULL

    def _expect_like(self):
        """Has C code receive the next message into a new array if it is like the last ones."""
        self._row = self._like
        self._array, description, size = new_like(self._like), self._like[3], self._like[4]
        lib.mdr_expect_like(self._chare._telpher_state, self._slot or self._make_slot(), self.next,
                            ffi.from_buffer(self._array), size, description, len(description))
        self._in_slot = self.next

    def take(self, at):
        """The values of message @at, which has arrived."""
        if at == self.next:
            self.next = (at + 1) & _MASK
        if at == self._in_slot:
            array, self._in_slot, self._row, self._array = self._array, None, None, None
            return array
        items = self.arrived.pop(at)
        posted = self.posted.pop(at, None) if self.posted else None
        if posted is not None:
            rest = posted.fill(items)
            return None if not rest else rest[0] if len(rest) == 1 else tuple(rest)
        if len(items) == 1:
            return self._only(items[0])
        return tuple(item.value() if type(item) is Arrived else item for item in items)

    def _only(self, item):
        """The value of a message of one. Two of a kind, one after the other, make the next be expected to be like them."""
        value = item.value() if type(item) is Arrived else item
        seen, self._seen = self._seen, like(item)
        self._like = seen if seen is self._seen else None
        return value

    def put(self, sequence, items):
        self.arrived[sequence] = items
        self.wake(sequence)

    def landed(self):
        """The message of the slot is there."""
        self.wake(self._in_slot)

    def wake(self, sequence):
        """What waits for the message goes on."""
        callback = self.waiters.pop(sequence, None)
        if callback is not None:
            charm._queue.append((callback, ()))
        elif sequence == self.next:
            self._call_watchers()

    def _call_watchers(self):
        charm._queue.extend((watcher, ()) for watcher in self.watchers)


def iwait(objects):
    """Gives each of @objects, channels and futures, when get() or recv() of it would return at once."""
    left = list(objects)
    while left:
        ready = [one for one in left if one.ready()]
        if not ready:
            _wait_for_any(left)
            continue
        for one in ready:
            left.remove(one)
            yield one


def _wait_for_any(objects):
    def register(resume):
        woken = []

        def wake(_result=None):
            if not woken:
                woken.append(True)
                for one in objects:
                    one._not_waiting(wake)
                resume()
        for one in objects:
            one._when_ready(wake)
    wait_for(register)
