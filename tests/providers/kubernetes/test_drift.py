"""What the site's own administrator changes or deletes behind the portal's back is told, by name, and set right."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, Difference
from gpuaas.providers.kubeapi import managed_objects, names
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.contracts.rigs import ensure_step
from tests.lab.fixtures import LabSite, until
from tests.providers.kubernetes.conftest import ALICE, Room

pytestmark = pytest.mark.lab

EDITOR = "kubectl-edit"
QUOTA = f"resourcequotas/{names.QUOTA}"
GPUS = "requests.nvidia.com/gpu"
ALICES = f"rolebindings/{ALICE.subject}-admin"
OPEN = "networkpolicies/gpuaas-default-deny"


def path_of(room: Room, which: str) -> str:
    group = {"networkpolicies": managed_objects.NETWORK, "rolebindings": managed_objects.RBAC}.get(
        which.split("/")[0], "/api/v1"
    )
    space = f"/namespaces/{room.spec.external_name}"
    return f"/api/v1{space}" if which == "namespace" else f"{group}{space}/{which}"


def edit(room: Room, which: str, change: Object) -> None:
    room.admin.merge(path_of(room, which), change, fieldManager=EDITOR)


def repair(room: Room) -> None:
    for step in room.driver.steps(Change.CREATE):
        ensure_step(room.driver, room.spec, step.key)


# which object, what an administrator does to it, and the path at which the difference is told
EDITS = [
    (QUOTA, {"spec": {"hard": {GPUS: "8"}}}, f"spec.hard[{GPUS}]", "quota"),
    (QUOTA, {"spec": {"hard": {GPUS: None}}}, f"spec.hard[{GPUS}]", "quota"),
    (QUOTA, {"spec": {"hard": {"count/pods": "7"}}}, "spec.hard[count/pods]", "quota"),
    (
        QUOTA,
        {"metadata": {"labels": {names.MANAGED_BY: "me"}}},
        f"metadata.labels[{names.MANAGED_BY}]",
        "quota",
    ),
    (f"limitranges/{names.LIMITS}", {"spec": {"limits": []}}, "spec.limits", "limits"),
    (OPEN, {"spec": {"ingress": [{}]}}, "spec.ingress", "network"),
    (OPEN, {"spec": {"policyTypes": ["Ingress"]}}, "spec.policyTypes", "network"),
    (ALICES, {"subjects": [{"kind": "User", "name": "eve"}]}, "subjects", "access"),
    (
        f"serviceaccounts/{ALICE.subject}",
        {"automountServiceAccountToken": True},
        "automountServiceAccountToken",
        "access",
    ),
    (
        "namespace",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
        "metadata.labels[pod-security.kubernetes.io/enforce]",
        "namespace",
    ),
    (
        "namespace",
        {"metadata": {"annotations": {names.PINS: None}}},
        f"metadata.annotations[{names.PINS}]",
        "namespace",
    ),
    (
        "namespace",
        {"metadata": {"labels": {names.WORKSPACE: None}}},
        f"metadata.labels[{names.WORKSPACE}]",
        "namespace",
    ),
]


@pytest.mark.parametrize(("which", "change", "path", "step"), EDITS, ids=[f"{e[0]} {e[2]}" for e in EDITS])
def test_an_edit_is_told_with_its_author_and_taken_back(
    room: Room, which: str, change: Object, path: str, step: str
) -> None:
    assert room.driver.drift(room.spec) == ()
    edit(room, which, change)
    told = room.driver.drift(room.spec)

    assert [(one.path, one.step) for one in told] == [(path, step)]
    removed = told[0].found == ""  # the site keeps no author of a field that is gone
    assert removed or told[0].changed_by.startswith(f"{EDITOR} (Update, 20")
    assert told[0].wanted != told[0].found
    assert room.driver.drift(room.spec) == told, "looking changes nothing"

    repair(room)
    assert room.driver.drift(room.spec) == ()


DELETED = [QUOTA, f"limitranges/{names.LIMITS}", OPEN, ALICES, f"serviceaccounts/{ALICE.subject}"]


@pytest.mark.parametrize("which", DELETED)
def test_what_is_deleted_is_missing_and_made_again(room: Room, which: str) -> None:
    room.admin.delete(path_of(room, which))
    (told,) = room.driver.drift(room.spec)
    assert (told.object.split("/")[1], told.path, told.found) == (which.split("/")[1], "", "missing")
    repair(room)
    assert room.driver.drift(room.spec) == ()


def test_a_namespace_that_is_going_and_gone_is_one_difference(room: Room) -> None:
    room.admin.delete(path_of(room, "namespace"))
    name = f"Namespace/{room.spec.external_name}"

    def told(found: str) -> Callable[[], bool]:
        one = Difference(name, "", "present", found, step="namespace")
        return lambda: room.driver.drift(room.spec) == (one,)

    until(told("being deleted"), "it is going", seconds=4)
    until(told("missing"), "it is gone")
    repair(room)
    assert room.driver.drift(room.spec) == ()


def made_by_admin(room: Room, which: str, body: Object) -> None:
    collection = path_of(room, which.split("/")[0])
    name = which.split("/")[1]
    whole = {**body, "metadata": {"name": name, **body.get("metadata", {})}}
    room.admin.create(collection, whole, fieldManager=EDITOR)


def test_a_second_quota_is_too_much_whoever_made_it(room: Room) -> None:
    """Two objects in a namespace let racing pods through."""
    made_by_admin(room, "resourcequotas/mine", {"spec": {"hard": {"pods": "5"}}})
    (told,) = room.driver.drift(room.spec)
    assert (told.object, told.wanted, told.found, told.step) == ("ResourceQuota/mine", "", "present", "quota")
    assert told.changed_by.startswith(EDITOR)
    repair(room)
    assert room.driver.drift(room.spec) == ()


def test_a_stale_binding_of_ours_is_too_much_and_somebody_elses_policy_is_not(room: Room) -> None:
    labels = {names.WORKSPACE: str(room.spec.id)}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gpuaas-workspace-view"}
    made_by_admin(room, "rolebindings/u-gone-view", {"roleRef": role, "metadata": {"labels": labels}})
    made_by_admin(room, "networkpolicies/theirs", {"spec": {"podSelector": {}}})
    (told,) = room.driver.drift(room.spec)
    assert (told.object, told.found) == ("RoleBinding/u-gone-view", "present")
    repair(room)
    assert room.driver.drift(room.spec) == ()
    assert room.admin.find(path_of(room, "networkpolicies/theirs")) is not None


def test_what_cannot_be_changed_back_is_made_anew(room: Room) -> None:
    """A role that was exchanged, and a quota that counts only some pods: the site lets neither be edited."""
    admin = room.admin
    binding = admin.get(path_of(room, ALICES))
    admin.delete(path_of(room, ALICES))
    exchanged = {**binding["roleRef"], "name": "gpuaas-workspace-view"}
    made_by_admin(room, ALICES, {"roleRef": exchanged, "subjects": binding["subjects"]})
    admin.delete(path_of(room, QUOTA))
    made_by_admin(room, QUOTA, {"spec": {"scopes": ["NotTerminating"], "hard": {"requests.cpu": "1"}}})
    told = {one.object for one in room.driver.drift(room.spec)}
    assert told == {f"RoleBinding/{ALICE.subject}-admin", f"ResourceQuota/{names.QUOTA}"}
    repair(room)
    assert room.driver.drift(room.spec) == ()
    assert "scopes" not in admin.get(path_of(room, QUOTA))["spec"]


@pytest.fixture
def unwilling(room: Room) -> Iterator[None]:
    """A rule of the site's own: the labels of this namespace stay as they are. It says no more, so that the answer is 422."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings, name = policies.replace("policies", "policybindings"), f"keep-{room.spec.external_name}"
    matched = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["namespaces"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [{**matched, "resourceNames": [room.spec.external_name]}]},
        "validations": [{"expression": "object.metadata.labels == oldObject.metadata.labels"}],
    }
    room.admin.create(policies, {"metadata": {"name": name}, "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"]}
    room.admin.create(bindings, {"metadata": {"name": name}, "spec": bound})
    until(lambda: _refuses(room), "the rule acts")
    yield
    room.admin.delete(f"{bindings}/{name}")
    room.admin.delete(f"{policies}/{name}")


def _refuses(room: Room) -> bool:
    try:
        room.admin.merge(path_of(room, "namespace"), {"metadata": {"labels": {"a": "b"}}}, dryRun="All")
    except Permanent:
        return True
    return False


@pytest.mark.usefixtures("unwilling")
def test_a_namespace_that_the_site_does_not_let_change_is_never_made_anew(room: Room) -> None:
    """All that its tenant has is in it."""
    before = room.admin.get(path_of(room, "namespace"))["metadata"]
    with pytest.raises(Permanent, match="denied request"):
        room.driver.perform(Change.CREATE, replace(room.spec, project_slug="renamed"), "namespace")
    after = room.admin.get(path_of(room, "namespace"))["metadata"]
    assert (after["uid"], after.get("deletionTimestamp")) == (before["uid"], None)


class CountingApi(Api):
    def __init__(self, kubeconfig: str) -> None:
        super().__init__(kubeconfig)
        self.calls: list[str] = []

    def _send(self, method: str, path: str, **options: object) -> object:  # type: ignore[override]
        self.calls.append(f"{method} {path}")
        return super()._send(method, path, **options)  # type: ignore[arg-type]


def test_a_look_without_drift_is_a_handful_of_reads(room: Room, lab: LabSite) -> None:
    driver = KubernetesDriver(lab.connection())
    counting = CountingApi(lab.kubeconfig)
    driver.__dict__["_api"] = counting
    assert driver.drift(room.spec) == ()
    assert len(counting.calls) <= 7, counting.calls
    assert all(call.startswith("GET ") for call in counting.calls)
