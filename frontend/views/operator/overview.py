"""The first page: what is sold, what it earns, what is wrong. And the map alone, with filters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from billing.months import month_of
from billing.selectors import ProjectRevenue, revenue_by_project
from billing.selectors.open_months import MonthSum, months_behind
from billing.selectors.running import Earning, earning_now
from frontend import formats
from frontend.components import Meter, Stat
from frontend.lists import Column, Filter, Listing, find, list_page, saying
from frontend.presenters.money import hours_of
from frontend.presenters.operator.capacity import PoolShown, Sums, map_by_type, map_of, pools_shown, sums_of
from frontend.presenters.operator.first_day import first_day
from frontend.presenters.operator.sites import sites_shown
from frontend.presenters.operator.utilization import DAYS, percent_of, types_used, use_chart, used_recently
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.catalog.selectors import sites_for, unknown_devices
from gpuaas.core.looks import Tone
from gpuaas.metering.capacity import PoolUsed, Used

TENANTS, SITES = 10, 10


@dataclass(frozen=True)
class Tenant:
    """What an organization has used in the running month, in its own currency; the bar is its share of the largest."""

    slug: str
    amount: Decimal
    currency: str
    projects: int
    hours: Decimal
    bar: Meter


@operator_page
def overview(request: HttpRequest, here: OperatorPlace) -> HttpResponse:
    pools = pools_shown(actor=here.actor)
    sums = sums_of(pools)
    revenue = revenue_by_project(actor=here.actor, now=here.now)
    behind = months_behind(actor=here.actor, now=here.now)
    sites = sites_shown(sites_for(actor=here.actor))
    tenants = tenants_of(revenue)
    used = used_recently(actor=here.actor, now=here.now)
    context = {
        "crumbs": crumbs("Platform", ("Overview", "")),
        "first_day": first_day(sites),
        "sites": sites[:SITES],
        "site_count": len(sites),
        "node_count": sum(row.nodes for row in sites),
        "sums": sums,
        "stats": (
            _held(sums),
            _utilization(used),
            *_money(earning_now(actor=here.actor, now=here.now), revenue, behind, here.now),
            _quarantine(revenue, behind),
        ),
        "types": types_used(used),
        "chart": use_chart(used, now=here.now) if used else None,
        "closing": _closing(behind, here.now),
        "rows": map_by_type(pools),
        "month_name": f"{month_of(here.now):%B}",
        "tenants": tenants,
        "totals": _sums((row.currency, row.amount) for row in revenue),
        "now": here.now,
    }
    return render(request, "operator/overview.html", context)


def _held(sums: Sums[Decimal]) -> Stat:
    away = ((sums.others, "in other hands"), (sums.out, "out"))
    rest = "".join(f", {formats.gpus(count)} {word}" for count, word in away if count)
    return Stat(
        label="GPUs held",
        value=formats.gpus(sums.held),
        unit=f"of {formats.gpus(sums.healthy)} healthy",
        note=f"{formats.gpus(sums.allocated)} allocated, {formats.gpus(sums.free)} free{rest}",
        url=reverse("frontend:operator_capacity"),
    )


def _utilization(used: Sequence[PoolUsed]) -> Stat:
    """Of the capacity of the last days, what ran; idle is what nobody had."""
    total = sum((row.cards for row in used), Used())
    percent = percent_of(total)
    url = reverse("frontend:operator_utilization")
    if percent is None:
        return Stat("Utilization", formats.NONE, note=f"no observations in {DAYS} days", url=url)
    idle = formats.number(hours_of(total.idle), 0)
    return Stat("Utilization", f"{percent}%", f"of {DAYS} days", note=f"{idle} GPU hours idle", url=url)


def _money(
    earning: Mapping[str, Earning], revenue: list[ProjectRevenue], behind: list[MonthSum], now: datetime
) -> tuple[Stat, ...]:
    month = month_of(now)
    so_far = _sums((row.currency, row.amount) for row in revenue)
    expected = _sums([*so_far.items(), *((name, row.rest) for name, row in earning.items())])
    projects = sum(row.projects for row in earning.values())
    last = behind[-1]
    return (
        Stat(
            label="Earning now",
            value=rates_written(earning),
            unit="per hour",
            note=f"from {projects} project{'' if projects == 1 else 's'}",
        ),
        Stat(
            label=f"{month:%B} so far",
            value=_written(so_far),
            note=f"expected {_written(expected)}; all of {last.month:%B}: {_written(last.totals)}",
            url=reverse("frontend:operator_usage"),
        ),
    )


def _sums(amounts: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for name, amount in amounts:
        found[name] = found.get(name, Decimal("0.00")) + amount
    return dict(sorted(found.items()))


def _written(totals: Mapping[str, Decimal]) -> str:
    """Every currency by itself: nobody adds euros to yen."""
    amounts = (formats.money(amount, name) for name, amount in totals.items())
    return " + ".join(amounts) or formats.money(Decimal("0.00"), settings.CURRENCY)


def rates_written(earning: Mapping[str, Earning]) -> str:
    rates = (formats.price(row.per_hour, name) for name, row in earning.items())
    return " + ".join(rates) or formats.price(Decimal("0.00"), settings.CURRENCY)


def tenants_of(revenue: Iterable[ProjectRevenue]) -> list[Tenant]:
    """Organizations of the month, the dearest first; each has one currency."""
    found: dict[str, list[ProjectRevenue]] = {}
    for row in revenue:
        found.setdefault(row.organization, []).append(row)
    sums = {name: sum((row.amount for row in rows), Decimal("0.00")) for name, rows in found.items()}
    largest: dict[str, Decimal] = {}
    for name, rows in found.items():
        largest[rows[0].currency] = max(largest.get(rows[0].currency, Decimal(0)), sums[name])
    made = [
        Tenant(
            slug=name,
            amount=sums[name],
            currency=rows[0].currency,
            projects=len(rows),
            hours=hours_of(sum(row.gpu_seconds for row in rows)),
            bar=Meter(used=sums[name], limit=largest[rows[0].currency] or 1),
        )
        for name, rows in found.items()
    ]
    return sorted(made, key=lambda row: (-row.amount, row.slug))[:TENANTS]


def _closing(behind: list[MonthSum], now: datetime) -> dict[str, object]:
    """What of ended months is on no invoice yet, and what to do."""
    waiting = [row for row in behind if not row.closed and (row.totals or row.quarantined)]
    return {"waiting": waiting, "running": month_of(now), "url": reverse("frontend:operator_closes")}


def _quarantine(revenue: list[ProjectRevenue], behind: list[MonthSum]) -> Stat:
    hours = hours_of(sum(row.quarantined_seconds for row in revenue))
    projects = sum(1 for row in revenue if row.quarantined_seconds)
    older = sum(row.quarantined for row in behind if not row.closed)
    if not hours and not older:
        return Stat(label="Without a price", value="0", unit="unit hours", note="everything is priced")
    places = [f"in {projects} project{'' if projects == 1 else 's'}"] if projects else []
    places += [f"{older} line{'' if older == 1 else 's'} from earlier months"] if older else []
    return Stat(
        label="Without a price",
        value=formats.number(hours, 1),
        unit="unit hours",
        note=f"{', '.join(places)}; set a price",
        tone=Tone.WARN,
        url=reverse("frontend:operator_prices"),
    )


def _of_use(name: str, label: str) -> Column:
    return Column(f"{name}_hours", f"{label}, h", f"hours__{name}", f"hours.{name}", numeric=True)


USE = Listing(
    "GPU types at sites",
    columns=(
        Column("gpu_type", "GPU type", "name", "name"),
        Column("site"),
        Column("share", "Share", value=None),
        Column("percent", "Running", "percent", "percent", numeric=True),
        _of_use("capacity", "Capacity"),
        _of_use("in_use", "Running"),
        _of_use("unused", "Held only"),
        _of_use("idle", "Idle"),
        _of_use("over", "Over"),
        _of_use("unknown", "Unknown"),
    ),
    filters=(find("Find a GPU type or site", "GPU type or site"),),
)


@operator_page
def utilization(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """By site and GPU type; and the pools that one organization has for itself."""
    used = used_recently(actor=here.actor, now=here.now)
    known = types_used(used, by_site=True)
    shown = USE.of(request, lambda query: saying(known, query["q"], lambda row: f"{row.name} {row.site}"))
    context = {
        "crumbs": crumbs("Supply", ("Utilization", "")),
        "whole": next(iter(types_used(replace(row, gpu_type_name="", site="") for row in used)), None),
        "chart": use_chart(used, now=here.now) if used else None,
        "days": DAYS,
    }
    return list_page(request, "operator/utilization.html", shown, context)


def _of_pool(name: str, label: str) -> Column:
    return Column(name, label, f"sums__{name}", f"sums.{name}", numeric=True)


POOLS = Listing(
    "GPU pools",
    columns=(
        Column("gpu_type", "GPU type", "pool__gpu_type__name", "pool.gpu_type.name"),
        Column("site", "Site", "pool__site__slug", "pool.site.slug"),
        Column("resource", "Counted as", "pool__resource_name", "pool.resource_name"),
        _of_pool("capacity", "Devices"),
        _of_pool("healthy", "Healthy"),
        Column("sellable", "Sellable", "sellable", numeric=True),
        _of_pool("allocated", "Allocated"),
        _of_pool("held", "Held"),
        _of_pool("free", "Free"),
        _of_pool("others", "Others"),
        _of_pool("out", "Out"),
        _of_pool("closed", "Not for sale"),
        Column("largest_block", "Largest block", "pool__largest_block", "pool.largest_block", numeric=True),
    ),
    filters=(
        Filter("site", "Site", "every site"),
        Filter("type", "GPU type", "every GPU type"),
        Filter("only", "Show", "all GPU pools", (("free", "with free GPUs"), ("out", "with GPUs out"))),
    ),
)


UNKNOWN = Listing(
    "devices that are not understood",
    columns=(
        Column("site", "Site", "site", "site"),
        Column("place", "Place", "place", "place"),
        Column("name", "Counted as", "name", "name"),
        Column("count", "Devices", "count", "count", numeric=True),
        Column("reason", "Reason", "reason", "reason"),
    ),
    mark="unknown-",
)


@operator_page
def capacity(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """Filters take pools away; the sums are those of what is shown."""
    everything = pools_shown(actor=here.actor)
    shown = POOLS.of(
        request,
        lambda query: [pool for pool in everything if _wanted(pool, query)],
        site=sorted({pool.pool.site.slug for pool in everything}),
        type=sorted({(pool.pool.gpu_type.slug, pool.pool.gpu_type.name) for pool in everything}),
    )
    query = shown.query
    found = [] if query["type"] or query["only"] else unknown_devices(actor=here.actor)
    found = [each for each in found if query["site"] in {"", each["site"]}]
    unknown = UNKNOWN.of(request, found)
    context = {
        "crumbs": crumbs("Supply", ("Capacity", "")),
        "unknown": unknown,
        "not_understood": sum(each["count"] for each in found),
        "rows": map_of(shown.rows),
        "sums": sums_of(list(shown.found)),
    }
    return list_page(request, "operator/capacity.html", shown, context, unknown)


def _wanted(pool: PoolShown, query: Mapping[str, str]) -> bool:
    at_site = query["site"] in {"", pool.pool.site.slug}
    of_type = query["type"] in {"", pool.pool.gpu_type.slug}
    sums = pool.sums
    shown = {"free": sums.free > 0, "out": sums.out > 0}.get(query["only"], True)
    return at_site and of_type and shown
