"""Amounts as people read them: money, durations, times with their zone, sizes. Nothing here rounds for the ledger."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from django.conf import settings
from django.utils import timezone

from billing.money import minor_places

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
    """An amount, rounded half up to the currency's smallest: €1,234.50, ¥1,235. Prices and rates are `price`."""
    amount = decimal_of(value)
    if value is None or amount is None:
        return NONE
    places = Decimal(1).scaleb(-minor_places(code_of(currency)))
    return _written(amount.quantize(places, rounding=ROUND_HALF_UP), currency)


def price(value: Value, currency: str = "") -> str:
    """A price or a rate per hour: every decimal that it has, at least the currency's: €2.40, €0.855, €0.00012."""
    amount = decimal_of(value)
    if value is None or amount is None:
        return NONE
    least = minor_places(code_of(currency))
    places = max(least, -int(amount.normalize().as_tuple().exponent))
    return _written(amount.quantize(Decimal(1).scaleb(-places)), currency)


def suffix(unit: str) -> str:
    """What follows a number: `80%`, and `600 W`."""
    return unit if unit in ("", "%") else f" {unit}"


def code_of(currency: str) -> str:
    return currency or getattr(settings, "CURRENCY", "EUR")


def currency_of(sign: str) -> str:
    """Of what stands before its amounts."""
    return next((code for code, known in SIGNS.items() if known == sign), sign.strip())


def _written(amount: Decimal, currency: str) -> str:
    code = code_of(currency)
    return f"{MINUS if amount < 0 else ''}{SIGNS.get(code, f'{code} ')}{abs(amount):,f}"


def signed(value: Value, currency: str = "") -> str:
    """A difference of amounts: +€6.00, −€6.00; no sign where there is none."""
    return f"{_plus(value)}{money(value, currency)}"


def signed_price(value: Value, currency: str = "") -> str:
    """A difference of prices or rates."""
    return f"{_plus(value)}{price(value, currency)}"


def _plus(value: Value) -> str:
    amount = decimal_of(value)
    return "+" if amount is not None and amount > 0 else ""


def unit_hours(seconds: int) -> str:
    """Unit-seconds as unit-hours, to a tenth."""
    return number(Decimal(seconds) / 3600, 1)


def number(value: Value, places: int = 0) -> str:
    amount = decimal_of(value)
    if value is None or amount is None:
        return NONE
    return f"{MINUS if amount < 0 else ''}{abs(amount):,.{places}f}"


def gpus(value: Value) -> str:
    """A sum of GPUs, of which slices are parts: 42, 40.43."""
    shown = number(value, 2)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


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
    rest = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count)


def gib(value: Value) -> str:
    """Bytes as GiB, grouped; TiB from ten thousand up is left to the reader's eye, as figures must add up. MiB below a tenth."""
    amount = decimal_of(value)
    if value is None or amount is None:
        return NONE
    size = amount / (1 << 30)
    if 0 < size < Decimal("0.1"):
        return f"{amount / (1 << 20):,.1f} MiB"
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
    """A moment is a day of the reader's zone."""
    if value is None:
        return NONE
    local = zoned(value).date() if isinstance(value, datetime) else value
    return f"{local.day} {local:%b %Y}"


def ago(value: datetime | None, now: datetime | None = None) -> str:
    """How long ago, or how long until: 4 s ago, in 11 d 3 h."""
    if value is None:
        return NONE
    gap = (now or timezone.now()) - value
    return f"{duration(gap)} ago" if gap >= timedelta() else f"in {duration(-gap)}"
