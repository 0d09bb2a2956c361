"""The checklist for closing a month: each condition in words, with what to do if it does not hold."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.conf import settings
from django.db.models import F, Max, Min, Subquery
from django.db.models.functions import Least

from billing.models import MonthClose
from billing.months import Span, billing_zone, month_next, month_of, month_span
from billing.states import CloseState
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.clock import TO_THE_MINUTE
from gpuaas.core.errors import Invalid
from gpuaas.metering.health import SHORT
from gpuaas.metering.models import FinalMonth, MeterGap, SiteMeter, UsageInterval
from gpuaas.metering.selectors import gaps_between, sites_counted
from quotas.models import PoolReservation
from tenants.actors import Actor
from tenants.selectors import platform_require

SHOWN = 5


@dataclass(frozen=True)
class Check:
    """`may_accept`: an operator may close despite it, with a reason; the affected usage is then marked estimated."""

    name: str
    title: str
    ok: bool
    message: str
    remedy: str = ""
    may_accept: bool = False


@dataclass(frozen=True)
class Silent:
    """A site whose meter has been silent since: on these days there may be more usage than is known."""

    site_id: uuid.UUID
    starts_at: datetime
    ends_at: datetime

    def days(self) -> list[date]:
        zone = billing_zone()
        day = self.starts_at.astimezone(zone).date()
        last = (self.ends_at - timedelta(seconds=1)).astimezone(zone).date()
        return [day + timedelta(days=number) for number in range((last - day).days + 1)]


def closable_from(span: Span) -> datetime:
    """The end of the month plus the grace days, in which meters catch up."""
    return span.ends_at + timedelta(hours=settings.BILLING_GRACE_HOURS)


def month_checks(*, month: date, now: datetime) -> list[Check]:
    """All checks but quarantine, which needs the month's rating: `quarantine_check`. Bounded queries."""
    span = month_span(month)
    return [_over(span, now), _order(span.day), _meters(span), _gaps(span)]


def month_first() -> date | None:
    """The month of the first usage ever, or of the first reserved pool, that is not final: months are closed in order from
    there on."""
    reserved = PoolReservation.objects.order_by("valid_from").values("valid_from")[:1]
    last = FinalMonth.objects.order_by("-month").values("month")[:1]
    found = UsageInterval.objects.aggregate(
        first=Least(Min("started_at"), Subquery(reserved)), final=Max(Subquery(last))
    )
    first, final = found["first"], found["final"]
    if first is None:
        return None
    return max(month_of(first), month_next(final)) if final else month_of(first)


def month_due(*, now: datetime | None = None) -> date:
    """The oldest month that is not closed; the current one if all are."""
    running = month_of(now or clock.now())
    closed = set(MonthClose.objects.filter(state=CloseState.CLOSED).values_list("month", flat=True))
    month = min(month_first() or running, running)
    while month < running and month in closed:
        month = month_next(month)
    return month


def months_open(*, now: datetime) -> int:
    """How many months can be closed, by the time, and are not."""
    behind = months_before(month_of(now), month_due(now=now))
    return sum(now >= closable_from(month_span(month)) for month in behind)


def quarantine_check(*, lines: int, names: Iterable[str] = ()) -> Check:
    shown = ", ".join(list(names)[:SHOWN])
    return Check(
        name="quarantine",
        title="Everything has a price",
        ok=lines == 0,
        message=f"{lines} line{'s' if lines != 1 else ''} in quarantine: no price is set"
        + (f" ({shown})" if shown else "")
        if lines
        else "no usage is in quarantine",
        remedy=(
            "Set a price that starts before the usage. Usage that is closed without a price is not "
            "invoiced until it has one."
        ),
        may_accept=True,
    )


def silent_sites(*, month: date) -> list[Silent]:
    """Sites whose meters have not reported to the end of the month."""
    span = month_span(month)
    return [
        Silent(site.pk, max(proof or _begun(site, span), span.starts_at), span.ends_at)
        for site, proof in _late(span)
    ]


def _begun(site: Site, span: Span) -> datetime:
    """For a site that has reported nothing: the earliest possible time of usage."""
    used = UsageInterval.objects.filter(site=site, started_at__lt=span.ends_at)
    first = used.exclude(ended_at__lte=span.starts_at).aggregate(first=Min("started_at"))["first"]
    return min(filter(None, (first, site.reached_at)), default=span.starts_at)


def close_for(*, actor: Actor, month: date) -> MonthClose | None:
    platform_require(actor=actor)
    return MonthClose.objects.select_related("progress").filter(month=month.replace(day=1)).first()


def _over(span: Span, now: datetime) -> Check:
    at = closable_from(span)
    ok = now >= at
    local = at.astimezone(billing_zone())
    message = (
        f"since {local:{TO_THE_MINUTE}}"
        if ok
        else f"it can be closed from {local:{TO_THE_MINUTE}} {local:%Z}"
    )
    return Check(
        name="grace",
        title=f"{span.day:%B %Y} and its grace period of {settings.BILLING_GRACE_HOURS} hours are over",
        ok=ok,
        message=message,
        remedy="Wait until then: meters need the time to report the rest of the month.",
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
    months: list[date] = []
    while first is not None and first < month:
        months.append(first)
        first = month_next(first)
    return months


def _meters(span: Span) -> Check:
    late = _late(span)
    total = sites_counted(starts_at=span.starts_at, ends_at=span.ends_at).count()
    if not late:
        message = (
            f"{total} of {total} sites have reported to the end of the month"
            if total
            else "no site was reached before the end of the month"
        )
        return Check("meters", "Every meter has reported", ok=True, message=message)
    named = ", ".join(
        f"{site.slug} ({f'until {proof:{TO_THE_MINUTE}} UTC' if proof else 'never'})"
        for site, proof in late[:SHOWN]
    )
    return Check(
        name="meters",
        title="Every meter has reported",
        ok=False,
        message=f"{len(late)} of {total} sites have not reported to the end of the month: {named}",
        remedy=(
            "Start the meter process and check that the site answers; it then reads the usage. Or accept "
            "it with a reason: the usage of the site is marked estimated, and later findings are on the "
            "next invoice."
        ),
        may_accept=True,
    )


def _late(span: Span) -> list[tuple[Site, datetime | None]]:
    proofs = dict(SiteMeter.objects.values_list("site_id", "last_proof_at"))
    counted = sites_counted(starts_at=span.starts_at, ends_at=span.ends_at).order_by("slug")
    rows = [(site, proofs.get(site.pk)) for site in counted]
    return [(site, proof) for site, proof in rows if proof is None or proof < span.ends_at]


def _long_gaps(span: Span) -> list[MeterGap]:
    used = UsageInterval.objects.filter(started_at__lt=span.ends_at).exclude(ended_at__lte=span.starts_at)
    sites = set(used.order_by().values_list("site_id", flat=True).distinct())
    sites |= set(sites_counted(starts_at=span.starts_at, ends_at=span.ends_at).values_list("pk", flat=True))
    gaps = gaps_between(site_ids=sites, starts_at=span.starts_at, ends_at=span.ends_at)
    return list(gaps.filter(ends_at__gte=F("starts_at") + SHORT))


def _gaps(span: Span) -> Check:
    gaps = _long_gaps(span)
    named = "; ".join(
        f"{gap.site.slug} from {gap.starts_at:{TO_THE_MINUTE}} to {gap.ends_at:{TO_THE_MINUTE}} UTC"
        for gap in gaps[:SHOWN]
    )
    return Check(
        name="gaps",
        title="No gaps in metering",
        ok=not gaps,
        message=f"{len(gaps)} gap{'s' if len(gaps) != 1 else ''} of a minute or more: {named}"
        if gaps
        else "no gap of a minute or more",
        remedy=(
            "Usage that started and ended in a gap is unknown. Accept it with a reason: usage around the "
            "gap is marked estimated; reservations are recorded by the portal itself and stay exact."
        ),
        may_accept=True,
    )


def checks_require(checks: Iterable[Check], *, accepted: str) -> None:
    """Raises Invalid on `accept` for what an operator can accept, on `month` for what has to be waited for."""
    wrong = [check for check in checks if not check.ok and not (check.may_accept and accepted)]
    if not wrong:
        return
    fields: dict[str, list[str]] = {}
    for check in wrong:
        field = "accept" if check.may_accept else "month"
        fields.setdefault(field, []).append(f"{check.title}: {check.message}. {check.remedy}")
    raise Invalid("; ".join(f"{check.title}: {check.message}" for check in wrong), fields=fields)
