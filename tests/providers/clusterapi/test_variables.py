"""The form of an order from the variables of a ClusterClass: what fits is taken as it is, what does not is refused with its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from deploy.lab.cluster_api import Lab
from gpuaas.catalog.models import Site
from gpuaas.clusters.definition import definition_read
from gpuaas.clusters.services import template_parameters_import
from gpuaas.core.errors import Conflict, Invalid, NotFound, Permanent
from gpuaas.core.schema import Unfit, schema_compile
from gpuaas.providers.clusterapi.settings import settings_read
from gpuaas.providers.clusterapi.variables import schema_of
from tenants.actors import Actor
from tests.clusters.stage import offered as sandbox_offered
from tests.providers.clusterapi.stage import DOCUMENT, offered

SETTINGS = settings_read(
    {
        "class": "lab",
        "class_namespace": "classes",
        "worker_class": "worker",
        "flavor_variable": "flavor",
        "variables": {"image": "ubuntu"},
        "parameters": {"boot_seconds": "bootSeconds"},
        "addons": {"logs": {"variable": "logs"}},
    }
)


def variable(name: str, schema: dict[str, Any], *, required: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "definitions": [{"required": required, "schema": {"openAPIV3Schema": schema}}],
        **more,
    }


def imported(*variables: dict[str, Any]) -> dict[str, Any]:
    found = schema_of(list(variables), SETTINGS)
    schema_compile(found, path="parameters")
    return found


def test_variables_become_parameters_under_the_names_of_the_template() -> None:
    text = {"type": "string", "description": "A zone", "maxLength": 9, "example": "a"}
    number = {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
    found = imported(variable("zone", text, required=True), variable("bootSeconds", number, required=True))
    assert found["properties"] == {
        "zone": {"type": "string", "description": "A zone", "maxLength": 9},
        "boot_seconds": number,
    }
    assert found["required"] == ["zone"], "what has a default need not be given"


def test_what_the_template_fills_itself_is_not_asked() -> None:
    strange = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    given = [variable(name, strange) for name in ("flavor", "image", "logs")]
    assert imported(*given)["properties"] == {}


def test_objects_in_objects_are_taken() -> None:
    inner = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "maximum": 2}}}
    found = imported(variable("disk", {"type": "object", "properties": {"root": inner}}))
    assert found["required"] == ["disk"]
    assert found["properties"]["disk"]["required"] == ["root"]


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "integer", "minimum": 1}, "parameters.v:"),
        ({"type": "number"}, "parameters.v:"),
        ({"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}, "parameters.v:"),
        ({"type": "string", "format": "ipv4"}, "parameters.v:"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "parameters.v:"),
        ({"type": "array", "items": {"type": "object", "properties": {}}}, "parameters.v:"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, "parameters.v.a:"),
    ],
)
def test_what_a_form_cannot_hold_is_refused_with_its_place(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(Unfit) as caught:
        imported(variable("v", schema))
    assert str(caught.value).startswith(place)


def test_a_variable_that_is_defined_in_two_ways_is_refused() -> None:
    with pytest.raises(Permanent, match="conflicting definitions"):
        imported(variable("v", {"type": "boolean"}, definitionsConflict=True))


@pytest.mark.django_db
def test_the_real_class_fills_the_next_version_of_a_template(
    as_olga: Actor, as_alice: Actor, site: Site, cluster_api_lab: Lab, tmp_path: Path
) -> None:
    template = offered(as_olga, site, cluster_api_lab.kubeconfig.read_text())
    settings = DOCUMENT["settings"]
    with pytest.raises(NotFound):
        template_parameters_import(actor=as_alice, template=template, settings=settings)
    found = template_parameters_import(actor=as_olga, template=template, settings=settings)
    assert set(found["properties"]) == {"boot_seconds", "mirrors"}
    assert found["properties"]["boot_seconds"]["maximum"] == 86400

    path, printed = tmp_path / "k8s.json", tmp_path / "new.json"
    path.write_text(json.dumps(DOCUMENT))
    with printed.open("w") as file:
        call_command("cluster_class_import", "k8s", str(path), stdout=file)
    document = json.loads(printed.read_text())
    assert definition_read(document, kind="kubernetes").parameters["properties"].keys() == {
        "boot_seconds",
        "mirrors",
    }
    with pytest.raises(NotFound, match="no ClusterClass"):
        template_parameters_import(actor=as_olga, template=template, settings={**settings, "class": "none"})
    with pytest.raises(Invalid):
        template_parameters_import(actor=as_olga, template=template, settings={})


@pytest.mark.django_db
def test_sites_that_say_nothing_are_told_so(as_olga: Actor, site: Site) -> None:
    template = sandbox_offered(as_olga, site)
    with pytest.raises(Conflict, match="sandbox"):
        template_parameters_import(actor=as_olga, template=template, settings={})
