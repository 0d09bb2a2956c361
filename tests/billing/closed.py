"""Closing a month in tests: meters that have reported, a request and a run."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from django.db import OperationalError

from billing.models import MonthClose
from billing.months import month_span
from billing.services.closing import month_close_request, month_close_run
from gpuaas.catalog.models import Site
from gpuaas.metering.models import SiteMeter
from tenants.actors import Actor


def meters_prove(until: datetime, *, site: Site | None = None) -> None:
    """Every site's meter has reported up to `until`, or only that one's."""
    for each in [site] if site else Site.objects.all():
        SiteMeter.objects.update_or_create(site=each, defaults={"last_proof_at": until})


def month_close(actor: Actor, month: date, *, accept: str = "", now: datetime | None = None) -> MonthClose:
    """Asked for and done, three days after the month's end unless told otherwise."""
    end = month_span(month).ends_at
    meters_prove(end)
    moment = now or end + timedelta(days=3)
    month_close_request(actor=actor, month=month, accept=accept, now=moment)
    return month_close_run(month=month, now=moment)


def deadly(statement: int) -> Callable[..., Any]:
    """For `connection.execute_wrapper`: the statement of this number and no other raises, as where the process is killed there."""
    left = statement

    def before(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise OperationalError("killed by the test")
        return execute(sql, params, many, context)

    return before
