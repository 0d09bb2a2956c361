"""The charges of a month, streamed from the database, so that memory does not grow with them."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db import connection

from billing.models import MonthClose
from billing.months import month_days, month_span
from billing.rating import Slots, rated_sql
from billing.states import CloseState
from billing.tariffs import sql_text
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from tenants.actors import Actor
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import organization_require

AT_ONCE = 5000


@dataclass(frozen=True)
class Charge:
    """A row of focus_documents.sql: line × workspace or cluster × day, or (day None) a whole line, or the tax of a document."""

    kind: str
    number: str | None
    month: date
    organization: str
    organization_name: str
    currency: str
    charge_month: date
    day: date | None
    project: str | None
    project_name: str | None
    cost_center: str
    holder_id: uuid.UUID | None
    holder: str | None
    is_cluster: bool
    site: str | None
    site_name: str | None
    flavor: str
    flavor_name: str
    gpu_type: str
    resource: str
    meter: str
    price_class: str
    status: str
    surplus: bool
    estimated: bool
    price_micro: int | None
    unit_seconds: int
    minor: int
    line: uuid.UUID | None
    corrects: str | None
    text: str
    written_at: datetime | None


def charges_of(*, actor: Actor, month: date, organization: Organization | None) -> Iterator[Charge]:
    """Of one organization, or (None) of all, for operators and auditors. A month that is not closed is rated up to now."""
    if organization is not None:
        organization_require(actor=actor, organization=organization, permission=Permission.BILLING_VIEW)
    elif Permission.BILLING_VIEW not in actor.on_platform():
        raise NotFound("there is no such page")
    return _charges(month.replace(day=1), organization)


def _charges(month: date, organization: Organization | None) -> Iterator[Charge]:
    span = month_span(month)
    parameters: dict[str, Any] = {
        "month": month,
        "starts_at": span.starts_at,
        "ends_at": span.ends_at,
        "organization": organization.pk if organization else None,
        # asked first: a close that is done while the file is read changes neither its invoices nor what runs in it
        "closed": MonthClose.objects.filter(month=month, state=CloseState.CLOSED).exists(),
    }
    yield from _read(sql_text("focus_documents"), parameters)
    if parameters["closed"]:
        return
    days = month_days(month)
    sql, parameters = rated_sql(
        slots=Slots([month] * len(days), days),
        now=clock.now(),
        projects=_projects(organization),
        by_holder=True,
    )
    yield from _read(sql + sql_text("focus_running"), parameters)


def _projects(organization: Organization | None) -> list[uuid.UUID] | None:
    if organization is None:
        return None
    return list(Project.objects.filter(organization=organization).order_by().values_list("pk", flat=True))


def _read(sql: str, parameters: dict[str, Any]) -> Iterator[Charge]:
    """With a server-side cursor."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(sql, parameters)
        while rows := cursor.fetchmany(AT_ONCE):
            yield from (Charge(*row) for row in rows)
