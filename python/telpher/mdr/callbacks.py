# SPDX-License-Identifier: Apache-2.0
"""What C calls. Entries decode what has arrived; methods run between turns of the scheduler."""
import pickle
import struct
import sys

from .._telpher import ffi, lib
from . import moves
from .chare import ArrayMap, Chare, how
from .channel import End
from .constants import (ASYNC, CALL_HEAD, CHANNEL_HEAD, CHANNEL_NAME, CONDITIONAL, COUNT, FUTURE_HEAD, MANAGER_CLASS,
                        MOBILE_CLASS, NO_FUTURE, REDUCE_HEAD, RESULT, WAITS)
from .proxy import SIZE_OF_PROXY, Proxy, class_of, is_sparse
from .runtime import charm, trace
from .wire import read_call, read_message

_kept = []  # tables that the library keeps pointers to


def mdr_classes():
    any_length, waits = lib.TELPHER_MDR_ANY_LENGTH, 1
    entries = [
        ("call", _run("invoke"), lib.mdr_post, any_length, 0),
        ("channel", _run("channel"), ffi.addressof(lib, "mdr_post_channel"), any_length, 0)]
    yield "python object", ffi.sizeof("mdr_object"), entries
    yield "python manager", 0, [("start", _run("start"), ffi.NULL, any_length, 0),
                                ("quiet", _run("future"), ffi.NULL, any_length, 0),
                                ("future", _run("future"), lib.mdr_post, any_length, 0),
                                ("reduce", _run("reduce"), lib.mdr_post, any_length, 0),
                                ("wait until quiet", ffi.addressof(lib, "mdr_quiet"), ffi.NULL, any_length, waits),
                                ("remote", _run("remote"), lib.mdr_post, any_length, 0)]
    yield "python object that moves", ffi.sizeof("mdr_object"), [*entries, ("resume", _run("resume"), ffi.NULL, 0, 0)]


def _run(name):
    """The function of C that notes that Python runs, and calls the one below."""
    return ffi.addressof(lib, f"mdr_run_{name}")


def register(name, size, entries):
    table = ffi.new("telpher_mdr_entry[]", len(entries))
    texts = [ffi.new("char[]", text.encode()) for text in [name] + [entry[0] for entry in entries]]
    for row, text, (_name, run, post, length, flags) in zip(table, texts[1:], entries):
        row.name, row.run, row.post, row.params_len, row.flags = text, run, post, length, flags
    definition = ffi.new("telpher_mdr_class *")
    definition.struct_size, definition.entry_count = ffi.sizeof("telpher_mdr_class"), len(entries)
    definition.name, definition.object_size, definition.entries = texts[0], size, table
    definition.create = _run("create")
    definition.destroy = lib.mdr_destroy
    if any(entry[0] == "resume" for entry in entries):
        definition.pup = _run("pup")
    _kept.append((table, texts, definition))
    number = ffi.new("uint32_t *")
    charm._check(lib.telpher_mdr_class_register(charm._raw, definition, number))
    return number[0]


def _guarded(name):
    """A function that C calls; an exception ends the job."""
    def decorate(function):
        def failed(_type, wrong, where):
            charm._fail(wrong, f"process {charm.myPe()}:\n{trace(wrong.with_traceback(where))}")
        ffi.def_extern(name=name, onerror=failed)(function)
        return function
    return decorate


def _params(call):
    return ffi.unpack(ffi.cast("const char *", call.params), call.params_len)


@_guarded("mdr_create")
def _on_create(call):
    if call.array.class_id == MANAGER_CLASS:
        charm._manager = _copy_of(call.array)
        return
    manager, name, args, only, index, array_map = pickle.loads(ffi.buffer(call.params, call.params_len))
    if charm._manager is None:
        array = ffi.new("telpher_mdr_array *")
        ffi.memmove(array, manager, SIZE_OF_PROXY)
        charm._manager = _copy_of(array[0])
    if only is not None and only != call.index.at[0]:
        return
    chare = new_object(call, class_of(name), only is not None)
    if index is not None:
        chare.thisIndex = index
    chare.thisProxy._map = array_map
    if isinstance(chare, ArrayMap):
        charm._maps[call.array.id] = chare
    if array_map is not None and index is None:
        charm._ready(moves.make_by_map, chare, args)
        return
    cls = type(chare)
    init = cls.__init__
    kind = WAITS if cls is charm._main and how(init) != ASYNC else how(init)
    charm._ready(charm._execute, chare, "__init__", init, kind, (chare, *args), NO_FUTURE)


def new_object(call, cls, is_alone=False):
    """The object of Python for an object of the library, without its attributes."""
    copy = ffi.new("telpher_mdr_array *", call.array)
    index = tuple(call.index.at[i] for i in range(call.array.dims)) if call.array.dims else call.index.at[0]
    charm._making = Proxy(copy[0], cls, index if is_alone else None, owner=copy), index
    try:
        chare = cls.__new__(cls)
    finally:
        charm._making = None
    state = ffi.cast("mdr_object *", call.self)
    state.number, state.posted = next(charm._object_numbers), ffi.NULL
    chare._telpher_state, chare._telpher_mobile = state, call.array.class_id == MOBILE_CLASS or is_sparse(call.array)
    charm._objects[state.number] = chare
    return chare


_copies = {}


def _copy_of(array):
    copy = ffi.new("telpher_mdr_array *", array)
    _copies["manager"] = copy
    return copy[0]


@_guarded("mdr_landed")
def _on_landed(number):
    charm._ends[number].landed()


@_guarded("mdr_destroy")
def _on_destroy(call):
    chare = charm._objects.pop(ffi.cast("uint64_t *", call.self)[0], None)
    if chare is not None:
        for end in chare._telpher_channels.values():
            end.forget_slot()


@_guarded("mdr_pup")
def _on_pup(call, pup):
    moves.pup(call, pup)


@_guarded("mdr_resume")
def _on_resume(call):
    moves.resume(charm._objects[ffi.cast("mdr_object *", call.self).number])


@_guarded("mdr_post")
def _on_post(call):
    _make(call, _params(call), ())


def _make(call, data, placed):
    """New memory for the buffers of a message that are not in @placed."""
    buffers, make, count = call.buffers, charm._landing.make, data[0] & COUNT
    for i in range(call.buffer_count):
        if i not in placed:
            buffers[i].data = make(buffers[i].len, data[1 + i] if i < count else 0)


@_guarded("mdr_place")
def _on_place(call, number, params, length):
    data = ffi.unpack(params, length)
    start = 1 + (data[0] & COUNT)
    end = start + CHANNEL_NAME
    channel = charm._objects[number]._telpher_channels.get(data[start:end])
    posted = channel.posted_for(int.from_bytes(data[end:end + 4], "little")) if channel else None
    if posted is None:
        _make(call, data, ())
    else:
        posted.place(call.buffers, data[1:start])
        _make(call, data, posted.landed)


@_guarded("mdr_invoke")
def _on_invoke(call, number, params, length):
    _call_method(charm._objects[number], call, ffi.unpack(params, length))


def _call_method(chare, call, data):
    method, home, future = CALL_HEAD.unpack_from(data, 1 + (data[0] & COUNT))
    name, function, how = type(chare)._telpher_methods[method]
    try:
        args = read_call(call, data, CALL_HEAD.size)[1]
    except Exception as wrong:  # of unpacking
        charm._raised((chare, name), wrong, (home, future))
        return
    if method == RESULT:  # at once: what waits for it goes on before methods that are called later
        chare._telpher_result(*args)
        return
    execute = charm._execute if how < CONDITIONAL else charm._execute_when
    charm._queue.append((execute, (chare, name, function, how, (chare, *args), (home, future))))


@_guarded("mdr_remote")
def _on_remote(call):
    _call_method(charm._remote.this, call, _params(call))


@_guarded("mdr_channel")
def _on_channel(call, number, params, length):
    data = ffi.unpack(params, length)
    start = 1 + (data[0] & COUNT)
    end = start + CHANNEL_NAME
    ends, name = charm._objects[number]._telpher_channels, data[start:end]
    channel = ends.get(name)
    if channel is None:
        channel = ends[name] = End(charm._objects[number], name)
    sequence = int.from_bytes(data[end:end + 4], "little")
    posted = channel.posted_for(sequence)
    try:
        items = read_message(call, data, CHANNEL_HEAD.size, posted.landed if posted else ())
    except Exception as wrong:
        _array, *index, nth, _sequence = CHANNEL_HEAD.unpack_from(data, start)
        raise ValueError(f"{charm._objects[number]!r} cannot unpack message {sequence} of its channel {nth} from element "
                         f"{index}: {wrong!r}") from wrong
    channel.put(sequence, items)


@_guarded("mdr_future")
def _on_future(call):
    data = _params(call)
    if len(data) == 8:  # quiescence
        number, failed, value = *struct.unpack("<Q", data), 0, None
    else:
        number, failed = FUTURE_HEAD.unpack_from(data, 1 + (data[0] & COUNT))
        try:
            value, = read_call(call, data, FUTURE_HEAD.size)[1]
        except Exception as wrong:
            value, failed = f"process {charm.myPe()}, its value cannot be unpacked:\n{trace(wrong)}", True
    future = charm._futures.get(number)
    if future is not None:
        future._arrived(value, failed)


@_guarded("mdr_reduce")
def _on_reduce(call):
    data = _params(call)
    start, rest = read_call(call, data, REDUCE_HEAD.size)
    charm._ready(charm._reducers.receive, *REDUCE_HEAD.unpack_from(data, start), *rest)


@_guarded("mdr_start")
def _on_start(call):
    args = [arg for arg in sys.argv if not arg.startswith("+")]  # those are settings of Charm++
    if isinstance(charm._main, type):
        Chare(charm._main, onPE=0, args=[args])
        return
    main = how(charm._main)
    charm._ready(charm._execute, None, "main", charm._main, main if main == ASYNC else WAITS, (args,), NO_FUTURE)


@ffi.def_extern()
def mdr_sent(user, status, length):
    charm._sending.pop(int(ffi.cast("uintptr_t", user)), None)
