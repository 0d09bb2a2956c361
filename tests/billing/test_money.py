"""Integers, rounding, shares, months: no database."""

from datetime import date
from decimal import Decimal
from functools import partial
from itertools import pairwise

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from billing.money import amount_of, charge_divisor, largest_remainder, price_of, price_parse, round_half_up
from billing.months import month_days, month_next, month_parse, month_span, months_between
from billing.services.discounts import percent_parse
from billing.services.payments import amount_parse
from gpuaas.core.errors import Invalid
from tests.billing.stage import utc


@pytest.mark.parametrize(
    ("micro", "text"),
    [(0, "0.00"), (2_400_000, "2.40"), (137, "0.000137"), (10, "0.00001"), (12_345_678, "12.345678")],
)
def test_prices_read_as_they_were_typed(micro: int, text: str) -> None:
    assert str(price_of(micro)) == text
    assert price_parse(text) == micro


@pytest.mark.parametrize("text", ["999999." + "9" * 40, "1." + "0" * 40 + "1", "1" * 29, "9" * 5000])
def test_more_digits_than_are_counted_exactly_are_refused(text: str) -> None:
    """Arithmetic of Decimals would round them, and take what nobody wrote."""
    parsers = (price_parse, percent_parse, partial(amount_parse, currency="EUR"))
    for each in parsers:
        with pytest.raises(Invalid):
            each(text)


@pytest.mark.parametrize(
    ("currency", "divisor", "text"),
    [("EUR", 36_000_000, "12.34"), ("JPY", 3_600_000_000, "1234"), ("KWD", 3_600_000, "1.234")],
)
def test_minor_units_follow_the_currency(currency: str, divisor: int, text: str) -> None:
    assert charge_divisor(currency) == divisor
    assert str(amount_of(1234, currency)) == text


@pytest.mark.parametrize(("numerator", "rounded"), [(0, 0), (49, 0), (50, 1), (149, 1), (150, 2), (250, 3)])
def test_half_is_rounded_up(numerator: int, rounded: int) -> None:
    assert round_half_up(numerator, 100) == rounded


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30), st.integers(1, 10**8))
def test_shares_add_up_and_are_within_one(numerators: list[int], divisor: int) -> None:
    total = round_half_up(sum(numerators), divisor)
    shares = largest_remainder(numerators, divisor, total)
    assert sum(shares) == total
    for share, numerator in zip(shares, numerators, strict=True):
        assert 0 <= share - numerator // divisor <= 1


@given(
    st.dates(date(2000, 1, 1), date(2999, 11, 30)),
    st.sampled_from(["Europe/Berlin", "UTC", "America/St_Johns"]),
)
def test_days_tile_the_month_and_months_tile_time(day: date, zone: str) -> None:
    with override_settings(BILLING_TIME_ZONE=zone):
        span, days = month_span(day), month_days(day)
        assert (days[0].starts_at, days[-1].ends_at) == (span.starts_at, span.ends_at)
        assert all(one.ends_at == two.starts_at for one, two in pairwise(days))
        assert month_span(month_next(day)).starts_at == span.ends_at


def test_clock_changes_make_months_of_743_and_745_hours() -> None:
    hours = [month_span(date(2026, month, 1)).seconds // 3600 for month in (1, 3, 10)]
    assert hours == [744, 743, 745]
    assert month_span(date(2026, 3, 1)).starts_at == utc("2026-02-28 23:00:00")


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-1", "26-01", "", "2026-01-01", "1999-12", "٢٠٢٦-01", "2026-01\n"]
)
def test_a_bad_month_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        month_parse(text)


def test_months_between_names_each_once() -> None:
    found = months_between(utc("2026-10-31 23:30:00"), utc("2027-01-01 00:00:00"))
    assert found == [date(2026, 11, 1), date(2026, 12, 1), date(2027, 1, 1)]
    assert amount_of(0, "EUR") == Decimal("0.00")
