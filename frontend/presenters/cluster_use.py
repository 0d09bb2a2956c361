"""What each person's jobs used on a cluster, this month and the one before, with their share of its cost."""

from dataclasses import dataclass
from datetime import datetime

from billing.months import month_of, month_previous
from billing.people import ClusterUseCosts, PersonUse, cluster_use_costs
from frontend import formats
from frontend.components import Fact
from frontend.place import ProjectPlace
from gpuaas.clusters.models import Cluster


@dataclass(frozen=True)
class MonthOfUse:
    title: str
    facts: tuple[Fact, ...]


def use_of(cluster: Cluster, here: ProjectPlace, *, now: datetime) -> tuple[MonthOfUse, ...]:
    """Empty where people have no accounts of their own; there it asks nothing."""
    if cluster.logins is None:
        return ()
    this = month_of(now)
    costs = [
        cluster_use_costs(actor=here.actor, cluster=cluster, month=month, now=now)
        for month in (this, month_previous(this))
    ]
    return tuple(_month(one) for one in costs if one.people)


def _month(costs: ClusterUseCosts) -> MonthOfUse:
    facts = [Fact(one.username, _words(one, costs.currency)) for one in costs.people]
    if costs.total is not None:
        facts.append(Fact("Not used by jobs", formats.money(costs.unused, costs.currency)))
        facts.append(Fact("The cluster", formats.money(costs.total, costs.currency)))
    return MonthOfUse(f"{costs.month:%B %Y}", tuple(facts))


def _words(one: PersonUse, currency: str) -> str:
    hours = f"{formats.unit_hours(one.gpu_seconds)} GPU-hours"
    return hours if one.amount is None else f"{hours}, {formats.money(one.amount, currency)}"
