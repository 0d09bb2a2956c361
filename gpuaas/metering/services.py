"""Writes usage: the events of a site's watch, the holdings of workspaces and clusters, the tokens of endpoints, and the state
of each site's meter."""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Greatest

from gpuaas.core import clock
from gpuaas.core.claims import ClaimLost
from gpuaas.core.clock import whole_second
from gpuaas.core.ids import uuid7
from gpuaas.core.sql import sql_read
from gpuaas.metering.facts import Fact, facts_merge, segments
from gpuaas.metering.final import uids_final, uids_written
from gpuaas.metering.health import PROOF_LATE
from gpuaas.metering.models import STREAMED_METERS, EndedBy, MeterGap, SiteMeter, UsageInterval
from gpuaas.metering.owners import Owner, Owners, owners_find
from gpuaas.metering.recall import facts_recall
from gpuaas.providers.base import UsageEvent, UsageKind
from quotas.allowances import Surplus

log = structlog.get_logger(__name__)

SQL = Path(__file__).parent / "sql"
TOKENS = (8191, 4)  # an advisory lock


@dataclass(frozen=True)
class UsageApplied:
    """The workspaces and clusters of the events, by name at the site; also for consumers that only wait.

    closed: how many intervals a list ended at their last proof of life.
    """

    owners: dict[str, Owner] = field(default_factory=dict)
    closed: int = 0


def usage_apply(*, site_id: uuid.UUID, events: Sequence[UsageEvent]) -> UsageApplied:
    """Makes the intervals match the events. Replays, duplicates and reorderings between barriers change nothing.

    BOOKMARK, RELIST and RELISTED are barriers: they refer to everything before them. A RELIST … RELISTED must be
    complete in one batch. Consumers of namespaces that are not ours are ignored, and so is what ended in a final month
    and is not written.
    """
    if not events:
        return UsageApplied()
    with transaction.atomic():
        owners, closed = owners_find(site_id=site_id, events=events), 0
        for segment in segments(events):
            _facts_write(site_id, facts_merge(segment), owners)
            closed += _barrier_apply(site_id, segment)
    return UsageApplied(owners.by_name, closed)


def deadlines_end(*, site_id: uuid.UUID, now: datetime) -> int:
    """Ends what is past its deadline and of which no end was told, as on a node that is dead: its quota is free, so that
    others may have taken its place. Returns how many intervals."""
    late = UsageInterval.objects.filter(site_id=site_id, ended_at__isnull=True, deadline_at__lte=now)
    return late.update(ended_at=F("deadline_at"), last_seen_at=F("deadline_at"), ended_by=EndedBy.OBSERVED)


def held_sync(*, now: datetime | None = None, since: datetime | None = None) -> int:
    """Copies the holdings of workspaces and clusters into intervals of the held meters; returns how many rows
    changed. since: leaves out what ended before, so that the time follows what is held now, not all that ever was."""
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "held_sync"), {"now": whole_second(now or clock.now()), "since": since})
        changed: int = cursor.rowcount
    return changed


@transaction.atomic
def tokens_sync(*, now: datetime | None = None, since: date | None = None) -> int:
    """Makes the intervals of tokens match the days that endpoints have counted; returns how many rows changed. since: leaves
    earlier days out. Rounds come one after the other, so that none writes what another one's count has overtaken."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", TOKENS)
        asked = {"now": whole_second(now or clock.now()), "since": since, "zone": settings.BILLING_TIME_ZONE}
        cursor.execute(sql_read(SQL, "tokens_sync"), asked)
        changed: int = cursor.rowcount
    return changed


def surplus_mark(*, site_id: uuid.UUID, found: Sequence[Surplus]) -> None:
    """Marks what is already written; what is written later is marked when it is written (usage_upsert.sql)."""
    for each in found:
        UsageInterval.objects.filter(
            site_id=site_id, consumer_uid=each.consumer.uid, resource_name=each.resource_name, surplus=False
        ).update(surplus=True)


def meter_claim(*, site_id: uuid.UUID, holder: str, now: datetime, seconds: int) -> SiteMeter | None:
    """The site's meter if it is free, expired or already ours; None while another process has it."""
    SiteMeter.objects.bulk_create([SiteMeter(site_id=site_id)], ignore_conflicts=True)
    free = Q(holder=holder) | Q(claim_until__isnull=True) | Q(claim_until__lte=now)
    rows = SiteMeter.objects.filter(free, site_id=site_id)
    if rows.update(holder=holder, claim_until=now + timedelta(seconds=seconds)) != 1:
        return None
    return SiteMeter.objects.filter(site_id=site_id, holder=holder).first()


def meter_release(*, site_id: uuid.UUID, holder: str) -> None:
    SiteMeter.objects.filter(site_id=site_id, holder=holder).update(holder="", claim_until=None)


def meter_flush(
    *, site_id: uuid.UUID, holder: str, events: Sequence[UsageEvent], now: datetime, claim_seconds: int
) -> UsageApplied:
    """Rows, cursor and claim in one transaction: after a kill at any point, the cursor covers what is written.

    Raises ClaimLost if another process has taken over.
    """
    barriers = [event for event in events if event.kind in {UsageKind.BOOKMARK, UsageKind.RELISTED}]
    changes: dict[str, object] = {"claim_until": now + timedelta(seconds=claim_seconds)}
    if events:
        changes["last_event_at"] = events[-1].at
    if barriers:
        changes["last_proof_at"] = Greatest(F("last_proof_at"), barriers[-1].at)
    cursors = [event.cursor for event in barriers if event.cursor]
    if cursors:
        changes["cursor"] = cursors[-1]
    with transaction.atomic():
        before = SiteMeter.objects.select_for_update().filter(site_id=site_id, holder=holder).first()
        if before is None:
            raise ClaimLost("another process meters this site now")
        SiteMeter.objects.filter(pk=before.pk).update(**changes, **_heard(before, barriers))
        applied = usage_apply(site_id=site_id, events=events)
        deadlines_end(site_id=site_id, now=now)
        if any(event.kind is UsageKind.RELISTED for event in events):
            _gaps_write(site_id, before.last_proof_at, barriers, applied.closed)
        return applied


def _heard(before: SiteMeter, barriers: Sequence[UsageEvent]) -> dict[str, object]:
    """Since when the site has been heard at all, and since when without a silence that made the meter late."""
    changes: dict[str, object] = {}
    proof = before.last_proof_at
    for event in barriers:
        if before.first_proof_at is None:
            changes.setdefault("first_proof_at", event.at)
        if proof is None or event.at - proof > PROOF_LATE:
            changes["watching_since"] = event.at
        proof = max(proof or event.at, event.at)
    return changes


def _gaps_write(
    site_id: uuid.UUID, proof: datetime | None, barriers: Sequence[UsageEvent], closed: int
) -> None:
    """A list follows a period without history: from the proof before it, if there ever was one."""
    gaps = []
    for event in barriers:
        if event.kind is UsageKind.RELISTED and proof is not None:
            first, last = whole_second(proof), whole_second(event.at)
            if first < last:
                gaps.append(MeterGap(site_id=site_id, starts_at=first, ends_at=last, closed=closed))
        proof = event.at
    MeterGap.objects.bulk_create(gaps, ignore_conflicts=True)


def _facts_write(site_id: uuid.UUID, facts: Sequence[Fact], owners: Owners) -> None:
    recalled = facts_recall(facts, site_id=site_id)
    owned = [(fact, owner) for fact in recalled if (owner := owners.of(fact.workspace_name, fact.uid))]
    early = {fact.uid for fact, owner in owned if fact.is_before(owner.since)}
    # seen running after they were taken over, though their end is told to be before: in the same second, or by a clock
    # of the site that is behind ours; what is open has to end
    early -= uids_written(site_id=site_id, uids=early)
    final = uids_final(site_id=site_id, facts=[fact for fact, _ in owned])
    if final:
        log.info(
            "usage_of_final_months_refused", site=str(site_id), consumers=len(final), some=sorted(final)[:5]
        )
    left_out = early | final
    rows = [(fact.since(owner.since), owner) for fact, owner in owned if fact.uid not in left_out]
    if not rows:
        return
    parameters: dict[str, Any] = {"site": site_id, **_columns(rows, owners)}
    with connection.cursor() as cursor:
        cursor.execute(sql_read(SQL, "usage_upsert"), parameters)
        latest: dict[str, Fact] = {}
        for fact, _ in sorted(rows, key=lambda row: (row[0].told_at, row[0].started_at)):
            if fact.ended_by != EndedBy.PROOF_OF_LIFE:  # else it was not told: it is what was written of it
                latest[fact.uid] = fact
        cursor.execute(sql_read(SQL, "usage_follow"), {"site": site_id, **_following(latest.values())})


def _following(facts: Collection[Fact]) -> dict[str, list[object]]:
    """Of each consumer what was told last."""
    return {
        "meters": [meter.value for meter in STREAMED_METERS],
        "uid": [fact.uid for fact in facts],
        "meter": [fact.meter.value for fact in facts],
        "started_at": [fact.started_at for fact in facts],
        "told_at": [fact.told_at for fact in facts],
    }


def _columns(rows: Sequence[tuple[Fact, Owner]], owners: Owners) -> dict[str, list[object]]:
    return {
        "owner": [fact.owner for fact, _ in rows],
        "meter": [fact.meter.value for fact, _ in rows],
        "id": [uuid7() for _ in rows],
        "project": [owner.project_id for _, owner in rows],
        "workspace": [owner.workspace_id for _, owner in rows],
        "flavor": [
            owners.flavor_of(owner.workspace_id, resource=fact.resource, node=fact.node)
            for fact, owner in rows
        ],
        "uid": [fact.uid for fact, _ in rows],
        "name": [fact.name for fact, _ in rows],
        "node": [fact.node for fact, _ in rows],
        "resource": [fact.resource for fact, _ in rows],
        "quantity": [fact.quantity for fact, _ in rows],
        "started_at": [fact.started_at for fact, _ in rows],
        "ended_at": [fact.ended_at for fact, _ in rows],
        "last_seen_at": [fact.last_seen_at for fact, _ in rows],
        "ended_by": [fact.ended_by for fact, _ in rows],
        "deadline_at": [fact.deadline_at for fact, _ in rows],
    }


def _barrier_apply(site_id: uuid.UUID, segment: Sequence[UsageEvent]) -> int:
    """Returns how many intervals it closed."""
    last, closed = segment[-1], 0
    opened = UsageInterval.objects.filter(site_id=site_id, meter__in=STREAMED_METERS, ended_at__isnull=True)
    if last.kind is UsageKind.RELISTED:
        listed = {event.consumer.uid for event in segment if event.consumer and event.kind is UsageKind.SEEN}
        closed = opened.exclude(consumer_uid__in=listed).update(
            ended_at=F("last_seen_at"), ended_by=EndedBy.PROOF_OF_LIFE
        )
    if last.kind in {UsageKind.BOOKMARK, UsageKind.RELISTED}:
        at = whole_second(last.at)
        opened.filter(last_seen_at__lt=at).update(last_seen_at=at)
    return closed
