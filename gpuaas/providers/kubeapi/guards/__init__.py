"""Our cluster-wide policies: what members may do, and what nobody may do in a workspace's namespace.

They bind to the namespace's name, which cannot change: a policy bound to a label of ours would be switched off by the
very update that removes the label. Subresources are listed one by one, a rule for `pods` covers none of them.
"""

from gpuaas.providers.kubeapi.guards.kinds import BINDINGS, CLUSTER_ROLES, POLICIES
from gpuaas.providers.kubeapi.guards.objects import SERVICES
from gpuaas.providers.kubeapi.guards.pods import PODS
from gpuaas.providers.kubeapi.guards.probe import Acting, forbidden_pod, probe
from gpuaas.providers.kubeapi.guards.site import Site
from gpuaas.providers.kubeapi.guards.writing import (
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
