"""The operator guide names every check and every reason; what the code does not know is not in it."""

import ast
import re
from pathlib import Path

from gpuaas.catalog.services.preflight import CHECKED, SELLABLE
from gpuaas.providers.kubernetes import dcgm, health, preflight
from gpuaas.providers.openstack import preflight as openstack_preflight
from gpuaas.providers.sandbox import fitness
from gpuaas.providers.verdicts import Kind

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.*)$", re.MULTILINE)
MODULES = (
    preflight.server,
    preflight.rights,
    preflight.canary,
    preflight.platform,
    dcgm,
)


def chapter(*, openstack: bool = False) -> dict[str, str]:
    """Rows by check: of Kubernetes sites and nodes, or of OpenStack sites."""
    text = (ROOT / "docs" / "operator-guide.md").read_text(encoding="utf-8")
    _, _, after = text.partition("## Is the site fit to be sold?")
    before, _, rest = after.partition("\n## ")[0].partition("\nOn OpenStack ")
    theirs, _, nodes = rest.partition("\n### Nodes")
    rows = ROW.findall(theirs if openstack else before + nodes)
    return {name.strip("`"): row for names, row in rows for name in names.split(", ")}


def site_kinds() -> dict[str, Kind]:
    return {kind.type: kind for kind in preflight.KINDS}


def node_types() -> set[str]:
    return {link.kind.type for link in health.CHAIN} | {dcgm.CARDS.type}


def test_every_check_has_a_row_and_every_row_a_check() -> None:
    assert set(chapter()) == site_kinds().keys() | node_types() | {CHECKED, SELLABLE}


def test_every_reason_has_its_word() -> None:
    rows = chapter()
    met = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in ("bad", "unknown") or not isinstance(node.func.value, ast.Name):
                continue
            kind = getattr(module, node.func.value.id)
            reason = ast.literal_eval(node.args[0])
            assert f"`{reason}`" in rows[kind.type], f"{kind.type}: {reason}"
            met.add(kind.type)
    assert met >= site_kinds().keys()


def test_what_forbids_to_sell_is_said() -> None:
    rows = chapter()
    for name, kind in site_kinds().items():
        assert rows[name].endswith("| yes |") == kind.blocking, name


def test_of_openstack_sites_it_names_every_check_and_what_forbids_to_sell() -> None:
    rows = chapter(openstack=True)
    assert {name: row.endswith("| yes |") for name, row in rows.items()} == {
        kind.type: kind.blocking for kind in openstack_preflight.KINDS
    }


def test_the_simulated_site_knows_no_others() -> None:
    known = {each.type: each.blocking for each in fitness.SITE_CHECKS}
    assert known.items() <= {kind.type: kind.blocking for kind in preflight.KINDS}.items()
    assert {each.type for each in fitness.NODE_CHECKS} == node_types() - {dcgm.CARDS.type}
