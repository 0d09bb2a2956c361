"""Numbers of money: integers inside, exact Decimals at the edge. No float, ever."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from iso4217 import Currency

from gpuaas.core.errors import Invalid

MICRO = 1_000_000
HOUR = 3600
PRICE_PLACES = 6
PRICE_MAX = Decimal(1_000_000)
# Decimal places of the money there is (ISO 4217, list one). Metals, funds of banks and codes for tests have none.
CURRENCIES: dict[str, int] = {row.code: row.exponent for row in Currency if row.exponent is not None}
EXPONENTS = {code: places for code, places in CURRENCIES.items() if places != 2}


def minor_places(currency: str) -> int:
    """Decimal places of the currency's smallest amount (ISO 4217)."""
    return EXPONENTS.get(currency, 2)


def currency_parse(text: str) -> str:
    """Raises Invalid on `currency` for what is no ISO 4217 code of money that is in use."""
    if text not in CURRENCIES:
        raise Invalid.field(
            "currency", "there is no such currency; write its three letters of ISO 4217, for example EUR"
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


def price_parse(value: Decimal | str | int, *, field: str = "price") -> int:
    """Millionths of a price that a person typed. Raises Invalid on `field`."""
    try:
        price = Decimal(value)
    except (InvalidOperation, ValueError, TypeError) as error:
        raise Invalid.field(field, "a price is a decimal number such as 2.40") from error
    if not price.is_finite() or price < 0 or price > PRICE_MAX:
        raise Invalid.field(field, f"a price lies between 0 and {PRICE_MAX:,} per unit and hour")
    micro = price * MICRO
    if micro != micro.to_integral_value():
        raise Invalid.field(field, f"a price has at most {PRICE_PLACES} decimal places")
    return int(micro)


def largest_remainder(numerators: Sequence[int], divisor: int, total: int) -> list[int]:
    """Whole shares of `total` in the order given: floors first, what is left to the largest remainders."""
    shares = [numerator // divisor for numerator in numerators]
    order = sorted(range(len(shares)), key=lambda index: (-(numerators[index] % divisor), index))
    for index in order[: total - sum(shares)]:
        shares[index] += 1
    return shares


def tax_of(subtotal: int, rate_bp: int) -> int:
    """Of a whole document, rounded once, half up (of a negative one: half down, so that a credit mirrors its debit)."""
    tax = round_half_up(abs(subtotal) * rate_bp, 10_000)
    return tax if subtotal >= 0 else -tax
