"""What final months show: the usage of their invoices, asked for by `rating.rated_sql` (rating.md, section 17)."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from billing.months import Span, billing_zone


def invoiced_of(months: Sequence[date], spans: Sequence[Span]) -> dict[str, Any]:
    """Of sql/invoiced.sql, but for those that every rating has."""
    zone = billing_zone()
    return {
        "invoiced_months": list(months),
        "invoiced_slots": [span.day for span in spans],
        "invoiced_lasts": [span.ends_at.astimezone(zone).date() for span in spans],
    }
