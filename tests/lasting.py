"""What many tests ask for is made once for those that follow each other, and each meets it as it was made.

    @pytest.fixture
    @lasting
    def cluster(as_alice: Actor, project: Project) -> Cluster:

It only writes rows, and so does all that it asks for, which lasts with it: each is a savepoint inside the one before, and what a
test writes is undone inside them all. The next test keeps those that it asks for too, the others are undone and made anew. Each
test has copies of the values; between them the same object is the same object. Tests that commit, and those around which
something is set up, such as a clock that stands, have fixtures of their own as ever.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any, TypeVar

import pytest
from _pytest.fixtures import SubRequest
from django.db import connection
from pytest_django.fixtures import validate_django_db
from pytest_django.plugin import blocking_manager_key

from tests.apart import undone

Fixture = TypeVar("Fixture", bound=Callable[..., Any])
Definition = pytest.FixtureDef[Any]
DATABASE = "_django_db_helper"  # in which pytest-django begins the transaction of a test
_marked: set[Callable[..., Any]] = set()


def lasting(function: Fixture) -> Fixture:
    _marked.add(function)
    return function


class Lasting:
    """In each process that runs tests. made: what lasts now, each with its value and its savepoint."""

    def __init__(self, config: pytest.Config) -> None:
        self.blocker = config.stash[blocking_manager_key]
        self.made: dict[Definition, tuple[Any, ExitStack]] = {}
        self.copies: dict[Definition, Any] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Definition, request: SubRequest) -> object:
        if fixturedef.argname == DATABASE:
            self.stand(asked(request.node))
        if fixturedef not in self.copies:
            return None
        fixturedef.cached_result = (self.copies[fixturedef], fixturedef.cache_key(request), None)
        return fixturedef.cached_result  # where pytest reads the value; of None the hook would ask the next

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Iterator[None]:
        try:
            return (yield)
        finally:
            self.copies = {}
            if nextitem is None or {DATABASE, "django_db_blocker"} & set(
                getattr(nextitem, "fixturenames", ())
            ):
                self.keep(asked(nextitem))

    def stand(self, wanted: list[Definition]) -> None:
        """Made are those, in this order; nothing where a wider fixture has a world of its own open."""
        self.keep(wanted)
        if self.made or not connection.in_atomic_block:
            with self.blocker.unblock():
                for definition in wanted[len(self.made) :]:
                    self.make(definition)
            values = copy.deepcopy([value for value, _ in self.made.values()])
            self.copies = dict(zip(wanted, values, strict=True))

    def make(self, definition: Definition) -> None:
        values = {below.argname: value for below, (value, _) in self.made.items()}
        with ExitStack() as stack:
            stack.enter_context(undone())
            value = definition.func(**{name: values.get(name) for name in definition.argnames})
            self.made[definition] = (value, stack.pop_all())

    def keep(self, wanted: list[Definition]) -> None:
        """The first of what is made, as far as they are the first of what is wanted."""
        still = [] if connection.closed_in_transaction else wanted
        with self.blocker.unblock():
            while list(self.made) != still[: len(self.made)]:
                self.made.popitem()[1][1].close()


def asked(item: pytest.Item | None) -> list[Definition]:
    """The lasting fixtures of a test, each after those that it asks for itself; the largest first, as others share them."""
    mark = item.get_closest_marker("django_db") if item else None
    if not isinstance(item, pytest.Function) or (mark and any(validate_django_db(mark)[:2])):
        return []
    known = {name: found[-1] for name, found in item._fixtureinfo.name2fixturedefs.items() if found}
    roots = [lasts(name, known) for name in known if known[name].func in _marked]
    found = list(dict.fromkeys(each for closure in sorted(roots, key=len, reverse=True) for each in closure))
    first = set(item.session._fixturemanager._getautousenames(item))
    commits = {"transactional_db", "live_server"} & set(known)
    return (
        [] if commits or any(sets_up(each, first) for each in known.values() if each not in found) else found
    )


def lasts(name: str, known: dict[str, Definition]) -> list[Definition]:
    """All that the fixture asks for, and last itself; nothing where one of them is not made by rows alone."""
    this = known[name]
    if (
        this.scope != "function"
        or this.params
        or not inspect.isfunction(this.func)
        or inspect.isgeneratorfunction(this.func)
    ):
        return []
    needs = set(this.argnames) - {"db"}
    if name in needs or not needs <= set(known):
        return []
    below = [lasts(needed, known) for needed in this.argnames if needed in needs]
    return list(dict.fromkeys([*chain(*below), this])) if all(below) else []


def sets_up(definition: Definition, autouse: set[str]) -> bool:
    """Whether what lasts may depend on it unseen: rows for several tests, a clock that stands, a file's own for all of its tests."""
    if definition.func.__module__.startswith("pytest_django") or definition.baseid in {"", "tests"}:
        return False
    if definition.scope != "function":
        return "django_db_blocker" in definition.argnames
    own = definition.baseid.endswith(".py") and definition.argname in autouse
    return own or inspect.isgeneratorfunction(definition.func)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Lasting(config), "lasting")
