"""Money as numbers: integers inside, exact Decimals at the edge, never floats."""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from iso4217 import Currency

from gpuaas.core.errors import Invalid

MICRO = 1_000_000
HOUR = 3600
PLAIN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
EXPONENTIAL = re.compile(r"[+-]?[0-9.]+[eE][+-]?[0-9]+")
OUT_IN_DIGITS = "write the number out in digits, such as 100000, without an exponent"
DIGITS = 28  # arithmetic of Decimals keeps as many, and rounds the others away
PRICE_PLACES = 6
PRICE_MAX = Decimal(1_000_000)
# Decimal places of the money there is (ISO 4217, list one). Metals, funds of banks and codes for tests have none.
CURRENCIES: dict[str, int] = {row.code: row.exponent for row in Currency if row.exponent is not None}
EXPONENTS = {code: places for code, places in CURRENCIES.items() if places != 2}


def minor_places(currency: str) -> int:
    """Decimal places of the currency's smallest amount (ISO 4217)."""
    return EXPONENTS.get(currency, 2)


def currency_parse(text: str) -> str:
    """Raises Invalid on `currency` unless it is the ISO 4217 code of money in use."""
    if text not in CURRENCIES:
        raise Invalid.field(
            "currency", "unknown currency; write its three-letter ISO 4217 code, for example EUR"
        )
    return text


def charge_divisor(currency: str) -> int:
    """D of rating.md: unit-seconds × price_micro / D is the charge in minor units."""
    divisor: int = HOUR * 10 ** (PRICE_PLACES - minor_places(currency))
    return divisor


def round_half_up(numerator: int, divisor: int) -> int:
    return (2 * numerator + divisor) // (2 * divisor)


def amount_of(minor: int, currency: str) -> Decimal:
    """Minor units as an amount: 1234 is 12.34 EUR. From text: arithmetic of Decimals rounds to 28 digits."""
    return Decimal(f"{minor}e-{minor_places(currency)}")


def price_of(price_micro: int) -> Decimal:
    """A unit price or a rate per hour, exact, with at least two decimal places: 2400000 is 2.40."""
    whole, fraction = divmod(price_micro, MICRO)
    digits = f"{fraction:06d}".rstrip("0").ljust(2, "0")
    return Decimal(f"{whole}.{digits}")


def decimal_read(value: Decimal | str | int, *, field: str, otherwise: str) -> Decimal:
    """A number that a person wrote with up to DIGITS digits and a point. Raises Invalid on `field`, for what is no number with
    `otherwise`."""
    if isinstance(value, str) and EXPONENTIAL.fullmatch(value.strip()):
        raise Invalid.field(field, OUT_IN_DIGITS)
    if isinstance(value, str) and not PLAIN.fullmatch(value.strip()):
        raise Invalid.field(field, otherwise)
    try:
        found = Decimal(value)
    except (InvalidOperation, ValueError, TypeError) as error:
        raise Invalid.field(field, otherwise) from error
    if len(found.as_tuple().digits) > DIGITS:
        raise Invalid.field(field, f"write a number of at most {DIGITS} digits")
    return found


def price_parse(value: Decimal | str | int, *, field: str = "price") -> int:
    """Millionths of a price entered by a person. Raises Invalid on `field`."""
    price = decimal_read(value, field=field, otherwise="a price must be a decimal number such as 2.40")
    if not price.is_finite() or price < 0 or price > PRICE_MAX:
        raise Invalid.field(field, f"a price must be between 0 and {PRICE_MAX:,} per unit and hour")
    micro = price * MICRO
    if micro != micro.to_integral_value():
        raise Invalid.field(field, f"a price may have at most {PRICE_PLACES} decimal places")
    return int(micro)


def largest_remainder(numerators: Sequence[int], divisor: int, total: int) -> list[int]:
    """Shares of `total` in whole units, in the given order: floors first, the remainder to the largest fractions."""
    shares = [numerator // divisor for numerator in numerators]
    order = sorted(range(len(shares)), key=lambda index: (-(numerators[index] % divisor), index))
    for index in order[: total - sum(shares)]:
        shares[index] += 1
    return shares


def tax_of(subtotal: int, rate_bp: int) -> int:
    """Tax of a whole document, rounded once, half up (of a negative one half down, so that a credit mirrors its
    debit)."""
    tax = round_half_up(abs(subtotal) * rate_bp, 10_000)
    return tax if subtotal >= 0 else -tax
