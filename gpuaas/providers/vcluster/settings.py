"""What a template says to this driver: where its clusters answer, which images they run, what keeps their data."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpuaas.core.errors import Invalid

IMAGE = "ghcr.io/loft-sh/vcluster-oss:0.30.0"
KUBERNETES = "ghcr.io/loft-sh/kubernetes:v{release}"
HOSTS = "mirror.gcr.io/library/alpine:3.20"
REFERENCE = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@{}-]{0,254}")
TAGGED = re.compile(r"[a-z0-9.-]+(?::[0-9]{1,5})?(?:/[a-z0-9._-]+)+:[a-zA-Z0-9._-]{1,128}")
HOST = re.compile(r"(?=[^{}]*(?:\{name\})?[^{}]*$)[a-z0-9{}.-]{1,253}(?::[0-9]{1,5})?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[a-zA-Z0-9._/-]{1,300}")
MANIFESTS_MAX = 200_000
KEYS = {
    "addons",
    "annotations",
    "dns_image",
    "host",
    "hosts_image",
    "image",
    "ingress_class",
    "kubernetes_image",
    "routers",
    "storage_class",
}


@dataclass(frozen=True)
class VirtualSettings:
    """host: where a cluster answers, `{name}` is its name at the site; a port may follow. ingress_class: the portal makes an Ingress of
    it, with `annotations` (that pass TLS through); "" = the operator routes hosts by other means. routers: labels of the namespaces
    that may reach control planes. dns_image: of the cluster's own DNS; "" = what the control plane brings. hosts_image: writes /etc/hosts
    of pods of a StatefulSet, as name:tag. storage_class "" = the site's default. addons: name to manifests, as YAML."""

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


def settings_read(given: Mapping[str, Any]) -> VirtualSettings:
    """Raises Invalid beside `settings`, with the place."""
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
    """default None: it is needed."""
    value = given.get(key, default)
    if value == default and default is not None:
        return default
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _bad(key, f"a text that matches {pattern.pattern}")
    return value


def _object(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, Mapping):
        raise _bad(key, "this is a JSON object")
    return {str(name): one for name, one in value.items()}


def _texts(given: Mapping[str, Any], key: str) -> dict[str, str]:
    found = _object(given, key)
    for name, value in found.items():
        if not LABEL.fullmatch(name) or not isinstance(value, str) or len(value) > 500:
            raise _bad(f"{key}.{name[:40]}", "a text of at most 500 characters, by the name of a label")
    return dict(found)


def _manifests(path: str, text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= MANIFESTS_MAX:
        raise _bad(path, f"manifests as YAML, at most {MANIFESTS_MAX} characters")
    try:
        found = documents(text)
    except yaml.YAMLError as error:
        raise _bad(path, "this is not valid YAML") from error
    for one in found:
        named = (
            isinstance(one, dict) and isinstance(one.get("metadata"), dict) and one["metadata"].get("name")
        )
        if not named or not one.get("kind") or not one.get("apiVersion"):
            raise _bad(path, "each document is an object with apiVersion, kind and metadata.name")
    if not found:
        raise _bad(path, "there is no object in it")
    return text


def documents(text: str) -> list[Any]:
    return [one for one in yaml.safe_load_all(text) if one is not None]
