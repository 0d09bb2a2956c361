"""People whom the site knows by its own identity provider enter by that: shown on the real control plane."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from tests.lab.fixtures import LabSite
from tests.providers.kubernetes.conftest import ALICE, BOB, Room, forget, make_room, make_spec, provision

pytestmark = pytest.mark.lab
ISSUER = "https://login.example.org/realms/lab"
ALICE_THERE = f"{ISSUER}#4f1c-alice"
OPTIONS = {
    "oidc": {
        "issuer_url": ISSUER,
        "client_id": "kubectl",
        "username_prefix": f"{ISSUER}#",
        "groups_prefix": "lab:",
    }
}
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def room(lab: LabSite) -> Iterator[Room]:
    spec = make_spec(
        members=(replace(ALICE, identity=ALICE_THERE), BOB),
        groups={role: f"lab:climate/weather-lm/{role}" for role in ("admin", "edit", "view")},
    )
    yield make_room(lab, spec)
    forget(lab, spec)


def may(room: Room, verb: str, resource: str, *, user: str, groups: tuple[str, ...] = ()) -> bool:
    """What the site's own authorizer says of somebody who has signed in there."""
    asked = {"namespace": room.spec.external_name, "verb": verb, "resource": resource}
    review = {
        "spec": {"user": user, "groups": [*groups, "system:authenticated"], "resourceAttributes": asked}
    }
    return bool(room.admin.create(REVIEWS, review)["status"]["allowed"])


def test_the_site_lets_in_whom_it_knows(room: Room) -> None:
    assert may(room, "create", "pods", user=ALICE_THERE)
    assert not may(room, "update", "resourcequotas", user=ALICE_THERE)
    assert not may(room, "create", "pods", user="4f1c-alice")
    assert not may(room, "create", "pods", user="bob")


def test_groups_have_the_role_in_their_name(room: Room) -> None:
    path = "lab:climate/weather-lm"
    assert may(room, "create", "pods", user="dora", groups=(f"{path}/edit",))
    assert may(room, "list", "pods", user="dora", groups=(f"{path}/view",))
    assert not may(room, "create", "pods", user="dora", groups=(f"{path}/view",))
    assert not may(room, "list", "pods", user="dora", groups=("lab:climate/other/edit",))


def test_who_leaves_is_out_by_this_door_too(room: Room) -> None:
    provision(room.driver, replace(room.spec, members=(BOB,), groups={}))
    assert not may(room, "list", "pods", user=ALICE_THERE)
    assert not may(room, "list", "pods", user="dora", groups=("lab:climate/weather-lm/view",))


def test_with_the_workspace_every_door_closes(room: Room) -> None:
    room.driver.perform(Change.DELETE, room.spec, "access")
    assert not may(room, "list", "pods", user=ALICE_THERE)
    assert not may(room, "list", "pods", user="dora", groups=("lab:climate/weather-lm/view",))


def test_nobody_becomes_one_of_kubernetes_own(room: Room) -> None:
    masters = replace(room.spec, groups={"admin": "system:masters"})
    with pytest.raises(Permanent, match="system:masters"):
        room.driver.perform(Change.CREATE, masters, "access")
    root: WorkspaceSpec = replace(room.spec, members=(replace(ALICE, identity="system:admin"),))
    with pytest.raises(Permanent, match="system:admin"):
        room.driver.perform(Change.CREATE, root, "access")


def test_the_kubeconfig_to_sign_in_with_holds_no_credential(lab: LabSite, room: Room) -> None:
    driver = KubernetesDriver(replace(lab.connection(), options=OPTIONS))
    given = yaml.safe_load(driver.sign_in_kubeconfig(room.ref, room.spec.members[0]))
    (user,) = given["users"]
    assert set(user["user"]) == {"exec"}
    assert f"--oidc-issuer-url={ISSUER}" in user["user"]["exec"]["args"]
    assert "--oidc-client-id=kubectl" in user["user"]["exec"]["args"]
    assert given["contexts"][0]["context"]["namespace"] == room.spec.external_name
    assert given["clusters"][0]["cluster"]["server"] == Api(lab.kubeconfig).server
    no_groups = {"oidc": {**OPTIONS["oidc"], "groups_prefix": ""}}
    with pytest.raises(NotFound, match="sign in to the portal"):
        KubernetesDriver(replace(lab.connection(), options=no_groups)).sign_in_kubeconfig(room.ref, BOB)
    with pytest.raises(NotFound, match="no identity provider"):
        lab.driver().sign_in_kubeconfig(room.ref, BOB)
