"""The Keystone project behind a workspace: ours, somebody else's, or not there."""

import uuid
from datetime import UTC, datetime

from gpuaas.core.errors import Permanent
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Cloud, Object

DOMAIN = "default"


def own_project(cloud: Cloud, name: str, workspace: uuid.UUID, *, domain: str = DOMAIN) -> Object | None:
    """None where there is none. Raises Permanent for one that is not this workspace's: it is not touched."""
    found = marked_project(cloud, name, workspace, domain=domain)
    if found is None and project_find(cloud, name, domain=domain) is not None:
        raise Permanent(f"a project {name} is at the site already and is not this workspace's")
    return found


def marked_project(cloud: Cloud, name: str, workspace: uuid.UUID, *, domain: str = DOMAIN) -> Object | None:
    """By its mark, whatever somebody has called it since; under the name that it should have."""
    tag = names.workspace_tag(workspace)
    rows = cloud.items("identity", "/projects", "projects", tags=tag, domain_id=domain)
    found = next((row for row in rows if row["name"] == name), rows[0] if rows else None)
    return found and {**found, "name": name, "found_name": found["name"]}


def project_find(cloud: Cloud, name: str, *, domain: str = DOMAIN) -> Object | None:
    rows = cloud.items("identity", "/projects", "projects", name=name, domain_id=domain)
    return rows[0] if rows else None


def is_ours(project: Object, workspace: uuid.UUID) -> bool:
    return names.workspace_tag(workspace) in (project.get("tags") or [])


def marks(project: Object) -> set[str]:
    """Of the workspaces whose it is: one, or none."""
    prefix = names.WORKSPACE_TAG.format(id="")
    return {tag for tag in project.get("tags") or [] if tag.startswith(prefix)}


def close_note(cloud: Cloud, project: Object, moment: datetime) -> None:
    """Written at the site, for no process may live until it is read."""
    tag = names.CLOSED.format(at=int(moment.timestamp()))
    cloud.put("identity", f"/projects/{project['id']}/tags/{tag}")


def closed_at(project: Object) -> datetime | None:
    """When everybody was put out; the last of several."""
    prefix = names.CLOSED.format(at="")
    found = [tag.removeprefix(prefix) for tag in project["tags"] if tag.startswith(prefix)]
    return datetime.fromtimestamp(max(map(int, found)), UTC) if found else None


def project_set(cloud: Cloud, project: Object) -> None:
    """Open, under its name and with our mark again, where somebody has changed that."""
    change: Object = {}
    if project["found_name"] != project["name"]:
        change["name"] = project["name"]
    if not project["enabled"]:
        change["enabled"] = True
    if change:
        cloud.patch("identity", f"/projects/{project['id']}", {"project": change})
    if names.MANAGED not in project["tags"]:
        cloud.put("identity", f"/projects/{project['id']}/tags/{names.MANAGED}")


def project_make(cloud: Cloud, name: str, workspace: uuid.UUID, *, domain: str = DOMAIN) -> Object:
    body = {
        "name": name,
        "domain_id": domain,
        "description": "made by gpuaas: change or delete the workspace there",
        "tags": [names.MANAGED, names.workspace_tag(workspace)],
    }
    made: Object = cloud.post("identity", "/projects", {"project": body})["project"]
    return made
