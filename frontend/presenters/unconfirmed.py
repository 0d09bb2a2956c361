"""What an order form says of sites at which nothing is changed before an operator has confirmed them (decision 0109)."""

from collections.abc import Iterable

from frontend.components import Notice
from gpuaas.catalog.models import Site
from gpuaas.core.looks import Tone


def waits_at(sites: Iterable[Site]) -> Notice | None:
    """None where an order begins at once at each of them."""
    names = sorted({site.slug for site in sites if not site.confirmed})
    if not names:
        return None
    *first, last = names
    where = f"{', '.join(first)} and {last}" if first else last
    text = f"What is ordered at {where} waits until an operator has confirmed the site{'s' if first else ''}."
    return Notice(Tone.WARN, "The order waits for an operator", text)
