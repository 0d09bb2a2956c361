"""Converts our rows to the spec for a driver. Computed each time, so that a lost role or a new pool counts at once."""

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from gpuaas.catalog.models import Flavor, GpuPool
from gpuaas.catalog.spec import flavor_amount, storage_spec
from gpuaas.core.ids import short
from gpuaas.providers import base
from gpuaas.workspaces.holdings import storage_confirmed, storage_wanted
from gpuaas.workspaces.identity import groups_of, identities_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import AccessRole, WorkspaceState
from tenants.models import OrganizationMembership, Project, ProjectMembership, User
from tenants.roles import ORGANIZATION_PERMISSIONS, PLATFORM_PERMISSIONS, PROJECT_PERMISSIONS, Permission

Items = Sequence[tuple[Flavor, int]]


def subject_of(user_id: uuid.UUID) -> str:
    return f"u-{short(user_id)}"


def robot_subject_of(robot_id: uuid.UUID) -> str:
    return f"ci-{short(robot_id)}"


def ref_of(workspace: Workspace) -> base.WorkspaceRef:
    return base.WorkspaceRef(id=workspace.pk, external_name=workspace.external_name)


def is_asleep(workspace: Workspace) -> bool:
    """Whether nothing of it may run now; after a failed resumption it is still suspended."""
    falling = {WorkspaceState.SUSPENDING, WorkspaceState.SUSPENDED}
    woken_in_vain = workspace.state == WorkspaceState.FAILED and workspace.suspended_at is not None
    return workspace.state in falling or woken_in_vain


def _put_to_sleep(spec: base.WorkspaceSpec) -> base.WorkspaceSpec:
    """Nothing of what runs; the GPUs stay named with a count of zero, so that the namespace stays on its nodes."""
    return replace(
        spec,
        gpus=tuple(replace(gpu, count=0) for gpu in spec.gpus),
        vcpus=0,
        memory_gib=0,
        tuning=replace(spec.tuning, hugepages=dict.fromkeys(spec.tuning.hugepages, 0)),
        suspended=True,
    )


def spec_of(workspace: Workspace, *, confirmed: bool = False) -> base.WorkspaceSpec:
    """What is wanted now, or (confirmed) what the site confirmed last. Needs `project__organization` and `site`; 9 queries."""
    asleep = is_asleep(workspace)
    rows = workspace.flavors.select_related("flavor__pool").order_by("flavor__slug")
    items = [(row.flavor, row.confirmed if confirmed and not asleep else row.count) for row in rows]
    storage = storage_confirmed(workspace) if confirmed else storage_wanted(workspace)
    by_class = {key: gib for key, gib in storage.items() if key is not None}
    spec = base.WorkspaceSpec(
        id=workspace.pk,
        external_name=workspace.external_name,
        project_slug=workspace.project.slug,
        organization_slug=workspace.project.organization.slug,
        vcpus=sum(flavor.vcpus * count for flavor, count in items),
        memory_gib=sum((flavor.memory_gib - flavor.hugepages_gib) * count for flavor, count in items),
        storage_gib=sum(storage.values()),
        members=members_of(workspace),
        tuning=_tuning([(flavor, count) for flavor, count in items if count]),
        placement=base.Placement(workspace.placement),
        flavors=_flavors(items),
        groups=groups_of(workspace),
        notice_seconds=workspace.notice_seconds,
        **_gpus(workspace, items),
        **storage_spec(site_id=workspace.site_id, plain_gib=storage[None], bought=by_class),
    )
    return _put_to_sleep(spec) if asleep else spec


def _flavors(items: Items) -> tuple[base.FlavorAmount, ...]:
    """For sites that sell machines: the purchase, flavor by flavor; it stays listed while the workspace is
    suspended."""
    return tuple(flavor_amount(flavor, count) for flavor, count in items if count)


def _gpus(workspace: Workspace, items: Items) -> dict[str, Any]:
    """The purchase by the names that the site counts, and every other GPU name of the site, closed."""
    counts: Counter[uuid.UUID] = Counter()
    pools: dict[uuid.UUID, GpuPool] = {}
    for flavor, count in items:
        counts[flavor.pool_id] += flavor.gpus * count
        pools[flavor.pool_id] = flavor.pool
    rows = GpuPool.objects.filter(site=workspace.site_id).order_by()
    names = Counter(rows.values_list("resource_name", flat=True))
    gpus = tuple(
        base.GpuAmount(
            resource_name=pools[pk].resource_name,
            count=count,
            selector=pools[pk].selector,
            exclusive=names[pools[pk].resource_name] == 1,
            device_class=pools[pk].device_class,
            also=tuple(pools[pk].also),
        )
        for pk, count in counts.items()
        if count
    )
    closed = {*names, *workspace.site.gpu_names} - {
        name for gpu in gpus for name in (gpu.resource_name, *gpu.also)
    }
    return {"gpus": gpus, "closed": tuple(sorted(closed))}


def _tuning(items: Items) -> base.Tuning:
    """The combined requirements of the flavors: hugepages add up, exclusive cores for one are exclusive cores for
    all."""
    hugepages: Counter[str] = Counter()
    for flavor, count in items:
        if flavor.hugepages_size:
            hugepages[flavor.hugepages_size] += flavor.hugepages_gib * count
    return base.Tuning(
        hugepages=dict(sorted(hugepages.items())),
        exclusive_cpus=any(flavor.exclusive_cpus for flavor, _ in items),
        sysctls=tuple(sorted({name for flavor, _ in items for name in flavor.sysctls})),
        profile=next((flavor.profile for flavor, _ in items if flavor.profile), ""),
    )


def spec_digest(spec: base.WorkspaceSpec) -> str:
    """Equal for equal specs, whatever the process or the order of rows."""
    return hashlib.sha256(json.dumps(asdict(spec), sort_keys=True, default=str).encode()).hexdigest()


def permissions_in(project: Project) -> dict[uuid.UUID, frozenset[Permission]]:
    """Permissions of people in a project by their roles there and in its organization; inactive people have none."""
    held: dict[uuid.UUID, frozenset[Permission]] = {}
    own = ProjectMembership.objects.filter(project=project, user__is_active=True)
    for user_id, role in own.values_list("user_id", "role"):
        held[user_id] = PROJECT_PERMISSIONS[role]
    shared = OrganizationMembership.objects.filter(
        organization_id=project.organization_id, user__is_active=True
    )
    for user_id, role in shared.values_list("user_id", "role"):
        held[user_id] = held.get(user_id, frozenset()) | ORGANIZATION_PERMISSIONS[role]
    return held


def members_of(workspace: Workspace) -> tuple[base.Member, ...]:
    """Members whose roles still admit them, the project's admins, who are admins of every workspace, and robots."""
    held = permissions_in(workspace.project)
    roles: dict[uuid.UUID, str] = {}
    for row in workspace.members.select_related("user"):
        platform = PLATFORM_PERMISSIONS[row.user.platform_role] if row.user.is_active else frozenset()
        if Permission.WORKSPACE_ACCESS in held.get(row.user_id, frozenset()) | platform:
            roles[row.user_id] = row.role
    for user_id, permissions in held.items():
        if Permission.PROJECT_MANAGE in permissions:
            roles[user_id] = AccessRole.ADMIN
    names = dict(User.objects.filter(pk__in=roles).values_list("pk", "username"))
    known = identities_of(workspace.site, roles)
    members = [
        base.Member(subject_of(pk), names[pk], str(role), identity=known.get(pk, ""))
        for pk, role in roles.items()
    ]
    members += [
        base.Member(robot_subject_of(row.pk), row.name, row.role, robot=True)
        for row in workspace.robots.filter(deleted_at__isnull=True)
    ]
    return tuple(sorted(members, key=lambda member: member.subject))
