"""Rate cards, discounts and billing accounts, as operators type them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms

from billing.models import Rate, RateDraftLine, TierMode
from billing.models.rates import SHARED_METERS
from billing.money import price_of
from billing.selectors.cards import tiers_of
from billing.services import LineTerms
from billing.wares import storage_slug
from frontend.forms import WRITTEN, Form, RequiredText, choices_set
from frontend.forms.lease import moment_field
from frontend.forms.operator import GPU_METERS
from gpuaas.catalog.models import Flavor
from gpuaas.metering.models import Meter

TIERS = 3
WHOLE = {"invalid": "Enter a whole number."}


UNSOLD = "resource:"


def ware_named(what: str, flavors: Iterable[Flavor]) -> dict[str, Any] | None:
    """`what` of a form: a flavor's short name, a meter that all flavors share, or `resource:` and the name by which GPUs
    were counted without a flavor. None for a flavor that does not exist."""
    if what.startswith(UNSOLD):
        return {"flavor": None, "resource": what.removeprefix(UNSOLD)}
    flavor = next((row for row in flavors if row.slug == what), None)
    if flavor is None and what not in SHARED_METERS:
        return None
    return {"flavor": flavor, "resource": ""}


def meter_named(what: str, ware: Mapping[str, Any], typed: str) -> str:
    """Flavors and GPUs without one are counted as `typed`; all else is counted in one way."""
    if storage_slug(ware["resource"]):
        return Meter.STORAGE_HELD
    return typed if any(ware.values()) else what


def what_value(row: Rate | RateDraftLine) -> str:
    if row.resource_name:
        return f"{UNSOLD}{row.resource_name}"
    return row.flavor.slug if row.flavor else row.meter


class CardForm(Form):
    currency = RequiredText(
        "Enter a three-letter currency code.", 3, help_text="three letters of ISO 4217, for example EUR"
    )
    organization = forms.CharField(
        label="Organization",
        max_length=64,
        required=False,
        help_text="an organization's short name; leave empty for the standard card",
    )


class TermsForm(Form):
    """`what`: see `ware_named`. Tiers are `from_1`, `costs_1` and so on."""

    what = RequiredText("Choose what the price is for.", 200)
    meter = forms.ChoiceField(
        label="Counted",
        choices=[(one.value, one.label) for one in GPU_METERS],
        help_text="for flavors; the flavor has its price class",
    )
    price = RequiredText(
        "Enter a price, for example 2.40.",
        40,
        help_text="per GPU, core or GiB and hour, or per million tokens; up to 6 decimals",
    )
    tier_mode = forms.ChoiceField(
        label="Tier mode",
        choices=TierMode,
        required=False,
        help_text="graduated: each tier at its own price; volume: the whole month at the tier reached",
    )
    increment_seconds = forms.IntegerField(
        label="Charged in steps of", initial=1, error_messages=WHOLE, help_text="1: by the second"
    )
    minimum_seconds = forms.IntegerField(
        label="Minimum charge", initial=0, error_messages=WHOLE, help_text="per session"
    )
    surplus_percent = forms.IntegerField(
        label="Price of surplus", initial=100, error_messages=WHOLE, help_text="of the price"
    )

    def __init__(self, *args: Any, rows: int = TIERS, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows = range(1, max(TIERS, min(rows, 20)) + 1)
        for row in self.rows:
            self.fields[f"from_{row}"] = forms.IntegerField(
                label=f"tier {row}", required=False, error_messages=WHOLE
            )
            self.fields[f"costs_{row}"] = forms.CharField(label=f"tier {row}", max_length=40, required=False)

    def tier_fields(self) -> Iterator[tuple[forms.BoundField, forms.BoundField]]:
        for row in self.rows:
            yield self[f"from_{row}"], self[f"costs_{row}"]

    def terms(self) -> LineTerms:
        asked = self.cleaned_data
        rows = [(asked[f"from_{row}"], asked[f"costs_{row}"].strip()) for row in self.rows]
        return LineTerms(
            price=asked["price"].strip(),
            increment_seconds=asked["increment_seconds"],
            minimum_seconds=asked["minimum_seconds"],
            tier_mode=asked["tier_mode"],
            tiers=[(hours or 0, price) for hours, price in rows if hours is not None or price],
            surplus_percent=asked["surplus_percent"],
        )


def terms_shown(row: Rate | RateDraftLine) -> dict[str, Any]:
    """A price as the form's first values."""
    found: dict[str, Any] = {
        "what": what_value(row),
        "meter": row.meter,
        "price": str(row.price),
        "tier_mode": row.tier_mode,
        "increment_seconds": row.increment_seconds,
        "minimum_seconds": row.minimum_seconds,
        "surplus_percent": row.surplus_percent,
    }
    for number, (hours, micro) in enumerate(tiers_of(row), start=1):
        found |= {f"from_{number}": hours, f"costs_{number}": str(price_of(micro))}
    return found


class PublishForm(Form):
    when = forms.ChoiceField(
        label="Start of the prices",
        choices=[("date", "At a date and time"), ("now", "Now")],
        required=False,
        initial="date",
        widget=forms.RadioSelect,
    )
    valid_from = moment_field(
        label="From",
        required=False,
        error_messages=WRITTEN,
        help_text="a date and time; earlier usage keeps its price",
    )
    note = forms.CharField(max_length=300, required=False, help_text="shown with the version")
    fingerprint = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("when") != "now" and not found.get("valid_from") and "valid_from" not in self.errors:
            self.add_error("valid_from", "Enter when the new prices start, or choose now.")
        return found

    def start(self) -> datetime | None:
        """None: now."""
        found: datetime | None = self.cleaned_data["valid_from"]
        return None if self.cleaned_data["when"] == "now" else found


class DiscountForm(Form):
    percent = RequiredText("Enter a percentage.", 10, label="Discount")
    flavor = forms.ChoiceField(label="Applies to", required=False)
    valid_from = moment_field(label="From", required=False, help_text="empty means now")
    valid_to = moment_field(label="Until", required=False, help_text="leave empty for no end")
    note = forms.CharField(max_length=300, required=False)

    def __init__(self, *args: Any, flavors: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices_set(self, "flavor", [("", "Everything"), *((slug, slug) for slug in flavors)])


class AccountForm(Form):
    currency = RequiredText(
        "Enter a three-letter currency code.", 3, help_text="fixed once the first invoice is issued"
    )
    tax_rate = RequiredText("Enter 0 for no tax.", 10, label="Tax")
    tax_label = forms.CharField(
        label="Tax name", max_length=60, required=False, help_text="such as VAT; printed on the invoice"
    )
    address = forms.CharField(
        max_length=1000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="as on an envelope",
    )
    invoice_reference = forms.CharField(
        label="Their reference", max_length=100, required=False, help_text="printed on the invoice"
    )
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)


class CostCenterForm(Form):
    project = RequiredText("Choose a project.", 64)
    cost_center = forms.CharField(
        label="Cost center", max_length=60, required=False, help_text="leave empty to remove it"
    )
