"""The names that we use at an OpenStack site. Changing one orphans what carries the old one."""

import uuid

MANAGED = "gpuaas"
WORKSPACE_TAG = "gpuaas-workspace-{id}"
# of clusters on demand: on all that is made for any, and for one
CLUSTERS = "gpuaas-cluster"
CLUSTER_TAG = "gpuaas-cluster-{id}"
# of the part of a cluster that is at another site than its control plane: at which one
BURST_TAG = "gpuaas-burst-{site}"
# of a project that is being taken away: since when nobody may enter, in Unix seconds
CLOSED = "gpuaas-closed-{at}"
NETWORK = "workspace"
SECURITY_GROUP = "workspace"
# of Nova flavors that the portal made from flavors that are sold
FLAVOR = "gpuaas-{slug}"
FLAVOR_MARK = "gpuaas:managed"
VGPU = "VGPU"
PCI_CLASS = "CUSTOM_PCI_"
# the subject of the portal's own user in a project; members' begin with u- and robots' with ci-
PORTAL = "portal"
# in a machine's metadata: our id of what was ordered, and of the last rebuild
MACHINE = "gpuaas-machine"
ACTION = "gpuaas-action"
# our role of a member → Keystone's
ROLES = {"admin": "member", "edit": "member", "view": "reader"}


def workspace_tag(workspace: uuid.UUID) -> str:
    return WORKSPACE_TAG.format(id=workspace)


def user_name(project: str, subject: str) -> str:
    """A user of its own for every member of every workspace: it ends with the workspace, and nobody else's does."""
    return f"{project}.{subject}"


def limit_name(resource_class: str) -> str:
    """Of Nova's unified limits, for what Placement counts."""
    return f"class:{resource_class}"


def is_gpu_class(resource_class: str) -> bool:
    return resource_class == VGPU or resource_class.startswith(PCI_CLASS)
