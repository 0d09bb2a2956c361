"""People in a workload cluster: a service account each, bound to a role of the whole cluster, and tokens that run out.

The administrator's kubeconfig that Cluster API keeps in a Secret is read by the portal alone and goes no further.
"""

import base64
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from gpuaas.core.errors import NotFound, Unavailable
from gpuaas.providers.base import Access, AccessKind, ClusterRef, Member
from gpuaas.providers.clusterapi import names
from gpuaas.providers.kubernetes.access import LONGEST, SHORTEST
from gpuaas.providers.kubernetes.client import Api, Object

SPACE = "gpuaas-access"
ACCOUNTS = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ROLES = {"admin": "cluster-admin", "edit": "edit", "view": "view"}


def admin_kubeconfig(management: Api, ref: ClusterRef) -> str:
    """Raises NotFound where Cluster API has made none yet."""
    found = management.find(names.kubeconfig_secret(ref.external_name))
    if found is None or "value" not in (found.get("data") or {}):
        raise NotFound("nothing answers at the cluster's address yet")
    return base64.b64decode(found["data"]["value"]).decode()


def issue(workload: Api, ref: ClusterRef, member: Member, *, lifetime: timedelta) -> Access:
    """For `lifetime` at most, within what an API server accepts."""
    labels = {names.TAG: str(ref.id)}
    workload.apply(names.NAMESPACES, _space(labels))
    workload.apply(ACCOUNTS, _account(member, labels))
    workload.apply(BINDINGS, _binding(ref, member, labels))
    seconds = int(min(max(lifetime, SHORTEST), LONGEST).total_seconds())
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    token = workload.create(f"{ACCOUNTS}/{member.subject}/token", request)["status"]
    return Access(
        document=yaml.safe_dump(_kubeconfig(workload, ref, member, str(token["token"])), sort_keys=False),
        expires_at=datetime.fromisoformat(token["expirationTimestamp"]),
        kind=AccessKind.KUBECONFIG,
    )


def revoke(workload: Api, ref: ClusterRef, member: Member) -> None:
    """One person's; their next token is of another account of the same name, so the old ones stay worthless."""
    ours = {"labelSelector": f"{names.TAG}={ref.id}"}
    for binding in workload.items(BINDINGS, **ours):
        if any(subject["name"] == member.subject for subject in binding.get("subjects") or ()):
            workload.delete(f"{BINDINGS}/{binding['metadata']['name']}")
    workload.delete(f"{ACCOUNTS}/{member.subject}")


def revoke_all(workload: Api, ref: ClusterRef) -> None:
    """Rights end at once with the bindings, tokens some seconds later with their accounts."""
    ours = {"labelSelector": f"{names.TAG}={ref.id}"}
    for binding in workload.items(BINDINGS, **ours):
        workload.delete(f"{BINDINGS}/{binding['metadata']['name']}")
    for account in workload.items_if_known(ACCOUNTS, **ours):
        workload.delete(f"{ACCOUNTS}/{account['metadata']['name']}")


def revoke_if_it_answers(workload: Api, ref: ClusterRef) -> bool:
    """What does not answer lets nobody in either, and is about to go."""
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
        # a role is part of the name: what a binding refers to cannot be changed
        "metadata": {"name": f"gpuaas:{ref.external_name}:{member.subject}:{member.role}", "labels": labels},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": ROLES.get(member.role, "view"),
        },
        "subjects": [{"kind": "ServiceAccount", "name": member.subject, "namespace": SPACE}],
    }


def _kubeconfig(workload: Api, ref: ClusterRef, member: Member, token: str) -> Object:
    cluster: Object = {"server": workload.server}
    if workload.ca_file:
        cluster["certificate-authority-data"] = base64.b64encode(Path(workload.ca_file).read_bytes()).decode()
    name = ref.external_name
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": member.subject, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": member.subject}}],
        "current-context": name,
    }
