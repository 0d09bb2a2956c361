"""Members of a cluster with its own API: a service account each, bound to a cluster role, and tokens that expire."""

from datetime import timedelta

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.providers.base import Access, ClusterRef, Member
from gpuaas.providers.kubeapi import names, namespaces
from gpuaas.providers.kubeapi.access import token_access
from gpuaas.providers.kubeapi.client import Api, Object

SPACE = "gpuaas-access"
ACCOUNTS = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ROLES = {"admin": "cluster-admin", "edit": "edit", "view": "view"}


def issue(workload: Api, ref: ClusterRef, member: Member, *, lifetime: timedelta) -> Access:
    """Valid for at most `lifetime`, within the limits of API servers."""
    labels = {names.CLUSTER: str(ref.id)}
    workload.apply(namespaces.COLLECTION, _space(labels))
    workload.apply(ACCOUNTS, _account(member, labels))
    workload.apply(BINDINGS, _binding(ref, member, labels))
    place = {"server": workload.server, "context": ref.external_name}
    return token_access(workload, ACCOUNTS, member, lifetime=lifetime, **place)


def revoke(workload: Api, ref: ClusterRef, member: Member) -> None:
    """Revoke one person's tokens; the next one is of a new account of the same name, so old ones stay invalid."""
    ours = {"labelSelector": f"{names.CLUSTER}={ref.id}"}
    for binding in workload.items(BINDINGS, **ours):
        if any(subject["name"] == member.subject for subject in binding.get("subjects") or ()):
            workload.delete(f"{BINDINGS}/{binding['metadata']['name']}")
    workload.delete(f"{ACCOUNTS}/{member.subject}")


def revoke_all(workload: Api, ref: ClusterRef) -> None:
    """Rights end at once with the bindings, tokens a few seconds later with their accounts."""
    ours = {"labelSelector": f"{names.CLUSTER}={ref.id}"}
    for binding in workload.items(BINDINGS, **ours):
        workload.delete(f"{BINDINGS}/{binding['metadata']['name']}")
    for account in workload.items_if_known(ACCOUNTS, **ours):
        workload.delete(f"{ACCOUNTS}/{account['metadata']['name']}")


def revoke_if_it_answers(workload: Api, ref: ClusterRef) -> bool:
    """False if the API does not answer: then nobody can use it either, and it is about to be deleted."""
    try:
        revoke_all(workload, ref)
    except (NotFound, Unavailable):
        return False
    return True


def _space(labels: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}}


def _account(member: Member, labels: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": member.subject, "namespace": SPACE, "labels": labels},
        "automountServiceAccountToken": False,
    }


def _binding(ref: ClusterRef, member: Member, labels: dict[str, str]) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        # the role is part of the name, because a binding's roleRef cannot be changed
        "metadata": {"name": f"gpuaas:{ref.external_name}:{member.subject}:{member.role}", "labels": labels},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": ROLES.get(member.role, "view"),
        },
        "subjects": [{"kind": "ServiceAccount", "name": member.subject, "namespace": SPACE}],
    }
