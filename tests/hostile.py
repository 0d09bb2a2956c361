"""Names that programs and spreadsheets take for something else, and how a cell of ours is read back."""

import re

SLUGS = ["4711", "0042", "1e5", "0x1f", "true", "nan", "null", "inf", "2026-01-01", "20260101"]
NUMBERS = "4711 0042 12345678901234567890123 \u0664\u0667 \uff11\uff12 1.50 -5 +1 .5 1e5 1E+5 0x1F TRUE false NaN nan -inf"
NOTHING = "NA <NA> N/A #N/A null NULL None INVALID BAD_DATE"
TIMES = "2026-01-01 01.02.2026 1.5.2 10:00 2026-01-01T00:00:00Z 20260101T000000"
FORMULAS = [
    *("=cmd|' /C calc'!A0", "+cmd", "-cmd", "@sum(A1)", "\t=1+1", "\r=1+1", "\n=1+1", " =1+1"),
    *("\ufeff=1", "\u202e=1", "\uff1d1+1", "a;=1+1", "a\t=1", "a\r\n=1+1", 'a,"=1"'),
]
OTHERS = [
    *(
        " 42 ",
        "2026-01-01 10:00",
        'say "hi"',
        "'quoted",
        "''",
        "line\rtwo",
        "\U0001f680",
        "\u202e\u05d0\u05d1",
    ),
    *("\u2013", "Weather LM"),
]
NAMES = [*NUMBERS.split(), *NOTHING.split(), *TIMES.split(), *FORMULAS, *OTHERS]
# a cell begins behind these, whichever the spreadsheet splits at
_FORMULA = re.compile("(?:^|[;\t\r\n])[\\s\u202e\ufeff]*[=+@\\-\uff1d]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def formula_in(cell: str) -> bool:
    return not _NUMBER.fullmatch(cell) and _FORMULA.search(cell) is not None


def unquoted(cell: str) -> str:
    """The text as it was before it was written."""
    return re.sub(r"(^|[;\t\r\n])'", r"\1", cell)
