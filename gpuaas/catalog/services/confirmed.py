"""The condition of a site at which nothing is changed for now, or which has something of a portal that this one does not know."""

import uuid
from datetime import datetime

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import known_of
from gpuaas.core.conditions import Status, Stored, condition_set
from gpuaas.providers.base import Inventory

CONFIRMED = "Confirmed"
UNCONFIRMED = (
    "Since the database was restored, or an operator asked for it, the portal changes nothing here: what was "
    "ordered waits, and nothing is repaired, suspended or deleted."
)
REMEDY = "Compare the site with the portal as the guide to restoring says, then confirm the site."
SHOWN = 20  # names


def strangers_of(inventory: Inventory) -> list[str]:
    """Names of what is marked for a workspace or cluster that this portal does not know: nothing of the portal touches it."""
    known = known_of(set(inventory.marked.values())) if inventory.marked else frozenset[uuid.UUID]()
    return sorted(name for name, holder in inventory.marked.items() if holder not in known)


def confirmed(stored: Stored, site: Site, inventory: Inventory, now: datetime) -> Stored:
    """Without it where the site is confirmed and has nothing unknown; strangers alone are no fault, as sites are shared."""
    strangers = strangers_of(inventory)
    message = _named(strangers) if strangers else ""
    status, reason, remedy = Status.TRUE, "Strangers", ""
    if not site.confirmed:
        status, reason, remedy = Status.FALSE, "Unconfirmed", REMEDY
        message = f"{UNCONFIRMED} {message}".strip()
    elif not strangers:
        return {kind: row for kind, row in stored.items() if kind != CONFIRMED}
    return condition_set(
        stored, type=CONFIRMED, status=status, reason=reason, message=message[:2000], now=now, remedy=remedy
    )


def _named(strangers: list[str]) -> str:
    more = len(strangers) - SHOWN
    names = ", ".join(strangers[:SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"At the site, marked for a workspace or cluster that this portal does not know, and left alone: {names}."
