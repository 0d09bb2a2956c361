"""A template's settings for this driver: addresses, images and storage of its clusters."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import yaml

from gpuaas.core.errors import Invalid
from gpuaas.providers.kubeapi.manifests import MANIFESTS_MAX
from gpuaas.providers.kubeapi.names import NAME

IMAGE = "ghcr.io/loft-sh/vcluster-oss:0.30.0"
KUBERNETES = "ghcr.io/loft-sh/kubernetes:v{release}"
HOSTS = "mirror.gcr.io/library/alpine:3.20"
REFERENCE = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@{}-]{0,254}")
TAGGED = re.compile(r"[a-z0-9.-]+(?::[0-9]{1,5})?(?:/[a-z0-9._-]+)+:[a-zA-Z0-9._-]{1,128}")
HOST = re.compile(r"(?=[^{}]*(?:\{name\})?[^{}]*$)[a-z0-9{}.-]{1,253}(?::[0-9]{1,5})?")
LABEL = re.compile(r"[a-zA-Z0-9._/-]{1,300}")


@dataclass(frozen=True)
class VirtualSettings:
    """host: a cluster's address, in which `{name}` is its name at the site; a port may follow. ingress_class: of the Ingress that the
    portal creates, with `annotations` (for TLS passthrough); "" = the operator routes hosts by other means. routers: labels of the
    namespaces that may reach control planes. dns_image: of the cluster's own DNS; "" = vcluster's default. hosts_image: writes
    /etc/hosts in pods of a StatefulSet, as name:tag. storage_class "" = the site's default. addons: name to manifests, as YAML."""

    host: str
    image: str = IMAGE
    kubernetes_image: str = KUBERNETES
    dns_image: str = ""
    hosts_image: str = HOSTS
    ingress_class: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    routers: Mapping[str, str] = field(default_factory=dict)
    storage_class: str = ""
    addons: Mapping[str, str] = field(default_factory=dict)

    def address(self, name: str) -> str:
        return self.host.replace("{name}", name)


KEYS = {each.name for each in fields(VirtualSettings)}


def settings_read(given: Mapping[str, Any]) -> VirtualSettings:
    """Raises Invalid for the field `settings`, with the path."""
    if unknown := sorted(set(map(str, given)) - KEYS):
        raise _bad(unknown[0][:40], f"there is no such setting; known: {', '.join(sorted(KEYS))}")
    return VirtualSettings(
        host=_text(given, "host", HOST, None),
        image=_text(given, "image", REFERENCE, IMAGE),
        kubernetes_image=_text(given, "kubernetes_image", REFERENCE, KUBERNETES),
        dns_image=_text(given, "dns_image", REFERENCE, ""),
        hosts_image=_text(given, "hosts_image", TAGGED, HOSTS),
        ingress_class=_text(given, "ingress_class", NAME, ""),
        annotations=_texts(given, "annotations"),
        routers=_texts(given, "routers"),
        storage_class=_text(given, "storage_class", NAME, ""),
        addons={name: _manifests(f"addons.{name}", one) for name, one in _object(given, "addons").items()},
    )


def _bad(path: str, words: str) -> Invalid:
    return Invalid.field("settings", f"settings.{path}: {words}")


def _text(given: Mapping[str, Any], key: str, pattern: re.Pattern[str], default: str | None) -> str:
    """default None: it is required."""
    value = given.get(key, default)
    if value == default and default is not None:
        return default
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _bad(key, f"this must be a text that matches {pattern.pattern}")
    return value


def _object(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, Mapping):
        raise _bad(key, "this must be a JSON object")
    return {str(name): one for name, one in value.items()}


def _texts(given: Mapping[str, Any], key: str) -> dict[str, str]:
    found = _object(given, key)
    for name, value in found.items():
        if not LABEL.fullmatch(name) or not isinstance(value, str) or len(value) > 500:
            raise _bad(
                f"{key}.{name[:40]}", "this must map names of labels to texts of at most 500 characters"
            )
    return dict(found)


def _manifests(path: str, text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= MANIFESTS_MAX:
        raise _bad(path, f"this must be manifests as YAML, at most {MANIFESTS_MAX} characters")
    try:
        found = documents(text)
    except yaml.YAMLError as error:
        raise _bad(path, "this is not valid YAML") from error
    for one in found:
        named = (
            isinstance(one, dict) and isinstance(one.get("metadata"), dict) and one["metadata"].get("name")
        )
        if not named or not one.get("kind") or not one.get("apiVersion"):
            raise _bad(path, "each document must be an object with apiVersion, kind and metadata.name")
    if not found:
        raise _bad(path, "this contains no object")
    return text


def documents(text: str) -> list[Any]:
    return [one for one in yaml.safe_load_all(text) if one is not None]
