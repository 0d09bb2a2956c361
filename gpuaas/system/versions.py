"""What the portal is made of: the versions of what it runs on, and the licenses of what is installed with it."""

import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distributions
from typing import Any

import django
from django.db import connection

from gpuaas import __version__
from gpuaas.system.health import broker_connection

UNKNOWN = "not stated"
LICENSE_LONGEST = 60  # a longer one is the text of the license, not its name


@dataclass(frozen=True)
class Version:
    """`version` is empty where the other side did not tell."""

    name: str
    version: str


@dataclass(frozen=True)
class Installed:
    name: str
    version: str
    license: str


def versions() -> list[Version]:
    return [
        Version("gpuaas", __version__),
        Version("Python", platform.python_version()),
        Version("Django", django.get_version()),
        Version("PostgreSQL", ".".join(map(str, connection.get_database_version()))),
        broker_version(),
    ]


def broker_version() -> Version:
    """Only Redis is asked; of another broker its kind is said."""
    try:
        with broker_connection() as broker:
            if broker.transport.driver_type != "redis":
                return Version(f"Broker ({broker.transport.driver_type})", "")
            channel: Any = broker.default_channel
            return Version("Redis", str(channel.client.info("server")["redis_version"]))
    except Exception:  # noqa: BLE001  each transport raises errors of its own; that it is away is said as a sick part
        return Version("Broker", "")


@cache
def installed() -> list[Installed]:
    """Every distribution of this process's Python, by name, with the license that it declares."""
    found = {
        each.metadata["Name"]: Installed(each.metadata["Name"], each.version, license_of(each))
        for each in distributions()
    }
    return [found[name] for name in sorted(found, key=str.lower)]


def license_of(distribution: Distribution) -> str:
    """Its SPDX expression, else the short form, else what its classifiers say."""
    metadata = distribution.metadata
    named = [*metadata.get_all("License-Expression", []), *metadata.get_all("License", [])]
    classified = [row for row in metadata.get_all("Classifier", []) if row.startswith("License ::")]
    said = [
        row for row in named if row and "\n" not in row and len(row) <= LICENSE_LONGEST and row != "UNKNOWN"
    ]
    return (said or [", ".join(row.rpartition(" :: ")[2] for row in classified)])[0] or UNKNOWN
