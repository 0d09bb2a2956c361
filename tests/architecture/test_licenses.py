"""What the portal is made of may be given away with it under Apache-2.0 (decision 0058): every locked distribution and every
script that reaches a browser has a license of the list, or is named with a reason."""

import json
import re
from importlib.metadata import distribution

from packaging.requirements import Requirement

from deploy.embedded.environment import ROOT
from gpuaas.system.versions import license_of

# permissive, or copyleft of the library's own files alone
ALLOWED = re.compile(
    r"MIT(-0|-CMU)?( License)?|(New |3-Clause )?BSD( License|[ -][23]-Clause( License)?)?|0BSD|ISC( License)?|Public Domain"
    r"|Apache([ -]2(\.0)?)?|OSI Approved|Apache Software License|PSF-2\.0|CNRI-Python|OFL-1\.1"
    r"|MPL[- ]2\.0|Mozilla Public License 2\.0|LGPL-3\.0-only"
)
EACH = re.compile(r"\s+(?:AND|OR)\s+|,\s+|[()]")
REASONS = {
    "asyncssh": "of its two we take the EPL 2.0, which asks for its own files alone, unchanged as they are (decision 0119)",
    "pyphen": "its authors offer three, of which we take the LGPL",
    "python-dateutil": "Apache-2.0 or BSD-3-Clause, by its file LICENSE",
}
LOCKED = re.compile(r"^[A-Za-z0-9._-]+==[^\\\n]+", re.MULTILINE)


def is_allowed(license_: str) -> bool:
    parts = [part for part in EACH.split(license_) if part.strip()]
    return bool(
        ALLOWED.fullmatch(license_) or (parts and all(ALLOWED.fullmatch(part.strip()) for part in parts))
    )


def test_locked_distributions() -> None:
    """Those of the extras are in the image, too."""
    text = "".join(
        (ROOT / f"requirements/{name}.txt").read_text("utf-8") for name in ("base", "traces", "door")
    )
    lines = map(Requirement, LOCKED.findall(text))
    locked = {row.name for row in lines if row.marker is None or row.marker.evaluate()}
    assert len(locked) > 50
    found = {name: license_of(distribution(name)) for name in locked}
    assert {name for name, license_ in found.items() if not is_allowed(license_)} == set(REASONS)


def test_what_browsers_are_sent() -> None:
    packages = json.loads((ROOT / "frontend/package-lock.json").read_text("utf-8"))["packages"]
    found = {name: row.get("license", "") for name, row in packages.items() if name and not row.get("dev")}
    assert found
    assert {name for name, license_ in found.items() if not is_allowed(license_)} == set()


def test_copyleft_of_the_whole_is_not_on_the_list() -> None:
    for license_ in (
        "GPL-3.0-or-later",
        "AGPL-3.0-only",
        "SSPL-1.0",
        "not stated",
        "MIT AND GPL-2.0-only",
        "",
    ):
        assert not is_allowed(license_)
    for license_ in ("MPL-2.0 AND (Apache-2.0 OR MIT)", "Apache-2.0 AND CNRI-Python", "MIT OR Apache-2.0"):
        assert is_allowed(license_)
