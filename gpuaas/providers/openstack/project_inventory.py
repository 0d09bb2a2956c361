"""The resources of a project besides machines, for its page."""

from collections.abc import Iterator

from gpuaas.providers.base import Belonging, Belongings
from gpuaas.providers.openstack import people, volumes
from gpuaas.providers.openstack.client import Cloud, Object

NETWORK = (
    ("networks", "network"),
    ("routers", "router"),
    ("floatingips", "floating IP"),
    ("security-groups", "security group"),
)


def belongings(cloud: Cloud, project: Object | None) -> Belongings:
    items = tuple(_items(cloud, project)) if project is not None else ()
    return Belongings(items=items, volumes_sold=cloud.has_volumes)


def _items(cloud: Cloud, project: Object) -> Iterator[Belonging]:
    query = {"project_id": project["id"]}
    for row in volumes.of_project(cloud, project["id"]):
        detail = f"{row['size']} GiB, {row['status']}"
        yield Belonging("volume", row["id"], row.get("name") or row["id"], detail)
    for row in cloud.items("image", "/images", "images", owner=project["id"], visibility="all"):
        if row["owner"] == project["id"]:
            yield Belonging("image", row["id"], row["name"] or row["id"], row["status"])
    for path, kind in NETWORK:
        for row in cloud.items("network", f"/{path}", path.replace("-", "_"), **query):
            yield Belonging(
                kind, row["id"], row.get("name") or row.get("floating_ip_address") or row["id"], _detail(row)
            )
    for user in people.users_of(cloud, project):
        for row in cloud.items("compute", "/os-keypairs", "keypairs", user_id=user["id"]):
            name = row["keypair"]["name"]
            yield Belonging("key pair", name, name, user["name"].partition(".")[2])


def _detail(row: Object) -> str:
    if "floating_ip_address" in row:
        return f"leads to {row['fixed_ip_address']}" if row.get("fixed_ip_address") else "not in use"
    if "security_group_rules" in row:
        return f"{len(row['security_group_rules'])} rules"
    return str(row.get("status") or "").lower()
