"""What the portal's Kubernetes driver makes for a tenant, where pods run: bought, used, asleep, gone."""

from collections.abc import Iterator
from functools import partial

import pytest

from deploy.lab.node import Lab
from deploy.lab.node.settings import GPUS, NAME
from gpuaas.core.errors import Permanent
from gpuaas.providers.base import Change, GpuAmount, WorkspaceSpec
from gpuaas.providers.kubeapi.client import Api
from tests.contracts.rigs import release_step
from tests.contracts.test_suspend import asleep
from tests.lab.fixtures import LabSite, in_the_end, until
from tests.lab.node.place import LASTS, pod
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

L4 = GpuAmount("nvidia.com/gpu", 2, {"gpuaas.io/pool": "l4-24gb"})
SMALL = {"cpu": "100m", "memory": "32Mi"}


@pytest.fixture
def site(node_lab: Lab) -> LabSite:
    return LabSite(node_lab.kubeconfig)


@pytest.fixture
def bought(site: LabSite) -> Iterator[Room]:
    """Two of the node's GPUs, and alice in it."""
    spec = make_spec(gpus=(L4,), vcpus=2, memory_gib=2, closed=())
    yield make_room(site, spec)
    forget(site, spec)


def test_the_inventory_knows_the_node(site: LabSite) -> None:
    (pool,) = site.driver().probe().pools
    assert pool.kind.slug == "l4-24gb"
    assert pool.selector == L4.selector
    assert pool.trouble == ""


def test_a_tenant_uses_what_was_bought_sleeps_and_is_gone(bought: Room) -> None:
    pods = bought.path("pods")
    start(bought, "train", gpus=2)
    assert bought.run_to("train", "Running")["spec"]["nodeName"] == NAME
    given = until(lambda: bought.tenant.text(f"{pods}/train/log", most=1000), "it says what it got")
    assert len(set(given.strip().split(","))) == 2
    with pytest.raises(Permanent, match="exceeded quota"):
        start(bought, "more", gpus=1)

    perform(bought, Change.SUSPEND, asleep(bought.spec))
    until(lambda: bought.admin.find(f"{pods}/train") is None, "its pods have ended")
    assert bought.driver.observe(bought.ref).exists
    with pytest.raises(Permanent, match=r"exceeded quota|is suspended"):
        start(bought, "asleep", gpus=1)

    perform(bought, Change.RESUME, bought.spec)
    start(bought, "again", gpus=1)
    bought.run_to("again", "Running")

    for step in bought.driver.steps(Change.DELETE):
        release_step(bought.driver, bought.spec, step.key)
    assert not bought.driver.observe(bought.ref).exists
    until(lambda: free(bought.admin) == GPUS, "its GPUs are free")


def start(room: Room, name: str, *, gpus: int) -> None:
    """As alice."""
    body = pod(name, f"echo $NVIDIA_VISIBLE_DEVICES; {LASTS}", limits={**SMALL, L4.resource_name: str(gpus)})
    in_the_end(lambda: room.tenant.create(room.path("pods"), body))


def perform(room: Room, change: Change, spec: WorkspaceSpec) -> None:
    for step in room.driver.steps(change):
        until(partial(is_done, room, change, spec, step.key), f"{change}: {step.key}")


def is_done(room: Room, change: Change, spec: WorkspaceSpec, key: str) -> bool:
    return room.driver.perform(change, spec, key).done


def free(admin: Api) -> int:
    pods = admin.items("/api/v1/pods")
    limits = (one["resources"].get("limits", {}) for each in pods for one in each["spec"]["containers"])
    return GPUS - sum(int(limit.get(L4.resource_name, 0)) for limit in limits)
