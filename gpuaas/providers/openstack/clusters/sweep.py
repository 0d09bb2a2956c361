"""Lists all objects of a cluster at the site: those in its project, and those with its tag elsewhere."""

import uuid
from collections.abc import Iterator

from gpuaas.core.ids import uuid_read
from gpuaas.providers.base import ClusterRef, SiteObject
from gpuaas.providers.openstack import leftovers, names, people, projects
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.clusters import addresses, plan

NEUTRON = {
    "floatingips": plan.ADDRESS,
    "ports": "port",
    "routers": plan.ROUTER,
    "subnets": plan.SUBNET,
    "networks": plan.NETWORK,
    "security-groups": plan.GROUP,
}


def of_cluster(cloud: Cloud, ref: ClusterRef, domain: str) -> tuple[SiteObject, ...]:
    """Without a project the objects with the tag: none, unless somebody deleted the project manually."""
    project = projects.marked_project(cloud, ref.external_name, ref.id, domain=domain, tag=names.CLUSTER_TAG)
    if project is None:
        return tuple(one for one in of_all(cloud, domain) if one.cluster_id == ref.id)
    return tuple(_of_project(cloud, project, ref.id))


def of_all(cloud: Cloud, domain: str) -> tuple[SiteObject, ...]:
    """By tags, in a constant number of calls. Projects of another domain belong to another site: two sites may be domains of
    one cloud."""
    mark = {"tags": names.CLUSTERS}
    owners = cloud.items("identity", "/projects", "projects", **mark)
    others = {row["id"] for row in owners if row["domain_id"] != domain}
    machines = cloud.items("compute", "/servers/detail", "servers", **mark, all_tenants="1")
    found = [SiteObject(plan.PROJECT, row["name"], row["id"], owner_of(row)) for row in owners]
    found = [one for one in found if one.uid not in others]
    rows = [(plan.SERVER, row, row["tenant_id"]) for row in machines]
    for path, kind in NEUTRON.items():
        things = cloud.items("network", f"/{path}", path.replace("-", "_"), **mark)
        rows += [(kind, row, row["project_id"]) for row in things]
    for kind, row, project in rows:
        if project not in others:
            name = row.get("name") or addresses.machine_of(row) or row["id"]
            found.append(SiteObject(kind, name, row["id"], owner_of(row)))
    return tuple(found)


def owner_of(row: Object) -> uuid.UUID | None:
    prefix = names.CLUSTER_TAG.format(id="")
    owners = (uuid_read(tag.removeprefix(prefix)) for tag in row.get("tags") or () if tag.startswith(prefix))
    return next(filter(None, owners), None)


def _of_project(cloud: Cloud, project: Object, owner: uuid.UUID) -> Iterator[SiteObject]:
    name = project["name"]
    yield SiteObject(plan.PROJECT, name, project["id"], owner)
    for user in people.all_users_of(cloud, project):
        yield SiteObject(plan.USER, user["name"], user["id"], owner)
    for server in leftovers.servers_of(cloud, project["id"]):
        yield SiteObject(plan.SERVER, server["name"], server["id"], owner)
    for path, kind in NEUTRON.items():
        for row in cloud.items("network", f"/{path}", path.replace("-", "_"), project_id=project["id"]):
            if not _comes_along(path, row):
                shown = row.get("name") or row["id"]
                if path == "floatingips":
                    shown = addresses.machine_of(row) or name
                yield SiteObject(kind, shown, row["id"], owner)


def _comes_along(path: str, row: Object) -> bool:
    """Whether it is deleted with something else: ports of machines and routers, and the default security group of the project."""
    if path == "ports":
        return bool(row.get("device_owner"))
    return path == "security-groups" and row["name"] == "default"
