"""Amounts as people read them: money, durations, times with their zone, sizes. Nothing here rounds for the ledger."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation

from django.conf import settings
from django.utils import timezone

SIGNS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥"}
MINUS = "\u2212"
NONE = "\u2013"

Value = Decimal | int | float | str | None


def decimal_of(value: object) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def money(value: Value, currency: str = "") -> str:
    """€1,234.50; small prices keep up to six decimals, so €0.00012 stays readable."""
    amount = decimal_of(value)
    if value is None or amount is None:
        return NONE
    code = currency or getattr(settings, "CURRENCY", "EUR")
    sign = SIGNS.get(code, f"{code} ")
    places = Decimal("0.01")
    exact = abs(amount).normalize()
    if 0 < exact < Decimal("0.1") and exact != exact.quantize(places):
        text = f"{exact.quantize(Decimal('0.000001')).normalize():f}"
    else:
        text = f"{exact.quantize(places, rounding='ROUND_HALF_UP'):,}"
    return f"{MINUS if amount < 0 else ''}{sign}{text}"


def signed(value: Value, currency: str = "") -> str:
    """A difference: +€6.00, −€6.00; no sign where there is none."""
    amount = decimal_of(value)
    return f"{'+' if amount is not None and amount > 0 else ''}{money(value, currency)}"


def unit_hours(seconds: int) -> str:
    """Unit-seconds as unit-hours, to a tenth."""
    return number(Decimal(seconds) / 3600, 1)


def number(value: Value, places: int = 0) -> str:
    amount = decimal_of(value)
    if value is None or amount is None:
        return NONE
    return f"{MINUS if amount < 0 else ''}{abs(amount):,.{places}f}"


def duration(value: timedelta | Value) -> str:
    """The two largest units: 0.3 s, 24 s, 1 h 8 min, 2 d 4 h."""
    if value is None:
        return NONE
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0:
        return MINUS + duration(-seconds)
    if seconds < 10:
        return (
            f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
            if seconds < 0.1
            else f"{seconds:.1f}".removesuffix(".0") + " s"
        )
    whole = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count)


def gib(value: Value) -> str:
    """Bytes as GiB, grouped; TiB from ten thousand up is left to the reader's eye, as figures must add up."""
    amount = decimal_of(value)
    if value is None or amount is None:
        return NONE
    size = amount / (1 << 30)
    return f"{size:,.0f} GiB" if size == size.to_integral_value() or size >= 100 else f"{size:,.1f} GiB"


def zoned(value: datetime, zone: tzinfo | None = None) -> datetime:
    return timezone.localtime(value, zone) if timezone.is_aware(value) else value


def when(value: datetime | None, zone: tzinfo | None = None, now: datetime | None = None) -> str:
    """Mon 30 Nov, 18:00; the year only where it is not this one. The zone is in the title of the `time` element."""
    if value is None:
        return NONE
    local = zoned(value, zone)
    year = "" if local.year == zoned(now or timezone.now(), zone).year else f" {local.year}"
    return f"{local:%a} {local.day} {local:%b}{year}, {local:%H:%M}"


def full_when(value: datetime, zone: tzinfo | None = None) -> str:
    local = zoned(value, zone)
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S} {local.tzname() or ''}".strip()


STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) UTC\b")


def local_times(text: str, zone: tzinfo | None = None) -> str:
    """Sentences that were written for everybody, with their UTC times as the reader has them."""

    def local(found: re.Match[str]) -> str:
        try:
            moment = datetime.fromisoformat(found.group(1)).replace(tzinfo=UTC)
        except ValueError:
            return found.group(0)
        return when(moment, zone)

    return STAMP.sub(local, text)


def day(value: date | None) -> str:
    return NONE if value is None else f"{value.day} {value:%b %Y}"


def ago(value: datetime | None, now: datetime | None = None) -> str:
    """How long ago, or how long until: 4 s ago, in 11 d 3 h."""
    if value is None:
        return NONE
    gap = (now or timezone.now()) - value
    return f"{duration(gap)} ago" if gap >= timedelta() else f"in {duration(-gap)}"
