"""Each test runs in one piece of the interpreter's stack.

CPython keeps frames in pieces of 16 KiB: a call that begins the next piece has it mapped by the kernel, and its return gives it back,
so a loop at such a depth takes hundreds of times as long as elsewhere (`push_chunk` and `_PyThreadState_PopFrame` in
https://github.com/python/cpython/blob/3.11/Python/pystate.c). A frame that asks for a MiB gets a piece of two, and all that it calls
is in the rest of it.
"""

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar

import pytest
from _pytest import runner

Answer = TypeVar("Answer")
WORDS = 1 << 17  # of 8 bytes


def _call(function: Callable[..., Answer], *given: object) -> Answer:
    return function(*given)


in_one_piece = FunctionType(_call.__code__.replace(co_stacksize=WORDS), globals())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    return bool(in_one_piece(runner.pytest_runtest_protocol, item, nextitem))
