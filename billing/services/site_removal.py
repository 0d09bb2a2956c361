"""Removing a site: refused with the list of what is left, while anything of ours is there or not invoiced yet."""

from collections.abc import Iterator

from django.db import transaction
from django.db.models import Q, QuerySet

from billing.models import MonthClose
from billing.months import month_next, month_of
from billing.states import CloseState
from gpuaas.catalog.models import Site
from gpuaas.catalog.services import site_detach
from gpuaas.clusters.models import Cluster, ClusterPool, ClusterTemplate
from gpuaas.clusters.states import LIVE as CLUSTERS_LIVE
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.metering.models import UsageInterval
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import LIVE
from quotas.models import PoolReservation
from tenants.actors import Actor
from tenants.roles import Permission
from tenants.selectors import platform_require

NAMED = 3


@transaction.atomic
def site_remove(*, actor: Actor, site: Site, name: str) -> None:
    """`name`: its slug, typed as a confirmation. Raises Invalid on `name`, and Conflict with what is left.

    Usage, invoices and the audit log keep the name, which no other site can take.
    """
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if name != site.slug:
        raise Invalid.field("name", f"type {site.slug} to remove the site")
    row = Site.objects.select_for_update().get(pk=site.pk)
    if row.removed_at is not None:
        raise Conflict(f"{row.slug} is already removed")
    if row.enabled:
        raise Conflict(f"{row.slug} accepts new requests; disable it first")
    left = site_leftovers(site=row)
    if left:
        raise Conflict(f"{row.slug} still has {'; '.join(left)}", detail={"left": left})
    site_detach(actor=actor, site=row)


def site_leftovers(*, site: Site) -> list[str]:
    """The obstacles to its removal, in words; empty if there are none."""
    return list(_leftovers(site))


def _leftovers(site: Site) -> Iterator[str]:
    workspaces = Workspace.objects.filter(site=site, state__in=LIVE)
    yield from _named("workspace", workspaces, "delete them, or wait until they are gone")
    bursting = ClusterPool.objects.filter(flavor__pool__site=site).values("cluster")
    clusters = Cluster.objects.filter(Q(site=site) | Q(pk__in=bursting), state__in=CLUSTERS_LIVE)
    yield from _named("cluster", clusters, "delete them, or wait until they are gone")
    templates = ClusterTemplate.objects.filter(site=site).exclude(state="retired")
    yield from _named("cluster template", templates, "retire them")
    now = clock.now()
    reserved = PoolReservation.objects.filter(pool__site=site).filter(Q(valid_to=None) | Q(valid_to__gt=now))
    if count := reserved.count():
        yield f"{count} reserved pool{'s' if count > 1 else ''}: end {'them' if count > 1 else 'it'}"
    if UsageInterval.objects.filter(site=site, ended_at=None).exists():
        yield "usage whose end is not known yet: let its meter finish, or enable the site until it has"
        return
    yield from _unbilled(site)


def _unbilled(site: Site) -> Iterator[str]:
    used = UsageInterval.objects.filter(site=site).order_by()
    first = used.order_by("started_at").values_list("started_at", flat=True).first()
    last = used.order_by("-ended_at").values_list("ended_at", flat=True).first()
    if first is None or last is None:
        return
    closed = set(MonthClose.objects.filter(state=CloseState.CLOSED).values_list("month", flat=True))
    month = month_of(first)
    while month <= month_of(last):
        if month not in closed:
            yield f"usage of {month:%B %Y} that is not invoiced yet: close that month first"
            return
        month = month_next(month)


def _named(
    what: str, rows: QuerySet[Workspace] | QuerySet[Cluster] | QuerySet[ClusterTemplate], do: str
) -> Iterator[str]:
    count = rows.count()
    if count:
        names = ", ".join(rows.order_by("name").values_list("name", flat=True)[:NAMED])
        more = " and others" if count > NAMED else ""
        yield f"{count} {what}{'s' if count > 1 else ''} ({names}{more}): {do}"
