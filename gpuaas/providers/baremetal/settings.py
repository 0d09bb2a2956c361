"""A template's settings for this driver, validated in one place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from gpuaas.core.errors import Invalid
from gpuaas.providers.base import ClusterSpec

DNS_LABELS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
TEXTS = {
    "namespace": "the namespace at the hub with the Secrets of the BMCs, where everything is created",
    "pull_secret": "the name of the Secret there with the pull secret",
    "base_domain": "the domain under which clusters get their names",
    "control_hosts": "the resource name of the hosts for control planes",
}
KNOWN = {*TEXTS, "images", "machine_networks", "addons", "ssh_key", "api_vip", "ingress_vip", "drain_minutes"}
DRAIN_MINUTES, DRAIN_MINUTES_MAX = 15, 24 * 60


@dataclass(frozen=True)
class Settings:
    """images: release to release image. addons: name to manifests, file name to YAML, that the installer applies.
    drain_minutes: how long a leaving machine may take to drain before it is wiped anyway."""

    namespace: str
    pull_secret: str
    base_domain: str
    control_hosts: str
    images: Mapping[str, str]
    machine_networks: tuple[str, ...]
    addons: Mapping[str, Mapping[str, str]]
    ssh_key: str = ""
    drain_minutes: int = DRAIN_MINUTES

    def image(self, release: str) -> str:
        if release not in self.images:
            raise Invalid.field("settings", f"the template names no image of release {release}")
        return self.images[release]


def settings_read(given: Mapping[str, Any]) -> Settings:
    """Raises Invalid beside `settings`."""
    unknown = sorted(set(given) - KNOWN)
    if unknown:
        raise Invalid.field("settings", f"unknown settings of this driver: {', '.join(unknown)}")
    for key, what in TEXTS.items():
        if not isinstance(given.get(key), str) or not given[key]:
            raise Invalid.field("settings", f"{key} is missing: {what}")
    for key in ("namespace", "pull_secret", "base_domain"):
        if not DNS_LABELS.fullmatch(given[key]):
            raise Invalid.field("settings", f"{key} must be a DNS name in lower-case letters")
    _addresses_check(given)
    return Settings(
        namespace=given["namespace"],
        pull_secret=given["pull_secret"],
        base_domain=given["base_domain"],
        control_hosts=given["control_hosts"],
        images=_texts(given, "images", needed=True),
        machine_networks=tuple(given["machine_networks"]),
        addons=_addons(given.get("addons", {})),
        ssh_key=str(given.get("ssh_key", "")),
        drain_minutes=_drain_minutes(given),
    )


def _drain_minutes(given: Mapping[str, Any]) -> int:
    value = given.get("drain_minutes", DRAIN_MINUTES)
    if type(value) is not int or not 0 <= value <= DRAIN_MINUTES_MAX:
        raise Invalid.field("settings", f"drain_minutes must be a whole number from 0 to {DRAIN_MINUTES_MAX}")
    return value


def vips_of(spec: ClusterSpec) -> tuple[str, str]:
    """Addresses of API and ingress: the order's, else the template's; none for a control plane of one."""
    if spec.control_plane.count == 1:
        return "", ""
    found = []
    for key in ("api_vip", "ingress_vip"):
        value = spec.parameters.get(key) or spec.settings.get(key)
        if not value or not _is_address(value):
            raise Invalid.field("parameters", f"{key} must be an address of the machine network")
        found.append(str(value))
    return found[0], found[1]


def _addresses_check(given: Mapping[str, Any]) -> None:
    networks = given.get("machine_networks")
    if not isinstance(networks, list) or not networks or not all(map(_is_network, networks)):
        raise Invalid.field("settings", "machine_networks must list networks, like 192.0.2.0/24")
    for key in ("api_vip", "ingress_vip"):
        if given.get(key) and not _is_address(given[key]):
            raise Invalid.field("settings", f"{key} must be an address")


def _is_network(value: object) -> bool:
    try:
        ip_network(str(value))
    except ValueError:
        return False
    return isinstance(value, str)


def _is_address(value: object) -> bool:
    try:
        ip_address(str(value))
    except ValueError:
        return False
    return isinstance(value, str)


def _texts(given: Mapping[str, Any], key: str, *, needed: bool = False) -> dict[str, str]:
    found = given.get(key) or {}
    fits = isinstance(found, dict) and all(isinstance(one, str) and one for one in found.values())
    if not fits or (needed and not found):
        raise Invalid.field("settings", f"{key} must map names to texts, at least one")
    return dict(found)


def _addons(given: object) -> dict[str, dict[str, str]]:
    if not isinstance(given, dict):
        raise Invalid.field("settings", "addons must map each add-on to its manifests")
    return {str(name): _texts({"addons": files}, "addons", needed=True) for name, files in given.items()}
