"""Nova flavors for sold flavors: private, and granted to the projects that bought them."""

import contextlib
from collections.abc import Mapping

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import FlavorAmount, WorkspaceSpec
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.classes import BY_NAME, Classes
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.duplicates import MADE

MIB_PER_GIB = 1024
ALIAS = "pci_passthrough:alias"


def apply(cloud: Cloud, spec: WorkspaceSpec, project_id: str, classes: Classes) -> int:
    """Grant exactly what was bought; returns the number of flavors."""
    known = {row["name"]: row for row in all_flavors(cloud)}
    wanted = _wanted(cloud, known, spec)
    for row in known.values():
        if row["id"] not in wanted and is_withheld(row, classes) and project_id in granted(cloud, row["id"]):
            access_take(cloud, row["id"], project_id)
    return _grant(cloud, wanted, project_id)


def grant(cloud: Cloud, spec: WorkspaceSpec, project_id: str) -> int:
    """Grant what was bought to a project that only the portal uses, so other grants need no check."""
    known = {row["name"]: row for row in all_flavors(cloud)}
    return _grant(cloud, _wanted(cloud, known, spec), project_id)


def _wanted(cloud: Cloud, known: dict[str, Object], spec: WorkspaceSpec) -> list[str]:
    """Ids; missing flavors are created."""
    return [_ensure(cloud, known, flavor)["id"] for flavor in spec.flavors if flavor.count]


def _grant(cloud: Cloud, wanted: list[str], project_id: str) -> int:
    each = set(wanted)
    for flavor_id in sorted(each):
        if project_id not in granted(cloud, flavor_id):
            _access(cloud, flavor_id, "addTenantAccess", project_id)
    return len(each)


def offers_set(cloud: Cloud, sold: tuple[FlavorAmount, ...], retired: tuple[str, ...]) -> None:
    """Create sold flavors, private until bought. A retired one stays as long as a project has it, which may resize to it."""
    known = {row["name"]: row for row in all_flavors(cloud)}
    wrong = []
    for flavor in sold:
        try:
            _ensure(cloud, known, flavor)
        except Permanent as error:
            wrong.append(f"{flavor.slug}: {error.message}")
    for slug in retired:
        row = known.get(names.FLAVOR.format(slug=slug))
        if row is not None and is_managed(row) and not granted(cloud, row["id"]):
            cloud.delete("compute", f"/flavors/{row['id']}")
    if wrong:
        raise Permanent("; ".join(wrong))


def withdraw(cloud: Cloud, project_id: str) -> None:
    for row in all_flavors(cloud):
        if is_withheld(row) and project_id in granted(cloud, row["id"]):
            access_take(cloud, row["id"], project_id)


def all_flavors(cloud: Cloud) -> list[Object]:
    """With extra specs, including private ones."""
    return cloud.items("compute", "/flavors/detail", "flavors", is_public="None")


def is_managed(row: Object) -> bool:
    """By its description or its mark: Nova sets extra specs in a second call, which may be lost."""
    return row.get("description") == MADE or names.FLAVOR_MARK in (row.get("extra_specs") or {})


def is_withheld(row: Object, classes: Classes = BY_NAME) -> bool:
    """Whether only its buyers may have it: the portal's flavors, and every private flavor with GPUs, since a manual grant
    would give access to more of them."""
    private = not row["os-flavor-access:is_public"]
    return private and (is_managed(row) or bool(gpus_of(row.get("extra_specs") or {}, classes)))


def granted(cloud: Cloud, flavor_id: str) -> set[str]:
    """Ids of projects."""
    found = cloud.find("compute", f"/flavors/{flavor_id}/os-flavor-access") or {}
    return {row["tenant_id"] for row in found.get("flavor_access") or []}


def gpus_of(extra_specs: Object, classes: Classes) -> dict[str, int]:
    """Alias or resource class → devices of one machine: `h100:2` of an alias, `resources:VGPU=1` of Placement."""
    found: dict[str, int] = {}
    for part in str(extra_specs.get(ALIAS) or "").split(","):
        alias, _, count = part.strip().partition(":")
        if alias:
            found[alias] = found.get(alias, 0) + (int(count) if count.isdigit() else 1)
    for key, amount in extra_specs.items():
        name = key.partition(":")[2]
        if key.startswith("resources") and classes.is_gpu(name) and str(amount).isdigit():
            found[name] = found.get(name, 0) + int(amount)
    return found


def specs_of(selector: Mapping[str, str], gpus: int) -> dict[str, str]:
    """Extra specs that request `gpus` devices of the pool; empty without GPUs. Raises Permanent if the pool has none."""
    if not gpus:
        return {}
    alias = selector.get(ALIAS)
    if alias:
        return {ALIAS: f"{alias}:{gpus}"}
    if any(key.startswith("resources:") for key in selector):
        return {key: str(gpus) if key.startswith("resources:") else value for key, value in selector.items()}
    raise Permanent(
        "it is not known how to request this GPU type at the site: an operator must set its alias in the site's "
        "option `aliases`, by resource class"
    )


def _ensure(cloud: Cloud, known: dict[str, Object], flavor: FlavorAmount) -> Object:
    name = names.FLAVOR.format(slug=flavor.slug)
    specs = {names.FLAVOR_MARK: "true", **specs_of(flavor.selector, flavor.gpus)}
    row = known.get(name)
    if row is None:
        body = {
            "name": name,
            "vcpus": flavor.vcpus,
            "ram": flavor.memory_gib * MIB_PER_GIB,
            "disk": flavor.disk_gib,
            "description": MADE,
            "os-flavor-access:is_public": False,
        }
        made: Object = cloud.post("compute", "/flavors", {"flavor": body})["flavor"]
        cloud.post("compute", f"/flavors/{made['id']}/os-extra_specs", {"extra_specs": specs})
        return made
    if not is_managed(row):
        raise Permanent(f"the site already has a flavor {name}, which is not the portal's")
    sizes = (flavor.vcpus, flavor.memory_gib * MIB_PER_GIB, flavor.disk_gib)
    if (row["vcpus"], row["ram"], row["disk"]) != sizes or row["os-flavor-access:is_public"]:
        raise Permanent(
            f"the flavor {name} at the site differs from what is sold: an operator must retire one of them"
        )
    _specs_set(cloud, row, specs)
    return row


def _specs_set(cloud: Cloud, row: Object, specs: dict[str, str]) -> None:
    """Set exactly these: an additional one would apply to everybody who has the flavor."""
    path = f"/flavors/{row['id']}/os-extra_specs"
    for key in sorted(row["extra_specs"].keys() - specs.keys()):
        cloud.delete("compute", f"{path}/{key}")
    if any(row["extra_specs"].get(key) != value for key, value in specs.items()):
        cloud.post("compute", path, {"extra_specs": specs})


def access_take(cloud: Cloud, flavor_id: str, project_id: str) -> None:
    """Revoke a grant; one that is already gone counts as revoked."""
    with contextlib.suppress(NotFound):
        _access(cloud, flavor_id, "removeTenantAccess", project_id)


def _access(cloud: Cloud, flavor_id: str, verb: str, project_id: str) -> None:
    cloud.post("compute", f"/flavors/{flavor_id}/action", {verb: {"tenant": project_id}})
