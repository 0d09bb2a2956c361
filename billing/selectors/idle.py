"""Idle GPUs of reserved pools now: their cost per hour, and until when."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from billing.money import price_of
from billing.rating import idle_at
from billing.selectors.costs import cost_scope
from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import Organization, Project


@dataclass(frozen=True)
class Idle:
    """`gpus` of a reserved pool are idle. per_hour of all of them, None without a price; `until` is the end of the
    reservation, if it has one."""

    reservation_id: uuid.UUID
    project_id: uuid.UUID
    gpus: int
    per_hour: Decimal | None
    until: datetime | None


def idle_now(
    *,
    actor: Actor,
    project: Project | None = None,
    organization: Organization | None = None,
    now: datetime | None = None,
) -> list[Idle]:
    """By reservation; a part of `burn_per_hour`. 1 query if no pool is reserved, else 2."""
    scope = cost_scope(actor, project, organization)
    return [
        Idle(
            reservation_id=row.reservation_id,
            project_id=row.project_id,
            gpus=row.gpus,
            per_hour=None if row.price_micro is None else price_of(row.gpus * row.price_micro),
            until=row.reserved_until,
        )
        for row in idle_at(at=now or clock.now(), projects=scope)
    ]
