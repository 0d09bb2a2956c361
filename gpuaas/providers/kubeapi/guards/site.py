"""The facts of a site that its rules depend on, and whom the rules apply to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuaas.providers.kubeapi import names

# Kubernetes' own components and cluster admins; OpenShift's controllers complete each new project
_OWN_GROUPS = (
    "system:masters",
    "system:nodes",
    "system:serviceaccounts:kube-system",
    "system:serviceaccounts:openshift-apiserver",
    "system:serviceaccounts:openshift-infra",
    "system:serviceaccounts:openshift-kube-controller-manager",
    "system:serviceaccounts:openshift-controller-manager",
    "system:serviceaccounts:openshift-ovn-kubernetes",
)
_OWN_USERS = ("system:kube-controller-manager", "system:kube-scheduler", "system:apiserver")


@dataclass(frozen=True)
class Site:
    """portals: the accounts of all portals that share the site, the only ones that may touch what the guards protect.

    adopted: workspaces whose names are not of our pattern. ceiling: the highest priority that a pod may have. schedulers: what
    each portal allows besides the default one; the rules are shared, so they allow what any of them does.
    """

    portals: tuple[str, ...]
    adopted: tuple[str, ...] = ()
    ceiling: int = 0
    schedulers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def further_schedulers(self) -> tuple[str, ...]:
        return tuple(sorted({name for names_ in self.schedulers.values() for name in names_}))

    @property
    def in_workspace(self) -> str:
        return self._ours("request.namespace")

    @property
    def named_as_workspace(self) -> str:
        return self._ours("request.name")

    @property
    def outsiders(self) -> str:
        """CEL: the request comes from somebody who must go through the portal."""
        return (
            f"!request.userInfo.groups.exists(g, g in {cel_list(_OWN_GROUPS)}) && "
            f"!(request.userInfo.username in {cel_list((*_OWN_USERS, *self.portals))})"
        )

    @property
    def members(self) -> str:
        """CEL: an outsider who is a person, or an account of the namespace itself; not a controller of the site's."""
        return (
            f"{self.outsiders} && (!request.userInfo.username.startsWith('system:serviceaccount:') || "
            "('system:serviceaccounts:' + request.namespace) in request.userInfo.groups)"
        )

    def _ours(self, name: str) -> str:
        listed = f" || {name} in {cel_list(self.adopted)}" if self.adopted else ""
        return f"{name}.matches('{names.NAMESPACE_PATTERN}'){listed}"


def cel_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def cel_list(texts: tuple[str, ...] | list[str]) -> str:
    return "[" + ", ".join(map(cel_text, texts)) + "]"
