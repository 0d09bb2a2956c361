"""How each site's meter is doing, as conditions with a remedy."""

import uuid
from datetime import datetime, timedelta

from django.db.models import F

from gpuaas.core import clock
from gpuaas.core.conditions import Condition, Status
from gpuaas.metering.models import CrossCheck, MeterGap, SiteMeter

PROOF_LATE = timedelta(seconds=150)
GAPS_SHOWN = timedelta(days=31)
SHORT = timedelta(seconds=60)  # as when the site's API server is started again: shown in the list, no alarm
CHECK_LATE = timedelta(hours=36)
FORMAT = "%Y-%m-%d %H:%M:%S"


def meter_conditions(*, site_id: uuid.UUID, now: datetime | None = None) -> list[Condition]:
    """`Metered`, `UsageComplete` and `CrossChecked`; 3 queries."""
    moment = now or clock.now()
    return [
        meter_condition(site_id=site_id, now=moment),
        _complete(site_id, moment),
        _cross_checked(site_id, moment),
    ]


def meter_condition(*, site_id: uuid.UUID, now: datetime | None = None) -> Condition:
    """`Metered`: is usage at this site being counted now? Usage itself is not lost while it is not; it is read later."""
    moment = now or clock.now()
    meter = SiteMeter.objects.filter(site_id=site_id).first()
    if meter is None or meter.last_proof_at is None:
        return Condition(
            type="Metered",
            status=Status.UNKNOWN,
            reason="NeverHeard",
            message="The meter has not yet heard from this site.",
            since=moment,
            remedy="Start the meter process (manage.py meter).",
        )
    late = moment - meter.last_proof_at > PROOF_LATE
    if late:
        return Condition(
            type="Metered",
            status=Status.FALSE,
            reason="ProofIsLate",
            message=f"The meter last heard from this site at {meter.last_proof_at:{FORMAT}} UTC.",
            since=meter.last_proof_at + PROOF_LATE,
            remedy="Check that the meter process runs and that the site answers; usage since then is read when both do.",
        )
    return Condition(
        type="Metered",
        status=Status.TRUE,
        reason="Watching",
        message=f"Usage is counted; last proof at {meter.last_proof_at:{FORMAT}} UTC.",
        since=meter.last_proof_at,
    )


def _complete(site_id: uuid.UUID, now: datetime) -> Condition:
    gaps = MeterGap.objects.filter(site_id=site_id, ends_at__gt=now - GAPS_SHOWN)
    last = gaps.filter(ends_at__gte=F("starts_at") + SHORT).first()
    if last is None:
        return Condition(
            type="UsageComplete",
            status=Status.TRUE,
            reason="NoGaps",
            message="In the last 31 days the site's history had no gap of a minute or more.",
            since=now,
        )
    return Condition(
        type="UsageComplete",
        status=Status.FALSE,
        reason="Gaps",
        message=(
            f"Between {last.starts_at:{FORMAT}} and {last.ends_at:{FORMAT}} UTC the meter saw nothing and the site keeps no "
            f"history; {last.closed} intervals were closed at their last proof of life."
        ),
        since=last.ends_at,
        remedy="Pods that began and were deleted in a gap cannot be known; keep two meter processes running.",
    )


def _cross_checked(site_id: uuid.UUID, now: datetime) -> Condition:
    last = CrossCheck.objects.filter(site_id=site_id).first()
    if last is None or now - last.checked_at > CHECK_LATE:
        return Condition(
            type="CrossChecked",
            status=Status.UNKNOWN,
            reason="NotYet" if last is None else "CheckIsLate",
            message="Usage has not been compared with a full list of the site in the last day.",
            since=now if last is None else last.checked_at + CHECK_LATE,
            remedy="Check that the workers run and that the site answers.",
        )
    found, left = len(last.findings), sum(not each["repaired"] for each in last.findings)
    return Condition(
        type="CrossChecked",
        status=Status.FALSE if left else Status.TRUE,
        reason="Differs" if left else "Repaired" if found else "Agrees",
        message=(
            f"At {last.checked_at:{FORMAT}} UTC {last.compared} consumers were compared: {found} differed, "
            f"{found - left} of them were set right."
        ),
        since=last.checked_at,
        remedy="Look at the differences; billed usage is corrected with a credit or debit note."
        if left
        else "",
    )
