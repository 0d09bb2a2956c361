"""Projects are namespaces with another API: requested, so that the site's template applies, and deleted as projects."""

import uuid
from collections.abc import Mapping

from gpuaas.core.errors import NotFound, Permanent, Unauthorized, Unavailable
from gpuaas.core.ids import short
from gpuaas.providers.base import WorkspaceSpec
from gpuaas.providers.kubeapi import names, namespaces
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import whoami

API = "/apis/project.openshift.io/v1"
REQUESTS = f"{API}/projectrequests"
PROJECTS = f"{API}/projects"
REQUESTER = "openshift.io/requester"


def served(api: Api, group_version: str) -> frozenset[str]:
    """The plurals that the site serves of a group version; none if it does not know the group."""
    found = api.find(group_version)
    return frozenset(each["name"] for each in (found or {}).get("resources") or [])


def request(api: Api, spec: WorkspaceSpec) -> bool:
    """Request the project; False if plain namespaces must do: projects are not served, or we may not request them.

    An existing one is not an error: the namespace shows whose it is.
    """
    if "projectrequests" not in served(api, API):
        return False
    body: Object = {
        "apiVersion": "project.openshift.io/v1",
        "kind": "ProjectRequest",
        "metadata": {"name": spec.external_name},
        "displayName": f"{spec.organization_slug} / {spec.project_slug}",
        "description": f"GPU workspace {spec.id}",
    }
    try:
        api.create(REQUESTS, body)
    except Unauthorized:
        return False
    except Permanent as error:
        # a site that disables self-provisioning answers with a custom message
        if error.detail.get("status") == 403:
            return False
        raise
    return True


def asked_for(api: Api, name: str, workspace: uuid.UUID) -> Object | None:
    """A project that we requested but have not labeled yet: its name has our id, and we are its requester."""
    found = api.find(namespaces.path(name))
    if found is None or not name.startswith(f"gpu-{short(workspace)}-"):
        return None
    metadata = found["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    if names.WORKSPACE in (metadata.get("labels") or {}) or REQUESTER not in annotations:
        return None
    return found if annotations[REQUESTER] == whoami(api) else None


def delete(api: Api, found: Object) -> None:
    """Delete it as a project; if there is none of the same uid, as a namespace. Never a new one of the same name."""
    metadata = found["metadata"]
    precondition = {"preconditions": {"uid": metadata["uid"]}}
    project = f"{PROJECTS}/{metadata['name']}"
    if _is_project(api, project, metadata["uid"]):
        try:
            api.delete(project, precondition)
        except (Unauthorized, NotFound):
            pass
        else:
            return
    api.delete(namespaces.path(metadata["name"]), precondition)


def _is_project(api: Api, project: str, uid: str) -> bool:
    try:
        face = api.find(project)
    except (Unauthorized, Unavailable):
        return False
    return face is not None and bool(face["metadata"].get("uid") == uid)
