"""Each property is tried with 25 examples in the fast tier and with 200 in the deep one: two tests of one function. The 25 are
drawn from a fixed seed, so that hardly anybody's change is refused for what was there before it; the 200 are others each time.
Hypothesis draws some from the constants of our modules that are loaded, so other sources still may give other examples.

A property that is costly says a smaller number by `settings(max_examples=…)`, which is the fast tier's; one that says a larger
number gets it in the deep tier. A test that runs a state machine asks for the fixture `examples`.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

FEW, MANY = 25, 200
ALIKE: dict[str, Any] = {"derandomize": True, "database": None}
SETTINGS = "_hypothesis_internal_use_settings"  # where Hypothesis and its own plugin keep those of a test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asks = "examples" in inspect.signature(metafunc.function).parameters
    if asks or is_hypothesis_test(metafunc.function):
        metafunc.parametrize("examples", [FEW, MANY], indirect=True)


@pytest.fixture(autouse=True)
def examples(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many to try; 0 where a test has none."""
    number: int = getattr(request, "param", 0)
    if number and is_hypothesis_test(request.function):
        with bounded(request.function, number):
            yield number
    elif number == FEW:
        with alike():
            yield number
    else:
        yield number


@contextmanager
def alike() -> Iterator[None]:
    """For a state machine, whose settings are made of the profile as the test runs."""
    before = settings.get_current_profile_name()
    settings.register_profile("alike", settings(), **ALIKE)
    settings.load_profile("alike")
    try:
        yield
    finally:
        settings.load_profile(before)


@contextmanager
def bounded(test: Callable[..., Any], number: int) -> Iterator[None]:
    declared: settings = getattr(test, SETTINGS)
    most = min(number, declared.max_examples) if number == FEW else max(number, declared.max_examples)
    setattr(test, SETTINGS, settings(declared, max_examples=most, **(ALIKE if number == FEW else {})))
    try:
        yield
    finally:
        setattr(test, SETTINGS, declared)
