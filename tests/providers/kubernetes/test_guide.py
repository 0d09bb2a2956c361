"""The operator guide names every check and every reason; what the code does not know is not in it."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from gpuaas.catalog.services.preflight import CHECKED, SELLABLE
from gpuaas.providers import verdicts
from gpuaas.providers.kubernetes import dcgm, health, preflight
from gpuaas.providers.openstack import preflight as openstack_preflight
from gpuaas.providers.sandbox import fitness
from gpuaas.providers.verdicts import Kind

ROOT = Path(__file__).resolve().parents[3]
ENTRY = re.compile(r"^- \*\*(`\w+`(?:, `\w+`)*)\*\*( \(blocks sales\))?\. (.*(?:\n  .*)*)$", re.MULTILINE)
MODULES = (
    preflight.server,
    preflight.rights,
    preflight.canary,
    preflight.platform,
    preflight.queues,
    preflight.training,
    dcgm,
    verdicts,
)


@dataclass(frozen=True)
class Entry:
    blocks_sales: bool
    text: str


def chapter(*, openstack: bool = False) -> dict[str, Entry]:
    """Entries by check: of Kubernetes sites and nodes, or of OpenStack sites."""
    text = (ROOT / "docs" / "operators" / "site-checks.md").read_text(encoding="utf-8")
    before, _, rest = text.partition("\n## OpenStack sites")
    theirs, _, nodes = rest.partition("\n## Nodes")
    entries = ENTRY.findall(theirs if openstack else before + nodes)
    return {
        name.strip("`"): Entry(bool(blocks), text)
        for names, blocks, text in entries
        for name in names.split(", ")
    }


def site_kinds() -> dict[str, Kind]:
    return {kind.type: kind for kind in preflight.KINDS}


def node_types() -> set[str]:
    return {link.kind.type for link in health.CHAIN} | {dcgm.CARDS.type}


def test_every_check_has_an_entry_and_every_entry_a_check() -> None:
    assert set(chapter()) == site_kinds().keys() | node_types() | {CHECKED, SELLABLE}


def test_every_reason_has_its_word() -> None:
    entries = chapter()
    met = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr not in ("bad", "unknown") or not isinstance(node.func.value, ast.Name):
                continue
            kind = getattr(module, node.func.value.id)
            reason = ast.literal_eval(node.args[0])
            assert f"`{reason}`" in entries[kind.type].text, f"{kind.type}: {reason}"
            met.add(kind.type)
    assert met >= site_kinds().keys()


def test_what_forbids_to_sell_is_said() -> None:
    entries = chapter()
    for name, kind in site_kinds().items():
        assert entries[name].blocks_sales == kind.blocking, name


def test_of_openstack_sites_it_names_every_check_and_what_forbids_to_sell() -> None:
    entries = chapter(openstack=True)
    assert {name: entry.blocks_sales for name, entry in entries.items()} == {
        kind.type: kind.blocking for kind in openstack_preflight.KINDS
    }


def test_the_simulated_site_knows_no_others() -> None:
    known = {each.type: each.blocking for each in fitness.SITE_CHECKS}
    assert known.items() <= {kind.type: kind.blocking for kind in preflight.KINDS}.items()
    assert {each.type for each in fitness.NODE_CHECKS} == node_types() - {dcgm.CARDS.type}
