"""Usage without a price, each row with a link to where its price is set."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse

from billing.rating import Cell
from billing.wares import MILLION_TOKENS, storage_words
from frontend.forms.rates import UNSOLD
from frontend.presenters.money import SHARED, hours_of
from gpuaas.catalog.models import StorageClass
from gpuaas.metering.models import TOKEN_METERS, Meter
from gpuaas.metering.selectors import resources_unsold
from tenants.actors import Actor


@dataclass(frozen=True)
class Unpriced:
    """All projects' usage of one thing in one meter and currency. `what`: as forms of prices name it. `refused`: to write it off
    was asked for just now, and was not done."""

    what: str
    meter: Meter
    name: str
    counted: str
    currency: str
    hours: Decimal
    url: str
    refused: bool


def unpriced_of(cells: Iterable[Cell], *, month: date, refused: tuple[str, ...] = ()) -> list[Unpriced]:
    """The linked price starts with the month; one that starts now would not cover the usage. `refused`: what, meter and currency
    of the row."""
    found: dict[tuple[str, str, Meter, str], int] = {}
    for cell in cells:
        what = cell.flavor or (f"{UNSOLD}{cell.resource}" if cell.resource else cell.meter)
        key = (what, cell.flavor or cell.resource, Meter(cell.meter), cell.currency)
        found[key] = found.get(key, 0) + cell.unit_seconds
    return [
        Unpriced(
            what=what,
            meter=meter,
            name=name,
            counted=meter.label,
            currency=currency,
            hours=hours_of(seconds),
            url=_url(what, meter, currency, month),
            refused=(what, meter, currency) == refused,
        )
        for (what, name, meter, currency), seconds in found.items()
    ]


def unsold_choices(actor: Actor) -> list[tuple[str, str]]:
    """For the field `what` of forms of prices."""
    names = dict.fromkeys(name for name, _ in resources_unsold(actor=actor))
    return [(f"{UNSOLD}{name}", name) for name in names]


def shared_choices() -> list[tuple[str, str]]:
    """The same of what is counted without a flavor: one price for all, and storage classes that were ever sold."""
    classes = StorageClass.objects.exclude(slug="").order_by("slug")
    return [
        *(
            (meter.value, f"{name}, per {MILLION_TOKENS}" if meter in TOKEN_METERS else name)
            for meter, name in SHARED.items()
        ),
        *((f"{UNSOLD}{row.resource}", storage_words(row.resource)) for row in classes),
    ]


def _url(what: str, meter: Meter, currency: str, month: date) -> str:
    asked = {"what": what, "meter": meter.value, "from": f"{month:%Y-%m}"}
    if currency != settings.CURRENCY:
        asked["currency"] = currency
    return f"{reverse('frontend:operator_prices')}?{urlencode(asked)}"
