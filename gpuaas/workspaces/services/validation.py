"""What a request may say. Each refusal names its field, so that a form and the API show it in place."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuaas.catalog.models import Flavor, Site, StorageClass
from gpuaas.catalog.selectors import is_sold, storage_classes_sold
from gpuaas.core.errors import Invalid, Mistakes
from gpuaas.providers.base import MachineCapability, Placement
from gpuaas.providers.registry import clusters_only
from gpuaas.workspaces.amounts import StorageItem
from gpuaas.workspaces.holdings import storage_held
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.spec import permissions_in
from gpuaas.workspaces.states import AccessRole
from tenants.models import Project, User
from tenants.roles import PLATFORM_PERMISSIONS, Permission

NAME = re.compile(r"\A[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")
MAX_COUNT = 1000
MAX_ITEMS = 20
MAX_STORAGE_GIB = 1_000_000

FlavorItem = tuple[Flavor, int]


def name_validate(name: str) -> str:
    if type(name) is not str or not NAME.match(name):
        raise Invalid.field(
            "name",
            "use 1 to 40 lower-case letters, digits and hyphens; start and end with a letter or digit",
        )
    return name


def storage_validate(storage_gib: int) -> int:
    if type(storage_gib) is not int or not 0 <= storage_gib <= MAX_STORAGE_GIB:
        raise Invalid.field(
            "storage_gib", f"storage must be a whole number of GiB from 0 to {MAX_STORAGE_GIB:,}"
        )
    return storage_gib


def storage_resolve(
    storage: Sequence[tuple[str, int]], *, site: Site, held: "Held | None" = None
) -> list[StorageItem]:
    """Storage classes of the site by short name with their GiB. What is `held` may be kept or given back, not grown, once it is
    not sold."""
    if len(storage) > MAX_ITEMS or len({slug for slug, _ in storage}) != len(storage):
        raise Invalid.field("storage_classes", f"list each storage class only once, at most {MAX_ITEMS}")
    slugs = [slug for slug, _ in storage if type(slug) is str and "\x00" not in slug]
    sold = (
        {row.pk for row in storage_classes_sold().filter(site=site, slug__in=slugs)}
        if site.takes_new
        else set()
    )
    known = {row.slug: row for row in StorageClass.objects.filter(site=site, slug__in=slugs)}
    resolved: list[StorageItem] = []
    for slug, gib in storage:
        if type(gib) is not int or not 1 <= gib <= MAX_STORAGE_GIB:
            sentence = (
                f"the amount of {str(slug)[:40]} must be a whole number of GiB from 1 to {MAX_STORAGE_GIB:,}"
            )
            raise Invalid.field("storage_classes", sentence)
        found = known.get(slug)
        kept = held.classes.get(found.pk, 0) if held is not None and found is not None else 0
        if found is None or (found.pk not in sold and gib > kept):
            raise Invalid.field(
                "storage_classes",
                f"there is no more storage of the class {str(slug)[:40]!r} on offer at {site.slug}",
            )
        resolved.append((found, gib))
    return resolved


def placement_validate(placement: str, *, site: Site) -> Placement:
    try:
        wanted = Placement(placement)
    except ValueError as error:
        known = ", ".join(place.value for place in Placement if place)
        raise Invalid.field(
            "placement", f"a placement must be one of {known}, or empty for anywhere"
        ) from error
    if wanted and isinstance(driver_of(site), MachineCapability):
        raise Invalid.field(
            "placement", f"{site.slug} places machines itself: leave the placement at anywhere"
        )
    return wanted


@dataclass(frozen=True)
class Held:
    """What a workspace has already: it may be kept or given back whatever has become of the offer."""

    site: Site
    counts: Mapping[uuid.UUID, int]
    storage_gib: int
    classes: Mapping[uuid.UUID, int]  # GiB by storage class
    pools: Mapping[str, uuid.UUID]  # by the name that the site counts
    notice_seconds: int = 0


def held_by(workspace: Workspace) -> Held:
    """Counts that are wanted or confirmed, whichever is more: a failed resize may always be undone."""
    rows = workspace.flavors.select_related("flavor__pool").exclude(count=0, confirmed=0)
    return Held(
        site=workspace.site,
        counts={row.flavor_id: max(row.count, row.confirmed) for row in rows},
        storage_gib=max(workspace.storage_gib, storage_held(workspace)),
        classes={row.storage_class_id: max(row.gib, row.confirmed) for row in workspace.storage.all()},
        pools={row.flavor.pool.resource_name: row.flavor.pool_id for row in rows},
        notice_seconds=workspace.notice_seconds,
    )


def items_resolve(
    items: Sequence[tuple[str, int]], *, held: Held | None = None, storage_gib: int = 0
) -> list[FlavorItem]:
    """Flavors by slug with their counts. What is `held` may be kept or given back, not grown, once it is not sold."""
    slugs = [_item_slug(item) for item in items]
    if not 1 <= len(slugs) <= MAX_ITEMS:
        raise Invalid.field("items", f"request 1 to {MAX_ITEMS} flavors")
    if len(set(slugs)) != len(slugs):
        raise Invalid.field("items", "list each flavor only once")
    rows = Flavor.objects.select_related("pool__gpu_type", "pool__site").filter(slug__in=slugs)
    known = {flavor.slug: flavor for flavor in rows}
    resolved: list[FlavorItem] = []
    for slug, count in items:
        flavor = known.get(slug)
        _count_validate(slug, count)
        if flavor is None or not (is_sold(flavor) or _is_kept(flavor, count, held)):
            raise Invalid.field("items", f"there is no flavor {slug[:64]!r} on offer")
        if flavor.pool.site.driver in clusters_only():
            raise Invalid.field(
                "items", f"{flavor.slug} is a whole machine for clusters: order a cluster instead"
            )
        resolved.append((flavor, count))
    _one_site(resolved, storage_gib, held)
    _one_pool_per_name(resolved, held)
    _one_profile(resolved)
    _one_notice(resolved, held)
    return resolved


def _is_kept(flavor: Flavor, count: int, held: Held | None) -> bool:
    return held is not None and count <= held.counts.get(flavor.pk, 0)


def _item_slug(item: tuple[str, int]) -> str:
    slug = item[0]
    if type(slug) is not str or "\x00" in slug:
        raise Invalid.field("items", "name a flavor by its slug")
    return slug


def _count_validate(slug: str, count: int) -> None:
    if type(count) is not int or not 1 <= count <= MAX_COUNT:
        raise Invalid.field("items", f"the count of {slug[:64]} must be a whole number from 1 to {MAX_COUNT}")


def _one_site(items: Sequence[FlavorItem], storage_gib: int, held: Held | None) -> None:
    sites = {flavor.pool.site_id for flavor, _ in items}
    if len(sites) != 1 or (held is not None and sites != {held.site.pk}):
        raise Invalid.field("items", "all flavors of a workspace must be at one site")
    if items[0][0].pool.site.takes_new:
        return
    if not all(_is_kept(flavor, count, held) for flavor, count in items):
        raise Invalid.field("items", "the site of these flavors accepts no new requests now")
    if held is not None and storage_gib > held.storage_gib:
        raise Invalid.field("storage_gib", "the site accepts no new requests now, so storage cannot grow")


def _one_pool_per_name(items: Sequence[FlavorItem], held: Held | None) -> None:
    """A site that counts two pools by one name cannot hold them apart: not side by side, and not one after the other
    under pods that run."""
    pools: dict[str, uuid.UUID] = {}
    for flavor, _ in items:
        name = flavor.pool.resource_name
        if pools.setdefault(name, flavor.pool_id) != flavor.pool_id:
            raise Invalid.field(
                "items",
                f"the site counts these GPU types under one name ({name}), so a workspace can hold "
                "only one of them; request two workspaces",
            )
        if held is not None and held.pools.get(name, flavor.pool_id) != flavor.pool_id:
            raise Invalid.field(
                "items",
                f"the site counts {flavor.pool.gpu_type.name} and what this workspace holds under one "
                f"name ({name}), so it cannot change from one to the other; request another workspace",
            )


def _one_profile(items: Sequence[FlavorItem]) -> None:
    """A node has one profile, and every pod of a workspace is brought to nodes of its profile."""
    profiles = {flavor.profile for flavor, _ in items if flavor.profile}
    tuned = {flavor.pool_id for flavor, _ in items if flavor.profile}
    others = sorted(flavor.slug for flavor, _ in items if not flavor.profile and flavor.pool_id not in tuned)
    if len(profiles) > 1 or (profiles and others):
        without = [f"{others[0]} needs none"] if others else []
        raise Invalid.field(
            "items",
            "these flavors need nodes with different profiles "
            f"({', '.join([*sorted(profiles), *without])}), and a workspace has only one; request two "
            "workspaces",
        )


def _one_notice(items: Sequence[FlavorItem], held: Held | None) -> None:
    """What is bought and what is lent are two namespaces, since guards, priorities and charges are those of a whole one."""
    lent = sorted(flavor.slug for flavor, _ in items if flavor.is_lent)
    bought = sorted(flavor.slug for flavor, _ in items if not flavor.is_lent)
    if lent and bought:
        raise Invalid.field(
            "items",
            f"{lent[0]} is spot and {bought[0]} is not, and a workspace is wholly spot or not at all; request two workspaces",
        )
    notices = {flavor.notice_seconds for flavor, _ in items}
    if len(notices) > 1:
        raise Invalid.field(
            "items", f"{lent[0]} and {lent[1]} end with different notice; request two workspaces"
        )
    if held is None or notices == {held.notice_seconds}:
        return
    if lent and held.notice_seconds:
        raise Invalid.field(
            "items", f"{lent[0]} ends with another notice than this workspace; request another workspace"
        )
    is_, is_not = (
        (lent[0], "spot, and this workspace is not")
        if lent
        else (bought[0], "not spot, and this workspace is")
    )
    raise Invalid.field("items", f"{is_} is {is_not}; request another workspace")


def members_resolve(members: Sequence[tuple[str, str]], *, project: Project) -> list[tuple[User, AccessRole]]:
    """People by username with their role; only those whose roles let them into the project's workspaces. All others are named
    at once."""
    names = [name for name, _ in members]
    if len(set(names)) != len(names) or len(names) > 200:
        raise Invalid.field("members", "list each member only once, at most 200")
    if any(type(name) is not str or "\x00" in name for name in names):
        raise Invalid.field("members", "name a member by their username")
    held = permissions_in(project)
    people = {user.username: user for user in User.objects.filter(username__in=names, is_active=True)}
    resolved, mistakes = [], Mistakes()
    for name, role in members:
        with mistakes:
            resolved.append(_member(people.get(name), name, role, held, project))
    mistakes.refuse()
    return resolved


def _member(
    user: User | None, name: str, role: str, held: Mapping[uuid.UUID, frozenset[Permission]], project: Project
) -> tuple[User, AccessRole]:
    if role not in AccessRole.values:
        raise Invalid.field("members", f"a role must be one of {', '.join(AccessRole.values)}")
    may = _may(user, held) if user else frozenset()
    if user is None or Permission.PROJECT_VIEW not in may:
        raise Invalid.field("members", f"user {name[:150]} is not a member of the project {project.slug}")
    if Permission.WORKSPACE_ACCESS not in may:
        raise Invalid.field(
            "members", f"user {name} is only a viewer of the project {project.slug}; change that role first"
        )
    return user, AccessRole(role)


def _may(user: User, held: Mapping[uuid.UUID, frozenset[Permission]]) -> frozenset[Permission]:
    return held.get(user.pk, frozenset()) | PLATFORM_PERMISSIONS[user.platform_role]
