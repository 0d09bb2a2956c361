"""What may be set: the real helm takes it or says why not."""

import json
from typing import Any

import pytest
import yaml

import gpuaas
from tests.deploy.helm.chart import CASES, CHART, DEFAULT, TRIAL, WORKER, Helm, Refused, Values


@pytest.mark.parametrize("case", CASES)
def test_lint_finds_nothing(helm: Helm, case: str) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART), values=CASES[case])


def test_the_chart_has_the_version_of_the_portal() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == gpuaas.__version__


def of_default(**changes: Any) -> Values:
    return {**DEFAULT, **changes}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "/hosts"),
        (of_default(host=["gpu.example.org"]), "'host' not allowed"),
        (of_default(hosts=["https://gpu.example.org"]), "/hosts/0"),
        (of_default(hosts=["*.example.org"]), "/hosts/0"),
        (of_default(hosts="gpu.example.org"), "/hosts"),
        (of_default(publicUrl="http://gpu.example.org"), "/publicUrl"),
        (of_default(trustedProxies=["*"]), "/trustedProxies/0"),
        (of_default(trustedProxies="10.0.0.1"), "/trustedProxies"),
        (of_default(settings={"GPUAAS_CURENCY": "EUR"}), "'GPUAAS_CURENCY' not allowed"),
        (of_default(settings={"GPUAAS_SECRET_KEY": "in clear"}), "'GPUAAS_SECRET_KEY' not allowed"),
        (of_default(settings={"GPUAAS_DEBUG": True}), "'GPUAAS_DEBUG' not allowed"),
        (of_default(settings={"GPUAAS_LEASE_GRACE_DAYS": "seven"}), "/settings/GPUAAS_LEASE_GRACE_DAYS"),
        (of_default(settings={"GPUAAS_LEASE_GRACE_DAYS": -1}), "/settings/GPUAAS_LEASE_GRACE_DAYS"),
        (of_default(web={"replicas": "2"}), "/web/replicas"),
        (of_default(web={"replica": 2}), "'replica' not allowed"),
        (of_default(web={"resources": {"limits": {"memory": "1 GB"}}}), "/web/resources/limits/memory"),
        (of_default(scheduler={"replicas": 2}), "'replicas' not allowed"),
        (of_default(workers={"general": None, "slow": None}), "at '/workers'"),
        (of_default(workers={"Billing": WORKER}), "'Billing' does not match"),
        (of_default(workers={"more": {"replicas": 1}}), "/workers/more"),
        (of_default(workers={"general": {"queues": "celery"}}), "/workers/general/queues"),
        (of_default(workers={"general": {"queues": ["more"]}}), "/workers/general/queues/0"),
        (of_default(workers={"slow": None}), "no entry of workers takes the queue slow"),
        (of_default(image={"digest": "latest"}), "/image/digest"),
        (of_default(service={"type": "ExternalName"}), "/service/type"),
        (of_default(oidc={"issuer": "id.example.org"}), "/oidc/issuer"),
        (of_default(postgresql={"enabled": "yes"}), "/postgresql/enabled"),
    ],
)
def test_typos_and_wrong_types_are_refused_by_name(helm: Helm, values: Values, words: str) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(values)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hosts": ["a"]}, "Name a Secret with the portal's keys in secrets.existingSecret"),
        (of_default(secrets={"existingSecret": "a", "create": True}), "one of the two"),
        ({**TRIAL, "postgresql": {"enabled": False}}, "the URL of the database in database.existingSecret"),
        ({**TRIAL, "redis": {"enabled": False}}, "the URL of the broker in broker.existingSecret"),
        (of_default(oidc={"issuer": "https://id.example.org"}), "the client's secret in oidc.existingSecret"),
        (of_default(metrics={"rules": True}), "need metrics.enabled"),
    ],
)
def test_what_is_missing_is_said_in_a_sentence(helm: Helm, values: Values, words: str) -> None:
    with pytest.raises(Refused) as refused:
        helm.render(values)
    assert words in str(refused.value)


def test_no_object_of_the_schema_takes_what_it_does_not_know() -> None:
    """But those that Kubernetes itself checks."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    open_ = {
        path
        for path, found in walk(schema, "")
        if found.get("type") == "object" and "additionalProperties" not in found
    }
    assert open_ == {"/$defs/objects/items", "/properties/affinity", "/properties/global"}


def walk(found: Any, path: str) -> Any:
    if isinstance(found, dict):
        yield path, found
        for name, below in found.items():
            yield from walk(below, f"{path}/{name}")


def test_every_default_is_known_to_the_schema_and_the_other_way_round() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert set(schema["properties"]) - {"global"} == set(values)


def test_the_readme_names_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    readme = (CHART / "README.md").read_text("utf-8")
    assert [name for name in values if f"`{name}" not in readme] == []
