"""Lists what a project still contains, and what its deletion waits for. Must be empty before the project counts as deleted.

Only objects that belong to the project: not a transferred volume, an image shared with it, or another project's port on a network
that it shares.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import StepOutcome
from gpuaas.providers.openstack import limits, networks, people, servers, volumes
from gpuaas.providers.openstack.client import Cloud, Object

SHOWN = 5


@dataclass(frozen=True)
class Thing:
    """path: for its deletion. why: what it waits for, as far as the site says."""

    service: str
    path: str
    words: str
    why: str = ""


def inventory(cloud: Cloud, project: Object) -> Iterator[str]:
    """Everything of a project, in words."""
    for server in servers_of(cloud, project["id"]):
        yield f"machine {server['name']}"
    for thing in data(cloud, project["id"]):
        yield thing.words
    for _, words in networks.leftovers(cloud, project["id"]):
        yield words
    for user in people.all_users_of(cloud, project):
        yield f"user {user['name']}"
    for thing in held(cloud, project["id"]):
        yield thing.words


def servers_of(cloud: Cloud, project_id: str) -> list[Object]:
    """Including soft-deleted ones, which some sites keep for a while."""
    query = {"all_tenants": "1", "project_id": project_id}
    deleted = cloud.items("compute", "/servers/detail", "servers", **query, status="SOFT_DELETED")
    there = servers.of_project(cloud, project_id)
    known = {server["id"] for server in there}
    return [*there, *(server for server in deleted if server["id"] not in known)]


def machines(cloud: Cloud, left: Iterable[Object]) -> list[Thing]:
    """Each with its host if that does not answer, which is then what it waits for."""
    rows = cloud.items("compute", "/os-services", "services", binary="nova-compute")
    lost = {row["host"] for row in rows if row["state"] != "up"}
    things = []
    for server in left:
        host = server.get("OS-EXT-SRV-ATTR:host") or ""
        why = f"its host {host} does not answer" if host in lost else ""
        things.append(Thing("compute", f"/servers/{server['id']}", f"machine {server['name']}", why))
    return things


def data(cloud: Cloud, project_id: str) -> Iterator[Thing]:
    """Images and server groups of the tenant; backups, snapshots and volumes if the site has Cinder."""
    for image in cloud.items("image", "/images", "images", owner=project_id, visibility="all"):
        if image["owner"] == project_id:
            why = "protected" if image.get("protected") else ""
            yield Thing("image", f"/images/{image['id']}", f"image {image['name']}", why)
    for group in cloud.items("compute", "/os-server-groups", "server_groups", all_projects="True"):
        if group.get("project_id") == project_id:
            path = f"/os-server-groups/{group['id']}"
            yield Thing("compute", path, f"server group {group['name']}")
    for kind in volumes.KINDS:
        for row in volumes.of_project(cloud, project_id, kind):
            name = f"{kind[:-1]} {row.get('name') or row['id']}"
            yield Thing("volume", f"/{kind}/{row['id']}", name, str(row["status"]))


def held(cloud: Cloud, project_id: str) -> Iterator[Thing]:
    """Placement's remaining allocations: resources that are not free yet, even if their machine is gone."""
    for name, amount in sorted(limits.used(cloud, project_id).items()):
        if amount:
            words = f"{amount} {name.removeprefix('class:')} still allocated in Placement"
            yield Thing("placement", "", words, "their host has not released them")


def remove(cloud: Cloud, thing: Thing) -> None:
    if thing.service == "volume":
        volumes.remove(cloud, thing.path, status=thing.why)
        return
    if thing.why == "protected":
        change = [{"op": "replace", "path": "/protected", "value": False}]
        cloud.patch(thing.service, thing.path, change, kind="application/openstack-images-v2.1-json-patch")
    cloud.delete(thing.service, thing.path)


def waiting(left: list[Thing], nothing: str = "") -> StepOutcome:
    """`still there: machine train (its host gpu-1 does not answer), port own and 3 more`"""
    if not left:
        return StepOutcome(done=True, detail=nothing)
    first = ", ".join(f"{each.words} ({each.why})" if each.why else each.words for each in left[:SHOWN])
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    return StepOutcome(done=False, detail=f"still there: {first}{more}")


def in_the_way(left: list[str]) -> NotFound:
    return NotFound(f"something was created again, so the steps are repeated: {', '.join(left[:SHOWN])}")
