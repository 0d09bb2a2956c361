"""The dials of a simulated site: latencies, planned failures, and whether it answers at all."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from gpuaas.core.errors import Permanent, Unauthorized, Unavailable
from gpuaas.core.rows import one_or_none
from gpuaas.providers.base import Connection
from gpuaas.providers.sandbox.models import SandboxSite

ERRORS = ("unavailable", "unauthorized", "permanent", "lost")
ALWAYS = -1


@contextmanager
def site_write(site_id: uuid.UUID) -> Iterator[SandboxSite]:
    """The site as its single writer, in one short transaction of the site's own database."""
    rows = SandboxSite.objects.select_for_update()
    with transaction.atomic():
        site = one_or_none(rows.filter(pk=site_id))
        if site is None:
            SandboxSite.objects.get_or_create(pk=site_id)
            site = rows.get(pk=site_id)
        before = _written(site)
        yield site
        if _written(site) != before:
            site.save(update_fields=["revision", "event_floor", "failures"])


def _written(site: SandboxSite) -> tuple[Any, ...]:
    return site.revision, site.event_floor, site.failures


def dials_set(site_id: uuid.UUID, **dials: Any) -> None:
    """Set any of latency_ms, confirm_ms, grace_ms, namespace_ms, machine_ms, environment_ms, down, retry_after, token,
    event_window."""
    SandboxSite.objects.update_or_create(pk=site_id, defaults=dials)


def fault_set(site_id: uuid.UUID, *, area: str, name: str, found: Any = None) -> None:
    """Set what the site's checks find from now on; None = healthy again.

    area `checks`: name is a check's type, found its status. `nodes`: a node, with {type: status}. `sick`: a node, with
    {MIG profile ("" = whole cards): how many}. `screens`: with any name and value the site has no consoles.
    `use`: an environment, with {"at": when it was last used} and {"kernel": what its kernel does}, as it tells itself, and its
    counters by the names of vLLM, such as {"prompt_tokens": "350.0"}.
    """
    with site_write(site_id) as site:
        dialed = {key: value for key, value in site.faults.get(area, {}).items() if key != name}
        site.faults = {**site.faults, area: {**dialed, name: found} if found else dialed}
        site.save(update_fields=["faults"])


def failure_plan(site_id: uuid.UUID, *, verb: str, error: str = "unavailable", times: int = 1) -> None:
    """Let the next `times` calls of `verb` fail (ALWAYS = until planned anew with 0).

    `lost` does the work and loses the answer: the caller sees Unavailable, the site has changed.
    """
    if error not in ERRORS:
        raise ValueError(f"error is one of {', '.join(ERRORS)}")
    with site_write(site_id) as site:
        site.failures = {**site.failures, verb: {"error": error, "times": times}}


def _failure_take(site_id: uuid.UUID, verb: str) -> str:
    """The planned failure of this call, counted down; "" where none is planned."""
    with site_write(site_id) as site:
        plan = site.failures.get(verb)
        if not plan or plan["times"] == 0:
            return ""
        if plan["times"] > 0:
            site.failures = {**site.failures, verb: {**plan, "times": plan["times"] - 1}}
        return str(plan["error"])


@contextmanager
def call(connection: Connection, verb: str) -> Iterator[None]:
    """Every call to the site goes through it: latency, refusals, and lost answers."""
    site, _ = SandboxSite.objects.get_or_create(
        pk=connection.site_id, defaults={"slug": connection.site_slug}
    )
    if site.latency_ms:
        time.sleep(site.latency_ms / 1000)
    refuse_where_down(site)
    if site.token and connection.credentials.get("token") != site.token:
        raise Unauthorized("the site does not accept the portal's credentials")
    error = _failure_take(site.site_id, verb) if site.failures else ""
    if error == "unauthorized":
        raise Unauthorized("the site does not accept the portal's credentials")
    if error == "permanent":
        raise Permanent(f"the site permanently refuses {verb}")
    if error == "unavailable":
        raise Unavailable("the site did not answer in time", retry_after=site.retry_after)
    yield
    if error == "lost":
        raise Unavailable("the connection broke before the site's answer came", retry_after=site.retry_after)


def refuse_where_down(site: SandboxSite) -> None:
    if site.down:
        raise Unavailable("the site does not answer: connection refused", retry_after=site.retry_after)
