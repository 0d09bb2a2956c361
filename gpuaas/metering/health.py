"""The state of each site's meter, as conditions with a remedy. What nobody has observed is unknown.

`since` is computed from what was written at the time, so that reading changes nothing: it moves only with the status.
"""

import uuid
from datetime import datetime, timedelta

from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet, Window
from django.db.models.functions import Lag

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.conditions import Condition, Status
from gpuaas.metering.models import CrossCheck, MeterGap, SiteMeter

PROOF_LATE = timedelta(seconds=150)
GAPS_SHOWN = timedelta(days=31)
SHORT = timedelta(seconds=60)  # as when the site's API server is started again: shown in the list, no alarm
CHECK_LATE = timedelta(hours=36)
FORMAT = "%Y-%m-%d %H:%M:%S"


def meter_conditions(*, site_id: uuid.UUID, now: datetime | None = None) -> list[Condition]:
    """`Metered`, `UsageComplete` and `CrossChecked`; 5 queries at most."""
    moment = now or clock.now()
    site = Site.objects.select_related("meter").get(pk=site_id)
    meter: SiteMeter | None = getattr(site, "meter", None)
    return [
        _metered(site, meter, moment),
        _complete(site, meter, moment),
        _cross_checked(site, moment),
    ]


def _metered(site: Site, meter: SiteMeter | None, now: datetime) -> Condition:
    if meter is None or meter.last_proof_at is None:
        return _unheard(site, "Metered", "The meter has not yet heard from this site.")
    if now - meter.last_proof_at > PROOF_LATE:
        return Condition(
            type="Metered",
            status=Status.FALSE,
            reason="ProofIsLate",
            message=f"The meter last heard from this site at {meter.last_proof_at:{FORMAT}} UTC.",
            since=meter.last_proof_at + PROOF_LATE,
            remedy=(
                "Check that the meter process runs and that the site answers; the meter then reads the "
                "usage since that time."
            ),
        )
    return Condition(
        type="Metered",
        status=Status.TRUE,
        reason="Watching",
        message=f"Usage is counted; last proof at {meter.last_proof_at:{FORMAT}} UTC.",
        since=meter.watching_since or meter.last_proof_at,
    )


def _unheard(site: Site, kind: str, message: str) -> Condition:
    remedy = "Start the meter process (gpuaas-portal meter)."
    if site.reached_at is None:
        message = f"{message} The site was never reached, so nothing can run there."
        remedy = "Check the site's address and credentials first; the meter then starts automatically."
    return Condition(kind, Status.UNKNOWN, "NeverHeard", message, since=site.created_at, remedy=remedy)


def _complete(site: Site, meter: SiteMeter | None, now: datetime) -> Condition:
    """For the time in which the meter existed: what was before its start is no gap, and what is after its last proof
    is unknown."""
    if meter is None or meter.last_proof_at is None:
        return _unheard(site, "UsageComplete", "Nothing has been counted here, so gaps are unknown.")
    if now - meter.last_proof_at > PROOF_LATE:
        return Condition(
            type="UsageComplete",
            status=Status.UNKNOWN,
            reason="ProofIsLate",
            message="Gaps will be known when the meter hears from the site again.",
            since=meter.last_proof_at + PROOF_LATE,
            remedy="Check that the meter process runs and that the site answers.",
        )
    begun = meter.watching_since or meter.last_proof_at
    gaps = MeterGap.objects.filter(site=site, ends_at__gte=F("starts_at") + SHORT)
    last = gaps.first()
    if last is None or last.ends_at <= now - GAPS_SHOWN:
        return _gapless(
            meter, since=begun if last is None else max(begun, last.ends_at + GAPS_SHOWN), now=now
        )
    return Condition(
        type="UsageComplete",
        status=Status.FALSE,
        reason="Gaps",
        message=(
            f"Between {last.starts_at:{FORMAT}} and {last.ends_at:{FORMAT}} UTC the meter saw nothing "
            f"and the site has no history; {last.closed} intervals were closed at their last proof of "
            "life."
        ),
        since=max(begun, _incomplete_since(gaps)),
        remedy="Pods that started and were deleted in a gap are unknown; run two meter processes.",
    )


def _gapless(meter: SiteMeter, *, since: datetime, now: datetime) -> Condition:
    first = meter.first_proof_at or since
    stretch = (
        "In the last 31 days"
        if first <= now - GAPS_SHOWN
        else f"Since the first count ({first:{FORMAT}} UTC)"
    )
    message = f"{stretch} the site's history had no gap of a minute or more."
    return Condition("UsageComplete", Status.TRUE, "NoGaps", message, since=since)


def _incomplete_since(gaps: QuerySet[MeterGap]) -> datetime:
    """The end of the first of those gaps that followed each other before the one before was forgotten."""
    before = Window(Lag("ends_at"), order_by="starts_at")
    rows = gaps.annotate(before=before).filter(Q(before=None) | Q(before__lt=F("ends_at") - GAPS_SHOWN))
    return rows.order_by("-starts_at").values_list("ends_at", flat=True)[:1].get()


def _cross_checked(site: Site, now: datetime) -> Condition:
    last = CrossCheck.objects.filter(site=site).first()
    if last is None or now - last.checked_at > CHECK_LATE:
        return Condition(
            type="CrossChecked",
            status=Status.UNKNOWN,
            reason="NotYet" if last is None else "CheckIsLate",
            message="Usage has not been compared with a full list of the site in the last day.",
            since=site.created_at if last is None else last.checked_at + CHECK_LATE,
            remedy="Check that the workers run and that the site answers.",
        )
    differed, left = len(last.findings), sum(not each["repaired"] for each in last.findings)
    return Condition(
        type="CrossChecked",
        status=Status.FALSE if left else Status.TRUE,
        reason="Differs" if left else "Repaired" if differed else "Agrees",
        message=(
            f"At {last.checked_at:{FORMAT}} UTC {last.compared} consumers were compared: {differed} "
            f"differed, {differed - left} of them were corrected."
        ),
        since=_compared_since(site),
        remedy="Check the differences; correct billed usage with a credit or debit note." if left else "",
    )


def _compared_since(site: Site) -> datetime:
    """The first of the latest comparisons that were on time and had the same outcome."""
    differs = ExpressionWrapper(Q(findings__contains=[{"repaired": False}]), output_field=BooleanField())
    rows = CrossCheck.objects.filter(site=site).annotate(differs=differs)
    rows = rows.annotate(
        before=Window(Lag("checked_at"), order_by="pk"), differed=Window(Lag("differs"), order_by="pk")
    )
    changed = Q(before=None) | Q(before__lt=F("checked_at") - CHECK_LATE) | ~Q(differed=F("differs"))
    found: datetime = rows.filter(changed).order_by("-pk").values_list("checked_at", flat=True)[:1].get()
    return found
