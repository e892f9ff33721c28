# SPDX-License-Identifier: Apache-2.0
"""Ranks, device memory, windows and channels: the calls of libtelpher.

A Context belongs to one thread at a time. Waiting calls release the interpreter lock, and Ctrl-C ends them.
"""
import time
import weakref
from typing import Any, Dict, Optional, Tuple, TypeVar

from ._telpher import ffi, lib
from .buffers import Buffer, address_of, to_dlpack
from .errors import check, error

ANY = 0xFFFFFFFF  # any rank, or all
KINDS = {"host": 0, "opencl": 1, "cuda": 2, "sim": 3}
_TIMEOUT = lib.TELPHER_ERR_TIMEOUT
_PENDING = lib.PENDING  # results of C from here on are requests
_AnyBuffer = TypeVar("_AnyBuffer")
_SLICE_NS = 50_000_000  # a wait looks for signals this often


def _nanoseconds(seconds):
    return None if seconds is None else int(seconds * 1e9)


def _wait(timeout, call):
    """Repeats call(ns) in slices until it does not time out. @timeout in seconds, None: for ever."""
    end = None if timeout is None else time.monotonic_ns() + _nanoseconds(timeout)
    while True:
        left = _SLICE_NS if end is None else max(0, min(_SLICE_NS, end - time.monotonic_ns()))
        status = call(left)
        if status != _TIMEOUT or (end is not None and time.monotonic_ns() >= end):
            return status


class Memory:
    """Memory of a kind: "host", "opencl", "cuda" or "sim". Freed with the object, or by free().

    `memory[a:b]` is a part of it, in bytes. Host memory has the buffer protocol by `memory.view()`;
    CUDA memory has `__cuda_array_interface__`, as bytes.
    """

    def __init__(self, context, pointer, nbytes, kind, owner=None):
        self.context, self._pointer, self.nbytes, self.kind = context, pointer, nbytes, kind
        self._telpher_device = kind != "host"
        self._owner = owner
        self._free = weakref.finalize(self, context._free, pointer) if owner is None else None

    def free(self) -> None:
        """Frees the memory now. No transfer may use it any more."""
        if self._free is not None:
            self._free()
        self._pointer = None
        self.nbytes = 0

    @property
    def _telpher_pointer(self):
        if self._pointer is None:
            raise ValueError("the memory was freed")
        if isinstance(self._owner, Memory):
            self._owner._telpher_pointer  # raises if freed
        return self.context._raw and self._pointer

    def __len__(self) -> int:
        return self.nbytes

    def __getitem__(self, part: slice) -> "Memory":
        if not isinstance(part, slice):
            raise TypeError("a part of memory is a slice in bytes: memory[0:4096]")
        start, stop, step = part.indices(self.nbytes)
        if step != 1:
            raise ValueError("a part of memory has no step")
        return Memory(self.context, ffi.cast("char *", self._telpher_pointer) + start,
                      max(0, stop - start), self.kind, owner=self)

    def view(self) -> memoryview:
        """The bytes of host memory as a memoryview, without a copy."""
        if self.kind != "host":
            raise TypeError(f"the CPU cannot read {self.kind} memory; use copy_to()")
        return memoryview(ffi.buffer(self._telpher_pointer, self.nbytes))

    def copy_from(self, source: Buffer) -> None:
        """Copies from a buffer of the same size, host or device."""
        pointer, size, _keep = address_of(source)
        self._copy(self._telpher_pointer, pointer, size)

    def copy_to(self, destination: _AnyBuffer) -> _AnyBuffer:
        """Copies to a buffer of the same size, host or device. @return the buffer"""
        pointer, size, _keep = address_of(destination, writable=True)
        self._copy(pointer, self._telpher_pointer, size)
        return destination

    def _copy(self, to, source, size):
        if size != self.nbytes:
            raise ValueError(f"the other buffer has {size} bytes, this memory {self.nbytes}")
        check(lib.telpher_mem_copy(self.context._raw, to, source, size), self.context._raw)

    def __dlpack_device__(self) -> Tuple[int, int]:
        if self.kind not in ("host", "cuda"):
            raise BufferError(f"DLPack has no device type for {self.kind} memory")
        return (1, 0) if self.kind == "host" else (2, 0)

    def __dlpack__(self, stream=None, **_versions):
        """The memory as a DLPack tensor of bytes, without a copy. The work of transfers is complete."""
        return to_dlpack(int(ffi.cast("uintptr_t", self._telpher_pointer)), self.nbytes,
                         self.__dlpack_device__(), self)

    def __repr__(self):
        return f"<telpher.Memory {self.kind} {self.nbytes} bytes>"


class _CudaMemory(Memory):
    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        address = int(ffi.cast("uintptr_t", self._telpher_pointer))
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}


class Request:
    """A transfer that was started. Its buffer is kept alive, and must stay as it is, until it is complete; dropping the
    Request does not cancel it."""
    __slots__ = ("_length",)

    def __init__(self, length):
        self._length = length

    def test(self) -> bool:
        """Whether it is complete. Raises what it ended with."""
        return True

    def wait(self, timeout: Optional[float] = None) -> int:
        """Progresses until it is complete, @timeout seconds at most. @return bytes that were moved. Raises TimedOut,
        PeerLost, …"""
        return self._length


class _Pending(Request):
    """A transfer that was not complete when it was started."""
    __slots__ = ("_context", "_raw", "_keep")

    def __init__(self, context, raw, keep):
        self._context, self._raw, self._keep, self._length = context, raw, keep, None
        if context._left:
            context._reap()

    def test(self):
        return self._length is not None or self._ended(lib.request_test(self._request()))

    def wait(self, timeout=None):
        if self._length is None:
            raw = self._request()
            ended = lib.request_wait(raw, _SLICE_NS if timeout is None else min(_SLICE_NS, _nanoseconds(timeout)))
            if ended == _TIMEOUT:
                ended = _wait(timeout, lambda ns: lib.request_wait(raw, ns))
            if ended == _TIMEOUT:
                raise error(ended, "the transfer goes on")
            self._ended(ended)
        return self._length

    def _request(self):
        if self._raw is None:
            raise ValueError("the transfer has failed")
        return self._context._raw and self._raw  # a closed context raises: its transfers are gone

    def _ended(self, ended):
        if ended >= _PENDING:
            return False
        self._raw = self._keep = None
        self._length = check(ended, self._context._raw)
        return True

    def __del__(self):
        if self._raw is not None:
            self._context._left.append((self._raw, self._keep))


def _request(context, started, keep):
    """@started: what a call of C gave: an error, the bytes of a transfer that is complete, or PENDING and a request."""
    if started >= _PENDING:
        return _Pending(context, started, keep)
    if started < 0:
        check(started, context._raw)
    return Request(started)


def _checked(context, rank, any_too=False):
    """The rank, if the job has it."""
    if not (0 <= rank < context.size or (any_too and rank == ANY)):
        raise error(lib.TELPHER_ERR_RANGE, f"there is no rank {rank}: this job has ranks 0 to {context.size - 1}")
    return rank


class _OfContext:
    """What ends with its context, or by close(). `_raw` is there as long as it is open."""

    def __init__(self, context, raw, end):
        self.context, self._raw = context, raw
        self._end = weakref.finalize(self, context._if_open, end, raw)
        context._dependents.add(self)

    def close(self) -> None:
        """Ends it before its context ends."""
        self._end()
        self.__dict__.pop("_raw", None)

    def __getattr__(self, name):
        if name == "_raw":
            self.context._raw  # raises if that is closed
            raise ValueError(f"the {type(self).__name__.lower()} is closed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Channel(_OfContext):
    """One end of an ordered channel with another rank; see telpher/channel.h."""

    def __init__(self, context: "Context", rank: int, number: int):
        self.rank, self.number = _checked(context, rank), number
        out = ffi.new("telpher_channel **")
        check(lib.telpher_channel_open(context._raw, rank, number, out), context._raw)
        super().__init__(context, out[0], lib.telpher_channel_close)

    def send(self, source: Buffer) -> Request:
        """Starts to send a buffer. @return Request"""
        pointer, size, keep = address_of(source)
        return _request(self.context, lib.channel_send(self._raw, pointer, size), (self, keep))

    def recv(self, destination: Buffer) -> Request:
        """Starts to receive into a buffer. @return Request, whose wait() returns the bytes received"""
        pointer, size, keep = address_of(destination, True)
        return _request(self.context, lib.channel_recv(self._raw, pointer, size), (self, keep))


class Window(_OfContext):
    """Memory that other ranks put into and get from, with notifications; see telpher/win.h. Collective."""

    def __init__(self, context: "Context", memory: Buffer, timeout: float = 60):
        self.memory = memory
        pointer, size, self._keep = address_of(memory, writable=True)
        out = ffi.new("telpher_win **")
        check(lib.telpher_win_create(context._raw, pointer, size, _nanoseconds(timeout), out), context._raw)
        super().__init__(context, out[0], lib.telpher_win_destroy)

    def size(self, rank: int) -> int:
        """Bytes of a rank's memory in this window."""
        return lib.telpher_win_size(self._raw, _checked(self.context, rank))

    def put(self, rank: int, offset: int, source: Buffer, tag: Optional[int] = None) -> Request:
        """Writes a buffer at @offset of @rank's memory; @tag: and notifies it. @return Request"""
        pointer, size, keep = address_of(source)
        _checked(self.context, rank)
        if tag is None:
            started = lib.window_put(self._raw, rank, offset, pointer, size)
        else:
            started = lib.window_put_notify(self._raw, rank, offset, pointer, size, tag)
        return _request(self.context, started, (self, keep))

    def get(self, rank: int, offset: int, destination: Buffer) -> Request:
        """Reads from @offset of @rank's memory into a buffer. @return Request"""
        pointer, size, keep = address_of(destination, writable=True)
        started = lib.window_get(self._raw, _checked(self.context, rank), offset, pointer, size)
        return _request(self.context, started, (self, keep))

    def notify(self, rank: int, tag: int) -> None:
        """Notifies a rank after the puts to it before."""
        check(lib.telpher_notify(self._raw, _checked(self.context, rank), tag), self.context._raw)

    def test(self, tag: int, count: int = 1) -> bool:
        """Whether @count notifications with @tag have come; if so, they are used up."""
        status = lib.telpher_notify_test(self._raw, tag, count)
        return status == 0 or (status != lib.TELPHER_ERR_AGAIN and not check(status, self.context._raw))

    def wait(self, tag: int, count: int = 1, source: int = ANY, timeout: Optional[float] = None) -> None:
        """Waits for @count notifications with @tag and uses them up. Raises TimedOut, PeerLost."""
        check(_wait(timeout, lambda ns: lib.telpher_notify_wait(self._raw, source, tag, count, ns)),
              self.context._raw)

    def flush(self, rank: int = ANY, timeout: Optional[float] = None) -> None:
        """Waits until this rank's puts are in the memory of @rank."""
        check(_wait(timeout, lambda ns: lib.telpher_win_flush(self._raw, _checked(self.context, rank, True), ns)),
              self.context._raw)


class Context:
    """A job of ranks. `with telpher.Context() as job:` joins the job that `telpher launch` or `mpirun`
    started; without a launcher it is rank 0 of 1.

    transports: "shm,tcp" names what may be used, in this order.
    timeout:    [s] to find all other ranks.
    """

    def __init__(self, transports: Optional[str] = None, timeout: float = 0):
        params = ffi.new("telpher_context_params *")
        names = ffi.new("char[]", transports.encode()) if transports else ffi.NULL
        params.struct_size = ffi.sizeof("telpher_context_params")
        params.transports, params.timeout_ns = names, _nanoseconds(timeout)
        out, err = ffi.new("telpher_context **"), ffi.new("telpher_error *")
        status = lib.telpher_context_create(params, out, err)
        if status != 0:
            raise error(status, ffi.string(err.text).decode(errors="replace"))
        self._open(out[0], True)

    @classmethod
    def _of(cls, raw):
        """A context that something else owns."""
        self = cls.__new__(cls)
        self._open(raw, False)
        return self

    def _open(self, raw, owns):
        self._raw, self._owns = raw, owns
        self._dependents, self._left = weakref.WeakSet(), []  # _left: transfers whose Request was dropped

    def __getattr__(self, name):
        if name == "_raw":
            raise ValueError("the context is closed")
        raise AttributeError(f"'Context' object has no attribute {name!r}")

    def close(self) -> None:
        """Leaves the job. Memory, channels and windows of it end with it."""
        raw = self.__dict__.pop("_raw", None)
        if raw is None:
            return
        for dependent in self._dependents:
            dependent.__dict__.pop("_raw", None)
        if self._owns:
            lib.telpher_context_destroy(raw)
        self._left = []

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_what):
        self.close()

    def _if_open(self, call, raw):
        if "_raw" in self.__dict__:
            call(raw)

    def _free(self, pointer):
        if "_raw" in self.__dict__:
            lib.telpher_mem_free(self._raw, pointer)

    def _reap(self):
        """Releases the buffers of transfers that have ended, and whose Request was dropped."""
        left, self._left = self._left, []
        self._left += [row for row in left if lib.request_test(row[0]) >= _PENDING]

    @property
    def rank(self) -> int:
        """Number of this rank."""
        return lib.telpher_context_rank(self._raw)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return lib.telpher_context_size(self._raw)

    @property
    def local_rank(self) -> int:
        """Number of this rank among those of its host."""
        return lib.telpher_context_local_rank(self._raw)

    @property
    def local_size(self) -> int:
        """Number of ranks on this host."""
        return lib.telpher_context_local_size(self._raw)

    def transport(self, rank: int) -> str:
        """Name of the transport that reaches a rank: "shm"."""
        return ffi.string(lib.telpher_context_transport(self._raw, _checked(self, rank))).decode()

    def progress(self) -> int:
        """Progresses all operations, without waiting. @return number of events"""
        if self._left:
            self._reap()
        return lib.telpher_progress(self._raw)

    def barrier(self, timeout: float = 60) -> None:
        """Returns when all ranks have called it. @timeout [s]"""
        check(lib.telpher_barrier(self._raw, _nanoseconds(timeout)), self._raw)

    def alloc(self, nbytes: int, kind: str = "host") -> Memory:
        """Allocates memory: "host", "opencl", "cuda", or "sim", which is for tests. @return Memory"""
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r}: one of {', '.join(KINDS)}")
        out = ffi.new("void **")
        check(lib.telpher_mem_alloc(self._raw, KINDS[kind], nbytes, out), self._raw)
        return (_CudaMemory if kind == "cuda" else Memory)(self, out[0], nbytes, kind)

    def register(self, buffer: Any, queue: Any = None) -> Memory:
        """Makes a pyopencl.Buffer usable in all calls, without a copy. @return Memory

        queue: pyopencl.CommandQueue that the program uses the buffer with. Transfers start after its work.
        """
        out = ffi.new("void **")
        queue_pointer = ffi.cast("struct _cl_command_queue *", queue.int_ptr if queue is not None else 0)
        check(lib.telpher_opencl_register(self._raw, ffi.cast("struct _cl_mem *", buffer.int_ptr),
                                          queue_pointer, out), self._raw)
        return Memory(self, out[0], buffer.size, "opencl", owner=(buffer, queue))

    def window(self, memory: Buffer, timeout: float = 60) -> Window:
        """Opens a window on a buffer. Collective. @return Window"""
        return Window(self, memory, timeout)

    def channel(self, rank: int, number: int = 0) -> Channel:
        """Opens this rank's end of channel @number with @rank. @return Channel"""
        return Channel(self, rank, number)
