"""A namespace that does not go away says why, in words that name the thing and what to do: on a control plane of its own."""

from datetime import timedelta

import pytest

from deploy.lab.kubernetes import Lab
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.base import Change
from gpuaas.providers.kubeapi import ending
from gpuaas.providers.kubeapi.client import Api, Object
from tests.contracts.rigs import release_step
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import Room, make_room, make_spec

pytestmark = pytest.mark.lab
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture(scope="module")
def site(own_lab: Lab) -> LabSite:
    return LabSite(own_lab.kubeconfig)


@pytest.fixture
def going(site: LabSite, monkeypatch: pytest.MonkeyPatch) -> Room:
    """A workspace whose release is about to begin, and for which time counts as over at once."""
    monkeypatch.setattr(ending, "STUCK_AFTER", timedelta(hours=-1))
    return make_room(site, make_spec())


def delete(room: Room) -> None:
    for step in ("access", "pods", "namespace"):
        release_step(room.driver, room.spec, step)


def told(room: Room, *words: str) -> str:
    """What the timeline says as soon as all of the words are in it."""

    def look() -> str | None:
        outcome = room.driver.perform(Change.DELETE, room.spec, "gone")
        assert not outcome.done
        return outcome.detail if all(word in outcome.detail for word in words) else None

    return until(look, f"the timeline says {', '.join(words)}", seconds=90)


def gone(room: Room) -> None:
    release_step(room.driver, room.spec, "gone")


def test_a_finalizer_of_somebody_elses_part_is_named_with_its_object(going: Room) -> None:
    """Of a kind that no member can write."""
    held: Object = {"metadata": {"name": "held", "finalizers": ["volumes.kubernetes.io/keep"]}}
    held["template"] = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    going.admin.create(going.path("podtemplates"), held)
    delete(going)
    words = told(going, "podtemplates/held", "volumes.kubernetes.io/keep", "since 20")
    assert "an operator" in words
    going.admin.merge(f"{going.path('podtemplates')}/held", {"metadata": {"finalizers": None}})
    gone(going)


def test_an_object_of_a_foreign_kind_is_named_too(going: Room) -> None:
    crd(going.admin)
    group = "/apis/example.com/v1"
    path = going.path("widgets", group)
    body: Object = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "odd"}}
    body["metadata"]["finalizers"] = ["example.com/never"]
    until(lambda: created(going.admin, path, body), "a widget")
    delete(going)
    told(going, "widgets/odd", "example.com/never")
    going.admin.merge(f"{path}/odd", {"metadata": {"finalizers": None}})
    gone(going)


def test_a_webhook_that_does_not_answer_is_named(going: Room) -> None:
    going.admin.create(going.path("configmaps"), {"metadata": {"name": "plain"}})
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["configmaps"]}
    only = {"matchLabels": {"kubernetes.io/metadata.name": going.spec.external_name}}
    hook = {
        "name": "keeper.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [rule],
        "namespaceSelector": only,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "failurePolicy": "Fail",
    }
    body = {"kind": "ValidatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1"}
    going.admin.create(WEBHOOKS, {**body, "metadata": {"name": "keeper"}, "webhooks": [hook]})
    delete(going)
    words = told(going, "webhook keeper.example.com", "an operator")
    assert "delete its configuration" in words
    going.admin.delete(f"{WEBHOOKS}/keeper")
    gone(going)


def test_an_api_that_does_not_answer_is_named(going: Room) -> None:
    name = "v1.metering.example.com"
    spec = {
        "group": "metering.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "metering", "name": "away"},
    }
    body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}}
    going.admin.create(APISERVICES, {**body, "spec": spec})
    until(lambda: is_down(going.admin, name), "the API is known to be down")
    delete(going)
    words = told(going, name, "metering/away")
    assert "delete its APIService" in words
    going.admin.delete(f"{APISERVICES}/{name}")
    gone(going)


def is_down(api: Api, name: str) -> bool:
    conditions = (api.get(f"{APISERVICES}/{name}").get("status") or {}).get("conditions") or []
    return any(each["type"] == "Available" and each["status"] == "False" for each in conditions)


def created(api: Api, path: str, body: Object) -> bool:
    """Once the kind is served."""
    try:
        api.create(path, body)
    except GpuaasError:
        return False
    return True


def crd(api: Api) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    api.create(CRDS, {**kind, "metadata": {"name": "widgets.example.com"}, "spec": spec})
