"""Adoption of what existed at a site: scan, plan, confirm. For operators; nothing here calls a site."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.core import clock, events
from gpuaas.core.errors import Conflict, Invalid
from gpuaas.core.queue import poke
from gpuaas.core.rows import first_of, version_require
from gpuaas.lifecycle.lease import lease_validate
from gpuaas.providers.base import AdoptionCapability
from gpuaas.workspaces.adoption_plan import ADOPT, blocking
from gpuaas.workspaces.models import Adoption, AdoptionScan, AdoptionTransition, Workspace
from gpuaas.workspaces.services.request import name_taken, refuse_hopeless, requester_of, workspace_open
from gpuaas.workspaces.services.validation import (
    FlavorItem,
    items_resolve,
    members_resolve,
    name_validate,
    storage_validate,
)
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.states import ADOPTION, LIVE, AccessRole, AdoptionState, OperationKind
from quotas.resources import gpu_resource
from quotas.services import capacity_take_over
from tenants.actors import Actor
from tenants.audit import audit_record
from tenants.models import Project, User
from tenants.roles import Permission
from tenants.selectors import platform_require

VALID_FOR = timedelta(hours=1)  # of a plan: what it saw may be another tomorrow


@transaction.atomic
def adoption_scan_request(*, actor: Actor, site: Site) -> AdoptionScan:
    """Requests a scan for what can be adopted; the last results stay until it is done."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    if not isinstance(driver_of(site), AdoptionCapability):
        raise Conflict(f"sites of the driver {site.driver} do not support adoption")
    moment = clock.now()
    asked = {"requested_by": actor.name, "requested_at": moment, "due_at": moment, "attempts": 0}
    row, _ = AdoptionScan.objects.update_or_create(site=site, defaults={**asked, "failure": ""})
    audit_record(actor=actor, action="adoption.scan", target=site)
    adoption_scan_announce(row)
    poke("workspaces.adoption_scan", str(site.pk))
    return row


@transaction.atomic
def adoption_plan_request(
    *,
    actor: Actor,
    site: Site,
    external_name: str,
    project: Project,
    items: Sequence[tuple[str, int]],
    name: str,
    storage_gib: int = 0,
    members: Sequence[tuple[str, str]] = (),
    lease_ends_at: datetime | None = None,
) -> Adoption:
    """Requests a plan. Raises Invalid at the field; the site's answer arrives in the background."""
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    moment = clock.now()
    row = Adoption(
        site=site,
        project=project,
        external_name=_found_validate(site, external_name),
        name=name_validate(name),
        items={flavor.slug: count for flavor, count in _items_at(site, items)},
        storage_gib=storage_validate(storage_gib),
        members={user.username: str(role) for user, role in members_resolve(members, project=project)},
        lease_ends_at=lease_ends_at and lease_validate(lease_ends_at, now=moment),
        requested_by=requester_of(actor),
        requested_at=moment,
        due_at=moment,
    )
    if Workspace.objects.filter(project=project, name=row.name, state__in=LIVE).exists():
        raise Invalid.field("name", f"the project {project.slug} already has a workspace called {row.name}")
    row.save(force_insert=True)
    AdoptionTransition.objects.create(subject=row, old="", new=AdoptionState.PLANNING, actor=actor.name)
    audit_record(actor=actor, action="adoption.plan", target=row, project=project, after=_wishes(row))
    adoption_announce(row)
    poke("workspaces.adoption_plan", str(row.pk))
    return row


@transaction.atomic
def adoption_confirm(*, actor: Actor, adoption: Adoption, expected_version: int | None = None) -> Workspace:
    """Reserves and starts as planned, or not at all; the site is compared with the plan once more before it is
    changed.

    Raises Conflict if something is blocking, QuotaRefused and NoCapacity as for a request.
    """
    row = _locked(actor, adoption, expected_version)
    moment = clock.now()
    _confirmable(row, moment)
    flavors = _items_at(row.site, list(row.items.items()))
    people = adoption_people(row)
    workspace = workspace_of(row, created_by=requester_of(actor), moment=moment)
    capacity_take_over(project=row.project, site=row.site, amounts=_in_its_hands(row, flavors))
    refuse_hopeless(workspace, flavors)
    with name_taken(workspace, flavors), transaction.atomic():
        workspace_open(actor, workspace, flavors, people, kind=OperationKind.ADOPT, first=(ADOPT,))
    _move(row, actor, AdoptionState.CONFIRMED, workspace=workspace)
    after = {**_wishes(row), "adoption": str(row.pk)}
    audit_record(actor=actor, action="workspace.adopt", target=workspace, project=row.project, after=after)
    return workspace


@transaction.atomic
def adoption_discard(*, actor: Actor, adoption: Adoption, expected_version: int | None = None) -> Adoption:
    """Discards the plan; the site was not changed. Repeating it changes nothing."""
    row = _locked(actor, adoption, expected_version)
    if row.state == AdoptionState.DISCARDED:
        return row
    _move(row, actor, AdoptionState.DISCARDED, due_at=None)
    audit_record(actor=actor, action="adoption.discard", target=row, project=row.project)
    return row


def workspace_of(adoption: Adoption, *, created_by: User, moment: datetime) -> Workspace:
    """The future workspace, not saved yet."""
    return Workspace(
        id=adoption.pk,
        project=adoption.project,
        site=adoption.site,
        name=adoption.name,
        adopted_name=adoption.external_name,
        storage_gib=adoption.storage_gib,
        lease_ends_at=lease_validate(adoption.lease_ends_at, now=moment),
        created_by=created_by,
        created_at=moment,
        due_at=moment,
    )


def adoption_people(adoption: Adoption) -> list[tuple[User, AccessRole]]:
    return members_resolve(list(adoption.members.items()), project=adoption.project)


def adoption_announce(row: Adoption) -> None:
    events.publish(kind="adoption", id=row.pk, groups=(events.OPERATORS_GROUP,))


def adoption_scan_announce(row: AdoptionScan) -> None:
    events.publish(kind="adoption_scan", id=row.site_id, groups=(events.OPERATORS_GROUP,))


def _locked(actor: Actor, adoption: Adoption, expected_version: int | None) -> Adoption:
    platform_require(actor=actor, permission=Permission.PLATFORM_MANAGE)
    rows = Adoption.objects.select_for_update(of=("self",), no_key=True)
    row = first_of(rows.select_related("project__organization", "site").filter(pk=adoption.pk), "adoption")
    version_require(row.version, expected_version, "plan")
    return row


def _confirmable(row: Adoption, moment: datetime) -> None:
    if row.state != AdoptionState.PLANNED:
        label = ADOPTION.looks[AdoptionState(row.state)].label.lower()
        raise Conflict(f"only a plan that is ready can be confirmed; this one is {label}")
    if row.expires_at is None or row.expires_at <= moment:
        raise Conflict("this plan is out of date: plan again")
    in_the_way = blocking(row.steps)
    if in_the_way:
        first = in_the_way[0]
        more = f" (and {len(in_the_way) - 1} more)" if len(in_the_way) > 1 else ""
        raise Conflict(
            f"resolve this and plan again: {first['object']}: {first['detail']}{more}",
            detail={"blocking": [step["object"] for step in in_the_way]},
        )
    taken = Workspace.objects.filter(site=row.site, adopted_name=row.external_name, state__in=LIVE)
    if taken.exists():
        raise Conflict(f"{row.external_name} already belongs to another workspace")


def _in_its_hands(row: Adoption, flavors: Sequence[FlavorItem]) -> dict[str, int]:
    """Of the GPUs that were chosen, those that it had by the last scan, so that they were not for sale."""
    scan = AdoptionScan.objects.filter(site=row.site).first()
    scanned = scan.found if scan else []
    placed: dict[str, dict[str, int]] = next(
        (each["placed"] for each in scanned if each["external_name"] == row.external_name), {}
    )
    held, chosen = Counter[str](), Counter[str]()
    pools = GpuPool.objects.filter(site=row.site, nodes__name__in=placed)
    for slug, resource, node in pools.values_list("gpu_type__slug", "resource_name", "nodes__name"):
        held[gpu_resource(slug)] += placed[node].get(resource, 0)
    for flavor, count in flavors:
        chosen[gpu_resource(flavor.pool.gpu_type.slug)] += flavor.gpus * count
    return dict(held & chosen)


def _items_at(site: Site, items: Sequence[tuple[str, int]]) -> list[FlavorItem]:
    resolved = items_resolve(items)
    if resolved[0][0].pool.site_id != site.pk:
        raise Invalid.field("items", f"choose flavors of the site {site.slug}")
    if resolved[0][0].is_lent:
        raise Invalid.field(
            "items",
            "what runs already cannot become spot, which its pods would have to be made for; choose other flavors",
        )
    return resolved


def _found_validate(site: Site, external_name: str) -> str:
    """Only what a scan has found: it leaves out the site's own namespaces and existing workspaces."""
    scan = AdoptionScan.objects.filter(site=site).first()
    if external_name not in {row["external_name"] for row in (scan.found if scan else [])}:
        raise Invalid.field(
            "external_name",
            "the last scan of the site did not find it available for adoption; scan again",
        )
    return external_name


def _move(row: Adoption, actor: Actor, to: AdoptionState, **changes: Any) -> None:
    ADOPTION.transition(row, to=to, history=AdoptionTransition, actor=actor.name, **changes)
    adoption_announce(row)


def _wishes(row: Adoption) -> dict[str, Any]:
    return {
        "site": row.site.slug,
        "external_name": row.external_name,
        "items": row.items,
        "storage_gib": row.storage_gib,
        "members": row.members,
    }
