"""What each person's jobs used on a cluster in a month, and their share of what it cost."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal

from billing.money import amount_of, largest_remainder, minor_places
from billing.months import month_next, month_of, month_span
from billing.rating import Slots, rate_usage
from billing.selectors.costs import currency_of, total_of
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import use_by_login
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from tenants.actors import Actor
from tenants.roles import Permission
from tenants.selectors import project_require


@dataclass(frozen=True)
class PersonUse:
    """amount: the share of the cluster's cost; None for people who may not see prices."""

    user_id: uuid.UUID
    username: str
    login: str
    gpu_seconds: int
    amount: Decimal | None = None


@dataclass(frozen=True)
class ClusterUseCosts:
    """people: who used most first. total: what the cluster cost in the month; it is the sum of all shares and `unused`, which
    is what nobody's jobs used. None for people who may not see prices."""

    month: date
    currency: str
    people: tuple[PersonUse, ...]
    total: Decimal | None = None
    unused: Decimal | None = None


def cluster_use_costs(
    *, actor: Actor, cluster: Cluster, month: date | None = None, now: datetime | None = None
) -> ClusterUseCosts:
    """Of a month (default this one), by what the cluster's accounting has reported; empty where people have no accounts of
    their own. Everything that the cluster cost is shared by GPU time: who used a tenth of the GPU time that it held has a
    tenth of the cost of all it held. Requires `workspace:view`, and prices `billing:view`."""
    project_require(actor=actor, project=cluster.project, permission=Permission.WORKSPACE_VIEW)
    moment = now or clock.now()
    first = (month or month_of(moment)).replace(day=1)
    used = use_by_login(cluster=cluster, since=first, before=month_next(first))
    people = tuple(
        PersonUse(row.user_id, row.user.username, row.name, seconds)
        for row, seconds in sorted(used.items(), key=lambda one: (-one[1], one[0].pk))
    )
    found = ClusterUseCosts(first, currency_of(cluster.project.organization_id), people)
    if Permission.BILLING_VIEW not in actor.on_project(cluster.project_id, cluster.project.organization_id):
        return found
    span, projects = month_span(first), [cluster.project_id]
    cells = rate_usage(
        slots=Slots([span.day], [span]), now=moment, projects=projects, by_holder=True, wanted=[cluster.pk]
    )
    total, used_each = total_of(cells, found.currency), [one.gpu_seconds for one in people]
    # in devices, as the accounting counts: a slice of a card is one of them
    held = sum(cell.unit_seconds for cell in cells if cell.meter is Meter.GPU_HELD)
    shares = shared(total, found.currency, used_each, held)
    priced = tuple(replace(one, amount=share) for one, share in zip(people, shares, strict=False))
    return replace(found, people=priced, total=total, unused=shares[-1])


def shared(total: Decimal, currency: str, used: Sequence[int], held: int) -> list[Decimal]:
    """`total` by what of `held` each has used, and last what nobody has; they add up to it. More used than held, as by a clock
    that differs, leaves nothing unused."""
    whole = max(held, sum(used)) or 1
    parts = [*used, whole - sum(used)]
    minor = int(total.scaleb(minor_places(currency)))
    shares = largest_remainder([part * minor for part in parts], whole, minor)
    return [amount_of(share, currency) for share in shares]
