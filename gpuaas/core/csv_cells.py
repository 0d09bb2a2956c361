"""One cell of a CSV file: no program takes text for something else, and no spreadsheet takes it for a formula.

Programs look only at the characters, quoted or not: `4711`, `1e5`, `TRUE`, `NaN` and `2026-01-01` become numbers, truth
values, nothing and dates. Such text gets an apostrophe in front, as in a spreadsheet; whoever needs the exact text
takes it off again (decision 0084).
"""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache

_BLANK = "[\\s\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*"
# A spreadsheet that splits at semicolons, as those of many countries do, begins a cell behind each, quoted or not.
_FORMULA = re.compile(f"(^|[;\t\r\n])(?={_BLANK}['=+\\-@\uff1d\uff0b\uff0d\uff20])")
_OTHER = re.compile(
    r"""\s*(?:
        [+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)? | 0x[\da-f]+   # numbers
        | \d+([-/.])\d+\1\d+(?:[t\ ].*)? | \d+t\d+z? | \d+:\d+.*   # days and times
        | true|false | [+-]?(?:inf|infinity)
        | <?na>?|n/a|nan|null|none|\#na|\#n/a(?:\ n/a)?|1\.\#(?:ind|qnan)   # nothing, as pandas reads it
        | invalid(?:_cost|_decimal|_int)?|bad_date   # and the validator of FOCUS
    )\s*""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(r'[",;\t\r\n]|^\s|\s$')


def csv_cell(value: object) -> str:
    """None is empty, numbers are plain decimals, truth values true or false, days and moments ISO 8601 in UTC; all else is text."""
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return _text(str(value))


@lru_cache(maxsize=10_000)
def _text(text: str) -> str:
    safe = _FORMULA.sub(r"\1'", text)
    if safe == text and _OTHER.fullmatch(text):
        safe = f"'{text}"
    return '"' + safe.replace('"', '""') + '"' if _QUOTED.search(safe) else safe
