"""An environment on a real kubelet: it runs, is ready by its path, sees its devices, and has its home again after a stop."""

import asyncio
import re
import socket
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from deploy.lab.node import Lab
from gpuaas.core.errors import NotFound
from gpuaas.providers.base import Address, Carry, Change, Environments, EnvironmentSpec
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


async def answers_of(way: Carry, paths: list[str]) -> list[str]:
    """By one connection that is kept, as Envoy keeps it."""
    with tempfile.TemporaryDirectory(prefix="way-") as folder:
        path_of_it = f"{folder}/way.sock"
        async with await asyncio.start_unix_server(way, path_of_it):
            reader, writer = await asyncio.open_unix_connection(path_of_it)
            found = []
            for path in paths:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: lab\r\n\r\n".encode())
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await asyncio.wait_for(
                    reader.readexactly(int(length[1])) if length else reader.read(), 30
                )
                found.append(f"{head.split()[1].decode()} {body.decode()}")
                if b"close" in head.lower():
                    writer.close()
                    reader, writer = await asyncio.open_unix_connection(path_of_it)
            writer.close()
            return found


async def alone(way: Carry) -> None:
    """Its errors, which a server of asyncio only logs."""
    here, there = socket.socketpair()
    with here, there:
        await way(*await asyncio.open_connection(sock=here))


def test_the_door_reaches_it_through_the_api_server(bought: Room, spec: EnvironmentSpec) -> None:
    site = bought.driver.environments
    way = site.reach(spec)
    assert not isinstance(way, Address)
    with pytest.raises(NotFound):
        asyncio.run(alone(way))
    carry_out(site, Change.CREATE, spec)
    assert asyncio.run(answers_of(way, ["/api/", "/api/"])) == ["200 it answers\n"] * 2


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
