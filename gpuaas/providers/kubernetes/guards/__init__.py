"""Cluster-wide rules of ours: what members may do, and what nobody may do in a workspace's namespace.

They bind to the namespace's name, which cannot change: a policy bound to a label of ours would be switched off by the
very update that removes the label. Subresources are listed one by one, a rule for `pods` covers none of them.
"""

from gpuaas.providers.kubernetes.guards.kinds import BINDINGS, CLUSTER_ROLES, POLICIES
from gpuaas.providers.kubernetes.guards.objects import SERVICES
from gpuaas.providers.kubernetes.guards.pods import PODS
from gpuaas.providers.kubernetes.guards.probe import Acting, forbidden_pod, probe
from gpuaas.providers.kubernetes.guards.site import Site
from gpuaas.providers.kubernetes.guards.writing import (
    can_add,
    ceiling,
    covers,
    device_classes,
    forget,
    install,
    site_objects,
    whoami,
)

__all__ = [
    "BINDINGS",
    "CLUSTER_ROLES",
    "PODS",
    "POLICIES",
    "SERVICES",
    "Acting",
    "Site",
    "can_add",
    "ceiling",
    "covers",
    "device_classes",
    "forbidden_pod",
    "forget",
    "install",
    "probe",
    "site_objects",
    "whoami",
]
