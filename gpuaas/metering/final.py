"""Final months: what reads and writes usage asks here what is settled, and what stands in files and not here."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from uuid import UUID

from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.metering.facts import Fact
from gpuaas.metering.models import STREAMED_METERS, FinalMonth, UsageFile, UsageInterval

RETENTION_LEAST = 3  # months
YOUNG = timedelta(days=80)  # no final month ended since then: most questions cost no query
NAMED = 5


def month_final() -> date | None:
    """The last final month; all before it are final, too."""
    return FinalMonth.objects.order_by("-month").values_list("month", flat=True).first()


def final_until() -> datetime | None:
    """The end of the last final month."""
    return FinalMonth.objects.order_by("-month").values_list("ends_at", flat=True).first()


def archived_until(starts_at: datetime) -> datetime | None:
    """The end of the months of which intervals that were there at `starts_at` may be archived; None: none is. Of young ones no query."""
    if starts_at > clock.now() - YOUNG:
        return None
    last = FinalMonth.objects.filter(archived_at__isnull=False, ends_at__gt=starts_at).last()
    return last.ends_at if last is not None else None


def intervals_require(*, starts_at: datetime) -> None:
    """Raises Conflict, with the names of files, if intervals that were there at `starts_at` may be archived."""
    ends_at = archived_until(starts_at)
    if ends_at is None:
        return
    files = UsageFile.objects.filter(month__ends_at__gt=starts_at).values_list("name", flat=True)
    names = list(files[: NAMED + 1])
    shown = ", ".join(names[:NAMED]) + (" and later ones" if len(names) > NAMED else "")
    raise Conflict(
        f"Single intervals that ended by {ends_at:%Y-%m-%d %H:%M} UTC are archived and not in the portal any "
        f"more; costs and invoices are. Ask the operators for the files {shown}, or choose a later time.",
        detail={"archived_until": ends_at.isoformat(), "files": names[:NAMED]},
    )


def uids_written(*, site_id: UUID, uids: set[str]) -> set[str]:
    """Those of consumers of a site of which there is an interval."""
    if not uids:
        return set()
    rows = UsageInterval.objects.filter(site_id=site_id, meter__in=STREAMED_METERS, consumer_uid__in=uids)
    return set(rows.values_list("consumer_uid", flat=True))


def uids_final(*, site_id: UUID, facts: Iterable[Fact]) -> set[str]:
    """Consumers that ended in final months and have no interval: archived, or told too late to be taken in."""
    young = clock.now() - YOUNG
    ended = {
        fact.uid: fact.ended_at for fact in facts if fact.ended_at is not None and fact.ended_at <= young
    }
    until = final_until() if ended else None
    if until is None:
        return set()
    final = {uid for uid, ended_at in ended.items() if ended_at <= until}
    return final - uids_written(site_id=site_id, uids=final)
