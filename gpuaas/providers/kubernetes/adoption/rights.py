"""Finds rights in and from a namespace that the portal did not grant: they would outlast a member's removal."""

from collections.abc import Iterable, Iterator, Mapping

from gpuaas.providers.base import AdoptionStep
from gpuaas.providers.kubeapi import names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards.roles import cluster_roles
from gpuaas.providers.kubeapi.managed_objects import RBAC

TOKEN = "kubernetes.io/service-account-token"  # noqa: S105  a type of secrets, no secret
# OpenShift creates these in every project, for the project's build and deploy accounts
SITES_BINDINGS = ("system:deployers", "system:image-builders", "system:image-pullers")


def foreign_rights(api: Api, namespace: str) -> Iterator[AdoptionStep]:
    bindings = api.items(f"{RBAC}/rolebindings")
    here = [each for each in bindings if each["metadata"]["namespace"] == namespace and not _is_ours(each)]
    accounts = set()
    for binding in here:
        if _is_sites(binding, namespace):
            continue
        accounts |= {subject["name"] for subject in _accounts(binding, namespace)}
        yield _judged(api, binding, namespace)
    for binding in bindings:
        space = binding["metadata"]["namespace"]
        if space != namespace and not _is_ours(binding) and _reaches(binding, namespace):
            name = f"RoleBinding/{space}/{binding['metadata']['name']}"
            yield _blocking(name, f"grants accounts of this namespace rights in {space}: remove them there")
    for binding in api.items(f"{RBAC}/clusterrolebindings"):
        if _reaches(binding, namespace):
            name = f"ClusterRoleBinding/{binding['metadata']['name']}"
            role = binding["roleRef"]["name"]
            yield _blocking(
                name, f"grants accounts of this namespace {role} for the whole site: remove them there"
            )
    yield from _lasting_tokens(api, namespace, accounts)


def _judged(api: Api, binding: Object, namespace: str) -> AdoptionStep:
    name = f"RoleBinding/{binding['metadata']['name']}"
    role = f"{binding['roleRef']['kind']} {binding['roleRef']['name']}"
    others = [subject for subject in binding.get("subjects") or [] if not _is_account(subject, namespace)]
    if others:
        who = ", ".join(f"{subject['kind']} {subject['name']}" for subject in others)
        detail = f"gives {who} access ({role}) past the portal: delete it and make them members"
        return _blocking(name, detail)
    beyond = _beyond(api, binding, namespace)
    if beyond:
        return _blocking(name, f"{role} grants more than an admin of a workspace has: {beyond}; delete it")
    return AdoptionStep(
        name, "keep", f"grants {role} to accounts of this namespace, no more than members have"
    )


def _beyond(api: Api, binding: Object, namespace: str) -> str:
    """The first right that our admin role lacks, "" if there is none."""
    given = _rules(api, binding["roleRef"], namespace)
    if given is None:
        return ""  # a missing role grants nothing, and only operators could create it later
    role = names.CLUSTER_ROLE.format(role="admin")
    ours = next(each["rules"] for each in cluster_roles() if each["metadata"]["name"] == role)
    for rule in given:
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                for verb in rule.get("verbs") or []:
                    if not _covered(ours, group, resource, verb):
                        where = f"{resource}.{group}" if group else resource
                        return f"{verb} {where}"
    return ""


def _covered(ours: Iterable[Mapping[str, list[str]]], group: str, resource: str, verb: str) -> bool:
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in ours
    )


def _rules(api: Api, ref: Object, namespace: str) -> list[Object] | None:
    if ref["kind"] == "ClusterRole":
        found = api.find(f"{RBAC}/clusterroles/{ref['name']}")
    else:
        found = api.find(f"{RBAC}/namespaces/{namespace}/roles/{ref['name']}")
    return None if found is None else found.get("rules") or []


def _lasting_tokens(api: Api, namespace: str, accounts: set[str]) -> Iterator[AdoptionStep]:
    """Reads only secrets that are tokens; an annotation names the account of each."""
    secrets = api.items(f"/api/v1/namespaces/{namespace}/secrets", fieldSelector=f"type={TOKEN}")
    for secret in secrets:
        account = (secret["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name", "")
        if account in accounts:
            name = f"Secret/{secret['metadata']['name']}"
            yield _blocking(name, f"a token of {account} that never expires: delete it")


def _reaches(binding: Object, namespace: str) -> bool:
    """Whether it names accounts of this namespace; groups of all accounts of the site do not count."""
    group = f"system:serviceaccounts:{namespace}"
    return bool(_accounts(binding, namespace)) or any(
        subject["kind"] == "Group" and subject["name"] == group for subject in binding.get("subjects") or []
    )


def _accounts(binding: Object, namespace: str) -> list[Object]:
    subjects = binding.get("subjects") or []
    return [s for s in subjects if s["kind"] == "ServiceAccount" and s.get("namespace") == namespace]


def _is_account(subject: Object, namespace: str) -> bool:
    if subject["kind"] == "Group":
        return bool(subject["name"] == f"system:serviceaccounts:{namespace}")
    return bool(subject["kind"] == "ServiceAccount" and subject.get("namespace", namespace) == namespace)


def _is_ours(binding: Object) -> bool:
    return names.WORKSPACE in (binding["metadata"].get("labels") or {})


def _is_sites(binding: Object, namespace: str) -> bool:
    subjects = binding.get("subjects") or []
    return (
        binding["metadata"]["name"] in SITES_BINDINGS
        and str(binding["roleRef"]["name"]).startswith("system:")
        and all(_is_account(subject, namespace) for subject in subjects)
    )


def _blocking(name: str, detail: str) -> AdoptionStep:
    return AdoptionStep(name, "remove", detail, blocking=True)
