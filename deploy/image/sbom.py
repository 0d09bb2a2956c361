"""The image's bill of materials in CycloneDX 1.6: each package of Debian and of Python, with its license and its hash."""

import email
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deploy.image.debian import Package

SPDX = re.compile(r"^License: *(\S.*)$", re.MULTILINE)  # of Debian's machine-readable copyright files
COMMON = re.compile(r"/usr/share/common-licenses/([\w.+-]*\w)")  # what the others point to
CLASSIFIER = "License :: "


def document(*, version: str, time: int, debian: Iterable[Package], python: Path) -> str:
    """python: the folders of the installed distributions lie there, one `*.dist-info` each."""
    components = [*(_debian(one) for one in debian), *_distributions(python)]
    root = {"type": "container", "bom-ref": f"gpuaas:{version}", "name": "gpuaas", "version": version}
    return json.dumps(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z"),
                "component": {**root, "licenses": [{"license": {"id": "Apache-2.0"}}]},
            },
            "components": sorted(components, key=lambda one: str(one["bom-ref"])),
        },
        indent=1,
    )


def _debian(one: Package) -> dict[str, Any]:
    architecture = re.search(r"^Architecture: (.*)$", one.control, re.MULTILINE)
    assert architecture
    link = f"pkg:deb/debian/{quote(one.name)}@{quote(one.version)}?arch={architecture[1]}&distro=debian-12"
    licenses = SPDX.findall(one.copyright) or COMMON.findall(one.copyright)
    return {
        **_component(one.name, one.version, link, licenses),
        "hashes": [{"alg": "SHA-256", "content": one.sha256}],
    }


def _distributions(folder: Path) -> Iterable[dict[str, Any]]:
    for path in sorted(folder.glob("*.dist-info/METADATA")):
        told = email.message_from_bytes(path.read_bytes())
        name, version = str(told["Name"]), str(told["Version"])
        link = f"pkg:pypi/{quote(re.sub('[-_.]+', '-', name).lower())}@{quote(version)}"
        yield _component(name, version, link, _licenses(told))


def _licenses(told: Any) -> list[str]:
    """The expression, else the classifiers, else the first line of a field in which some put the whole text."""
    if told["License-Expression"]:
        return [str(told["License-Expression"])]
    classified = [str(one) for one in told.get_all("Classifier", []) if str(one).startswith(CLASSIFIER)]
    if classified:
        return [one.rpartition(" :: ")[2] for one in classified]
    return str(told["License"] or "").strip().splitlines()[:1]


def _component(name: str, version: str, link: str, licenses: Iterable[str]) -> dict[str, Any]:
    named = [{"license": {"name": one}} for one in sorted({one.strip() for one in licenses})]
    return {
        "type": "library",
        "bom-ref": link,
        "name": name,
        "version": version,
        "purl": link,
        "licenses": named or [{"license": {"name": "see the package"}}],
    }
