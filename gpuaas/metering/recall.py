"""What a past stretch of a machine held, where the site can no longer say: what was written while it could."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from gpuaas.metering.facts import Fact
from gpuaas.metering.models import UsageInterval


def facts_recall(facts: Sequence[Fact], *, site_id: uuid.UUID) -> list[Fact]:
    """Facts whose devices are a guess speak about the rows that are there; where there is none the guess stands."""
    guessed = {fact.uid for fact in facts if not fact.known}
    if not guessed:
        return list(facts)
    rows = UsageInterval.objects.filter(site_id=site_id, consumer_uid__in=guessed).order_by("resource_name")
    written: dict[str, list[tuple[str, int]]] = {}
    for uid, resource, quantity in rows.values_list("consumer_uid", "resource_name", "quantity"):
        written.setdefault(uid, []).append((resource, quantity))
    told: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        held = written.get(fact.uid) if not fact.known else None
        for resource, quantity in held or [(fact.resource, fact.quantity)]:
            told[fact.uid, resource] = replace(fact, resource=resource, quantity=quantity)
    return list(told.values())
