"""Validates an operator's description of a host before it becomes a row."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from django.db import IntegrityError, transaction

from gpuaas.core.errors import Conflict, Invalid, NotFound
from gpuaas.core.rows import one_or_none
from gpuaas.providers import kinds
from gpuaas.providers.baremetal.models import HELD, Host
from gpuaas.providers.baremetal.settings import DNS_LABELS
from gpuaas.providers.base import DeviceKind

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
BMC = re.compile(r"[a-z][a-z0-9+-]*://[^\s/@]+(/[^\s@]*)?")
CONTROL_HOSTS = "control"
NUMBERS = {"gpus": 64, "gpu_memory_gib": 4096, "vcpus": 4096, "memory_gib": 65536}
KNOWN = {
    *("name", "bmc_address", "bmc_secret", "bmc_verify", "boot_mac", "interfaces", "network", "addresses"),
    *("root_device", "product", *NUMBERS),
}
HINTS = {
    *("deviceName", "hctl", "model", "vendor", "serialNumber", "minSizeGigabytes", "wwn", "wwnWithExtension"),
    *("wwnVendorExtension", "rotational"),
}


def kind_of(host: Host) -> DeviceKind:
    """Named as at every other site, so that the same card is one GPU type."""
    return kinds.kind(host.product, memory_mib=host.gpu_memory_gib * 1024)


def host_put(*, site_id: Any, facts: Mapping[str, Any]) -> tuple[Host, bool]:
    """Create or update the host; returns it, and whether it is new. Facts of a host that a cluster holds cannot change."""
    wanted = facts_read(facts)
    row = one_or_none(Host.objects.filter(site_id=site_id, name=wanted["name"]))
    try:
        with transaction.atomic():
            if row is None:
                return Host.objects.create(site_id=site_id, **wanted), True
            free = Host.objects.filter(pk=row.pk).exclude(state__in=HELD)
            if any(getattr(row, key) != value for key, value in wanted.items()) and not free.update(**wanted):
                raise Conflict(f"{row.name} is held by a cluster; change it after it is returned")
    except IntegrityError as error:
        raise Conflict(
            f"another host of the site has the boot MAC or the BMC address of {wanted['name']}"
        ) from error
    row.refresh_from_db()
    return row, False


def host_remove(*, site_id: Any, name: str) -> None:
    """Remove the host from the inventory; refused while a cluster holds it."""
    rows = Host.objects.filter(site_id=site_id, name=name)
    if not rows.exists():
        raise NotFound(f"there is no host {name!r} at this site")
    if not rows.exclude(state__in=HELD).delete()[0]:
        raise Conflict(f"{name} is held by a cluster; remove it after it is returned")


def facts_read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Invalid beside the field."""
    unknown = sorted(set(given) - KNOWN)
    if unknown:
        raise Invalid.field(str(unknown[0]), "a host has no such field")
    numbers = {key: _number(given, key, most) for key, most in NUMBERS.items()}
    boot = _mac(given.get("boot_mac"), "boot_mac")
    found = {
        "name": _name(given),
        "bmc_address": _bmc(given),
        "bmc_secret": _dns(given, "bmc_secret"),
        "bmc_verify": _flag(given),
        "boot_mac": boot,
        "interfaces": _interfaces(given, boot),
        "network": _object(given, "network"),
        "addresses": _addresses(given),
        "root_device": _hints(given),
        "product": str(given.get("product", "")).strip()[:100],
        **numbers,
    }
    if numbers["gpus"] and not (found["product"] and numbers["gpu_memory_gib"]):
        raise Invalid.field("product", "name the GPUs: product, and gpu_memory_gib of one of them")
    found["resource_name"] = CONTROL_HOSTS
    if numbers["gpus"]:
        device = kinds.kind(str(found["product"]), memory_mib=numbers["gpu_memory_gib"] * 1024)
        found["resource_name"] = f"gpuaas.io/host-{device.slug}"
    return found


def _name(given: Mapping[str, Any]) -> str:
    name = _dns(given, "name")
    if len(name) > 63:
        raise Invalid.field("name", "at most 63 characters")
    return name


def _dns(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not DNS_LABELS.fullmatch(value):
        raise Invalid.field(key, "a DNS name: lower-case letters, digits, hyphens and dots")
    return value


def _bmc(given: Mapping[str, Any]) -> str:
    """Without credentials: those are in the Secret."""
    value = given.get("bmc_address")
    if not isinstance(value, str) or len(value) > 300 or not BMC.fullmatch(value):
        raise Invalid.field(
            "bmc_address", "a BMC address in Metal3's form, like redfish-virtualmedia://10.0.0.7/…"
        )
    return value


def _flag(given: Mapping[str, Any]) -> bool:
    value = given.get("bmc_verify", True)
    if not isinstance(value, bool):
        raise Invalid.field("bmc_verify", "true or false")
    return value


def _mac(value: object, field: str) -> str:
    text = value.lower() if isinstance(value, str) else ""
    if not MAC.fullmatch(text):
        raise Invalid.field(field, "a MAC address, like 0c:42:a1:00:00:07")
    return text


def _interfaces(given: Mapping[str, Any], boot: str) -> list[dict[str, str]]:
    rows = given.get("interfaces") or [{"name": "eno1", "mac": boot}]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Invalid.field("interfaces", 'a list of {"name", "mac"}')
    found = [{"name": str(row.get("name") or ""), "mac": _mac(row.get("mac"), "interfaces")} for row in rows]
    macs, names = {row["mac"] for row in found}, {row["name"] for row in found}
    if len(macs) < len(found) or len(names) < len(found) or "" in names:
        raise Invalid.field("interfaces", "each needs a name and a MAC address of its own")
    if boot not in macs:
        raise Invalid.field("interfaces", "the port that the host boots from must be among them")
    return found


def _addresses(given: Mapping[str, Any]) -> list[str]:
    rows = given.get("addresses")
    try:
        return [str(ip_address(row)) for row in rows] if isinstance(rows, list) and rows else _no_addresses()
    except ValueError as error:
        raise Invalid.field("addresses", "a list of IP addresses that the host has in its cluster") from error


def _no_addresses() -> list[str]:
    raise Invalid.field("addresses", "at least one: the addresses that its serving certificate may name")


def _object(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise Invalid.field(key, "a JSON object")
    return value


def _hints(given: Mapping[str, Any]) -> dict[str, Any]:
    hints = _object(given, "root_device")
    unknown = sorted(set(hints) - HINTS)
    if unknown:
        raise Invalid.field("root_device", f"{unknown[0]} is not a root device hint of Metal3")
    return hints


def _number(given: Mapping[str, Any], key: str, most: int) -> int:
    value = given.get(key, 0)
    if type(value) is not int or not 0 <= value <= most:
        raise Invalid.field(key, f"a whole number from 0 to {most}")
    return value
