"""The names that we use at an OpenStack site. Changing one orphans what carries the old one."""

import uuid

MANAGED = "gpuaas"
WORKSPACE_TAG = "gpuaas-workspace-{id}"
# of clusters on demand: on every object, and on those of one cluster
CLUSTERS = "gpuaas-cluster"
CLUSTER_TAG = "gpuaas-cluster-{id}"
# on a project that is a cluster's part at a burst site: the site's id
BURST_TAG = "gpuaas-burst-{site}"
# on a project that is being deleted: when access ended, in Unix seconds
CLOSED = "gpuaas-closed-{at}"
NETWORK = "workspace"
SECURITY_GROUP = "workspace"
# of Nova flavors that the portal created for sold flavors
FLAVOR = "gpuaas-{slug}"
FLAVOR_MARK = "gpuaas:managed"
# the subject of the portal's own user in a project; members' begin with u- and robots' with ci-
PORTAL = "portal"
# in a machine's metadata: our ids of its order and of its last rebuild
MACHINE = "gpuaas-machine"
ACTION = "gpuaas-action"
# our role of a member → Keystone's
ROLES = {"admin": "member", "edit": "member", "view": "reader"}


def workspace_tag(workspace: uuid.UUID) -> str:
    return WORKSPACE_TAG.format(id=workspace)


def user_name(project: str, subject: str) -> str:
    """Every member has a separate user for each workspace, which is deleted with the workspace."""
    return f"{project}.{subject}"


def limit_name(resource_class: str) -> str:
    """The name of Nova's unified limit for a resource class of Placement."""
    return f"class:{resource_class}"
