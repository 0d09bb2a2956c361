"""An environment on a real kubelet: it runs, is ready by its path, sees its devices, and has its home again after a stop."""

import re
import urllib.request
import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from deploy.lab.node import Lab
from gpuaas.providers.base import Change, Environments, EnvironmentSpec
from tests.contracts.rigs.kubernetes import volume_for
from tests.lab.fixtures import LabSite, until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import TOOLS, Place
from tests.lab.node.test_workspace import L4, free
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

GPUS = 2
SERVES = (
    "mkdir -p /tmp/www/api && echo it answers > /tmp/www/api/index.html && echo $NVIDIA_VISIBLE_DEVICES && "
    "exec httpd -f -p $(PORT) -h /tmp/www"
)


@pytest.fixture
def bought(node_lab: Lab) -> Iterator[Room]:
    site = LabSite(node_lab.kubeconfig)
    spec = make_spec(gpus=(L4,), vcpus=2, memory_gib=2, closed=())
    yield make_room(site, spec)
    forget(site, spec)


@pytest.fixture
def spec(node_lab: Lab, bought: Room) -> EnvironmentSpec:
    made = uuid.uuid4()
    wanted = EnvironmentSpec(
        id=made,
        name=f"env-{made.hex[:8]}-lab",
        workspace=bought.ref,
        image=TOOLS,
        command=("sh", "-c", SERVES),
        port=8888,
        readiness="/api/",
        home="/home/user",
        home_gib=1,
        vcpus=1,
        memory_gib=1,
        user=1000,
        gpus=GPUS,
        resource_name=L4.resource_name,
        variables={"PORT": "8888"},
    )
    volume = volume_for(wanted)
    # a folder of the node has the owner that it has: no driver of storage gives it to the group of the pod
    node_lab.machine.run("mkdir", "-p", "-m", "777", volume["spec"]["hostPath"]["path"])
    bought.admin.create("/api/v1/persistentvolumes", volume)
    return wanted


def carry_out(site: Environments, change: Change, spec: EnvironmentSpec) -> None:
    for step in site.steps(change, spec):
        until(partial(_is_done, site, change, spec, step.key), f"{change}: {step.key}")


def _is_done(site: Environments, change: Change, spec: EnvironmentSpec, key: str) -> bool:
    return site.perform(change, spec, key).done


def answer_of(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return str(answer.read().decode())


def test_it_runs_sees_its_devices_and_keeps_its_home(
    node_lab: Lab, bought: Room, spec: EnvironmentSpec
) -> None:
    site, place = bought.driver.environments, Place(Kubectl(node_lab.control), bought.spec.external_name)
    before = free(bought.admin)
    carry_out(site, Change.CREATE, spec)
    assert site.observe(spec).ready
    devices = site.log(spec, lines=200).split()[0].split(",")
    assert len(set(devices)) == GPUS
    assert all(re.fullmatch(r"GPU-[0-9a-f-]{36}", each) for each in devices)
    assert place.execute(spec.name, "test -e /var/run/secrets/kubernetes.io || echo no token") == "no token\n"
    assert place.execute(spec.name, "id -u") == "1000\n"
    with place.forwarded(f"service/{spec.name}", spec.port) as port:
        assert answer_of(f"http://127.0.0.1:{port}/api/") == "it answers\n"
    place.execute(spec.name, "echo a day of work > /home/user/notes")

    carry_out(site, Change.SUSPEND, spec)
    assert not site.observe(spec).exists
    assert free(bought.admin) == before
    carry_out(site, Change.RESUME, spec)
    assert place.execute(spec.name, "cat /home/user/notes") == "a day of work\n"
    assert len(set(site.log(spec, lines=200).split()[0].split(","))) == GPUS

    carry_out(site, Change.DELETE, spec)
    assert free(bought.admin) == before
    assert bought.admin.find(f"{bought.path('persistentvolumeclaims')}/{spec.name}") is None
