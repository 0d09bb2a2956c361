"""Members of a namespace: a service account and a binding each, and kubeconfigs that expire."""

from datetime import datetime, timedelta

from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Access, AccessKind, Member, SignIn, WorkspaceRef
from gpuaas.providers.kubeapi import manifests, names, namespaces
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubeconfig import kubeconfig_text

# the API server accepts no less; shorter lifetimes are raised to this
SHORTEST = timedelta(minutes=10)
# the API server would accept years
LONGEST = timedelta(hours=24)


def remove_members(api: Api, namespace: str) -> None:
    """Rights end at once with the bindings; the tokens end with the accounts some seconds later."""
    everyone = f"{names.MANAGED_BY}={names.MANAGER},{names.MEMBER}"
    api.delete(_bindings(namespace), labelSelector=everyone)
    api.delete(_accounts(namespace), labelSelector=everyone)


def issue(api: Api, ref: WorkspaceRef, member: Member, *, lifetime: timedelta, server: str = "") -> Access:
    """Raises NotFound if the member has no binding there, so that no token outlives a right."""
    if namespaces.only_ours(api, ref.external_name, ref.id) is None:
        raise NotFound(f"{ref.external_name} is not at the site")
    if api.find(f"{_bindings(ref.external_name)}/{manifests.binding_name(member)}") is None:
        raise NotFound(f"{member.name} has no access to {ref.external_name}")
    place = _place(api, ref, server)
    return token_access(api, _accounts(ref.external_name), member, lifetime=lifetime, **place)


def token_access(api: Api, accounts: str, member: Member, *, lifetime: timedelta, **place: str) -> Access:
    """A token of the member's account, within the API server's limits for lifetimes. place: as for `kubeconfig_text`."""
    seconds = int(min(max(lifetime, SHORTEST), LONGEST).total_seconds())
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    token = api.create(f"{accounts}/{member.subject}/token", request)["status"]
    user = {"token": str(token["token"])}
    return Access(
        document=kubeconfig_text(user_name=member.subject, user=user, authority=api.authority, **place),
        expires_at=datetime.fromisoformat(token["expirationTimestamp"]),
        kind=AccessKind.KUBECONFIG,
    )


def sign_in_kubeconfig(
    api: Api, ref: WorkspaceRef, member: Member, sign_in: SignIn | None, *, server: str = ""
) -> str:
    """Uses kubectl's plugin kubelogin; makes no call to the site and contains no credential."""
    if sign_in is None:
        raise NotFound("the site has no identity provider of its own; take a kubeconfig with a token")
    if not member.identity and not sign_in.groups_prefix:
        raise NotFound(
            "the site does not know you by its identity provider yet: sign in to the portal with it once, "
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
    place, user = _place(api, ref, server), {"exec": program}
    return kubeconfig_text(user_name=member.subject, user=user, authority=api.authority, **place)


def revoke(api: Api, ref: WorkspaceRef, member: Member) -> None:
    """Tokens end a few seconds after their account; the recreated account does not revive them.

    A member who still has a binding gets the account again, even if an earlier call ended in between.
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


def _place(api: Api, ref: WorkspaceRef, server: str) -> dict[str, str]:
    name = ref.external_name
    return {"server": server or api.server, "context": name, "cluster": "site", "namespace": name}


def _accounts(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts"


def _bindings(namespace: str) -> str:
    return f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
