# SPDX-License-Identifier: Apache-2.0
"""Reductions: contributions of a process are folded there, then those of all processes in process 0."""
import bisect
import operator

from .._telpher import ffi, lib
from .constants import CALL, CALL_HEAD, NO_FUTURE, REDUCE, REDUCE_HEAD, RESULT
from .proxy import element_count, index_at, send_all
from .runtime import charm
from .waiting import Future

def _elementwise(fold):
    def apply(a, b):
        if isinstance(a, (list, tuple)):
            return [fold(x, y) for x, y in zip(a, b)]
        return fold(a, b)
    return apply


def _smaller(a, b):
    return _numpy().minimum(a, b) if hasattr(a, "shape") else min(a, b)


def _larger(a, b):
    return _numpy().maximum(a, b) if hasattr(a, "shape") else max(a, b)


def _numpy():
    import numpy
    return numpy


class _Reducers:
    """Reducer.sum, product, min, max, logical_and, logical_or, gather, nop, and Reducer.add(function)."""

    def __init__(self):
        self._functions = {
            "sum": _elementwise(operator.add), "product": _elementwise(operator.mul),
            "min": _elementwise(_smaller), "max": _elementwise(_larger),
            "logical_and": _elementwise(lambda a, b: bool(a) and bool(b)),
            "logical_or": _elementwise(lambda a, b: bool(a) or bool(b)),
            "gather": operator.add, "nop": lambda a, b: None}

    def add(self, function, name=None):
        """Makes a reducer of function(a, b), which is associative and commutative. All processes add the same
        ones before charm.start()."""
        self._functions[name or function.__name__] = function

    def __getattr__(self, name):
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(f"no reducer {name!r}: {', '.join(sorted(self._functions))}")
        return name

    addReducer = add


Reducer = _Reducers()


class _Partial:
    """Contributions to one reduction in this process."""

    def __init__(self):
        self.count, self.value, self.reducer, self.target = 0, None, None, None

    def fold(self, count, value, reducer, target):
        if self.count == 0:
            self.value, self.reducer, self.target = value, reducer, target
        elif reducer != self.reducer:
            raise ValueError(f"elements of one array contribute with different reducers: {self.reducer!r} and "
                             f"{reducer!r}")
        else:
            self.value = Reducer._functions[reducer](self.value, value)
        self.count += count


class ReductionManager:
    """Folds the contributions of a process, then those of all processes in process 0."""

    def __init__(self):
        self._local, self._all, self._futures, self._counts = {}, {}, {}, {}

    def contribute(self, chare, data, reducer, callback):
        reducer = reducer if reducer is not None else "nop"
        if reducer not in Reducer._functions:
            raise ValueError(f"unknown reducer {reducer!r}")
        array, number = chare.thisProxy._raw, chare._telpher_reductions
        chare._telpher_reductions += 1
        partial = self._local.setdefault((array.id, number), _Partial())
        partial.fold(1, [(chare.thisIndex, data)] if reducer == "gather" else data, reducer, callback)
        if partial.count == self._local_count(array):
            del self._local[array.id, number]
            charm._send_manager(0, REDUCE, REDUCE_HEAD.pack(array.id, number, partial.count),
                                (partial.value, reducer, callback, element_count(array)))

    def _local_count(self, array):
        count = self._counts.get(array.id)
        if count is None:
            count = self._counts[array.id] = _local_count(array)
        return count

    def receive(self, array, number, count, value, reducer, callback, total):
        partial = self._all.setdefault((array, number), _Partial())
        partial.fold(count, value, reducer, callback)
        if partial.count < total:
            return
        del self._all[array, number]
        value = [data for _, data in sorted(partial.value)] if reducer == "gather" else partial.value
        if reducer == "nop":
            partial.target()
        else:
            partial.target(value)

    def all(self, chare, data, reducer):
        key = chare.thisProxy._raw.id, tuple(chare.thisIndex), chare._telpher_reductions
        future = self._futures[key] = Future()
        self.contribute(chare, data, reducer,
                        ToAll(chare.thisProxy, chare._telpher_reductions))
        return future

    def all_done(self, chare, number, value):
        future = self._futures.pop((chare.thisProxy._raw.id, tuple(chare.thisIndex), number))
        future._arrived(value, False)


class ToAll:
    """Target of allreduce(): the futures of all elements."""

    def __init__(self, proxy, number):
        self.proxy, self.number = proxy, number

    def __call__(self, value=None):
        send_all(self.proxy._raw, CALL, CALL_HEAD.pack(RESULT, *NO_FUTURE), (self.number, value))


class Homes:
    """The process of each element, first dimension slowest: a sorted sequence."""

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return element_count(self.array)

    def __getitem__(self, position):
        index = []
        for extent in reversed([self.array.extent[i] for i in range(self.array.dims)] or [len(self)]):
            position, at = divmod(position, extent)
            index.insert(0, at)
        return lib.telpher_mdr_home(charm._raw, ffi.addressof(self.array), index_at(index))


def _local_count(array):
    """Elements of an array in this process."""
    homes, pe = Homes(array), charm.myPe()
    return bisect.bisect_right(homes, pe) - bisect.bisect_left(homes, pe)
