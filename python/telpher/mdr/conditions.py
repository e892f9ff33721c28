# SPDX-License-Identifier: Apache-2.0
"""Calls and methods that wait for conditions of their object: @when, and Chare.wait()."""
import ast
import inspect
from collections import deque
from typing import Callable

from .constants import CONDITIONAL
from .runtime import Keywords, charm


def when(condition: str) -> Callable:
    """The method's calls wait until @condition holds: an expression of self, of the method's arguments and of names of
    its module, "self.step == step". It is evaluated when a call arrives, and after each method of the object."""
    def decorate(method):
        method._telpher_when = _with_arguments(method, condition)
        method._telpher_tag = _tag_of(method, condition)
        return method
    return decorate


def _with_arguments(method, expression):
    """The value of an expression, as a function of a call's arguments."""
    signature = inspect.signature(method)
    bare = [p.replace(default=p.empty, annotation=p.empty) for p in signature.parameters.values()]
    text = f"lambda {str(inspect.Signature(bare))[1:-1]}: ({expression})"
    function = eval(compile(text, f"<when {expression!r}>", "eval"), method.__globals__)
    function.__defaults__, function.__kwdefaults__ = method.__defaults__, method.__kwdefaults__

    def value(args):
        if type(args[-1]) is Keywords:
            return function(*args[:-1], **args[-1].names)
        return function(*args)
    return value


def _tag_of(method, condition):
    """Of "self.NAME == ARGUMENT": the name, and the argument's value as a function of a call's arguments."""
    tree = ast.parse(condition.strip(), mode="eval").body
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or not isinstance(tree.ops[0], ast.Eq):
        return None
    myself, *names = inspect.signature(method).parameters
    for one, other in (tree.left, tree.comparators[0]), (tree.comparators[0], tree.left):
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == myself \
                and isinstance(other, ast.Name) and other.id in names:
            return one.attr, _with_arguments(method, other.id)
    return None


class Attempt:
    """A call of a method with a condition. It runs when that holds: @return whether it did."""
    __slots__ = ("chare", "name", "function", "how", "args", "future")

    def __init__(self, *what):
        self.chare, self.name, self.function, self.how, self.args, self.future = what

    def __call__(self):
        try:
            if not self.function._telpher_when(self.args):
                return False
        except Exception as wrong:
            charm._raised((self.chare, self.name), wrong, self.future)
        else:
            charm._execute(self.chare, self.name, self.function, self.how & ~CONDITIONAL, self.args, self.future)
        return True


def add(chare, attempt):
    """Has @attempt, which returns whether it ran, called after each method of the object until it did."""
    if chare._telpher_conditions is None:
        chare._telpher_conditions = Conditions()
    chare._telpher_conditions.add(attempt)


class Conditions:
    """What waits in one object. Calls that wait for self.NAME == ARGUMENT are found by the value."""
    __slots__ = ("rows", "tagged")

    def __init__(self):
        self.rows, self.tagged = [], {}

    def add(self, attempt):
        tag = getattr(attempt.function, "_telpher_tag", None) if type(attempt) is Attempt else None
        if tag is not None:
            value = tag[1](attempt.args)
            try:
                self.tagged.setdefault(tag[0], {}).setdefault(value, deque()).append(attempt)
                return
            except TypeError:  # not hashable
                pass
        self.rows.append(attempt)

    def calls(self):
        """The calls, to be packed."""
        found = [attempt for values in self.tagged.values() for queue in values.values() for attempt in queue]
        return found + [row for row in self.rows if type(row) is Attempt]

    def run(self, chare):
        """Runs what waited for conditions that hold now, one after the other, as each may change the object."""
        while chare._telpher_held is None and (self._run_tagged(chare) or self._run_row()):
            pass

    def _run_tagged(self, chare):
        for name, values in self.tagged.items():
            value = getattr(chare, name, None)
            queue = values.get(value) if getattr(value, "__hash__", None) else None
            if queue:
                attempt = queue.popleft()
                if not queue:
                    del values[value]
                if not values:
                    del self.tagged[name]
                if not attempt():
                    self.rows.append(attempt)
                return True
        return False

    def _run_row(self):
        for at, attempt in enumerate(self.rows):
            del self.rows[at]
            if attempt():
                return True
            self.rows.insert(at, attempt)
        return False
