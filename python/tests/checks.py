# SPDX-License-Identifier: Apache-2.0
"""Checks of the test programs beside it."""


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r}, expected {wanted!r}")


def must_raise(kind, text, call):
    try:
        call()
    except kind as wrong:
        expect(text in str(wrong), True)
    else:
        raise AssertionError(f"no {kind.__name__} with {text!r}")
