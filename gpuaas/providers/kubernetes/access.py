"""People in a namespace: a service account and a binding each, and kubeconfigs that run out."""

import base64
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Access, AccessKind, Member, SignIn, WorkspaceRef
from gpuaas.providers.kubernetes import manifests, names, namespaces
from gpuaas.providers.kubernetes.client import Api, Object

# the API server accepts no less; whoever asks for less gets this
SHORTEST = timedelta(minutes=10)
# it would accept years
LONGEST = timedelta(hours=24)


def remove_members(api: Api, namespace: str) -> None:
    """Rights end at once with the bindings; the tokens end with the accounts some seconds later."""
    everyone = f"{names.MANAGED_BY}={names.MANAGER},{names.MEMBER}"
    api.delete(_bindings(namespace), labelSelector=everyone)
    api.delete(_accounts(namespace), labelSelector=everyone)


def issue(api: Api, ref: WorkspaceRef, member: Member, *, lifetime: timedelta, server: str = "") -> Access:
    """Raises NotFound where the member has no binding there, so that no token outlives a right."""
    if namespaces.only_ours(api, ref.external_name, ref.id) is None:
        raise NotFound(f"{ref.external_name} is not at the site")
    if api.find(f"{_bindings(ref.external_name)}/{manifests.binding_name(member)}") is None:
        raise NotFound(f"{member.name} has no access to {ref.external_name}")
    seconds = int(min(max(lifetime, SHORTEST), LONGEST).total_seconds())
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    token = api.create(f"{_accounts(ref.external_name)}/{member.subject}/token", request)["status"]
    kubeconfig = _kubeconfig(api, ref, member, {"token": str(token["token"])}, server)
    return Access(
        document=yaml.safe_dump(kubeconfig, sort_keys=False),
        expires_at=datetime.fromisoformat(token["expirationTimestamp"]),
        kind=AccessKind.KUBECONFIG,
    )


def sign_in_kubeconfig(
    api: Api, ref: WorkspaceRef, member: Member, sign_in: SignIn | None, *, server: str = ""
) -> str:
    """kubectl's plugin kubelogin asks the identity provider; no call to the site, no credential."""
    if sign_in is None:
        raise NotFound("the site has no identity provider of its own; take a kubeconfig with a token")
    if not member.identity and not sign_in.groups_prefix:
        raise NotFound(
            "the site's identity provider is not known to know you: sign in to the portal by it once, "
            "or take a kubeconfig with a token"
        )
    command = ["oidc-login", "get-token", f"--oidc-issuer-url={sign_in.issuer_url}"]
    command.append(f"--oidc-client-id={sign_in.client_id}")
    scopes = [sign_in.username_claim] if sign_in.username_claim == "email" else []
    scopes += ["groups"] if sign_in.groups_prefix else []
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "kubectl",
        "args": [*command, *(f"--oidc-extra-scope={scope}" for scope in scopes)],
        "installHint": "install kubelogin: kubectl krew install oidc-login",
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
    }
    return yaml.safe_dump(_kubeconfig(api, ref, member, {"exec": program}, server), sort_keys=False)


def revoke(api: Api, ref: WorkspaceRef, member: Member) -> None:
    """Tokens end some seconds after their account; the one made anew does not revive them.

    Whoever still has a right gets the account anew, also where an earlier call ended between the two.
    """
    if namespaces.only_ours(api, ref.external_name, ref.id) is None:
        return
    accounts = _accounts(ref.external_name)
    found = api.find(f"{accounts}/{member.subject}")
    if found is not None:
        api.delete(f"{accounts}/{member.subject}", {"preconditions": {"uid": found["metadata"]["uid"]}})
    rights = api.items(_bindings(ref.external_name), labelSelector=f"{names.MEMBER}={member.subject}")
    if rights:
        kept = {key: rights[0]["metadata"].get(key) or {} for key in ("labels", "annotations")}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": False}
        api.apply(accounts, {**account, "metadata": {"name": member.subject, **kept}})


def _kubeconfig(api: Api, ref: WorkspaceRef, member: Member, user: Object, server: str) -> Object:
    cluster: Object = {"server": server or api.server}
    if api.ca_file:
        cluster["certificate-authority-data"] = base64.b64encode(Path(api.ca_file).read_bytes()).decode()
    context = {"cluster": "site", "namespace": ref.external_name, "user": member.subject}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "site", "cluster": cluster}],
        "users": [{"name": member.subject, "user": user}],
        "contexts": [{"name": ref.external_name, "context": context}],
        "current-context": ref.external_name,
    }


def _accounts(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts"


def _bindings(namespace: str) -> str:
    return f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
