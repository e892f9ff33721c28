# SPDX-License-Identifier: Apache-2.0
"""Objects that move or end. One leaves when none of its methods is suspended; calls that come meanwhile are held, and go
along if it moves."""
import io
import pickle

from .._telpher import ffi, lib
from .constants import CONDITIONAL, END, MOBILE_CLASS, NO_FUTURE, RESUME, SYNC
from .proxy import class_of, index_at, is_sparse
from .runtime import charm

_NOT_PACKED = ("_telpher_state", "_telpher_conditions", "_telpher_held", "_telpher_mobile", "_telpher_target",
               "_telpher_suspended")


def want(chare, target):
    """The object shall move to a process, or be spread with its array: SYNC."""
    if chare.thisProxy._raw.class_id != MOBILE_CLASS:
        raise TypeError(f"{chare!r} cannot move: make it by Array(…, useAtSync=True), or define migrated() in its class")
    if target != SYNC and not 0 <= target < charm.numPes():
        raise ValueError(f"migrate({target}): there are {charm.numPes()} processes")
    if chare._telpher_target != END:
        chare._telpher_target = None if target == charm.myPe() else target
    charm._touch(chare)


def want_end(chare):
    """The object shall end."""
    if not is_sparse(chare.thisProxy._raw):
        raise TypeError(f"{chare!r} cannot end: only elements of arrays without dims do, Array({type(chare).__name__})")
    chare._telpher_target = END
    charm._touch(chare)


def leave(chare):
    """Begins the move, or the end; no method of the object runs or is suspended."""
    target, chare._telpher_target, chare._telpher_held = chare._telpher_target, None, []
    call = ffi.new("telpher_mdr_call *")
    call.mdr, call.self, call.array = charm._raw, chare._telpher_state, chare.thisProxy._raw
    call.index = index_at(chare.thisIndex, call.array)
    if target == SYNC:
        charm._check(lib.telpher_mdr_load_add(call, chare._telpher_ns))
        chare._telpher_ns = 0
        sync = lib.telpher_mdr_sync_here if chare._telpher_stays else lib.telpher_mdr_sync
        charm._check(sync(call, RESUME))
    elif target == END:
        charm._check(lib.telpher_mdr_remove(call))
    else:
        charm._check(lib.telpher_mdr_migrate(call, target))


def make_by_map(chare, args):
    """Runs the constructor of an object in the process that the map of its array gives."""
    target = chare.thisProxy._map._process_of(chare.thisIndex)
    if target == charm.myPe():
        charm._execute(chare, "__init__", *type(chare)._telpher_init, (chare, *args), NO_FUTURE)
        return
    chare._telpher_target = target
    leave(chare)
    chare._telpher_held.append(("__init__", (chare, *args), NO_FUTURE))


def go_on(chare, rows):
    """Queues calls, rows of (name, arguments, future), that were held."""
    table, numbers = type(chare)._telpher_methods, type(chare)._telpher_numbers
    for name, args, future in rows:
        if name == "__init__":
            function, how = type(chare)._telpher_init
        elif name in numbers:
            function, how = table[numbers[name]][1:]
        else:
            continue  # migrated() and resumeFromSync() of Chare itself
        charm._ready(charm._execute if how < CONDITIONAL else charm._execute_when, chare, name, function, how,
                     (chare, *args), future)


def resume(chare):
    """The array is spread; the object is where it shall be."""
    rows, chare._telpher_held = chare._telpher_held or [], None
    go_on(chare, [("resumeFromSync", (), NO_FUTURE)])
    go_on(chare, [(name, args[1:], future) for name, args, future in rows])


# ---- packing ----

class _Pickler(pickle.Pickler):
    def __init__(self, file, chare):
        super().__init__(file, 5)
        self._chare = chare

    def persistent_id(self, obj):
        return "object" if obj is self._chare else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, chare):
        super().__init__(file)
        self._chare = chare

    def persistent_load(self, _name):
        return self._chare


def _calls_of(chare):
    """The calls that wait: for conditions, for the move, and those whose messages have just come."""
    waiting = chare._telpher_conditions.calls() if chare._telpher_conditions is not None else ()
    rows = [(row.name, row.args[1:], row.future) for row in waiting]
    rows += [(name, args[1:], future) for name, args, future in chare._telpher_held or ()]
    left = []
    for callback, args in charm._queue:
        if callback in (charm._execute, charm._execute_when) and args[0] is chare:
            _chare, name, _function, _how, values, future = args
            rows.append((name, values[1:], future))
        else:
            left.append((callback, args))
    charm._queue.clear()
    charm._queue.extend(left)
    return rows


def _dump(chare, what):
    file = io.BytesIO()
    _Pickler(file, chare).dump(what)
    return file.getvalue()


def _cannot_be_packed(chare, attributes):
    """Which of its attributes does not let an object move."""
    for name, value in attributes.items():
        try:
            _dump(chare, value)
        except Exception:
            return "its channels" if name == "_telpher_channels" else f"its attribute {name}"
    return "an argument of a call that waits for it"


def pack(chare):
    attributes = {name: value for name, value in vars(chare).items() if name not in _NOT_PACKED}
    try:
        data = _dump(chare, (attributes, _calls_of(chare)))
    except Exception as wrong:
        raise ValueError(f"{chare!r} cannot move from process {charm.myPe()} for {_cannot_be_packed(chare, attributes)}: "
                         f"{wrong!r}") from wrong
    return pickle.dumps(type(chare)._telpher_name) + data


def unpack(call, data):
    from .callbacks import new_object
    file = io.BytesIO(data)
    chare = new_object(call, class_of(pickle.load(file)))
    try:
        attributes, rows = _Unpickler(file, chare).load()
    except Exception as wrong:
        raise ValueError(f"{chare!r}, which moves to process {charm.myPe()}, cannot be unpacked: {wrong!r}") from wrong
    vars(chare).update(attributes)
    is_made = not rows or rows[0][0] != "__init__"  # else its constructor runs here: make_by_map()
    go_on(chare, [("migrated", (), NO_FUTURE), *rows] if is_made else rows)


_packed = {}  # number of an object: what SIZE gave, for PACK


def pup(call, raw):
    """Gives the size, packs or unpacks: the length, u64, and the pickle."""
    mode, number = lib.telpher_mdr_pup_mode(raw), ffi.cast("mdr_object *", call.self).number
    length = ffi.new("uint64_t *")
    if mode == lib.TELPHER_MDR_UNPACK:
        lib.telpher_mdr_pup_bytes(raw, length, 8)
        data = bytearray(length[0])
        lib.telpher_mdr_pup_bytes(raw, ffi.from_buffer(data), len(data))
        unpack(call, data)
        return
    data = pack(charm._objects[number]) if mode == lib.TELPHER_MDR_SIZE else _packed.pop(number)
    if mode == lib.TELPHER_MDR_SIZE:
        _packed[number] = data
    length[0] = len(data)
    lib.telpher_mdr_pup_bytes(raw, length, 8)
    lib.telpher_mdr_pup_bytes(raw, ffi.from_buffer(data), len(data))
