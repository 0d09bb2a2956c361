"""Validates a template's settings before they are saved, without calling the site."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from gpuaas.core.errors import Invalid
from gpuaas.providers.base import ClusterKind

BOOT_MINUTES = 30
BOOT_MINUTES_MOST = 180
K3S_URL = "https://github.com/k3s-io/k3s/releases/download"
JOBS_OF_REMOVED = ("cancel", "finish")  # running jobs of a member who was removed; the first is the default
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{1,80}(=[A-Za-z0-9.+:~*-]{1,60})?")
ADDRESS = re.compile(r"https?://[A-Za-z0-9.:_/%+\[\]-]{1,300}")
KNOWN = {
    ClusterKind.KUBERNETES: {"image", "boot_minutes", "packages", "k3s_url", "manifests"},
    ClusterKind.SLURM: {"image", "boot_minutes", "packages", "jobs_of_removed"},
}


def settings_check(kind: ClusterKind, settings: Mapping[str, Any]) -> None:
    """Raises Invalid for the field `settings`."""
    if unknown := sorted(set(map(str, settings)) - KNOWN[kind]):
        known = ", ".join(sorted(KNOWN[kind]))
        raise _wrong(f"the driver has no setting {unknown[0][:40]!r}; known: {known}")
    image = settings.get("image")
    if not isinstance(image, str) or not image:
        raise _wrong("image must be the name of the image that the machines boot from")
    minutes = settings.get("boot_minutes", BOOT_MINUTES)
    if type(minutes) is not int or not 1 <= minutes <= BOOT_MINUTES_MOST:
        raise _wrong(f"boot_minutes must be a whole number from 1 to {BOOT_MINUTES_MOST}")
    packages = settings.get("packages", [])
    if not isinstance(packages, list) or not all(
        isinstance(each, str) and PACKAGE.fullmatch(each) for each in packages
    ):
        raise _wrong("packages must be a list of packages of the image's distribution")
    address = settings.get("k3s_url", K3S_URL)
    if not isinstance(address, str) or not ADDRESS.fullmatch(address):
        raise _wrong("k3s_url must be the URL of k3s' releases")
    if settings.get("jobs_of_removed", JOBS_OF_REMOVED[0]) not in JOBS_OF_REMOVED:
        raise _wrong(f"jobs_of_removed must be {' or '.join(JOBS_OF_REMOVED)}")
    _manifests_check(settings.get("manifests", {}))


def _manifests_check(manifests: Any) -> None:
    if not isinstance(manifests, Mapping) or not all(isinstance(text, str) for text in manifests.values()):
        raise _wrong("manifests must be an object that maps each add-on to its YAML")
    for name, text in manifests.items():
        try:
            list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            raise _wrong(f"the manifest of {str(name)[:40]} is not valid YAML") from error


def _wrong(message: str) -> Invalid:
    return Invalid.field("settings", message)
