"""The Keystone project behind a workspace: ours, somebody else's, or not there."""

import uuid

from gpuaas.core.errors import Permanent
from gpuaas.providers.openstack import names
from gpuaas.providers.openstack.client import Cloud, Object

DOMAIN = "default"


def own_project(cloud: Cloud, name: str, workspace: uuid.UUID, *, domain: str = DOMAIN) -> Object | None:
    """None where there is none. Raises Permanent for one that is not this workspace's: it is not touched."""
    found = project_find(cloud, name, domain=domain)
    if found is not None and not is_ours(found, workspace):
        raise Permanent(f"a project {name} is at the site already and is not this workspace's")
    return found


def project_find(cloud: Cloud, name: str, *, domain: str = DOMAIN) -> Object | None:
    rows = cloud.items("identity", "/projects", "projects", name=name, domain_id=domain)
    return rows[0] if rows else None


def is_ours(project: Object, workspace: uuid.UUID) -> bool:
    return names.workspace_tag(workspace) in (project.get("tags") or [])


def project_make(cloud: Cloud, name: str, workspace: uuid.UUID, *, domain: str = DOMAIN) -> Object:
    body = {
        "name": name,
        "domain_id": domain,
        "description": "made by gpuaas: change or delete the workspace there",
        "tags": [names.MANAGED, names.workspace_tag(workspace)],
    }
    made: Object = cloud.post("identity", "/projects", {"project": body})["project"]
    return made
