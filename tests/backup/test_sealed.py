"""Every column that holds sealed values is known to the rotation, and so to the backup, which tells the keys they need."""

import re

from gpuaas.core.rotation import columns
from tests.architecture.test_house import ROOT, sources

# who seals, and for which column
SEALS = {
    "gpuaas/catalog/services/sites.py": {"credentials"},
    "gpuaas/clusters/spec.py": {"seed"},
    "gpuaas/environments/door/hostkey.py": {"secret"},
    "gpuaas/jobs/services/credentials.py": {"secret"},
    "gpuaas/workspaces/machines/services.py": {"cloud_init"},
    "tenants/adapter.py": {"data:secret", "data:seed"},
}
AGAIN = "gpuaas/core/rotation.py"


def test_who_seals_is_known() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in sources()
        if path.suffix == ".py" and re.search(r"(?<!def )\bencrypt_json\(", path.read_text(encoding="utf-8"))
    }
    assert {name for name in found if not name.startswith("tests/")} == {*SEALS, AGAIN}
    assert {name.split(".", 2)[2] for name in columns()} == set().union(*SEALS.values())
