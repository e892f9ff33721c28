# SPDX-License-Identifier: Apache-2.0
"""What goes over the wire: parameters of entries, and buffers beside them."""
import pickle
from collections import deque
from sys import getrefcount

from .._telpher import ffi, lib
from ..buffers import address_of, is_device
from ..core import KINDS, Memory
from ..errors import error
from .constants import IN_BUFFER, IS_ARGUMENT
from .runtime import charm

IN_BAND = 4096  # [bytes] smaller buffers are part of the pickle
RECENT_BYTES, RECENT_COUNT = 64 << 20, 16  # of memory that is used again
KIND_NAMES = {number: name for name, number in KINDS.items()}


class _Taken:
    """Stands for a device buffer inside of a pickle."""

    def __init__(self, position):
        self.position = position


def _take(value, out):
    """Adds a device buffer, or telpher.Memory, to @out. @return what stands for it"""
    if type(value) is bytearray and len(value) >= IN_BAND:
        return pickle.PickleBuffer(value)
    if not is_device(value) and not isinstance(value, Memory):
        return value
    if len(out) == lib.TELPHER_MSG_BUFFERS - 1:
        raise ValueError(f"at most {lib.TELPHER_MSG_BUFFERS - 1} device buffers in one call")
    pointer, size, keep = address_of(value)
    out.append((pointer, size, KINDS[getattr(value, "kind", "cuda")] | IS_ARGUMENT, (keep, value)))
    return _Taken(len(out) - 1)


_PLAIN = frozenset((int, float, str, bytes, bool, type(None)))  # never out of the pickle
_NEVER_TAKEN = _PLAIN | {tuple, list, dict}


def encode(args):
    """(bytes, [(pointer, length, kind, keep)]) of arguments; each row is a buffer."""
    if _PLAIN.issuperset(map(type, args)):
        return pickle.dumps(args, 5), []
    out = []
    if not _NEVER_TAKEN.issuperset(map(type, args)):
        args = tuple([_take(value, out) for value in args])

    def take(buffer):
        view = buffer.raw()
        if view.nbytes < IN_BAND or len(out) == lib.TELPHER_MSG_BUFFERS - 1:
            return True
        pointer = ffi.from_buffer(view)
        out.append((pointer, view.nbytes, KINDS["host"], (pointer, buffer)))
        return False

    return pickle.dumps(args, 5, buffer_callback=take), out


def _unused(recent, size, alone):
    """Memory of a size that only @recent refers to: its count of references is @alone. None: there is none."""
    for memory in recent:
        if len(memory) == size and getrefcount(memory) <= alone:
            return memory
    return None


ALONE = next(count for count in range(9) if _unused(deque([bytearray(1)]), 1, count) is not None)


class Landing:
    """Memory that post functions name for buffers, until the entry takes it."""

    def __init__(self):
        self._by_address, self._recent, self._recent_bytes = {}, deque(), 0

    def _host_memory(self, size):
        """A bytearray: one that nothing refers to any more, as clearing a new one costs as much as a copy."""
        memory = _unused(self._recent, size, ALONE)
        if memory is not None:
            return memory
        memory = bytearray(size)
        if size <= RECENT_BYTES:
            self._recent.append(memory)
            self._recent_bytes += size
            while self._recent_bytes > RECENT_BYTES or len(self._recent) > RECENT_COUNT:
                self._recent_bytes -= len(self._recent.popleft())
        return memory

    def make(self, size, kind):
        """New memory. @return its address"""
        kind &= ~IS_ARGUMENT
        if kind == KINDS["host"]:
            memory = self._host_memory(size)
            pointer = ffi.from_buffer(memory, require_writable=True)
        else:
            memory = charm.context.alloc(size, KIND_NAMES[kind])
            pointer = memory._telpher_pointer
        pointer = ffi.cast("void *", pointer)
        self._by_address[int(ffi.cast("uintptr_t", pointer))] = memory
        return pointer

    def take(self, buffer):
        return self._by_address.pop(int(ffi.cast("uintptr_t", buffer.data)))


def read_call(call, data, head_size):
    """(where the head begins, arguments) of an invocation with parameters @data, or raises."""
    kinds = data[0]
    if kinds == 0:
        return 1, pickle.loads(data[1 + head_size:])
    if call.status != 0:
        raise error(call.status, "a buffer did not arrive")
    start, buffers = 1 + (kinds & ~IN_BUFFER), call.buffers
    landed = [charm._landing.take(buffers[i]) for i in range(call.buffer_count)]
    payload = landed.pop() if kinds & IN_BUFFER else data[start + head_size:]
    if not landed:
        return start, pickle.loads(payload)
    taken = sum(1 for kind in data[1:start] if kind & IS_ARGUMENT)
    args = pickle.loads(payload, buffers=landed[taken:])
    return start, tuple(landed[a.position] if isinstance(a, _Taken) else a for a in args)
