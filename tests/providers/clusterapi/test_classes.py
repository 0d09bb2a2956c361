"""The classes that come with the portal fit its driver: whole in themselves, and an order form holds their variables."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuaas.core.schema import schema_compile
from gpuaas.providers.clusterapi.settings import settings_read
from gpuaas.providers.clusterapi.variables import schema_of

FILES = sorted((Path(__file__).resolve().parents[3] / "deploy" / "cluster-classes").glob("*.yaml"))


def read(path: Path) -> tuple[dict[str, Any], set[tuple[str, str, str]]]:
    """The class, and its templates by (version, kind, name)."""
    *templates, found = yaml.safe_load_all(path.read_text())
    assert found["kind"] == "ClusterClass"
    return found, {(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in templates}


def refs(part: Any) -> list[tuple[str, str, str]]:
    if isinstance(part, list):
        return [ref for one in part for ref in refs(one)]
    if not isinstance(part, dict):
        return []
    own = part.get("templateRef")
    found = [(own["apiVersion"], own["kind"], own["name"])] if own else []
    return found + [ref for one in part.values() for ref in refs(one)]


def variables_used(part: Any) -> list[str]:
    """Taken as they are, or by name inside of a template's braces."""
    if isinstance(part, list):
        return [name for one in part for name in variables_used(one)]
    if isinstance(part, dict):
        taken = [part["variable"]] if "variable" in part else []
        return taken + [name for one in part.values() for name in variables_used(one)]
    braces = re.findall(r"\{\{(.*?)\}\}", part, re.DOTALL) if isinstance(part, str) else []
    return [name for inside in braces for name in re.findall(r"(?<![\w.])\.(\w+)", inside)]


def test_there_is_one_for_each_cloud() -> None:
    assert [path.stem for path in FILES] == ["aws", "azure", "openstack"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_class_is_whole(path: Path) -> None:
    found, templates = read(path)
    spec = found["spec"]
    assert set(refs(spec)) == templates
    known = {one["name"] for one in spec["variables"]}
    assert {"flavor", "controlPlaneFlavor"} <= known
    assert set(variables_used(spec["patches"])) - {"builtin"} == known, (
        "each variable is patched in, and nothing else"
    )
    kinds = {(version, kind) for version, kind, _ in templates}
    for patch in spec["patches"]:
        for one in patch["definitions"]:
            assert (one["selector"]["apiVersion"], one["selector"]["kind"]) in kinds


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_order_form_holds_its_variables(path: Path) -> None:
    found, _ = read(path)
    settings = settings_read(
        {
            "class": found["metadata"]["name"],
            "class_namespace": found["metadata"]["namespace"],
            "worker_class": found["spec"]["workers"]["machineDeployments"][0]["class"],
            "flavor_variable": "flavor",
        }
    )
    told = [
        {"name": one["name"], "definitions": [{"required": one["required"], "schema": one["schema"]}]}
        for one in found["spec"]["variables"]
    ]
    schema_compile(schema_of(told, settings), path="parameters")
