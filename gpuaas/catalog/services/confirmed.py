"""The condition of a site at which nothing is changed for now, or which has something of a portal that this one does not know."""

import uuid
from datetime import datetime

from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.catalog.site import known_of
from gpuaas.core import clock
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


def confirmation_noted(stored: Stored, *, confirmed: bool, now: datetime) -> Stored:
    """At once where it changes, so that pages do not wait for the next probe; that also names what is unknown."""
    if confirmed:
        return {kind: row for kind, row in stored.items() if kind != CONFIRMED}
    return condition_set(
        stored,
        type=CONFIRMED,
        status=Status.FALSE,
        reason="Unconfirmed",
        message=UNCONFIRMED,
        now=now,
        remedy=REMEDY,
    )


@transaction.atomic
def sites_unconfirm() -> list[Site]:
    """All that are attached, by name: nothing is changed at one before an operator has compared it with the database."""
    rows = list(Site.objects.select_for_update().filter(removed_at=None).order_by("slug"))
    for row in rows:
        row.confirmed = False
        row.conditions = confirmation_noted(row.conditions, confirmed=False, now=clock.now())
    Site.objects.bulk_update(rows, ["confirmed", "conditions"])
    return rows


def _named(strangers: list[str]) -> str:
    more = len(strangers) - SHOWN
    names = ", ".join(strangers[:SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"At the site, marked for a workspace or cluster that this portal does not know, and left alone: {names}."
