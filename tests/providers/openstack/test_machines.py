"""Machines on the real cloud, made and changed with a member's rights in the project: the whole life, and what goes wrong."""

import multiprocessing
import os
import signal
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.core.errors import Conflict, GpuaasError, NotFound, Permanent, QuotaRefused, Unavailable
from gpuaas.providers.base import (
    MachineOrder,
    MachineStatus,
    MachineVerb,
    ObservedMachine,
    WorkspaceSpec,
)
from gpuaas.providers.openstack import client, inside, names, people, projects
from gpuaas.providers.openstack.driver import OpenStackDriver
from tests.lab.fixtures import until
from tests.providers.openstack.conftest import ALICE, provision, ref, spec_of, take_away

pytestmark = pytest.mark.openstack
S, V = MachineStatus, MachineVerb
LINE = (
    ed25519.Ed25519PrivateKey.generate()
    .public_key()
    .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    .decode()
)


def order_of(
    driver: OpenStackDriver, spec: WorkspaceSpec, name: str = "train", **more: object
) -> MachineOrder:
    image = next(image.id for image in driver.images(ref(spec)) if image.name == "tiny")
    return MachineOrder(uuid.uuid4(), name, spec.flavors[0], image, **more)  # type: ignore[arg-type]


def find(driver: OpenStackDriver, spec: WorkspaceSpec, uid: str) -> ObservedMachine | None:
    return next((row for row in driver.machines(ref(spec)) if row.uid == uid), None)


def reaches(driver: OpenStackDriver, spec: WorkspaceSpec, uid: str, status: MachineStatus) -> ObservedMachine:
    def there() -> ObservedMachine | None:
        row = find(driver, spec, uid)
        return row if row is not None and row.status is status else None

    return until(there, f"the machine is {status}", seconds=180)


def asked(call: Callable[[], object]) -> None:
    """As the portal does: a cloud that is at work is asked again."""

    def done() -> bool:
        try:
            call()
        except Unavailable:
            return False
        return True

    until(done, "the cloud takes it", seconds=120)


def test_the_whole_life(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    order = order_of(driver, ready, public_key=LINE, cloud_init="#cloud-config\n")
    uid = driver.launch(ref(ready), order).uid
    assert driver.launch(ref(ready), order).uid == uid
    running = reaches(driver, ready, uid, S.RUNNING)
    assert (running.order, running.name, running.flavor) == (order.id, "train", ready.flavors[0].slug)
    assert (running.power, running.image, running.fault) == ("on", "tiny", "")
    assert running.gpus == {"CUSTOM_PCI_10DE_2330": 1}
    assert running.addresses[0].startswith("10.0.0.")
    assert running.key.startswith("gpuaas-")
    assert running.launched_at is not None
    for verb, status in (
        (V.STOP, S.STOPPED),
        (V.START, S.RUNNING),
        (V.RESTART, S.RUNNING),
        (V.REBUILD, S.RUNNING),
        (V.SHELVE, S.SHELVED),
        (V.UNSHELVE, S.RUNNING),
    ):
        action = uuid.uuid4()
        for _ in range(2):  # the answer to the first one was lost
            asked(lambda: driver.act(ref(ready), uid, verb, action=action))  # noqa: B023  called at once
        reaches(driver, ready, uid, status)
    driver.act(ref(ready), uid, V.DELETE, action=uuid.uuid4())
    with suppress(NotFound):  # it may be gone by now
        driver.act(ref(ready), uid, V.DELETE, action=uuid.uuid4())
    until(lambda: find(driver, ready, uid) is None, "the machine is gone", seconds=120)
    with pytest.raises(NotFound):
        driver.act(ref(ready), uid, V.STOP, action=uuid.uuid4())


def test_of_two_launches_with_room_for_one_one_is_refused(driver: OpenStackDriver) -> None:
    spec = spec_of(gpus=1)
    try:
        provision(driver, spec)
        orders = [order_of(driver, spec, name) for name in ("one", "two")]
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda order: _answer(lambda: driver.launch(ref(spec), order)), orders))
        refused = [answer for answer in answers if isinstance(answer, QuotaRefused)]
        made = [answer for answer in answers if isinstance(answer, ObservedMachine)]
        assert len(refused) + len(made) == 2, answers
        # Nova may take both and count again, never give both
        settled = until(lambda: _settled(driver, spec), "nothing is being built any more", seconds=180)
        assert [row.status for row in settled].count(S.RUNNING) <= 1
        told = [error.message for error in refused]
        told += [row.fault for row in settled if row.status is S.FAILED]
        assert told
        assert all("delete a machine" in words or "delete it" in words for words in told), told
    finally:
        take_away(driver, spec)


def test_a_worker_killed_after_the_call_makes_no_second_machine(
    driver: OpenStackDriver, ready: WorkspaceSpec
) -> None:
    order = order_of(driver, ready)
    worker = multiprocessing.get_context("fork").Process(target=_killed, args=(driver, ready, order))
    worker.start()
    worker.join(120)
    assert worker.exitcode == -signal.SIGKILL, worker.exitcode
    found = until(lambda: driver.machines(ref(ready)), "the machine of the dead worker is there")
    assert driver.launch(ref(ready), order).uid == found[0].uid
    assert len(driver.machines(ref(ready))) == 1


def _killed(driver: OpenStackDriver, spec: WorkspaceSpec, order: MachineOrder) -> None:
    """Dies when the cloud has answered and nobody has heard it yet."""
    post = client.Cloud.post

    def deadly(self: client.Cloud, service: str, path: str, body: client.Object) -> client.Object:
        answer = post(self, service, path, body)
        if path == "/servers":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    client.Cloud.post = deadly  # type: ignore[method-assign]
    OpenStackDriver(driver.connection).launch(ref(spec), order)
    os._exit(0)


def test_a_machine_made_behind_the_portal_is_seen(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    """By alice's own credential and plain calls, without a mark; hers and the portal's share one limit."""
    from datetime import timedelta

    access = driver.issue_access(ref(ready), ALICE, lifetime=timedelta(hours=1))
    own = client.Cloud({"clouds_yaml": access.document})
    try:
        flavor = own.items("compute", "/flavors/detail", "flavors")[0]["id"]
        image = own.items("image", "/images", "images", name="tiny")[0]["id"]
        body = {"name": "by-cli", "flavorRef": flavor, "imageRef": image, "networks": "none"}
        own.post("compute", "/servers", {"server": body})
    finally:
        own.close()
    found = until(lambda: driver.machines(ref(ready)), "it is seen")[0]
    assert (found.name, found.order, found.flavor) == ("by-cli", None, ready.flavors[0].slug)
    driver.launch(ref(ready), order_of(driver, ready))
    with pytest.raises(QuotaRefused):
        driver.launch(ref(ready), order_of(driver, ready, "third"))


def test_no_host_with_room_is_told_in_words(driver: OpenStackDriver) -> None:
    """16 H100 on one host: no host of the lab has as many."""
    spec = spec_of(gpus=16)
    big = (spec.flavors[0].__class__(**{**vars(spec.flavors[0]), "gpus": 16, "count": 1}),)
    spec = spec.__class__(**{**vars(spec), "flavors": big})
    try:
        provision(driver, spec)
        uid = driver.launch(ref(spec), order_of(driver, spec)).uid
        failed = reaches(driver, spec, uid, S.FAILED)
        assert "no host has 16 free CUSTOM_PCI_10DE_2330" in failed.fault
    finally:
        take_away(driver, spec)


def test_what_cannot_be_is_refused_in_words(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    order = order_of(driver, ready)
    other = order.flavor.__class__(**{**vars(order.flavor), "slug": "never.sold"})
    with pytest.raises(Permanent, match="not granted"):
        driver.launch(ref(ready), MachineOrder(uuid.uuid4(), "odd", other, order.image))
    with pytest.raises(NotFound):
        driver.act(ref(ready), str(uuid.uuid4()), V.STOP, action=uuid.uuid4())
    assert driver.machines(ref(ready)) == ()


def test_a_refused_order_leaves_no_key(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    """The portal's account has only so many, for all orders of a workspace."""
    order = replace(order_of(driver, ready, public_key=LINE), image=str(uuid.uuid4()))
    with pytest.raises(GpuaasError):
        driver.launch(ref(ready), order)
    cloud = client.Cloud(driver.connection.credentials)
    project = projects.own_project(cloud, ready.external_name, ready.id)
    assert project is not None
    with closing(cloud), closing(inside.enter(cloud, project)) as own:
        assert own.get("compute", "/os-keypairs")["keypairs"] == []


def test_a_machine_of_another_project_is_not_there(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    uid = driver.launch(ref(ready), order_of(driver, ready)).uid
    other = spec_of(gpus=1)
    try:
        provision(driver, other)
        with pytest.raises(NotFound):
            driver.act(ref(other), uid, V.DELETE, action=uuid.uuid4())
        with pytest.raises(NotFound):
            driver.console(ref(other), uid)
        assert driver.machines(ref(other)) == ()
    finally:
        take_away(driver, other)
    assert find(driver, ready, uid) is not None


def test_the_console_is_a_link_or_a_refusal_in_words(driver: OpenStackDriver, ready: WorkspaceSpec) -> None:
    """The lab has no screens; the call is real, and so is the refusal."""
    uid = driver.launch(ref(ready), order_of(driver, ready)).uid
    reaches(driver, ready, uid, S.RUNNING)
    with pytest.raises(Conflict, match="use ssh"):
        driver.console(ref(ready), uid)


def test_what_belongs_to_it_and_the_portal_is_no_member(
    driver: OpenStackDriver, ready: WorkspaceSpec
) -> None:
    driver.images(ref(ready))
    has = driver.belongings(ref(ready))
    assert {item.kind for item in has.items} >= {"network", "router", "security group"}
    assert has.volumes_sold
    cloud = client.Cloud(driver.connection.credentials)
    project = projects.own_project(cloud, ready.external_name, ready.id)
    assert project is not None
    own = names.user_name(project["name"], names.PORTAL)
    assert own not in {user["name"] for user in people.users_of(cloud, project)}
    before = [user["id"] for user in people.all_users_of(cloud, project) if user["name"] == own]
    people.apply_members(cloud, ready, project)
    assert [user["id"] for user in people.all_users_of(cloud, project) if user["name"] == own] == before
    driver.images(ref(ready))  # it still may
    cloud.close()


def _settled(driver: OpenStackDriver, spec: WorkspaceSpec) -> tuple[ObservedMachine, ...]:
    rows = driver.machines(ref(spec))
    return rows if all(row.status in {S.RUNNING, S.FAILED} for row in rows) else ()


def _answer(call: Callable[[], object]) -> object:
    try:
        return call()
    except GpuaasError as error:
        return error
