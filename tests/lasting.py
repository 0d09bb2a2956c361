"""What many tests ask for is made once for those that follow each other, and each meets it as it was made.

    @pytest.fixture
    @lasting
    def cluster(as_alice: Actor, project: Project) -> Cluster:

It only writes rows, and so does all that it asks for, which lasts with it: each is a savepoint inside the one before, and what a
test writes is undone inside them all. The next test keeps those that it asks for too, the others are undone and made anew; the
tests of a file run in the order that makes the least anew. Each test has copies of the values; between them the same object is
the same object. One that yields makes conditions, as a time that stands still, and comes before the others; it asks for `db`.

Tests that commit, and those whose file sets something up for all of its tests, have fixtures of their own as ever.
"""

import copy
import inspect
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import pytest
from _pytest.fixtures import SubRequest
from django.core.cache import cache
from django.db import connection
from pytest_django.fixtures import validate_django_db
from pytest_django.plugin import blocking_manager_key

from tests.apart import undone

Fixture = TypeVar("Fixture", bound=Callable[..., Any])
Definition = pytest.FixtureDef[Any]
DATABASE = "_django_db_helper"  # in which pytest-django begins the transaction of a test
COMMITTED = {"transactional_db", "live_server"}
_marked: set[Callable[..., Any]] = set()


def lasting(function: Fixture) -> Fixture:
    _marked.add(function)
    return function


@dataclass(frozen=True)
class Layer:
    """values: of it and of those below, by name. The objects are its own, as making it may change what others have made."""

    definition: Definition
    values: dict[str, Any]
    block: ExitStack


class Lasting:
    """In each process that runs tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.blocker = config.stash[blocking_manager_key]
        self.layers: list[Layer] = []
        self.copies: dict[Definition, Any] = {}
        self.next: list[Definition] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Definition, request: SubRequest) -> object:
        if fixturedef.argname == DATABASE:
            request.addfinalizer(lambda: self.keep(self.next))  # after the transaction of the test
            self.stand(asked(request.node))
        if fixturedef not in self.copies:
            return None
        fixturedef.cached_result = (self.copies[fixturedef], fixturedef.cache_key(request), None)
        return fixturedef.cached_result  # where pytest reads the value; of None the hook would ask the next

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> None:
        self.next = asked(nextitem)

    def stand(self, wanted: list[Definition]) -> None:
        """Made are those, in this order; nothing where a wider fixture has a world of its own open."""
        self.keep(wanted)
        if not wanted or (not self.layers and connection.in_atomic_block):
            return
        with self.blocker.unblock():
            for definition in wanted[len(self.layers) :]:
                self.make(definition)
        values = copy.deepcopy(self.layers[-1].values)
        self.copies = {definition: values[definition.argname] for definition in wanted}
        cache.clear()  # rows have the keys that they had in the test before

    def make(self, definition: Definition) -> None:
        values: dict[str, Any] = copy.deepcopy(self.layers[-1].values) if self.layers else {"db": None}
        given = {name: values[name] for name in definition.argnames}
        function: Callable[..., Any] = definition.func
        with ExitStack() as stack:
            stack.enter_context(undone())
            if inspect.isgeneratorfunction(function):
                values[definition.argname] = stack.enter_context(contextmanager(function)(**given))
            else:
                values[definition.argname] = function(**given)
            self.layers.append(Layer(definition, values, stack.pop_all()))

    def keep(self, wanted: list[Definition]) -> None:
        """The first of what is made, as far as they are the first of what is wanted."""
        self.copies = {}
        still = [] if connection.closed_in_transaction else wanted
        with self.blocker.unblock():
            while [layer.definition for layer in self.layers] != still[: len(self.layers)]:
                self.layers.pop().block.close()


def asked(item: pytest.Item | None) -> list[Definition]:
    """The lasting fixtures of a test, each after those that it asks for itself; conditions first, then the largest, as others
    share them."""
    if not isinstance(item, pytest.Function) or commits(item):
        return []
    known = {name: found[-1] for name, found in item._fixtureinfo.name2fixturedefs.items() if found}
    roots = [closure for name in known if known[name].func in _marked and (closure := lasts(name, known))]
    roots.sort(key=lambda closure: (not inspect.isgeneratorfunction(closure[-1].func), -len(closure)))
    found = list(dict.fromkeys(each for closure in roots for each in closure))
    first = set(item.session._fixturemanager._getautousenames(item))
    others = [each for each in known.values() if each not in found]
    return [] if any(sets_up(each, first, {each.argname for each in found}) for each in others) else found


def lasts(name: str, known: dict[str, Definition], below: frozenset[str] = frozenset()) -> list[Definition]:
    """The fixture and all that it asks for, itself last; nothing where one of them is not made by rows alone, or stands for another
    one of its name, for which it asks itself. below: what asks for it."""
    definition = known[name]
    if definition.scope != "function" or definition.params or not inspect.isfunction(definition.func):
        return []
    if inspect.isgeneratorfunction(definition.func) and definition.func not in _marked:
        return []
    found: list[Definition] = []
    for needed in definition.argnames:
        if needed == "db":
            continue
        asking = below | {name}
        if needed in {*asking, "request"} or not (more := lasts(needed, known, asking)):
            return []
        found += more
    return list(dict.fromkeys([*found, definition]))


def commits(item: pytest.Function) -> bool:
    mark = item.get_closest_marker("django_db")
    return bool(COMMITTED & set(item.fixturenames) or (mark and any(validate_django_db(mark)[:2])))


def sets_up(definition: Definition, autouse: set[str], lasting: set[str]) -> bool:
    """Whether what lasts may depend on it unseen: rows for several tests, a clock that stands (and does so after no condition), a
    file's own for all of its tests."""
    if definition.func.__module__.startswith("pytest_django") or definition.baseid in {"", "tests"}:
        return False
    if definition.scope != "function":
        return "django_db_blocker" in definition.argnames
    own = definition.baseid.endswith(".py") and definition.argname in autouse
    return own or (inspect.isgeneratorfunction(definition.func) and not lasting & set(definition.argnames))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Lasting(config), "lasting")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [
        item
        for _, of_a_file in groupby(items, key=lambda item: item.path)
        for item in sorted(of_a_file, key=lambda item: [each.argname for each in asked(item)])
    ]
