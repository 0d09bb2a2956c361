"""Validates operators' kubeconfigs before they are saved, without calling a site or reading local files."""

import base64
from collections.abc import Mapping
from typing import Any

import yaml

from gpuaas.core.errors import Invalid, Unusable
from gpuaas.providers.reach import address_check

Object = dict[str, Any]

NAME = "kubeconfig"
# entries that would run programs, read files of the portal's own machine, or send its calls by way of another
UNSAFE_USER_KEYS = ("exec", "auth-provider", "client-certificate", "client-key", "tokenFile")
UNSAFE_CLUSTER_KEYS = ("certificate-authority", "proxy-url")
INLINE_KEYS = "inline data only (certificate-authority-data, client-certificate-data, client-key-data, token)"
ENCODED_KEYS = ("certificate-authority-data", "client-certificate-data", "client-key-data")


def kubeconfig_require(credentials: Mapping[str, Any], *, who: str) -> None:
    """Raises Invalid for the field `credentials` if it is missing or not valid."""
    if not credentials.get(NAME):
        raise _invalid(f"{who} needs a kubeconfig")
    kubeconfig_check(credentials[NAME])


def kubeconfig_of(credentials: Mapping[str, Any]) -> str:
    """Raises Unusable if there is none."""
    kubeconfig = credentials.get(NAME)
    if not isinstance(kubeconfig, str) or not kubeconfig.strip():
        raise Unusable("the site has no kubeconfig among its credentials")
    return kubeconfig


def kubeconfig_check(text: object) -> None:
    """Raises Invalid for the field `credentials` unless it is a kubeconfig with a usable current context."""
    given = _document(text)
    context = _entry(given, "contexts", "context", given.get("current-context"), "current-context")
    cluster = _entry(given, "clusters", "cluster", context.get("cluster"), "the current context")
    user = _entry(given, "users", "user", context.get("user"), "the current context")
    if found := unsafe_keys(given):
        raise _invalid(f"the kubeconfig contains {', '.join(found)}: use {INLINE_KEYS}")
    try:
        address_check(str(cluster.get("server") or ""))
    except Unusable as error:
        raise _invalid(f"the kubeconfig's cluster needs a server: {error.message}") from error
    pair = user.get("client-certificate-data") and user.get("client-key-data")
    if not (user.get("token") or pair or (user.get("username") and user.get("password"))):
        raise _invalid("the kubeconfig's user has neither a token nor a client certificate with its key")
    for key in ENCODED_KEYS:
        _decodable(key, cluster.get(key) or user.get(key))


def kubeconfig_text(
    *,
    server: str,
    context: str,
    user_name: str,
    user: Object,
    cluster: str = "",
    namespace: str = "",
    authority: str = "",
) -> str:
    """One with a single context. cluster: its name, "" = the context's; authority: the CA in base64, "" = one that is trusted."""
    site = {"server": server, **({"certificate-authority-data": authority} if authority else {})}
    place = {"namespace": namespace} if namespace else {}
    name = cluster or context
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": site}],
        "users": [{"name": user_name, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": name, **place, "user": user_name}}],
        "current-context": context,
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def unsafe_keys(given: Object) -> list[str]:
    """Keys that refer to files, programs or a proxy."""
    users = [entry.get("user") or {} for entry in given.get("users") or []]
    clusters = [entry.get("cluster") or {} for entry in given.get("clusters") or []]
    found = [key for user in users for key in UNSAFE_USER_KEYS if key in user]
    found += [key for cluster in clusters for key in UNSAFE_CLUSTER_KEYS if key in cluster]
    return sorted(set(found))


def _document(text: object) -> Object:
    try:
        given = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError as error:
        raise _invalid("this is not a kubeconfig: it is not valid YAML") from error
    if not isinstance(given, dict):
        raise _invalid("this is not a kubeconfig: it names no cluster")
    for kind, part in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        rows = given.get(kind)
        if not isinstance(rows, list) or not rows:
            raise _invalid(f"this is not a kubeconfig: it names no {part}")
        if not all(isinstance(row, dict) and isinstance(row.get(part) or {}, dict) for row in rows):
            raise _invalid(f"this is not a kubeconfig: its {kind} are malformed")
    if not given.get("current-context"):
        raise _invalid("the kubeconfig has no current-context: say which of its contexts is meant")
    return given


def _entry(given: Object, kind: str, part: str, name: object, whose: str) -> Object:
    for row in given[kind]:
        if row.get("name") == name:
            found: Object = row.get(part) or {}
            return found
    raise _invalid(f"{whose} of the kubeconfig names the {part} {str(name)!r}, which is not in it")


def _decodable(key: str, value: object) -> None:
    if not value:
        return
    try:
        base64.b64decode(str(value), validate=True)
    except ValueError as error:
        raise _invalid(f"{key} of the kubeconfig is damaged: it is not base64") from error


def _invalid(message: str) -> Invalid:
    return Invalid.field("credentials", message)
