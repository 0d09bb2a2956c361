"""Drift by hand: compare again, repair; and what the watch of a site has seen."""

import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import ExpressionWrapper, F, Q, Value
from django.db.models.expressions import Combinable
from django.db.models.fields import DateTimeField, DurationField
from django.db.models.functions import Random

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.core.queue import poke
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.models import PREFIX_LENGTH, Drift, SiteWatch, Workspace
from gpuaas.workspaces.selectors import COMPARED, workspace_require
from gpuaas.workspaces.services.rows import WORKSPACE, workspace_lock
from gpuaas.workspaces.states import CHECKS_PER_SECOND, LOOKED_AT, DriftState
from tenants.actors import SYSTEM, Actor
from tenants.audit import audit_record
from tenants.roles import Permission
from tenants.selectors import platform_require

# after so long without a proof of life the old, frequent looks begin again
WATCH_LOST_AFTER = timedelta(seconds=60)
LOOKS_WITHIN = timedelta(seconds=30)


@transaction.atomic
def drift_check_request(*, actor: Actor, workspace: Workspace) -> Workspace:
    """Compares it with the site now, field by field."""
    workspace_require(actor=actor, workspace=workspace, permission=Permission.WORKSPACE_CREATE)
    row = workspace_lock(workspace.pk)
    WORKSPACE.require(row, Verb.COMPARE)
    _due_now(row)
    WORKSPACE.audit(row, actor, "drift_check")
    return row


@transaction.atomic
def site_drift_check_request(*, actor: Actor, site: Site) -> int:
    """Compares every workspace of the site, ten a second, and the objects for the whole site; returns how many."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    count = site_checks_spread(site_id=site.pk)
    audit_record(actor=actor, action=COMPARED, target=site, after={"workspaces": count})
    poke("workspaces.site_repair", str(site.pk))
    return count


@transaction.atomic
def drift_repair(*, actor: Actor, drift: Drift) -> Drift:
    """Repairs what the site's policy only observes."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    row = workspace_lock(drift.workspace_id)
    locked = Drift.objects.select_for_update().get(pk=drift.pk)
    if locked.state != DriftState.OPEN:
        raise Conflict("this drift is already over", detail={"state": locked.state})
    locked.resolved_by = actor.name
    locked.save(update_fields=["resolved_by"])
    _due_now(row)
    after = {"drift": str(locked.pk)}
    WORKSPACE.audit(row, actor, "drift_repair", after=after)
    return locked


def _due_now(row: Workspace) -> None:
    moment = clock.now()
    Workspace.objects.filter(pk=row.pk).update(due_at=moment, drift_due_at=moment)
    poke("workspaces.reconcile", str(row.pk))


def changes_note(*, site_id: uuid.UUID, name: str) -> bool:
    """Somebody changed something in this namespace: its workspace is compared now; False if there is none."""
    named = Q(name=name[PREFIX_LENGTH:]) | Q(adopted_name=name)
    rows = Workspace.objects.filter(named, site_id=site_id, state__in=LOOKED_AT)
    found = [row for row in rows.only("pk", "name", "adopted_name") if row.external_name == name]
    for row in found:
        _due_now(row)
    return bool(found)


def site_checks_spread(*, site_id: uuid.UUID) -> int:
    """Comparisons of a site's workspaces are spread over the time that they take at ten a second."""
    rows = Workspace.objects.filter(site_id=site_id, state__in=LOOKED_AT)
    count = rows.count()
    moment = clock.now()
    when = _within(moment, timedelta(seconds=count / CHECKS_PER_SECOND))
    rows.filter(Q(drift_due_at__isnull=True) | Q(drift_due_at__gt=moment)).update(drift_due_at=when)
    rows.filter(due_at__gt=F("drift_due_at")).update(due_at=F("drift_due_at"))
    return count


def watch_proved(*, site_id: uuid.UUID, cursor: str) -> None:
    """The watch is alive, and everything up to the cursor is recorded."""
    SiteWatch.objects.update_or_create(site_id=site_id, defaults={"cursor": cursor, "proof_at": clock.now()})


def watches_lost() -> int:
    """Workspaces that rely on a watch, at sites where none is alive any more: checked again soon."""
    moment = clock.now()
    lost = SiteWatch.objects.filter(proof_at__lte=moment - WATCH_LOST_AFTER)
    sites = list(lost.values_list("site_id", flat=True))
    if not sites:
        return 0
    resting = Workspace.objects.filter(
        site_id__in=sites, state__in=LOOKED_AT, due_at__gt=moment + LOOKS_WITHIN * 2
    )
    return resting.update(due_at=_within(moment, LOOKS_WITHIN))


def site_repaired(*, site: Site, differences: list[dict[str, str]]) -> None:
    """Objects for the whole site that differed from the portal's, for the operators' log."""
    audit_record(actor=SYSTEM, action="site.drift_repair", target=site, after={"differences": differences})


def _within(moment: datetime, span: timedelta) -> Combinable:
    spread = ExpressionWrapper(
        Random() * Value(span, output_field=DurationField()), output_field=DurationField()
    )
    return ExpressionWrapper(Value(moment) + spread, output_field=DateTimeField())
