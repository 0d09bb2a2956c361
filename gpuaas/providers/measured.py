"""How long sites take to answer, and with what: a histogram for Prometheus of every call of every driver, and a span. What
changes something is refused where the connection does not allow it.

A verb is an abstract method of the contract (`gpuaas/providers/base`), plug-ins have the same; so there are at most as
many series as sites × verbs × outcomes. What a driver calls of itself during a call is part of that call.
"""

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from time import perf_counter
from typing import Any, TypeVar, cast

from prometheus_client import Histogram

from gpuaas.core import traces
from gpuaas.core.errors import GpuaasError
from gpuaas.providers import base
from gpuaas.providers.base import ClusterDriver, Driver

AnyDriver = TypeVar("AnyDriver", Driver, ClusterDriver)

CALLS = Histogram(
    "gpuaas_site_call_seconds",
    "How long calls to sites took; outcome is ok, or the code of the error.",
    ("site", "driver", "verb", "outcome"),
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
)
UNTIMED = frozenset({"steps", "watch_usage", "watch_changes"})  # no call; streams, as long as one likes
# What makes, changes or ends something that is a tenant's or shared by them. People's credentials may end at any time.
CHANGING = frozenset(
    {
        "perform",
        "evict",
        "site_repair",
        "offers_set",
        "node_check_start",
        "adopt",
        "launch",
        "act",
        "slurm_exchange",
    }
)
Heard = Callable[[str, float], None]  # the site's slug, and how many seconds a call took
_answering = ContextVar("answering", default=False)
_heard: ContextVar[Heard | None] = ContextVar("heard", default=None)


@contextmanager
def heard(by: Heard) -> Iterator[None]:
    """`by` is told of each call that ends within the block, whatever came of it."""
    token = _heard.set(by)
    try:
        yield
    finally:
        _heard.reset(token)


@cache
def measured(driver: type[AnyDriver]) -> type[AnyDriver]:
    """The driver, its verbs timed. They are found by name at each call, as those of any class."""
    about = {"__module__": driver.__module__, "__qualname__": driver.__qualname__, "__doc__": driver.__doc__}
    timed = {verb: _timed(driver, verb) for verb in verbs(driver)}
    return cast("type[AnyDriver]", ABCMeta(driver.__name__, (driver,), {**about, **timed}))


def verbs(driver: type[Driver] | type[ClusterDriver]) -> frozenset[str]:
    """Those of its verbs that call the site and return when they are done."""
    contract = [part for part in driver.__mro__ if part.__module__.startswith(base.__name__)]
    names = {name for part in contract for name in getattr(part, "__abstractmethods__", ())}
    return frozenset(name for name in names if inspect.isfunction(getattr(driver, name))) - UNTIMED


def _timed(driver: type[Driver] | type[ClusterDriver], verb: str) -> Callable[..., Any]:
    @wraps(getattr(driver, verb))
    def call(self: Driver | ClusterDriver, *given: Any, **named: Any) -> Any:
        if _answering.get():
            return getattr(driver, verb)(self, *given, **named)
        token, began, outcome = _answering.set(True), perf_counter(), "error"
        site = self.connection.site_slug
        with traces.span(f"{self.name} {verb}", "CLIENT") as data:
            data.about = {"gpuaas.site": site}
            try:
                if verb in CHANGING:
                    self.connection.change_require()
                answer = getattr(driver, verb)(self, *given, **named)
                outcome = "ok"
            except GpuaasError as error:
                outcome = data.error = error.code
                raise
            finally:
                _answering.reset(token)
                took = perf_counter() - began
                CALLS.labels(site, self.name, verb, outcome).observe(took)
                if (by := _heard.get()) is not None:
                    by(site, took)
        return answer

    return call
