"""What a past stretch of a machine held, if the site can no longer tell: what was reported while it could."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from gpuaas.metering.facts import Fact, better
from gpuaas.metering.models import UsageInterval


def facts_recall(facts: Sequence[Fact], *, site_id: uuid.UUID) -> list[Fact]:
    """Guessed devices are replaced by what is written, or reported beside them; otherwise the guess stays, if there
    is one."""
    guessed = {uid for fact in facts if fact.like for uid in (fact.uid, fact.like)}
    if not guessed:
        return list(facts)
    known = {fact.key: fact for fact in facts if not fact.like}
    held: dict[str, dict[str, int]] = {}
    rows = UsageInterval.objects.filter(site_id=site_id, consumer_uid__in=guessed).order_by("resource_name")
    for uid, resource, quantity in rows.values_list("consumer_uid", "resource_name", "quantity"):
        held.setdefault(uid, {})[resource] = quantity
    for fact in known.values():
        held.setdefault(fact.uid, {}).setdefault(fact.resource, fact.quantity)
    for fact in (each for each in facts if each.like):
        devices = held.get(fact.uid) or held.get(fact.like) or {fact.resource: fact.quantity}
        for resource, quantity in devices.items():
            if quantity > 0:
                named = replace(fact, resource=resource, quantity=quantity)
                known[named.key] = better(known[named.key], named) if named.key in known else named
    return list(known.values())
