# SPDX-License-Identifier: Apache-2.0
"""What goes over the wire: parameters of entries, and buffers beside them."""
import pickle
import sys
from collections import deque

from .._telpher import ffi, lib
from ..buffers import PLAIN, OfTypes, address_of, is_device
from ..core import KINDS, Memory
from ..errors import error
from .constants import COUNT, IN_BUFFER, INLINE, IS_ARGUMENT, LONE
from .runtime import charm

IN_BAND = 4096  # [bytes] smaller buffers are part of the pickle
RECENT_BYTES, RECENT_COUNT = 64 << 20, 16  # of memory that is used again
KIND_NAMES = {number: name for name, number in KINDS.items()}


class Taken:
    """Stands for an array inside of a pickle: the position of its buffer, and what it is."""

    def __init__(self, position, description):
        self.position, self.description = position, description

    def __reduce__(self):
        return Taken, (self.position, self.description)


_descriptions, DESCRIPTIONS = {}, 1024  # (type, shape) of NumPy arrays: how pickle writes them without their content


def _describe(array):
    """The pickle of a NumPy array without its content, which is the same for all of a type and shape."""
    key = array.dtype, array.shape
    description = _descriptions.get(key)
    if description is None:
        if len(_descriptions) == DESCRIPTIONS:
            _descriptions.clear()
        description = _descriptions[key] = pickle.dumps(array, 5, buffer_callback=lambda _content: False)
    return description


_described = {}  # (description, kind of memory): the same for C


def described(text, kind):
    """A description for C."""
    copy = _described.get((text, kind))
    if copy is None:
        if len(_described) == DESCRIPTIONS:
            _described.clear()
        copy = _described[text, kind] = ffi.new("mdr_description *", (kind, len(text), text))
    return copy


_NUMBERS = "biufc"  # kinds of NumPy's types without fields
_types = {}  # description: the class of NumPy arrays, shape and type of what it describes; the description in C; bytes


def _decode(description, content):
    """The array that a description says, on @content; without one the content itself."""
    known = _types.get(description)
    if known is not None:
        return known[0](known[1], known[2], content)
    if not description:
        return content
    array = pickle.loads(description, buffers=[content])
    if IS_NUMPY[type(array)] and array.flags.c_contiguous and array.dtype.kind in _NUMBERS:
        if len(_types) == DESCRIPTIONS:
            _types.clear()
        _types[description] = (type(array), array.shape, sys.modules["numpy"].dtype(array.dtype.str),
                               ffi.from_buffer(description), array.nbytes)
    return array


class Arrived:
    """An array of a channel's message: what it was, and its content; None: that lies in the buffer of the receive."""
    __slots__ = ("description", "content")

    def __init__(self, description, content):
        self.description, self.content = description, content

    def value(self):
        return _decode(self.description, self.content)


def like(item):
    """The row of a NumPy array's class, shape, type, description and bytes; None: @item is no such Arrived."""
    return _types.get(item.description) if type(item) is Arrived else None


def new_like(row):
    """A new array of a row of like()."""
    kind, shape, dtype, _description, size = row
    return kind(shape, dtype, charm._landing.host_memory(size) if size >= IN_BAND else None)


IS_NUMPY = OfTypes(lambda kind: kind.__module__ == "numpy" and kind.__name__ == "ndarray")
_IS_MORE = OfTypes(lambda kind: any(IS_NUMPY[base] for base in kind.__mro__[1:]))  # has a mask or units, for example
HOST_ARRAY = KINDS["host"] | IS_ARGUMENT


def _as_numpy(value):
    """A tensor in host memory as a NumPy array on the same memory; other values as they are."""
    kind = type(value)
    if (kind in _NEVER_TAKEN or IS_NUMPY[kind] or isinstance(value, Memory) or not hasattr(kind, "__dlpack_device__")
            or _IS_MORE[kind]):
        return value
    try:
        return sys.modules["numpy"].from_dlpack(value) if value.__dlpack_device__()[0] == 1 else value
    except (KeyError, TypeError, ValueError, BufferError, RuntimeError):
        return value  # pickle knows more kinds


def array_of(value):
    """(description, pointer, bytes, kind, keep) of an array that is sent by itself; None: it is none."""
    kind = type(value)
    if kind in _NEVER_TAKEN:
        return None
    if not IS_NUMPY[kind]:
        value = _as_numpy(value)
        kind = type(value)
    if IS_NUMPY[kind]:
        if value.dtype.kind not in _NUMBERS or value.size == 0:
            return None
        if not value.flags.c_contiguous:
            value = value.copy()
        pointer = ffi.from_buffer(value)
        return _describe(value), pointer, len(pointer), HOST_ARRAY, (pointer, value)
    on_host = kind in (bytearray, memoryview) or hasattr(kind, "svm_ptr")
    if not on_host and not is_memory(value):
        return None
    pointer, size, keep = address_of(value)
    number = KINDS["host"] if on_host else KINDS[getattr(value, "kind", "cuda")]
    return b"", pointer, size, number | IS_ARGUMENT, (keep, value)


def is_memory(value):
    return not PLAIN[type(value)] and (is_device(value) or isinstance(value, Memory))


def _add(out, row):
    if len(out) == lib.TELPHER_MSG_BUFFERS - 1:
        raise ValueError(f"a message has at most {lib.TELPHER_MSG_BUFFERS - 1} arrays that are sent in place: join some of them")
    out.append(row)


def _take(value, out, arrays):
    """Adds a device buffer or telpher.Memory to @out; @arrays: all arrays. @return what stands for it"""
    if not arrays and type(value) is bytearray and len(value) >= IN_BAND:
        return pickle.PickleBuffer(value)
    row = array_of(value) if arrays or is_memory(value) else None
    if row is None:
        return _as_numpy(value)
    description, *row = row
    _add(out, tuple(row))
    return Taken(len(out) - 1, description)


_PLAIN = frozenset((int, float, str, bytes, bool, type(None)))  # never out of the pickle
_NEVER_TAKEN = _PLAIN | {tuple, list, dict}


def encode(args, arrays=False, addresses=()):
    """(bytes, [(pointer, length, kind, keep)]) of arguments; each row is a buffer.

    arrays: arguments that are arrays are buffers, whatever their size. addresses: of more, in CUDA memory.
    """
    if not addresses and _PLAIN.issuperset(map(type, args)):
        return pickle.dumps(args, 5), []
    out = []
    if not _NEVER_TAKEN.issuperset(map(type, args)):
        args = tuple([_take(value, out, arrays) for value in args])
    for pointer, size in addresses:
        _add(out, (pointer, size, KINDS["cuda"] | IS_ARGUMENT, None))
        args += Taken(len(out) - 1, b""),

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
        if len(memory) == size and sys.getrefcount(memory) <= alone:
            return memory
    return None


ALONE = next(count for count in range(9) if _unused(deque([bytearray(1)]), 1, count) is not None)


class Landing:
    """Memory that post functions name for buffers, until the entry takes it."""

    def __init__(self):
        self._by_address, self._recent, self._recent_bytes = {}, deque(), 0

    def host_memory(self, size):
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
            memory = self.host_memory(size)
            pointer = ffi.from_buffer(memory, require_writable=True)
        else:
            memory = charm.context.alloc(size, KIND_NAMES[kind])
            pointer = memory._telpher_pointer
        pointer = ffi.cast("void *", pointer)
        self._by_address[int(ffi.cast("uintptr_t", pointer))] = memory
        return pointer

    def take(self, buffer):
        return self._by_address.pop(int(ffi.cast("uintptr_t", buffer.data)))


def _read(call, data, head_size, placed):
    """(where the head begins, arguments, buffers) of a message; None for buffers in @placed."""
    if call.status != 0:
        raise error(call.status, "a buffer did not arrive")
    kinds, buffers = data[0], call.buffers
    start = 1 + (kinds & COUNT)
    landed = [None if i in placed else charm._landing.take(buffers[i]) for i in range(call.buffer_count)]
    payload = landed.pop() if kinds & IN_BUFFER else data[start + head_size:]
    rest = [content for content, kind in zip(landed, data[1:start]) if not kind & IS_ARGUMENT]
    return start, pickle.loads(payload, buffers=rest), landed


def read_call(call, data, head_size):
    """(where the head begins, arguments) of an invocation with parameters @data, or raises."""
    if data[0] == 0:
        return 1, pickle.loads(data[1 + head_size:])
    start, args, landed = _read(call, data, head_size, ())
    return start, tuple([_decode(a.description, landed[a.position]) if type(a) is Taken else a for a in args])


def read_message(call, data, head_size, placed):
    """Values of a message of a channel; arrays are Arrived. @placed: positions of buffers that the receive has named."""
    first = data[0]
    if first & INLINE:
        start = 3 + head_size + int.from_bytes(data[1 + head_size:3 + head_size], "little")
        return [Arrived(data[3 + head_size:start], bytearray(data[start:]))]
    if first & LONE:
        if call.status != 0:
            raise error(call.status, "a buffer did not arrive")
        return [Arrived(data[2 + head_size:], None if placed else charm._landing.take(call.buffers[0]))]
    if first == 0:
        return pickle.loads(data[1 + head_size:])
    _start, args, landed = _read(call, data, head_size, placed)
    return [Arrived(a.description, landed[a.position]) if type(a) is Taken else a for a in args]
