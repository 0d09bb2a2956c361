"""May a month be closed? Each thing that has to be so, in words, with what to do where it is not."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db.models import F, Min, Subquery
from django.db.models.functions import Least

from billing.models import MonthClose
from billing.months import Span, billing_zone, month_next, month_of, month_span
from billing.states import CloseState
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.metering.health import SHORT
from gpuaas.metering.models import MeterGap, SiteMeter, UsageInterval
from gpuaas.metering.selectors import gaps_between, sites_metered
from quotas.models import PoolReservation
from tenants.actors import Actor
from tenants.selectors import platform_require

SHOWN = 5
FORMAT = "%Y-%m-%d %H:%M"


@dataclass(frozen=True)
class Check:
    """`may_accept`: an operator may close in spite of it, by their word; what it touches is then marked estimated."""

    name: str
    title: str
    ok: bool
    message: str
    remedy: str = ""
    may_accept: bool = False


@dataclass(frozen=True)
class Silent:
    """A site whose meter has not been heard since: days on which more may have been used than is known."""

    site_id: uuid.UUID
    starts_at: datetime
    ends_at: datetime

    def days(self) -> list[date]:
        zone = billing_zone()
        day = self.starts_at.astimezone(zone).date()
        last = (self.ends_at - timedelta(seconds=1)).astimezone(zone).date()
        return [day + timedelta(days=number) for number in range((last - day).days + 1)]


def closable_from(span: Span) -> datetime:
    """The month's end and the days of grace, in which meters catch up."""
    return span.ends_at + timedelta(hours=settings.BILLING_GRACE_HOURS)


def month_checks(*, month: date, now: datetime) -> list[Check]:
    """All but quarantine, which needs the month's rating: `quarantine_check`. Bounded queries."""
    span = month_span(month)
    return [_over(span, now), _order(span.day), _meters(span), _gaps(span)]


def month_first() -> date | None:
    """The month of the first usage ever, or of the first pool that was reserved: from there on months are closed one after the other."""
    reserved = PoolReservation.objects.order_by("valid_from").values("valid_from")[:1]
    first = UsageInterval.objects.aggregate(first=Least(Min("started_at"), Subquery(reserved)))["first"]
    return month_of(first) if first else None


def month_due(*, now: datetime | None = None) -> date:
    """The oldest month that is not closed; the running one where all are."""
    running = month_of(now or clock.now())
    closed = set(MonthClose.objects.filter(state=CloseState.CLOSED).values_list("month", flat=True))
    month = min(month_first() or running, running)
    while month < running and month in closed:
        month = month_next(month)
    return month


def quarantine_check(*, lines: int, names: Iterable[str] = ()) -> Check:
    shown = ", ".join(list(names)[:SHOWN])
    return Check(
        name="quarantine",
        title="Everything has a price",
        ok=lines == 0,
        message=f"{lines} line{'s' if lines != 1 else ''} in quarantine: nobody has said what it costs"
        + (f" ({shown})" if shown else "")
        if lines
        else "no usage is in quarantine",
        remedy="Set a price that begins before the usage. What is closed without one is on no bill until it has one.",
        may_accept=True,
    )


def silent_sites(*, month: date) -> list[Silent]:
    """Of which not everything of the month is known yet: their meters have not reported to its end."""
    span = month_span(month)
    return [
        Silent(site.pk, max(proof or span.starts_at, span.starts_at), span.ends_at)
        for site, proof in _late(span)
    ]


def close_for(*, actor: Actor, month: date) -> MonthClose | None:
    platform_require(actor=actor)
    return MonthClose.objects.select_related("progress").filter(month=month.replace(day=1)).first()


def _over(span: Span, now: datetime) -> Check:
    at = closable_from(span)
    ok = now >= at
    local = at.astimezone(billing_zone())
    message = f"since {local:{FORMAT}}" if ok else f"it may be closed from {local:{FORMAT}} {local:%Z}"
    return Check(
        name="grace",
        title=f"{span.day:%B %Y} and its {settings.BILLING_GRACE_HOURS} hours of grace are over",
        ok=ok,
        message=message,
        remedy="Wait until then: meters need the time to report what ran to the end.",
    )


def _order(month: date) -> Check:
    title, first = "Earlier months are closed", month_first()
    earlier = months_before(month, first)
    closed = set(MonthClose.objects.filter(state=CloseState.CLOSED).values_list("month", flat=True))
    missing = [each for each in earlier if each not in closed]
    if missing:
        return Check(
            name="order",
            title=title,
            ok=False,
            message=f"{missing[0]:%B %Y} is not closed",
            remedy=f"Close {missing[0]:%B %Y} first.",
        )
    return Check("order", title, ok=True, message="all of them" if earlier else "there is no earlier usage")


def months_before(month: date, first: date | None) -> list[date]:
    """From the month of the first usage to the one before `month`."""
    found: list[date] = []
    while first is not None and first < month:
        found.append(first)
        first = month_next(first)
    return found


def _meters(span: Span) -> Check:
    late = _late(span)
    total = sites_metered().count()
    if not late:
        message = f"{total} of {total} sites have reported to the month's end"
        return Check("meters", "Every meter has reported", ok=True, message=message)
    named = ", ".join(
        f"{site.slug} ({f'until {proof:{FORMAT}} UTC' if proof else 'never'})" for site, proof in late[:SHOWN]
    )
    return Check(
        name="meters",
        title="Every meter has reported",
        ok=False,
        message=f"{len(late)} of {total} sites have not reported to the month's end: {named}",
        remedy="Start the meter process and see that the site answers; usage is read then. Or close by your word: "
        "the site's usage is marked estimated, and what comes later lands on the next invoice.",
        may_accept=True,
    )


def _late(span: Span) -> list[tuple[Site, datetime | None]]:
    proofs = dict(SiteMeter.objects.values_list("site_id", "last_proof_at"))
    rows = [(site, proofs.get(site.pk)) for site in sites_metered().order_by("slug")]
    return [(site, proof) for site, proof in rows if proof is None or proof < span.ends_at]


def _long_gaps(span: Span) -> list[MeterGap]:
    used = UsageInterval.objects.filter(started_at__lt=span.ends_at).exclude(ended_at__lte=span.starts_at)
    sites = set(used.order_by().values_list("site_id", flat=True).distinct())
    sites |= set(sites_metered().values_list("pk", flat=True))
    gaps = gaps_between(site_ids=sites, starts_at=span.starts_at, ends_at=span.ends_at)
    return list(gaps.filter(ends_at__gte=F("starts_at") + SHORT))


def _gaps(span: Span) -> Check:
    gaps = _long_gaps(span)
    named = "; ".join(
        f"{gap.site.slug} from {gap.starts_at:{FORMAT}} to {gap.ends_at:{FORMAT}} UTC" for gap in gaps[:SHOWN]
    )
    return Check(
        name="gaps",
        title="No meter was blind",
        ok=not gaps,
        message=f"{len(gaps)} gap{'s' if len(gaps) != 1 else ''} of a minute or more: {named}"
        if gaps
        else "no gap of a minute or more",
        remedy="Nobody can know what began and ended in a gap. Close by your word: what a meter counts around it is "
        "marked estimated; what is held is the portal's own book and stays exact.",
        may_accept=True,
    )


def checks_require(checks: Iterable[Check], *, accepted: str) -> None:
    """Raises Invalid on `accept` for what an operator may take on themselves, on `month` for what has to be waited for."""
    wrong = [check for check in checks if not check.ok and not (check.may_accept and accepted)]
    if not wrong:
        return
    fields: dict[str, list[str]] = {}
    for check in wrong:
        field = "accept" if check.may_accept else "month"
        fields.setdefault(field, []).append(f"{check.title}: {check.message}. {check.remedy}")
    raise Invalid("; ".join(f"{check.title}: {check.message}" for check in wrong), fields=fields)
