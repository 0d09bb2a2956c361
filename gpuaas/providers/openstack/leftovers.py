"""What a project still has, in words, and why it waits. Empty before we say that it is gone.

Only what belongs to the project: a volume that was handed over, an image that others share with it or a neighbor's port on a network
that it shares are somebody else's.
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
    """path: where it is deleted. why: what it waits for, as far as the site tells."""

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
    """Also those that are deleted, and kept for a while by a site that does not delete at once."""
    query = {"all_tenants": "1", "project_id": project_id}
    kept = cloud.items("compute", "/servers/detail", "servers", **query, status="SOFT_DELETED")
    there = servers.of_project(cloud, project_id)
    known = {server["id"] for server in there}
    return [*there, *(server for server in kept if server["id"] not in known)]


def machines(cloud: Cloud, left: Iterable[Object]) -> list[Thing]:
    """With the hosts that do not answer, for they are what is waited for."""
    rows = cloud.items("compute", "/os-services", "services", binary="nova-compute")
    lost = {row["host"] for row in rows if row["state"] != "up"}
    told = []
    for server in left:
        host = server.get("OS-EXT-SRV-ATTR:host") or ""
        why = f"its host {host} does not answer" if host in lost else ""
        told.append(Thing("compute", f"/servers/{server['id']}", f"machine {server['name']}", why))
    return told


def data(cloud: Cloud, project_id: str) -> Iterator[Thing]:
    """Images and server groups that the tenant made; backups, snapshots and volumes where the site has Cinder."""
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
    """What Placement still counts for it: devices that are not free, whatever has become of the machine."""
    for name, amount in sorted(limits.used(cloud, project_id).items()):
        if amount:
            words = f"{amount} {name.removeprefix('class:')} that Placement counts"
            yield Thing("placement", "", words, "their host has not given them back")


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
    return NotFound(f"something has come back, so the steps are done again: {', '.join(left[:SHOWN])}")
