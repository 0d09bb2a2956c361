"""Usage and revenue of a month, and the prices they come from."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone

from billing.exports import statement_csv
from billing.models import Budget, Rate, RateCard
from billing.money import CURRENCIES
from billing.months import month_parse, month_span
from billing.rating import Cell, LineStatus
from billing.selectors import rate_card_default, rates_for, revenue_by_project, statement
from billing.selectors.budgets import budget_states, budgets_for
from billing.selectors.running import earning_now
from billing.selectors.usage_write_offs import usage_write_offs_for
from billing.services import rate_set
from billing.services.rates import card_named
from billing.wares import MILLION_TOKENS, UNITS, gpu_meter, quantity_places, storage_slug, unpriced_words
from frontend.forms.operator import RateForm
from frontend.forms.rates import meter_named, ware_named
from frontend.frame import checked, done, fits, posted, refusals_on
from frontend.lists import Column, Listing, find, list_page, named, saying
from frontend.months import month_asked, month_named
from frontend.presenters.budgets import BudgetRow, rows_of
from frontend.presenters.money import SHARED, hours_of, month_shown, shared_name
from frontend.presenters.unpriced import shared_choices, unpriced_of, unsold_choices
from frontend.views.budgets import LIST as BUDGETS
from frontend.views.operator.common import OperatorPlace, crumbs, operator_page
from gpuaas.catalog.models import Flavor, GpuType
from gpuaas.catalog.selectors import flavors_for
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.streams import csv_streamed
from gpuaas.metering.models import TOKEN_METERS, Meter


@dataclass(frozen=True)
class TypeSum:
    """All projects' usage of one GPU type (or of what all share) in one meter and currency. hours: of tokens, millions.

    uncharged: why none of it costs anything; "" where some does."""

    name: str
    hours: Decimal
    places: int
    unit: str
    amount: Decimal
    currency: str
    quarantined: bool
    uncharged: str


USAGE = Listing(
    "projects",
    columns=(
        Column("project", "Project", "project", "0.project"),
        Column("organization", "Organization", "organization", "0.organization"),
        Column("gpu_hours", "GPU hours held", "gpu_seconds", "1", numeric=True),
        Column("unpriced_hours", "No price, hours", "quarantined_seconds", "2", numeric=True),
        Column("per_hour", "Per hour now", "per_hour", "0.per_hour", numeric=True),
        Column("amount", "Amount", "amount", "0.amount", numeric=True),
        Column("currency", value="0.currency"),
    ),
    filters=(find("Find a project or organization", "Project or organization"),),
)
TYPES = Listing(
    "usage by GPU type",
    columns=(
        Column("item", "Item", "name", "name"),
        Column("quantity", "Quantity", "hours", "hours", numeric=True),
        Column("unit"),
        Column("revenue", "Revenue", "amount", "amount", numeric=True),
        Column("currency"),
        Column("without_price", value="quarantined"),
        Column("included", value=lambda row: row.uncharged == "included"),
        Column("free", value=lambda row: row.uncharged == "free"),
    ),
    mark="type-",
)
WRITTEN_OFF = Listing(
    "write-offs",
    columns=(
        Column("usage", "Usage", value="0.what"),
        Column("counted", value="1"),
        Column("currency", value="0.card.currency"),
        Column("reason", "Reason", "reason", "0.reason"),
        Column("by", "By", "created_by", "0.created_by"),
        Column("at", "When", "created_at", "0.created_at"),
        Column("back", "Take back", value=None, quiet=True),
    ),
    mark="off-",
)


def usage_of(
    request: HttpRequest, here: OperatorPlace, first: date, *, refused: tuple[str, ...] = ()
) -> HttpResponseBase:
    """The page of a month. `refused`: what of it was not written off just now, in which meter and currency."""
    sheet = statement(actor=here.actor, month=first, now=here.now)
    revenue = revenue_by_project(actor=here.actor, month=first, now=here.now)
    month = month_shown(first, now=here.now)
    projects = USAGE.of(
        request,
        lambda query: saying(revenue, query["q"], lambda row: f"{row.project} {row.organization}"),
        lambda rows: [(row, hours_of(row.gpu_seconds), hours_of(row.quarantined_seconds)) for row in rows],
        without=() if month.running else {"per_hour"},
        labels={"amount": "So far" if month.running else "Amount"},
    )
    types = TYPES.of(request, _by_type(sheet.lines))
    off = WRITTEN_OFF.of(
        request,
        usage_write_offs_for(actor=here.actor, month=first),
        lambda rows: [(row, Meter(row.meter).label) for row in rows],
        without=() if here.may_manage else {"back"},
    )
    context = {
        "month": month,
        "sheet": sheet,
        "per_hour": earning_now(actor=here.actor, now=here.now),
        "types": types,
        "unpriced": unpriced_of(sheet.quarantined, month=first, refused=refused),
        "written_off": off,
        "gpu_hours": hours_of(sheet.gpu_seconds),
        "crumbs": crumbs("Money", ("Usage", "")),
    }
    return list_page(request, "operator/usage.html", projects, context, types, off, refused=bool(refused))


@operator_page
def usage(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    return usage_of(request, here, month_asked(request, here.now))


@operator_page
def usage_csv(request: HttpRequest, here: OperatorPlace, month: str) -> HttpResponseBase:
    """The lines of all projects, as on their statements."""
    sheet = statement(actor=here.actor, month=month_named(month), now=here.now)
    return csv_streamed(request, statement_csv(statement=sheet), name=f"usage-{month}")


@operator_page
def budgets(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """All that are in force, each led to where its organization sees it."""
    known = budgets_for(actor=here.actor).order_by("organization__slug", "name", "pk")

    def shown(rows: list[Budget]) -> list[BudgetRow]:
        urls: dict[object, str] = {
            row.pk: reverse("frontend:organization_budget", args=[row.organization.slug, row.pk])
            for row in rows
        }
        return rows_of(budget_states(budgets=rows), urls)

    found = BUDGETS.of(request, lambda query: named(known, query["q"], "name", "organization__slug"), shown)
    context = {"organizations": True, "crumbs": crumbs("Money", ("Budgets", ""))}
    return list_page(request, "operator/budgets.html", found, context)


def _by_type(lines: Iterable[Cell]) -> list[TypeSum]:
    found: dict[tuple[str, str, bool, str], list[Cell]] = {}
    names = dict(GpuType.objects.values_list("slug", "name"))
    for line in lines:
        name = (
            names.get(line.gpu_type or "")
            or line.gpu_type
            or line.flavor_name
            or shared_name(line.meter, line.resource)
            or line.resource
        )
        unpriced = line.status is LineStatus.QUARANTINED
        found.setdefault((name, UNITS[line.meter], unpriced, line.currency), []).append(line)
    rows = [
        TypeSum(
            name=name,
            hours=hours_of(sum(cell.unit_seconds for cell in cells)),
            places=quantity_places(cells[0].meter),
            unit=unit,
            amount=sum((cell.amount or Decimal(0) for cell in cells), Decimal(0)),
            currency=currency,
            quarantined=unpriced,
            uncharged=unpriced_words(cells[0].meter)
            if all(cell.status is LineStatus.INCLUDED for cell in cells)
            else "",
        )
        for (name, unit, unpriced, currency), cells in found.items()
    ]
    return sorted(rows, key=lambda row: (row.uncharged != "", -row.amount, row.name))


@dataclass(frozen=True)
class RateGroup:
    """The prices of one thing over time: in force, announced, and what they were. is_charged: its use has to have a price."""

    name: str
    slug: str
    note: str
    meter: Meter
    is_charged: bool
    current: Rate | None
    upcoming: tuple[Rate, ...]
    past: tuple[Rate, ...]

    @property
    def unpriced(self) -> str:
        return unpriced_words(self.meter)

    @property
    def is_missing(self) -> bool:
        return self.is_charged and self.current is None


RATES = Listing(
    "prices",
    columns=(
        Column("item", "Item", "name", "name"),
        Column("note"),
        Column("counted", "Counted", "meter__label", "meter.label"),
        Column("now", "Now", "current__price", "current.price", numeric=True),
        Column("since", "Since", "current__valid_from", "current.valid_from"),
        Column(
            "upcoming",
            "Upcoming",
            value=lambda group: "; ".join(f"{each.price} from {each.valid_from}" for each in group.upcoming),
        ),
        Column(
            "past",
            "Past",
            value=lambda group: "; ".join(f"{each.price} until {each.valid_to}" for each in group.past),
        ),
    ),
    filters=(find("Find an item", "Item"),),
)


@operator_page
@checked
def rates(request: HttpRequest, here: OperatorPlace) -> HttpResponseBase:
    """Of the standard card in the portal's currency, or in the one that the link named."""
    flavors = list(flavors_for(actor=here.actor, drafts=True))
    form = RateForm(posted(request), initial=_asked(request))
    card, rows = _standard(here, form["currency"].value())
    if form.is_valid() and (made := _rate_made(request, here, form, flavors)):
        what = (
            made.flavor.slug
            if made.flavor
            else shared_name(Meter(made.meter), made.resource_name) or made.resource_name
        )
        back = f"{reverse('frontend:operator_prices')}?{urlencode({'currency': made.card.currency})}"
        per = MILLION_TOKENS if made.meter in TOKEN_METERS else "hour"
        return done(request, f"The new price of {what} is {made.price} per {per}.", back)
    groups = rate_groups(rows, flavors, here.now)
    context = {
        "card": card,
        "unpriced": [group for group in groups if group.is_missing],
        "form": form,
        "flavors": flavors,
        "shared": shared_choices(),
        "unsold": unsold_choices(here.actor),
        "chosen": form["what"].value() or "",
        "crumbs": crumbs("Money", ("Rate cards", "operator_rate_cards"), ("Single prices", "")),
    }
    found = RATES.of(
        request,
        lambda query: saying(
            groups, query["q"], lambda group: f"{group.name} {group.note} {group.meter.label}"
        ),
    )
    return list_page(request, "operator/rates.html", found, context)


def _standard(here: OperatorPlace, currency: str | None) -> tuple[RateCard, list[Rate]]:
    """The card with its prices; one that is not there yet where a currency has none."""
    if currency in {None, "", settings.CURRENCY} or currency not in CURRENCIES:
        return rate_card_default(), rates_for(actor=here.actor)
    card = RateCard.objects.filter(organization=None, currency=currency).first()
    rows = Rate.objects.filter(card=card) if card else Rate.objects.none()
    return card or RateCard(currency=currency, **card_named(currency)), list(rows.select_related("flavor"))


def _rate_made(
    request: HttpRequest, here: OperatorPlace, form: RateForm, flavors: list[Flavor]
) -> Rate | None:
    found = form.cleaned_data
    what = found["what"]
    ware = ware_named(what, flavors)
    if ware is None:
        form.add_error("what", "There is no such flavor.")
        return None
    meter = meter_named(what, ware, found["meter"] or gpu_meter(ware["flavor"]))
    fields = {"flavor": "what", "resource": "what", "currency": "price"}
    with refusals_on(form, Invalid, Conflict, fields=fields):
        made = rate_set(
            actor=here.actor,
            **ware,
            meter=meter,
            price=found["price"].strip(),
            valid_from=form.start(),
            currency=found["currency"],
        )
        fits(request)
        return made
    return None


def _asked(request: HttpRequest) -> dict[str, Any]:
    """As the link said that led here: what has no price, how it is counted, and since which month."""
    first: dict[str, Any] = {name: request.GET.get(name, "") for name in ("what", "meter", "currency")}
    with suppress(Invalid):
        month = month_parse(request.GET.get("from", ""))
        first["valid_from"] = timezone.localtime(month_span(month).starts_at)
    return first


def rate_groups(rows: Iterable[Rate], flavors: Iterable[Flavor], now: datetime) -> list[RateGroup]:
    """Every flavor has a group, also without a price: that is what has to be seen."""
    found: dict[tuple[str, Meter], list[Rate]] = {(row.slug, gpu_meter(row)): [] for row in flavors}
    found |= {("", meter): [] for meter in SHARED}
    names: dict[str, Any] = {row.slug: row for row in flavors}
    for rate in rows:
        what = rate.flavor.slug if rate.flavor else rate.resource_name
        found.setdefault((what, Meter(rate.meter)), []).append(rate)
    groups = []
    for (slug, meter), rates in found.items():
        flavor = names.get(slug)
        groups.append(
            RateGroup(
                name=shared_name(meter, slug) if storage_slug(slug) else slug or SHARED[meter],
                slug=slug or meter.value,
                note=_note(flavor, slug, meter),
                meter=meter,
                is_charged=meter == Meter.GPU_HELD or (flavor is not None and meter == gpu_meter(flavor)),
                current=next((rate for rate in rates if _in_force(rate, now)), None),
                upcoming=tuple(rate for rate in rates if rate.valid_from > now),
                past=tuple(rate for rate in reversed(rates) if rate.valid_to and rate.valid_to <= now),
            )
        )
    return groups


def _note(flavor: Flavor | None, slug: str, meter: Meter) -> str:
    if flavor is not None:
        return f"{flavor.pool.gpu_type.name} at {flavor.pool.site.slug}"
    if storage_slug(slug):
        return "a storage class"
    if meter in TOKEN_METERS:
        return f"per {MILLION_TOKENS}"
    return "not sold as a flavor" if slug else "all flavors"


def _in_force(rate: Rate, now: datetime) -> bool:
    return rate.valid_from <= now and (rate.valid_to is None or rate.valid_to > now)
