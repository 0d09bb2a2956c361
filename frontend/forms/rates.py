"""Rate cards, discounts and billing accounts, as operators type them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django import forms

from billing.models import Rate, RateDraftLine, TierMode
from billing.money import price_of
from billing.selectors.cards import tiers_of
from billing.services import LineTerms
from frontend.forms.lease import moment_field
from gpuaas.metering.models import Meter

TIERS = 3
WHOLE = {"invalid": "A whole number, please."}
GPU_METERS = (Meter.GPU_HELD, Meter.GPU_ALLOCATED, Meter.GPU_STOPPED, Meter.GPU_SHELVED, Meter.GPU_IDLE)


class CardForm(forms.Form):
    currency = forms.CharField(max_length=3, error_messages={"required": "Write its three letters."})
    organization = forms.CharField(label="Own card of", max_length=64, required=False)


class TermsForm(forms.Form):
    """`what` is a flavor's short name, or one of the meters that all flavors share. Tiers are `from_1`, `costs_1` and so on."""

    what = forms.CharField(max_length=64, error_messages={"required": "Choose what the price is for."})
    meter = forms.ChoiceField(label="Counted", choices=[(one.value, one.label) for one in GPU_METERS])
    price = forms.CharField(max_length=40, error_messages={"required": "Write a price, for example 2.40."})
    tier_mode = forms.ChoiceField(label="More in a month", choices=TierMode, required=False)
    increment_seconds = forms.IntegerField(label="Charged in steps of", initial=1, error_messages=WHOLE)
    minimum_seconds = forms.IntegerField(label="For at least", initial=0, error_messages=WHOLE)
    surplus_percent = forms.IntegerField(label="What is held too much", initial=100, error_messages=WHOLE)

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
        "what": row.flavor.slug if row.flavor else row.meter,
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


class PublishForm(forms.Form):
    valid_from = moment_field(
        label="From",
        error_messages={
            "required": "Say when the new prices begin.",
            "invalid": "Write it as year-month-day and hour.",
        },
    )
    note = forms.CharField(max_length=300, required=False)
    fingerprint = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def start(self) -> datetime | None:
        found: datetime | None = self.cleaned_data["valid_from"]
        return found


class DiscountForm(forms.Form):
    percent = forms.CharField(
        label="Off", max_length=10, error_messages={"required": "Say how many percent."}
    )
    flavor = forms.ChoiceField(label="The prices of", required=False)
    valid_from = moment_field(label="From", required=False)
    valid_to = moment_field(label="Until", required=False)
    note = forms.CharField(max_length=300, required=False)

    def __init__(self, *args: Any, flavors: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.fields["flavor"]
        if isinstance(chosen, forms.ChoiceField):
            chosen.choices = [("", "Everything"), *((slug, slug) for slug in flavors)]


class AccountForm(forms.Form):
    currency = forms.CharField(max_length=3, error_messages={"required": "Write its three letters."})
    tax_rate = forms.CharField(label="Tax", max_length=10, error_messages={"required": "Say 0 for none."})
    tax_label = forms.CharField(label="Its name", max_length=60, required=False)
    address = forms.CharField(max_length=1000, required=False, widget=forms.Textarea(attrs={"rows": 4}))
    invoice_reference = forms.CharField(label="Their reference", max_length=100, required=False)


class CostCenterForm(forms.Form):
    project = forms.CharField(max_length=64, error_messages={"required": "Choose a project."})
    cost_center = forms.CharField(label="Cost center", max_length=60, required=False)
