"""What a past stretch of a machine held, where the site can no longer say: what was told while it could."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from gpuaas.metering.facts import Fact, better
from gpuaas.metering.models import UsageInterval


def facts_recall(facts: Sequence[Fact], *, site_id: uuid.UUID) -> list[Fact]:
    """Facts whose devices are a guess speak about what is written, or told beside them; else the guess stands, if there is one."""
    guessed = {uid for fact in facts if fact.like for uid in (fact.uid, fact.like)}
    if not guessed:
        return list(facts)
    told = {(fact.uid, fact.resource): fact for fact in facts if not fact.like}
    held: dict[str, dict[str, int]] = {}
    rows = UsageInterval.objects.filter(site_id=site_id, consumer_uid__in=guessed).order_by("resource_name")
    for uid, resource, quantity in rows.values_list("consumer_uid", "resource_name", "quantity"):
        held.setdefault(uid, {})[resource] = quantity
    for fact in told.values():
        held.setdefault(fact.uid, {}).setdefault(fact.resource, fact.quantity)
    for fact in (each for each in facts if each.like):
        devices = held.get(fact.uid) or held.get(fact.like) or {fact.resource: fact.quantity}
        for resource, quantity in devices.items():
            if quantity > 0:
                key, meant = (fact.uid, resource), replace(fact, resource=resource, quantity=quantity)
                told[key] = better(told[key], meant) if key in told else meant
    return list(told.values())
