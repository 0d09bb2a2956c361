"""The bill of materials: what each package says of its license, in whatever way it says it."""

import json
from pathlib import Path
from typing import Any

from deploy.image import sbom
from deploy.image.debian import Package

CONTROL = "Package: libone\nVersion: 1:2.0+x-1\nArchitecture: amd64\n"


def components(tmp_path: Path, *debian: Package, **distributions: str) -> dict[str, dict[str, Any]]:
    for name, metadata in distributions.items():
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{metadata}\n")
    text = sbom.document(version="3", time=1_700_000_000, debian=debian, python=tmp_path)
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    return {one["name"]: one for one in bill["components"]}


def licenses(component: dict[str, Any]) -> list[str]:
    return [one["license"]["name"] for one in component["licenses"]]


def test_a_package_of_debian_has_its_address_hash_and_licenses(tmp_path: Path) -> None:
    text = "Files: *\nLicense: LGPL-2.1+\n\nFiles: x\nLicense: Expat\n\nLicense: Expat\n long text\n"
    found = components(tmp_path, Package("libone", "1:2.0+x-1", "ab" * 32, CONTROL, text))["libone"]
    assert found["purl"] == "pkg:deb/debian/libone@1%3A2.0%2Bx-1?arch=amd64&distro=debian-12"
    assert found["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert licenses(found) == ["Expat", "LGPL-2.1+"]


def test_an_older_copyright_file_points_to_the_common_licenses(tmp_path: Path) -> None:
    text = "see `/usr/share/common-licenses/GPL-2'.\n"
    assert licenses(components(tmp_path, Package("libone", "1", "", CONTROL, text))["libone"]) == ["GPL-2"]


def test_a_distribution_of_python_says_it_in_one_of_three_ways(tmp_path: Path) -> None:
    found = components(
        tmp_path,
        expression="License-Expression: MIT OR Apache-2.0\nLicense: MIT",
        classified="Classifier: License :: OSI Approved :: BSD License\nLicense: see LICENSE",
        Text_Field="License: ISC\n  Copyright and so on",
        silent="",
    )
    assert licenses(found["expression"]) == ["MIT OR Apache-2.0"]
    assert licenses(found["classified"]) == ["BSD License"]
    assert (licenses(found["Text_Field"]), found["Text_Field"]["purl"]) == (["ISC"], "pkg:pypi/text-field@1")
    assert licenses(found["silent"]) == ["see the package"]
