"""Each way out of a workspace is refused by the API server, with the tenant's own kubeconfig: `escapes/` is the table."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import urllib3
import yaml

from gpuaas.core.errors import GpuaasError, Permanent, Unauthorized, Unavailable
from gpuaas.providers.base import GpuAmount, Member
from gpuaas.providers.kubeapi.client import Api, Object
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes import escapes
from tests.providers.kubernetes.conftest import (
    ALICE,
    H100,
    UNSOLD,
    Room,
    forget,
    kubeconfig,
    make_room,
    make_spec,
)
from tests.providers.kubernetes.escapes import pods, shapes
from tests.providers.kubernetes.escapes.shapes import APPS, BATCH, Escape

pytestmark = pytest.mark.lab

BOB = Member(subject="u-bob", name="bob", role="edit")
H200 = GpuAmount("gpuaas.io/h200", 1, {"gpuaas.io/pool": "h200-dra"}, device_class="h200")
PORTS = [{"port": 80}]


@dataclass(frozen=True)
class Cell:
    """A workspace with one of everything in it, and what its members hold the keys of."""

    room: Room
    members: dict[str, Api]

    def path(self, escape: Escape) -> str:
        space = f"namespaces/{self.room.spec.external_name}"
        return escape.path.replace("|", f"/{space}/").replace("{ns}", self.room.spec.external_name)

    def attempt(self, member: Api, escape: Escape) -> None:
        path = self.path(escape)
        if escape.verb == "create":
            member.create(path, escape.body)
        elif escape.verb == "merge":
            member.merge(path, escape.body)
        else:
            member.delete(path)


@pytest.fixture(scope="module")
def cell(lab: LabSite) -> Iterator[Cell]:
    closed = tuple(name for name in UNSOLD if name != H200.resource_name)
    spec = make_spec(gpus=(H100, H200), closed=closed, members=(ALICE, BOB))
    room = make_room(lab, spec)
    bob = Api(kubeconfig(room.driver, spec, BOB))
    bob.create(room.path("pods"), {**shapes.a_pod(), "metadata": {"name": "mine"}})
    waiting = shapes.a_pod(schedulingGates=[{"name": "example.com/wait"}])
    bob.create(room.path("pods"), {**waiting, "metadata": {"name": "waiting"}})
    bob.create(room.path("configmaps"), {"metadata": {"name": "mine"}})
    bob.create(room.path("services"), {"metadata": {"name": "mine"}, "spec": {"ports": PORTS}})
    bob.create(
        room.path("resourceclaims", shapes.DRA), {"metadata": {"name": "mine"}, "spec": shapes.claim()}
    )
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    bob.create(room.path("persistentvolumeclaims"), {"metadata": {"name": "mine"}, "spec": storage})
    room.run_to("mine", "Running")
    runtime = {"metadata": {"name": "nvidia-cdi"}, "handler": "nvidia-cdi"}
    with contextlib.suppress(Unavailable):  # of a run before this one
        room.admin.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    yield Cell(room, {"admin": room.tenant, "edit": bob})
    forget(lab, spec)


@pytest.mark.parametrize("role", ["admin", "edit"])
@pytest.mark.parametrize("escape", escapes.ALL, ids=lambda escape: escape.what)
def test_refused(cell: Cell, escape: Escape, role: str) -> None:
    before = _contents(cell)
    with pytest.raises((Permanent, Unauthorized), match=escape.words) as refused:
        cell.attempt(cell.members[role], escape)
    assert refused.value.detail.get("status", 403) in (403, 422)
    assert _contents(cell) == before


def _contents(cell: Cell) -> set[tuple[str, str]]:
    kinds = ("pods", "configmaps", "secrets", "services", "resourcequotas", "persistentvolumeclaims")
    items = [(kind, item) for kind in kinds for item in cell.room.admin.items(cell.room.path(kind))]
    return {(kind, item["metadata"]["name"]) for kind, item in items}


@pytest.mark.parametrize(
    "change",
    [
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "gpuaas.io/pool", "operator": "Equal", "value": "cpu"}]},
    ],
)
def test_tolerations_added_later_are_refused(cell: Cell, change: Object) -> None:
    path = f"{cell.room.path('pods')}/mine"
    held = cell.members["edit"].get(path)["spec"]["tolerations"]
    with pytest.raises(Permanent, match=r"may be tolerated|existing toleration"):
        cell.members["edit"].merge(path, {"spec": {"tolerations": [*held, *change["tolerations"]]}})


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
def test_no_label_is_put_on_a_pod_by_a_part_of_it(cell: Cell, part: str) -> None:
    """Kubernetes takes none there, so the rule for labels need not look at these parts."""
    path = f"{cell.room.path('pods')}/waiting"
    before = cell.room.admin.get(path)["metadata"]
    for key in ("labels", "annotations"):
        with contextlib.suppress(Permanent):
            cell.members["edit"].merge(f"{path}/{part}", {"metadata": {key: {"gpuaas.io/a": "b"}}})
    after = cell.room.admin.get(path)["metadata"]
    assert (after.get("labels"), after.get("annotations")) == (
        before.get("labels"),
        before.get("annotations"),
    )


TEMPLATES = list(pods.pods_and_templates())


@pytest.mark.parametrize("kind", ["deployments", "statefulsets", "jobs", "cronjobs"])
@pytest.mark.parametrize(("what", "words", "body"), TEMPLATES, ids=[what for what, _, _ in TEMPLATES])
def test_refused_in_a_template(cell: Cell, kind: str, what: str, words: str, body: Object) -> None:
    made = in_template(kind, body)
    group = BATCH if kind in ("jobs", "cronjobs") else APPS
    with pytest.raises(Permanent, match=words):
        cell.members["edit"].create(cell.room.path(kind, group), made, dryRun="All")


def in_template(kind: str, body: Object) -> Object:
    """The pod as the template of something that makes pods."""
    labels = {"app": "escape"}
    metadata = {"labels": labels, "annotations": body["metadata"].get("annotations", {})}
    template: Object = {"metadata": metadata, "spec": dict(body["spec"])}
    spec: Object = {"template": template}
    if kind in ("jobs", "cronjobs"):
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": labels}
    if kind == "cronjobs":
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
    return {"metadata": {"name": "escape"}, "spec": spec}


@pytest.mark.parametrize("role", ["admin", "edit"])
@pytest.mark.parametrize(
    "whom",
    ["system:admin", "system:serviceaccount:kube-system:default", "system:serviceaccount:{ns}:u-alice"],
)
def test_nobody_else_can_be_impersonated(cell: Cell, role: str, whom: str) -> None:
    room = cell.room
    member = ALICE if role == "admin" else BOB
    entry = yaml.safe_load(kubeconfig(room.driver, room.spec, member))
    headers = {
        "Authorization": f"Bearer {entry['users'][0]['user']['token']}",
        "Impersonate-User": whom.replace("{ns}", room.spec.external_name),
    }
    pool = urllib3.PoolManager(ca_certs=room.admin.ca_file)
    answer = pool.request("GET", f"{room.admin.server}{room.path('pods')}", headers=headers)
    assert answer.status == 403
    assert "cannot impersonate" in json.loads(answer.data)["message"]


def test_every_right_that_a_member_has_is_meant(cell: Cell) -> None:
    """What the API server itself says about an edit member, in the namespace and beyond."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    for space in (cell.room.spec.external_name, "kube-system"):
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        status = cell.members["edit"].create(path, {**review, "spec": {"namespace": space}})["status"]
        written = {
            resource
            for rule in status["resourceRules"]
            if set(rule["verbs"]) - {"get", "list", "watch"}
            for resource in rule["resources"]
        }
        reviews = {resource for resource in written if resource.startswith("self")}
        assert written - reviews == (WRITABLE if space != "kube-system" else set())


WRITABLE = {
    *("pods", "services", "configmaps", "secrets", "persistentvolumeclaims", "serviceaccounts"),
    *(
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/eviction",
        "pods/ephemeralcontainers",
        "pods/resize",
    ),
    *("deployments", "replicasets", "statefulsets", "jobs", "cronjobs", "horizontalpodautoscalers"),
    *("deployments/scale", "replicasets/scale", "statefulsets/scale", "poddisruptionbudgets", "leases"),
    *("resourceclaims", "resourceclaimtemplates"),
    # for sites that serve them
    *("jobsets", "trainjobs"),
    # without routes/custom-host: their host names are the site's to give
    "routes",
}


def test_a_controller_cannot_be_used_to_get_round(cell: Cell) -> None:
    """What a template does not show yet (a config map that changes, a volume of a stateful set) is seen in what comes of it."""
    bob, room = cell.members["edit"], cell.room
    stateful = in_template("statefulsets", shapes.a_pod())
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stateful["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": {**storage, "volumeName": "pv-of-others"}}
    ]
    bob.create(room.path("statefulsets", APPS), stateful)
    until(lambda: _refusals(room, "escape", "take volumeName out"), "the claim is refused")
    assert not [
        each for each in room.admin.items(room.path("pods")) if each["metadata"]["name"] == "escape-0"
    ]
    bob.delete(f"{room.path('statefulsets', APPS)}/escape")


def _refusals(room: Room, name: str, words: str) -> bool:
    events = room.admin.items(room.path("events"), fieldSelector=f"involvedObject.name={name}")
    return any(words in event.get("message", "") for event in events)


def test_the_table_is_long_enough() -> None:
    names = [escape.what for escape in escapes.ALL]
    assert len(names) == len(set(names))
    assert len(names) >= 60


def test_words_are_never_those_of_a_crash(cell: Cell) -> None:
    """A rule that fails to be evaluated would refuse as well, but for the wrong reason."""
    for escape in escapes.ALL:
        with pytest.raises(GpuaasError) as refused:
            cell.attempt(cell.members["edit"], escape)
        assert "failed to" not in refused.value.message
        assert "no such key" not in refused.value.message
