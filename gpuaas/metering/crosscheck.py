"""The daily cross-check: compares a full list of a site with the written rows, and repairs differences.

It repairs by passing the list to `usage_apply`, as the meter does; there is no second way to write usage.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

import structlog
from django.db.models import Q

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import Permanent
from gpuaas.core.events import OPERATORS_GROUP, publish
from gpuaas.metering.facts import METERS, Fact, Key, facts_merge
from gpuaas.metering.final import uids_final
from gpuaas.metering.models import STREAMED_METERS, CrossCheck, EndedBy, UsageInterval
from gpuaas.metering.owners import owners_find
from gpuaas.metering.recall import facts_recall
from gpuaas.metering.selectors import sites_metered
from gpuaas.metering.services import usage_apply
from gpuaas.providers.base import ObservedConsumer, UsageCapability, UsageEvent, UsageKind
from gpuaas.workspaces.site import driver_of, outside_transaction

log = structlog.get_logger(__name__)

# after the list the watch is followed for so long: by then the meter has written what the list says,
# and what changes meanwhile is not judged
SETTLE_SECONDS = 5
EVERY = timedelta(hours=23)


@dataclass(frozen=True)
class Finding:
    """what: `uncounted`, `ended` (still counted), `gone` (still counted) or `differs`; the last needs a person."""

    uid: str
    name: str
    workspace: str
    resource: str
    what: str
    detail: str = ""

    @property
    def repaired(self) -> bool:
        return self.what != "differs"


def sites_due(*, now: datetime) -> list[uuid.UUID]:
    """Metered sites that were not compared in the last 23 hours."""
    recent = CrossCheck.objects.filter(checked_at__gt=now - EVERY).values("site")
    return list(sites_metered().exclude(pk__in=recent).values_list("pk", flat=True))


def site_cross_check(*, site: Site) -> CrossCheck:
    """Raises Unavailable or Unauthorized if the site cannot be asked; nothing is recorded then."""
    outside_transaction()
    driver = driver_of(site)
    if not isinstance(driver, UsageCapability):
        raise Permanent(f"the driver {driver.name} does not report usage")
    listed, unsettled = _listed(driver)
    facts = _facts(site.pk, list(listed.values()))
    rows = _rows(site.pk, list(listed))
    compared = {key for key in facts.keys() | rows.keys() if key[0] not in unsettled}
    judged = {key: _compare(facts.get(key), rows.get(key)) for key in sorted(compared)}
    findings = [finding for finding in judged.values() if finding is not None]
    repairs = [listed[each.uid] for each in findings if each.repaired and each.uid in listed]
    there = {uid for uid, *_ in facts}  # what is there in another state ends the row when that began
    gone = [
        _gone(rows[key])
        for key, each in judged.items()
        if each and each.what == "gone" and key[0] not in there
    ]
    usage_apply(site_id=site.pk, events=[*repairs, *gone])
    made = CrossCheck.objects.create(
        site=site,
        checked_at=clock.now(),
        compared=len(compared),
        findings=[{**asdict(each), "repaired": each.repaired} for each in findings],
    )
    if findings:
        log.warning("cross_check_found", site=site.slug, found=len(findings), compared=len(compared))
    publish(kind="meter", id=site.pk, groups=(OPERATORS_GROUP,))
    return made


def _listed(driver: UsageCapability) -> tuple[dict[str, UsageEvent], set[str]]:
    """What the list contains of each consumer, and which consumers the watch has reported since."""
    listed: dict[str, UsageEvent] = {}
    unsettled: set[str] = set()
    over = False
    for event in driver.watch_usage("", seconds=SETTLE_SECONDS):
        if (
            event.kind is UsageKind.RELIST
        ):  # also a second one, where the watch could not go on from the first
            listed, unsettled, over = {}, set(), False
        elif event.kind is UsageKind.RELISTED:
            over = True
        elif event.consumer is not None and over:
            unsettled.add(event.consumer.uid)
        elif event.consumer is not None:
            listed[event.consumer.uid] = event
    return listed, unsettled


def _facts(site_id: uuid.UUID, events: Sequence[UsageEvent]) -> dict[Key, Fact]:
    owners = owners_find(site_id=site_id, events=events)
    facts = facts_recall(facts_merge(events), site_id=site_id)
    final = uids_final(site_id=site_id, facts=facts)
    owned = ((fact, owners.of(fact.workspace_name, fact.uid)) for fact in facts if fact.uid not in final)
    counted = [
        fact.since(owner.since)
        for fact, owner in owned
        if owner is not None and not fact.is_before(owner.since)
    ]
    return {fact.key: fact for fact in counted}


def _rows(site_id: uuid.UUID, uids: Sequence[str]) -> dict[Key, UsageInterval]:
    """Open intervals, and all that is written about listed consumers."""
    rows = UsageInterval.objects.filter(
        Q(ended_at__isnull=True) | Q(consumer_uid__in=uids), site_id=site_id, meter__in=STREAMED_METERS
    )
    found = rows.select_related("workspace").order_by()
    return {(row.consumer_uid, row.meter, row.resource_name): row for row in found}


def _compare(fact: Fact | None, row: UsageInterval | None) -> Finding | None:
    if row is None:
        return _finding(fact, "uncounted") if fact is not None else None
    workspace = row.holder.external_name
    finding = Finding(row.consumer_uid, row.consumer_name, workspace, row.resource_name, "")
    if fact is None:
        return replace(finding, what="gone") if row.ended_at is None else None
    if row.ended_by != EndedBy.OBSERVED and fact.ended_by == EndedBy.OBSERVED:
        return replace(finding, what="ended", detail=f"{fact.ended_at}")
    wrong = ", ".join(_differences(fact, row))
    return replace(finding, what="differs", detail=wrong[:500]) if wrong else None


def _differences(fact: Fact, row: UsageInterval) -> Iterator[str]:
    if row.quantity != fact.quantity:
        yield f"{row.quantity} counted, {fact.quantity} held"
    if row.started_at != fact.started_at:
        yield f"counted from {row.started_at}, held from {fact.started_at}"
    if row.ended_at is not None and row.ended_at != fact.ended_at:
        yield f"counted until {row.ended_at}, held until {fact.ended_at or 'now'}"


def _finding(fact: Fact, what: str) -> Finding:
    return Finding(fact.uid, fact.name, fact.workspace_name, fact.resource, what)


def _gone(row: UsageInterval) -> UsageEvent:
    """As a watch would have reported it, at the last moment of proven life."""
    gpus: Mapping[str, int] = {row.resource_name: row.quantity}
    last = ObservedConsumer(
        uid=row.consumer_uid,
        name=row.consumer_name,
        phase="Gone",
        node=row.node,
        gpus=gpus,
        created_at=row.started_at,
        started_at=row.started_at,
        ended_at=None,
        owner=row.owner,
        state=next(state for state, meter in METERS.items() if meter == row.meter),
    )
    return UsageEvent(UsageKind.GONE, row.last_seen_at, "", row.holder.external_name, last)
