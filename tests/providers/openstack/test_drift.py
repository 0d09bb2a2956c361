"""What somebody changes at a real cloud is told, not touched by looking, and set right by `ensure`."""

import uuid
from dataclasses import replace

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import SiteChange, WorkspaceSpec
from gpuaas.providers.openstack import flavors, limits, names, projects
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.providers.openstack.conftest import ALICE, H100, provision, ref, resized, spec_of

pytestmark = pytest.mark.openstack
Told = set[tuple[str, str, str, str]]


@pytest.fixture
def admin(driver: OpenStackDriver) -> Cloud:
    return Cloud(driver.connection.credentials)


def told(driver: OpenStackDriver, spec: WorkspaceSpec) -> Told:
    """(step, object, path, found)"""
    return {(one.step, one.object, one.path, one.found) for one in driver.drift(spec)}


def project_of(admin: Cloud, spec: WorkspaceSpec) -> Object:
    found = projects.marked_project(admin, spec.external_name, spec.id)
    assert found is not None
    return found


def find(admin: Cloud, spec: WorkspaceSpec, path: str) -> Object:
    """The workspace's own one of Neutron's collection."""
    rows = admin.items(
        "network",
        f"/{path}",
        path.replace("-", "_"),
        project_id=project_of(admin, spec)["id"],
        name=names.NETWORK,
    )
    return rows[0]


def test_what_was_just_made_does_not_differ(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    assert driver.drift(ready) == ()


def test_what_is_not_there_is_one_difference(driver: OpenStackDriver) -> None:
    spec = spec_of()
    (one,) = driver.drift(spec)
    assert (one.object, one.path, one.found, one.step) == (
        f"Project/{spec.external_name}",
        "",
        "missing",
        "project",
    )


def raise_limit(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    row = limits.project_limits(admin, project_of(admin, spec)["id"])[f"class:{H100}"]
    admin.patch("identity", f"/limits/{row['id']}", {"limit": {"resource_limit": 8}})
    return {("limits", f"Limit/class:{H100}", "resource_limit", "8")}


def forget_limit(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    row = limits.project_limits(admin, project_of(admin, spec)["id"])["servers"]
    admin.delete("identity", f"/limits/{row['id']}")
    return {("limits", "Limit/servers", "", "missing")}


def raise_network_quota(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    admin.put("network", f"/quotas/{project_of(admin, spec)['id']}", {"quota": {"floatingip": 500}})
    return {("limits", "Quota/network", "floatingip", "500")}


def grant_flavor(admin: Cloud, spec: WorkspaceSpec, cloud: LabCloud) -> Told:
    flavor, project = cloud.gpu_flavor("h100", 8), project_of(admin, spec)["id"]
    admin.post("compute", f"/flavors/{flavor}/action", {"addTenantAccess": {"tenant": project}})
    name = admin.get("compute", f"/flavors/{flavor}")["flavor"]["name"]
    return {("flavors", f"Flavor/{name}", f"access[{project}]", "granted")}


def withdraw_flavor(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    flavor, project = sold(admin, spec), project_of(admin, spec)["id"]
    flavors.access_take(admin, flavor["id"], project)
    return {("flavors", f"Flavor/{flavor['name']}", f"access[{project}]", "not granted")}


def enlarge_flavor(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    flavor, key = sold(admin, spec), "pci_passthrough:alias"
    specs = {"extra_specs": {key: "h100:8", "hw:cpu_policy": "dedicated"}}
    admin.post("compute", f"/flavors/{flavor['id']}/os-extra_specs", specs)
    return {
        ("flavors", f"Flavor/{flavor['name']}", f"extra_specs.{key}", "h100:8"),
        ("flavors", f"Flavor/{flavor['name']}", "extra_specs[hw:cpu_policy]", "present"),
    }


def let_stranger_in(admin: Cloud, spec: WorkspaceSpec, cloud: LabCloud) -> Told:
    stranger = cloud.project()
    role = next(row for row in admin.items("identity", "/roles", "roles") if row["name"] == "member")
    path = f"/projects/{project_of(admin, spec)['id']}/users/{stranger.user_id}/roles/{role['id']}"
    admin.put("identity", path)
    name = admin.get("identity", f"/users/{stranger.user_id}")["user"]["name"]
    return {("access", f"Role/member of user {name}", "", "present")}


def let_group_in(admin: Cloud, spec: WorkspaceSpec, cloud: LabCloud) -> Told:
    group = cloud.made(
        "identity", "/groups", "group", {"name": f"g-{uuid.uuid4().hex[:8]}", "domain_id": "default"}
    )
    role = next(row for row in admin.items("identity", "/roles", "roles") if row["name"] == "reader")
    admin.put(
        "identity", f"/projects/{project_of(admin, spec)['id']}/groups/{group['id']}/roles/{role['id']}"
    )
    return {("access", f"Role/reader of group {group['name']}", "", "present")}


def promote_member(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    name = names.user_name(spec.external_name, ALICE.subject)
    user = admin.items("identity", "/users", "users", name=name)[0]
    role = next(row for row in admin.items("identity", "/roles", "roles") if row["name"] == "admin")
    admin.put("identity", f"/projects/{project_of(admin, spec)['id']}/users/{user['id']}/roles/{role['id']}")
    return {("access", f"Role/admin of user {name}", "", "present")}


def lock_member_out(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    name = names.user_name(spec.external_name, ALICE.subject)
    user = admin.items("identity", "/users", "users", name=name)[0]
    admin.patch("identity", f"/users/{user['id']}", {"user": {"enabled": False}})
    return {("access", f"User/{name}", "enabled", "False")}


def delete_member(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    name = names.user_name(spec.external_name, ALICE.subject)
    user = admin.items("identity", "/users", "users", name=name)[0]
    admin.delete("identity", f"/users/{user['id']}")
    return {("access", f"User/{name}", "", "missing")}


def delete_network(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    router, subnet = find(admin, spec, "routers"), find(admin, spec, "subnets")
    admin.put("network", f"/routers/{router['id']}/remove_router_interface", {"subnet_id": subnet["id"]})
    admin.delete("network", f"/networks/{find(admin, spec, 'networks')['id']}")
    return {("network", "Network/workspace", "", "missing")}


def unplug_router(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    router, subnet = find(admin, spec, "routers"), find(admin, spec, "subnets")
    admin.put("network", f"/routers/{router['id']}/remove_router_interface", {"subnet_id": subnet["id"]})
    return {("network", "Router/workspace", "interface", "missing")}


def delete_security_group(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    admin.delete("network", f"/security-groups/{find(admin, spec, 'security-groups')['id']}")
    return {("network", "SecurityGroup/workspace", "", "missing")}


def rename_project(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    project = project_of(admin, spec)
    admin.patch("identity", f"/projects/{project['id']}", {"project": {"name": f"renamed-{spec.id.hex[:8]}"}})
    renamed = f"Project/renamed-{spec.id.hex[:8]}"
    return {("project", renamed, "name", f"renamed-{spec.id.hex[:8]}")}


def close_project(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    admin.patch("identity", f"/projects/{project_of(admin, spec)['id']}", {"project": {"enabled": False}})
    return {("project", f"Project/{spec.external_name}", "enabled", "False")}


def unmark_project(admin: Cloud, spec: WorkspaceSpec, _cloud: LabCloud) -> Told:
    admin.delete("identity", f"/projects/{project_of(admin, spec)['id']}/tags/{names.MANAGED}")
    return {("project", f"Project/{spec.external_name}", f"tags[{names.MANAGED}]", "missing")}


def sold(admin: Cloud, spec: WorkspaceSpec) -> Object:
    name = names.FLAVOR.format(slug=spec.flavors[0].slug)
    return next(row for row in flavors.all_flavors(admin) if row["name"] == name)


CHANGES = (
    (
        raise_limit,
        forget_limit,
        raise_network_quota,
        grant_flavor,
        withdraw_flavor,
        enlarge_flavor,
        let_stranger_in,
        let_group_in,
        promote_member,
        lock_member_out,
        unplug_router,
        delete_security_group,
        close_project,
        unmark_project,
    ),
    (delete_network, delete_member, rename_project),
)


def test_what_somebody_changed_is_told_untouched_and_set_right(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud, cloud: LabCloud
) -> None:
    for changes in CHANGES:
        wanted: Told = set().union(*(change(admin, ready, cloud) for change in changes))
        # what all workspaces have in common is read again after a moment
        until(lambda w=wanted: told(driver, ready) >= w, f"{wanted} is told", seconds=20)  # type: ignore[misc]
        assert told(driver, ready) == wanted, "nothing else differs, and looking changes nothing"
        provision(driver, ready)
        until(lambda: driver.drift(ready) == (), "it is set right", seconds=20)


def test_another_wish_differs_where_it_is_another(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    found = driver.drift(replace(resized(ready, 1), members=(ALICE,)))
    assert {one.step for one in found} == {"limits", "access"}
    assert all(one.wanted != one.found for one in found)


def test_a_project_of_somebody_else_is_refused(driver: OpenStackDriver, cloud: LabCloud) -> None:
    spec = spec_of()
    cloud.made("identity", "/projects", "project", {"name": spec.external_name, "domain_id": "default"})
    with pytest.raises(Permanent, match="not this workspace's"):
        driver.drift(spec)


def test_a_grant_of_our_flavor_to_anybody_else_is_taken_back(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud, cloud: LabCloud
) -> None:
    stranger, flavor = cloud.project(), sold(admin, ready)
    cloud.grant(flavor["id"], stranger)
    driver.site_repair()
    assert flavors.granted(admin, flavor["id"]) == {project_of(admin, ready)["id"]}
    assert not [one for one in driver.site_repair() if one.object == f"Flavor/{flavor['name']}"]


def test_a_change_is_told_by_name_and_any_process_goes_on(
    driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud, cloud: LabCloud
) -> None:
    first = list(driver.watch_changes("", seconds=0))
    assert first[0] == SiteChange(), "it begins with the whole site"
    cursor = first[-1].cursor
    mine = SiteChange(workspace_name=ready.external_name)
    for change in (raise_limit, let_stranger_in, grant_flavor, delete_security_group, raise_network_quota):
        change(admin, ready, cloud)
        heard = list(OpenStackDriver(driver.connection).watch_changes(cursor, seconds=0))
        assert mine in heard, change.__name__
        cursor = heard[-1].cursor
        assert heard[-1].proof
    again = list(driver.watch_changes(cursor, seconds=0))
    assert mine not in again, "told once"
    assert next(iter(driver.watch_changes("nonsense", seconds=0))) == SiteChange()


def test_a_project_that_is_gone_is_told(driver: OpenStackDriver, ready: WorkspaceSpec, admin: Cloud) -> None:
    cursor = list(driver.watch_changes("", seconds=0))[-1].cursor
    project = project_of(admin, ready)
    admin.delete("identity", f"/projects/{project['id']}/tags/{names.workspace_tag(ready.id)}")
    admin.delete("identity", f"/projects/{project['id']}/tags/{names.MANAGED}")
    try:
        heard = list(driver.watch_changes(cursor, seconds=0))
        assert SiteChange(workspace_name=ready.external_name) in heard
        assert not driver.observe(ref(ready)).exists
    finally:
        admin.put("identity", f"/projects/{project['id']}/tags/{names.workspace_tag(ready.id)}")
