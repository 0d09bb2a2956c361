"""Kubernetes' quantities ("500m", "1536Mi", "2k") as exact numbers."""

import re
from fractions import Fraction
from math import ceil

_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}
_FORM = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))")
GIB = 1024**3


def quantity(text: str | float) -> Fraction:
    """Exact. Raises ValueError for what is no quantity."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None or (found[3] or "") not in _SUFFIXES:
        raise ValueError(f"not a quantity: {text!r}")
    number = Fraction(found[1])
    return number * Fraction(10) ** int(found[2]) if found[2] else number * _SUFFIXES[found[3] or ""]


def whole(text: str | float) -> int:
    """Rounded up: a fraction in use is in use."""
    if isinstance(text, str) and text.isdecimal():  # as nearly all are: the meter reads thousands a second
        return int(text)
    return ceil(quantity(text))


def gib(text: str | float) -> int:
    """Whole GiB, rounded up."""
    return ceil(quantity(text) / GIB)
