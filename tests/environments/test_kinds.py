"""The catalog: kinds are created, get versions and are retired by operators, and what they say is checked."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import ProgrammingError

from gpuaas.core.errors import Conflict, GpuaasError, Invalid, NotFound
from gpuaas.environments.definition import definition_read
from gpuaas.environments.models import EnvironmentKind
from gpuaas.environments.selectors import kinds_all, kinds_offered
from gpuaas.environments.services import kind_create, kind_retire, kind_version_add
from gpuaas.environments.shipped import SHIPPED, kinds_ship
from tenants.actors import SYSTEM, Actor
from tenants.models import AuditEntry
from tests.environments.stage import DOCUMENT


def test_olga_adds_a_kind_and_a_version_and_retires_it(as_olga: Actor) -> None:
    row = kind_create(actor=as_olga, slug="notebook", name="Notebook", document=DOCUMENT)
    kind_version_add(actor=as_olga, kind=row, document={**DOCUMENT, "image": "notebook:2"}, note="newer")
    assert [each.number for each in row.versions.all()] == [2, 1]
    assert [each.newest for each in kinds_offered()] == [2]  # type: ignore[attr-defined]
    assert kind_retire(actor=as_olga, kind=row).version == 2
    assert kind_retire(actor=as_olga, kind=row).version == 2
    assert not kinds_offered()
    assert kinds_all(actor=as_olga).count() == 1
    kind_retire(actor=as_olga, kind=row, retired=False)
    assert kinds_offered().count() == 1
    actions = AuditEntry.objects.filter(action__startswith="environment_kind").values_list(
        "action", flat=True
    )
    assert sorted(actions) == [
        "environment_kind.create",
        "environment_kind.update",
        "environment_kind.update",
        "environment_kind.version",
        "environment_kind.version",
    ]


def test_alice_may_not(as_alice: Actor) -> None:
    with pytest.raises(NotFound):
        kind_create(actor=as_alice, slug="mine", name="Mine", document=DOCUMENT)
    with pytest.raises(NotFound):
        kinds_all(actor=as_alice)


def test_a_slug_is_there_once(as_olga: Actor) -> None:
    kind_create(actor=as_olga, slug="notebook", name="Notebook", document=DOCUMENT)
    with pytest.raises(Conflict, match="already exists"):
        kind_create(actor=as_olga, slug="notebook", name="Another", document=DOCUMENT)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"slug": "Not a slug"}, "slug"),
        ({"slug": None}, "slug"),
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"description": "two\nlines"}, "description"),
        ({"document": None}, "document"),
        ({"document": []}, "document"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(as_olga: Actor, wrong: dict[str, Any], field: str) -> None:
    given = {"slug": "notebook", "name": "Notebook", "document": DOCUMENT, **wrong}
    with pytest.raises(Invalid) as refused:
        kind_create(actor=as_olga, **given)
    assert field in refused.value.fields
    assert not EnvironmentKind.objects.exists()


def test_a_version_is_never_changed(as_olga: Actor) -> None:
    row = kind_create(actor=as_olga, slug="notebook", name="Notebook", document=DOCUMENT)
    with pytest.raises(ProgrammingError, match="never changed"), transaction.atomic():
        row.versions.update(number=7)
    assert connection.is_usable()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"image": "not an image"}, "image"),
        ({"image": ""}, "image"),
        ({"image": "a; rm -rf /"}, "image"),
        ({"port": 80}, "port"),
        ({"port": "8888"}, "port"),
        ({"home": "relative"}, "home"),
        ({"home": "/"}, "home"),
        ({"readiness": "api"}, "readiness"),
        ({"readiness": "/a b"}, "readiness"),
        ({"user": 0}, "user"),
        ({"variables": ["lower=x"]}, "variables"),
        ({"variables": ["NO_VALUE"]}, "variables"),
        ({"variables": {"A": "x"}}, "variables"),
        ({"arguments": "one"}, "arguments"),
        ({"gpus": 65}, "gpus"),
        ({"metrics": "nothing"}, "metrics"),
        ({"metrics": "vllm", "metrics_path": "http://10.0.0.1/"}, "metrics_path"),
        ({"memory_gib": 0}, "memory_gib"),
        ({"privileged": True}, "privileged"),
        ({"parameters": {"type": "string"}}, "must be an object"),
        ({"parameters": {"type": "object", "properties": {"Bad": {"type": "string"}}}}, "lower-case"),
        ({"parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}, "parameters.a"),
        (
            {
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "array", "items": {"type": "string"}}},
                }
            },
            "one text, number",
        ),
        (
            {
                "variables": ["FOLDER=x"],
                "parameters": {"type": "object", "properties": {"folder": {"type": "string"}}},
            },
            "FOLDER is set already",
        ),
    ],
)
def test_documents_that_cannot_be(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(GpuaasError) as refused:
        definition_read({**DOCUMENT, **wrong})
    assert isinstance(refused.value, Invalid)
    assert list(refused.value.fields) == ["document"]
    assert words in refused.value.message


def test_parameters_become_variables() -> None:
    asked = {
        "type": "object",
        "properties": {
            "folder": {"type": "string"},
            "deep": {"type": "boolean"},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
        },
    }
    found = definition_read({**DOCUMENT, "variables": ["HOME=/a=b"], "parameters": asked})
    given = found.environment_of({"folder": "x", "deep": True, "count": 2})
    assert given == {"HOME": "/a=b", "FOLDER": "x", "DEEP": "true", "COUNT": "2"}


def test_what_is_shipped_is_valid_and_added_once(db: None) -> None:
    assert {slug: definition_read(document).port for slug, (_, _, document) in SHIPPED.items()} == {
        "jupyterlab": 8888,
        "code-server": 8080,
        "tensorboard": 6006,
        "shell": None,
        "spark": 8888,
        "vllm": 8000,
    }
    assert (kinds_ship(actor=SYSTEM), kinds_ship(actor=SYSTEM)) == ((6, 0), (0, 0))
    assert kinds_offered().count() == 6
    assert {slug for slug, (_, _, document) in SHIPPED.items() if "idle_hours" in document} == {"vllm"}


def test_an_update_adds_versions_where_nobody_else_has(
    as_olga: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds_ship(actor=SYSTEM)
    own = EnvironmentKind.objects.get(slug="shell")
    kind_version_add(actor=as_olga, kind=own, document={**DOCUMENT, "image": "ours:1"})
    for slug in ("shell", "vllm"):
        name, words, document = SHIPPED[slug]
        monkeypatch.setitem(SHIPPED, slug, (name, words, {**document, "image": "newer:1"}))
    assert (kinds_ship(actor=SYSTEM), kinds_ship(actor=SYSTEM)) == ((0, 1), (0, 0))
    assert own.versions.latest("number").document["image"] == "ours:1"
    added = EnvironmentKind.objects.get(slug="vllm").versions.latest("number")
    assert (added.number, added.document["image"]) == (2, "newer:1")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"readiness": "/api"}, "readiness"),
        ({"activity": "jupyter"}, "activity"),
        ({"metrics": "vllm"}, "metrics"),
        ({"metrics_path": "/metrics"}, "metrics_path"),
        (
            {"access": ["workspace", "public"]},
            "access: without a port only these are possible: workspace, private",
        ),
        ({"access": ["organization"]}, "access"),
    ],
)
def test_without_a_port_nothing_answers(more: dict[str, Any], words: str) -> None:
    shell = {"image": "shell:1", "home": "/home/user"}
    found = definition_read({**shell, "access": ["private"]})
    assert (found.port, found.access) == (None, ("private",))
    with pytest.raises(Invalid) as refused:
        definition_read({**shell, **more})
    assert words in refused.value.message
