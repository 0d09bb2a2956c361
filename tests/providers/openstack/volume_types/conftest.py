"""A cloud with volume types, and a workspace that bought some of two of them."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from gpuaas.core.errors import QuotaRefused
from gpuaas.providers.base import Change, WorkspaceSpec
from gpuaas.providers.openstack.client import Cloud, Object
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.lab.fixtures import until
from tests.lab.openstack.fixtures import Cloud as LabCloud
from tests.lab.openstack.fixtures import Project
from tests.providers.openstack.conftest import ALICE, provision, spec_of, take_away
from tests.providers.openstack.test_volumes import quota_of, status
from tests.providers.openstack.test_workspace import as_member

PLAIN = "__DEFAULT__"


@dataclass(frozen=True)
class Types:
    """Names of the cloud's types; the private one is granted to nobody."""

    fast: str
    archive: str
    private: str


def type_made(admin: Cloud, name: str, *, is_public: bool = True) -> str:
    backend = {"extra_specs": {"volume_backend_name": "lab"}}
    body = {"name": name, **backend, "os-volume-type-access:is_public": is_public}
    return str(admin.post("volume", "/types", {"volume_type": body})["volume_type"]["id"])


def type_deleted(admin: Cloud, key: str) -> None:
    def is_gone() -> bool:
        admin.delete("volume", f"/types/{key}")
        return admin.find("volume", f"/types/{key}") is None

    until(is_gone, "the type is gone")


@pytest.fixture(scope="module")
def admin(driver: OpenStackDriver) -> Iterator[Cloud]:
    with closing(Cloud(driver.connection.credentials)) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def types(admin: Cloud) -> Iterator[Types]:
    run = uuid.uuid4().hex[:6]
    found = Types(f"fast-{run}", f"archive {run}", f"private-{run}")
    keys = [
        type_made(admin, name, is_public=name != found.private)
        for name in (found.fast, found.archive, found.private)
    ]
    yield found
    for key in keys:
        type_deleted(admin, key)


@pytest.fixture(scope="module")
def stored(driver: OpenStackDriver, types: Types) -> Iterator[WorkspaceSpec]:
    """3 GiB of the default type and 2 of the fast one; each test deletes its volumes."""
    spec = replace(
        spec_of(gpus=1, members=(ALICE,)),
        storage_gib=5,
        storage_classes={PLAIN: 3, types.fast: 2},
        closed_classes=(types.archive, types.private),
    )
    try:
        provision(driver, spec)
        yield spec
    finally:
        take_away(driver, spec)


@pytest.fixture
def member(driver: OpenStackDriver, stored: WorkspaceSpec) -> Iterator[Cloud]:
    with closing(as_member(driver, stored)) as own:
        yield own
        cleared(own)


def cleared(own: Cloud) -> None:
    def is_settled() -> bool:
        rows = own.items("volume", "/volumes/detail", "volumes")
        return all(row["status"] in ("available", "error") for row in rows)

    until(is_settled, "all volumes are made")
    for kind in ("snapshots", "volumes"):
        for row in own.items("volume", f"/{kind}", kind):
            own.delete("volume", f"/{kind}/{row['id']}")
        until(lambda kind=kind: not own.items("volume", f"/{kind}", kind), f"no {kind} are left")  # type: ignore[misc]


def made(own: Cloud, gib: int = 1, of_type: str = "", **more: object) -> str:
    body = {"size": gib, **({"volume_type": of_type} if of_type else {}), **more}
    key = str(own.post("volume", "/volumes", {"volume": body})["volume"]["id"])
    until(lambda: status(own, key) == "available", "the volume is there")
    return key


def type_of(own: Cloud, volume: str) -> str:
    return str(own.get("volume", f"/volumes/{volume}")["volume"]["volume_type"])


def retyped(own: Cloud, volume: str, to: str) -> None:
    own.post("volume", f"/volumes/{volume}/action", {"os-retype": {"new_type": to}})
    until(lambda: type_of(own, volume) == to and status(own, volume) == "available", "it is of the type")


def limits_of(admin: Cloud, project: str, name: str) -> tuple[int, int, int]:
    quota = quota_of(admin, project)
    return quota[f"gigabytes_{name}"], quota[f"volumes_{name}"], quota[f"snapshots_{name}"]


def written(driver: OpenStackDriver, spec: WorkspaceSpec) -> None:
    for step in ("limits", "confirm"):
        assert driver.perform(Change.CREATE, spec, step).done


def is_given(own: Cloud, of_type: str) -> bool:
    body = {"name": "disk", "size": 1, **({"volume_type": of_type} if of_type else {})}
    try:
        own.post("volume", "/volumes", {"volume": body})
    except QuotaRefused:
        return False
    return True


def snapshot(own: Cloud, volume: str) -> str:
    key = str(own.post("volume", "/snapshots", {"snapshot": {"volume_id": volume}})["snapshot"]["id"])
    path = f"/snapshots/{key}"
    until(lambda: own.get("volume", path)["snapshot"]["status"] == "available", "the snapshot is there")
    return key


def theirs(cloud: LabCloud, neighbor: Project, of_type: str) -> str:
    """A volume of 1 GiB in a project that is not the portal's."""

    def call(method: str, path: str, **body: object) -> Object:
        answer = cloud.call(method, "block-storage", path, token=neighbor.token, **body)
        answer.raise_for_status()
        found: Object = answer.json()["volume"]
        return found

    key = str(call("POST", "/volumes", json={"volume": {"size": 1, "volume_type": of_type}})["id"])
    until(lambda: call("GET", f"/volumes/{key}")["status"] == "available", "their volume is there")
    return key
