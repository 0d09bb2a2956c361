"""Finds the Keystone project of a workspace or a cluster by its tag, and creates it."""

import uuid
from datetime import UTC, datetime

from gpuaas.core.errors import Permanent
from gpuaas.core.ids import uuid_read
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Cloud, Object

DOMAIN = "default"
_OF_WORKSPACE, _OF_CLUSTER = (tag.format(id="") for tag in (names.WORKSPACE_TAG, names.CLUSTER_TAG))


def own_project(
    cloud: Cloud, name: str, owner: uuid.UUID, *, domain: str = DOMAIN, tag: str = names.WORKSPACE_TAG
) -> Object | None:
    """None if there is none. Raises Permanent for one that is not this owner's."""
    found = marked_project(cloud, name, owner, domain=domain, tag=tag)
    if found is None and project_find(cloud, name, domain=domain) is not None:
        whose = "workspace" if tag == names.WORKSPACE_TAG else "cluster"
        raise Permanent(f"the site already has a project {name}, which is not this {whose}'s")
    return found


def marked_project(
    cloud: Cloud, name: str, owner: uuid.UUID, *, domain: str = DOMAIN, tag: str = names.WORKSPACE_TAG
) -> Object | None:
    """By its tag, even if it was renamed; returned with the name that it should have."""
    query = {"tags": tag.format(id=owner), "domain_id": domain}
    rows = cloud.items("identity", "/projects", "projects", **query)
    found = next((row for row in rows if row["name"] == name), rows[0] if rows else None)
    return found and {**found, "name": name, "found_name": found["name"]}


def project_find(cloud: Cloud, name: str, *, domain: str = DOMAIN) -> Object | None:
    rows = cloud.items("identity", "/projects", "projects", name=name, domain_id=domain)
    return rows[0] if rows else None


def is_ours(project: Object, workspace: uuid.UUID) -> bool:
    return names.workspace_tag(workspace) in (project.get("tags") or [])


def marks(project: Object) -> set[str]:
    """Tags of workspaces; at most one if it is ours."""
    prefix = names.WORKSPACE_TAG.format(id="")
    return {tag for tag in project.get("tags") or [] if tag.startswith(prefix)}


def holders_marked(cloud: Cloud, *, domain: str = DOMAIN) -> dict[str, uuid.UUID]:
    """Names of projects with the workspace or cluster whose they are by their tag; one call."""
    ours = {"tags-any": f"{names.MANAGED},{names.CLUSTERS}", "domain_id": domain}
    found = {}
    for row in cloud.items("identity", "/projects", "projects", **ours):
        for tag in row.get("tags") or []:
            holder = uuid_read(tag.removeprefix(_OF_WORKSPACE).removeprefix(_OF_CLUSTER))
            if holder is not None:
                found[row["name"]] = holder
    return found


def close_note(cloud: Cloud, project: Object, moment: datetime) -> None:
    """Stored at the site, since the process may end before it is needed."""
    tag = names.CLOSED.format(at=int(moment.timestamp()))
    cloud.put("identity", f"/projects/{project['id']}/tags/{tag}")


def closed_at(project: Object) -> datetime | None:
    """When access ended; the last of several."""
    prefix = names.CLOSED.format(at="")
    found = [tag.removeprefix(prefix) for tag in project["tags"] if tag.startswith(prefix)]
    return datetime.fromtimestamp(max(map(int, found)), UTC) if found else None


def project_set(cloud: Cloud, project: Object) -> None:
    """Restore name, enabled state and tag."""
    change: Object = {}
    if project["found_name"] != project["name"]:
        change["name"] = project["name"]
    if not project["enabled"]:
        change["enabled"] = True
    if change:
        cloud.patch("identity", f"/projects/{project['id']}", {"project": change})
    if names.MANAGED not in project["tags"]:
        cloud.put("identity", f"/projects/{project['id']}/tags/{names.MANAGED}")


def project_make(
    cloud: Cloud,
    name: str,
    owner: uuid.UUID,
    *,
    domain: str = DOMAIN,
    tag: str = names.WORKSPACE_TAG,
    more: tuple[str, ...] = (),
) -> Object:
    """A cluster's project lacks the workspaces' tag: it is not metered, repaired or adopted. more: further tags."""
    ours = names.MANAGED if tag == names.WORKSPACE_TAG else names.CLUSTERS
    body = {
        "name": name,
        "domain_id": domain,
        "description": "made by gpuaas: change or delete it there",
        "tags": [ours, tag.format(id=owner), *more],
    }
    made: Object = cloud.post("identity", "/projects", {"project": body})["project"]
    return made
