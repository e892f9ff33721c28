# SPDX-License-Identifier: Apache-2.0
"""Reductions: contributions of a process are folded there, then those of all processes in process 0."""
import array
import operator
from typing import Callable, Optional

from .constants import REDUCE, REDUCE_HEAD, RESULT
from .runtime import charm
from .waiting import Future


def _elementwise(fold):
    def apply(a, b):
        if isinstance(a, (list, tuple, array.array)):
            return [fold(x, y) for x, y in zip(a, b)]
        return fold(a, b)
    return apply


def _logical(name, fold):
    return _elementwise(lambda a, b: getattr(_numpy(), name)(a, b) if hasattr(a, "shape") else fold(bool(a), bool(b)))


def _smaller(a, b):
    return _numpy().minimum(a, b) if hasattr(a, "shape") else min(a, b)


def _larger(a, b):
    return _numpy().maximum(a, b) if hasattr(a, "shape") else max(a, b)


def _numpy():
    import numpy
    return numpy


class _Reducers:
    """Reducer.sum, product, min, max, logical_and, logical_or, logical_xor, gather, nop; Reducer.add(function)."""

    def __init__(self):
        self._functions = {
            "sum": _elementwise(operator.add), "product": _elementwise(operator.mul),
            "min": _elementwise(_smaller), "max": _elementwise(_larger),
            "logical_and": _logical("logical_and", lambda a, b: a and b),
            "logical_or": _logical("logical_or", lambda a, b: a or b),
            "logical_xor": _logical("logical_xor", operator.ne),
            "gather": operator.add, "nop": lambda a, b: None}

    def add(self, function: Callable, name: Optional[str] = None) -> None:
        """Makes a reducer of function(a, b), which is associative and commutative. All processes add the same
        ones before charm.start()."""
        self._functions[name or function.__name__] = function

    def addReducer(self, function: Callable) -> None:
        """Makes a reducer of function(contributions), which takes a list, as Charm4py has it."""
        self.add(lambda a, b: function([a, b]), function.__name__)

    def __getattr__(self, name):
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(f"no reducer {name!r}: {', '.join(sorted(self._functions))}")
        return name


Reducer = _Reducers()


class _Partial:
    """Contributions to one reduction in this process."""

    def __init__(self):
        self.count, self.value, self.reducer, self.target = 0, None, None, None

    def fold(self, count, value, reducer, target):
        if self.count == 0:
            self.value, self.reducer, self.target = value, reducer, target
        elif reducer != self.reducer:
            raise ValueError(f"elements contribute with different reducers: {self.reducer!r} and {reducer!r}")
        else:
            self.value = Reducer._functions[reducer](self.value, value)
        self.count += count


def _fold(partial, what, *contribution):
    """Folds, or raises an error that names the reduction."""
    try:
        partial.fold(*contribution)
    except Exception as wrong:
        raise ValueError(f"{what}: {wrong}") from wrong


class ReductionManager:
    """Folds the contributions of a process, then those of all processes in process 0."""

    def __init__(self):
        self._local, self._all, self._futures = {}, {}, {}

    def contribute(self, chare, data, reducer, callback, section=None):
        reducer = reducer if reducer is not None else "nop"
        if reducer not in Reducer._functions:
            raise ValueError(f"unknown reducer {reducer!r}: one of {', '.join(sorted(Reducer._functions))}")
        where = section if section is not None else chare.thisProxy
        collection = where._number
        number = chare._telpher_reductions.get(collection, 0)
        chare._telpher_reductions[collection] = number + 1
        name = type(chare).__name__
        partial = self._local.get((collection, number))
        if partial is None:  # it is sent when the methods have run whose messages are here
            partial = self._local[collection, number] = _Partial()
            charm._ready(self._flush, collection, number, where._count(), name)
        _fold(partial, f"reduction {number} of {chare!r}", 1,
              [(chare.thisIndex, data)] if reducer == "gather" else data, reducer, callback)

    def _flush(self, collection, number, total, name):
        partial = self._local.pop((collection, number))
        try:
            charm._send_manager(0, REDUCE, REDUCE_HEAD.pack(collection, number, partial.count),
                                (partial.value, partial.reducer, partial.target, total, name))
        except Exception as wrong:  # of packing
            raise ValueError(f"reduction {number} of class {name}: {wrong}") from wrong

    def receive(self, collection, number, count, value, reducer, callback, total, name):
        partial = self._all.setdefault((collection, number), _Partial())
        _fold(partial, f"reduction {number} of class {name}", count, value, reducer, callback)
        if total is None:
            total = len(charm._members.get(collection, ())) or None  # of a sparse array: when its elements are counted
        self._finish_if(collection, number, total)

    def counted(self, collection):
        """The elements of a sparse array are counted."""
        for key in [key for key in self._all if key[0] == collection]:
            self._finish_if(*key, len(charm._members[collection]))

    def _finish_if(self, collection, number, total):
        partial = self._all[collection, number]
        if total is None or partial.count < total:
            return
        reducer = partial.reducer
        del self._all[collection, number]
        value = [data for _, data in sorted(partial.value)] if reducer == "gather" else partial.value
        if reducer == "nop":
            partial.target()
        else:
            partial.target(value)

    def all(self, chare, data, reducer, section=None):
        where = section if section is not None else chare.thisProxy
        number = chare._telpher_reductions.get(where._number, 0)
        future = self._futures[chare.thisProxy._raw.id, chare.thisIndex, where._number, number] = Future()
        self.contribute(chare, data, reducer, ToAll(where, number), section)
        return future

    def all_done(self, chare, collection, number, value):
        future = self._futures.pop((chare.thisProxy._raw.id, chare.thisIndex, collection, number), None)
        if future is not None:  # the object did not move without waiting for it
            future._arrived(value, False)


class ToAll:
    """Target of allreduce(): the futures of all elements."""

    def __init__(self, proxy, number):
        self.proxy, self.number = proxy, number

    def __call__(self, value=None):
        self.proxy._call_number(RESULT, (self.proxy._number, self.number, value))
