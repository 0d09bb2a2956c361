"""The first page: what is sold, what it earns, what is wrong. And the map alone, with filters."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from billing.months import month_of, month_previous
from billing.selectors import ProjectRevenue, rate_card_default, revenue_by_project
from frontend import formats
from frontend.components import Meter, Stat, Tone
from frontend.presenters.money import hours_of
from frontend.presenters.operator.capacity import PoolShown, Sums, pools_shown, sums_of
from frontend.presenters.operator.sites import sites_shown
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.catalog.selectors import sites_for
from gpuaas.core import clock


@operator_page
def overview(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    now = clock.now()
    pools = pools_shown(actor=here.actor)
    sums = sums_of(pools)
    revenue = revenue_by_project(actor=here.actor, now=now)
    before = revenue_by_project(actor=here.actor, month=month_previous(month_of(now)), now=now)
    currency = rate_card_default().currency
    sites = sites_shown(list(sites_for(actor=here.actor)), pools)
    largest = max((row.amount for row in revenue), default=Decimal(0))
    context = {
        "place": here,
        "crumbs": crumbs("Platform", ("Overview", "")),
        "sites": sites,
        "node_count": sum(row.nodes for row in sites),
        "sums": sums,
        "stats": (_in_use(sums), *_money(revenue, before, currency, now), _quarantine(revenue)),
        "rows": tuple(pool.row for pool in pools),
        "month_name": f"{month_of(now):%B}",
        "currency": currency,
        "revenue": [(row, Meter(used=row.amount, limit=largest or 1)) for row in revenue],
        "total": sum((row.amount for row in revenue), Decimal("0.00")),
        "now": now,
    }
    return render(request, "operator/overview.html", context)


def _in_use(sums: Sums) -> Stat:
    out = f", {sums.out} out" if sums.out else ""
    return Stat(
        label="GPUs in use",
        value=f"{sums.allocated:,}",
        unit=f"of {sums.healthy:,} healthy",
        note=f"{sums.held:,} more held, {sums.free:,} free{out}",
        url=reverse("frontend:operator_capacity"),
    )


def _money(
    revenue: list[ProjectRevenue], before: list[ProjectRevenue], currency: str, now: datetime
) -> tuple[Stat, Stat]:
    per_hour = sum((row.per_hour for row in revenue), Decimal(0))
    earning = sum(1 for row in revenue if row.per_hour)
    so_far = sum((row.amount for row in revenue), Decimal("0.00"))
    last = sum((row.amount for row in before), Decimal("0.00"))
    month = month_of(now)
    return (
        Stat(
            label="Earning now",
            value=formats.money(per_hour, currency),
            unit="per hour",
            note=f"from {earning} project{'' if earning == 1 else 's'}",
        ),
        Stat(
            label=f"{month:%B} so far",
            value=formats.money(so_far, currency),
            note=f"all of {month_previous(month):%B}: {formats.money(last, currency)}",
            url=reverse("frontend:operator_usage"),
        ),
    )


def _quarantine(revenue: list[ProjectRevenue]) -> Stat:
    hours = hours_of(sum(row.quarantined_seconds for row in revenue))
    projects = sum(1 for row in revenue if row.quarantined_seconds)
    if not hours:
        return Stat(label="Without a price", value="0", unit="unit hours", note="everything is priced")
    return Stat(
        label="Without a price",
        value=formats.number(hours, 1),
        unit="unit hours",
        note=f"in {projects} project{'' if projects == 1 else 's'}; set a price",
        tone=Tone.WARN,
        url=reverse("frontend:operator_rate_cards"),
    )


@operator_page
def capacity(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    """Filters take pools away; the sums are those of what is shown."""
    query = {name: request.GET.get(name, "") for name in ("site", "type", "only")}
    everything = pools_shown(actor=here.actor)
    pools = [pool for pool in everything if _wanted(pool, query)]
    context = {
        "place": here,
        "crumbs": crumbs("Supply", ("Capacity", "")),
        "query": query,
        "filtered": any(query.values()),
        "sites": sorted({pool.pool.site.slug for pool in everything}),
        "types": sorted({(pool.pool.gpu_type.slug, pool.pool.gpu_type.name) for pool in everything}),
        "rows": tuple(pool.row for pool in pools),
        "pools": pools,
        "sums": sums_of(pools),
    }
    return render(request, "operator/capacity.html", context)


def _wanted(pool: PoolShown, query: Mapping[str, str]) -> bool:
    at_site = query["site"] in {"", pool.pool.site.slug}
    of_type = query["type"] in {"", pool.pool.gpu_type.slug}
    sums = pool.sums
    shown = {"free": sums.free > 0, "out": sums.out > 0}.get(query["only"], True)
    return at_site and of_type and shown
