"""An environment on a real kubelet: it runs, is ready by its path, sees its devices, and has its home again after a stop."""

import asyncio
import re
import socket
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from deploy.lab.node import Lab
from gpuaas.core.clock import now
from gpuaas.core.errors import NotFound
from gpuaas.environments.models import Environment, EnvironmentKind, EnvironmentLog, EnvironmentUse
from gpuaas.environments.reconcile import log_fetch
from gpuaas.environments.services import (
    environment_create,
    environment_delete,
    environment_log_ask,
    environment_start,
    environment_stop,
    kind_create,
)
from gpuaas.environments.spec import spec_of
from gpuaas.providers.base import Address, Carry, Change, EnvironmentSpec
from gpuaas.providers.kubeapi import names
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.contracts.rigs.kubernetes import volume_for
from tests.environments.stage import run_now, use_now
from tests.lab.fixtures import LabSite, carry_out, until
from tests.lab.kubernetes.kubectl import Kubectl
from tests.lab.node.place import TOOLS, Place
from tests.lab.node.test_workspace import L4, free
from tests.providers.kubernetes.conftest import Room, forget, make_room, make_spec
from tests.providers.kubernetes.test_warden import stage as workspace_row

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

GPUS, PORT = 2, 8888
SERVES = (
    "trap exit TERM; mkdir -p /tmp/www/api && echo it answers > /tmp/www/api/index.html && echo $NVIDIA_VISIBLE_DEVICES && "
    "httpd -f -p $(PORT) -h /tmp/www & wait"
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
        port=PORT,
        readiness="/api/",
        home="/home/user",
        home_gib=1,
        vcpus=1,
        memory_gib=1,
        user=1000,
        gpus=GPUS,
        resource_name=L4.resource_name,
        variables={"PORT": str(PORT)},
    )
    volume_make(node_lab, bought, wanted)
    return wanted


def volume_make(node_lab: Lab, bought: Room, wanted: EnvironmentSpec) -> None:
    volume = volume_for(wanted)
    # a folder of the node has the owner that it has: no driver of storage gives it to the group of the pod
    node_lab.machine.run("mkdir", "-p", "-m", "777", volume["spec"]["hostPath"]["path"])
    bought.admin.create("/api/v1/persistentvolumes", volume)


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
    with place.forwarded(f"service/{spec.name}", PORT) as port:
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


# -- workers -------------------------------------------------------------------------------------------------------

JOINS, LIVES = 7077, "trap exit TERM; sleep 3600 & wait"
# its program writes down who comes
MASTER = (
    "trap exit TERM; mkdir -p /tmp/www/cgi-bin && cd /tmp/www && echo it answers > index.html && "
    "printf '#!/bin/sh\\necho $QUERY_STRING >> /tmp/joined; echo; echo welcome\\n' > cgi-bin/join && chmod 755 cgi-bin/join && "
    f"httpd -p {JOINS} -h /tmp/www && httpd -f -p {PORT} -h /tmp/www & wait"
)
# busybox looks names up by no domain of its own, and asks by address
JOIN = (
    "domain=`awk '/^search/ {print $2}' /etc/resolv.conf`; until "
    "address=`nslookup $MAIN.$domain | awk '/^Address/ {found = $2} END {print found}'` && "
    f'wget -qO- "http://$address:{JOINS}/cgi-bin/join?$WORKER-$WORKER_VCPUS-$WORKER_GPUS-$NVIDIA_VISIBLE_DEVICES"; '
    f"do sleep 1; done; {LIVES}"
)
CLUSTER: dict[str, Any] = {
    "image": TOOLS,
    "command": ["sh", "-c", MASTER],
    "port": PORT,
    "readiness": "/",
    "home": "/home/user",
    "gpus": 0,
    "vcpus": 1,
    "memory_gib": 1,
    "home_gib": 1,
    "workers": {
        "most": 2,
        "command": ["sh", "-c", JOIN],
        "gpus": 1,
        "vcpus": 1,
        "memory_gib": 1,
    },
}


def used(room: Room) -> dict[str, str]:
    """Of what counts in the quota of the namespace."""
    found = room.admin.get(f"{room.path('resourcequotas')}/{names.QUOTA}")["status"]["used"]
    return {key: found[key] for key in ("requests.cpu", "requests.memory", "requests.nvidia.com/gpu", "pods")}


NOTHING = {"requests.cpu": "0", "requests.memory": "0", "requests.nvidia.com/gpu": "0", "pods": "0"}


@pytest.fixture
def cluster(node_lab: Lab, bought: Room, project: Project, alice: User, as_alice: Actor) -> Environment:
    """Ready, in what alice bought."""
    workspace = workspace_row(LabSite(node_lab.kubeconfig), bought, project, alice, L4)
    workspace.storage_gib = 10
    workspace.save(update_fields=["storage_gib"])
    return runs_in(workspace, node_lab, bought, as_alice, CLUSTER)


def joined(lab: Lab, row: Environment) -> list[list[str]]:
    """Who has come: number, vCPUs, GPUs, and which."""
    place = Place(Kubectl(lab.control), row.workspace.external_name)
    found = place.execute(row.external_name, "cat /tmp/joined 2> /dev/null || true")
    return [each.split("-", 3) for each in sorted(found.split())]


@pytest.mark.django_db(transaction=True)
def test_workers_find_the_main_pod_by_its_name_and_count_as_bought(
    node_lab: Lab, bought: Room, as_alice: Actor, cluster: Environment
) -> None:
    row = cluster
    until(lambda: joined(node_lab, row), "its worker has found it")
    ((number, vcpus, gpus, device),) = joined(node_lab, row)
    assert (number, vcpus, gpus) == ("1", "1", "1")
    assert re.fullmatch(r"GPU-[0-9a-f-]{36}", device)
    until(lambda: run_now(row).observed.get("workers") == 1, "the portal knows that it runs")
    until(lambda: used(bought)["pods"] == "2", "both count")
    whole = {"requests.cpu": "2", "requests.memory": "2Gi", "requests.nvidia.com/gpu": "1", "pods": "2"}
    assert used(bought) == whole
    environment_log_ask(actor=as_alice, environment=row, worker=1)
    log_fetch(row.pk)
    assert "welcome" in EnvironmentLog.objects.get().text

    place = Place(Kubectl(node_lab.control), bought.spec.external_name)
    place.run("delete", "pod", f"{row.external_name}-w1", "--wait=true")
    until(lambda: run_now(row).observed.get("workers") == 1, "what a member has ended runs again")
    until(lambda: len(joined(node_lab, row)) == 2, "it has come back to the same main pod")


@pytest.mark.django_db(transaction=True)
def test_nothing_of_main_pod_and_workers_is_left_after_a_stop(
    node_lab: Lab, bought: Room, as_alice: Actor, cluster: Environment
) -> None:
    row = cluster
    environment_stop(actor=as_alice, environment=row)
    until(lambda: run_now(row).state == "suspended", "it is stopped")
    until(lambda: used(bought) == NOTHING, "its quota is free")
    environment_start(actor=as_alice, environment=row)
    until(lambda: run_now(row).state == "ready", "it is ready again")
    until(lambda: joined(node_lab, row), "its worker has found the new main pod")
    environment_delete(actor=as_alice, environment=row)
    until(lambda: run_now(row).state == "deleted", "it is deleted")
    until(lambda: used(bought) == NOTHING, "its quota is free")
    selector = f"{names.ENVIRONMENT}={row.pk}"
    for plural in ("pods", "services", "persistentvolumeclaims"):
        assert bought.admin.items(bought.path(plural), labelSelector=selector) == []


# -- nobody uses it ------------------------------------------------------------------------------------------------

# what Jupyter's server would say
IDLES = (
    "trap exit TERM; mkdir -p /tmp/www/api && cd /tmp/www/api && echo '[]' > kernels && echo it answers > index.html && "
    'date -u \'+{"last_activity": "%Y-%m-%dT%H:%M:%SZ"}\' > status && httpd -f -p 8888 -h /tmp/www & wait'
)
IDLE_KIND: dict[str, Any] = {
    "image": TOOLS,
    "command": ["sh", "-c", IDLES],
    "port": 8888,
    "readiness": "/api/",
    "home": "/home/user",
    "activity": "jupyter",
    "idle_hours": 1,
    "gpus": 0,
    "vcpus": 1,
    "memory_gib": 1,
    "home_gib": 1,
}


@pytest.fixture
def unused(
    node_lab: Lab, bought: Room, project: Project, alice: User, as_alice: Actor, settings: Any
) -> Environment:
    """Ready in what alice bought."""
    settings.DOOR_DOMAIN = "apps.test"
    workspace = workspace_row(LabSite(node_lab.kubeconfig), bought, project, alice, L4)
    workspace.storage_gib = 10
    workspace.save(update_fields=["storage_gib"])
    return runs_in(workspace, node_lab, bought, as_alice, IDLE_KIND)


def runs_in(
    workspace: Workspace, lab: Lab, bought: Room, actor: Actor, document: dict[str, Any]
) -> Environment:
    """Of a kind of its own; returns when it is ready."""
    slug = f"kind-{EnvironmentKind.objects.count()}"
    kind_create(actor=SYSTEM, slug=slug, name=slug, document=document)
    row = environment_create(actor=actor, workspace=workspace, kind=slug, name=f"lab-{slug}")
    volume_make(lab, bought, spec_of(Environment.objects.select_related("made_of__kind").get(pk=row.pk)))
    until(lambda: run_now(row).state == "ready", "it is ready")
    return Environment.objects.get(pk=row.pk)


@pytest.mark.django_db(transaction=True)
def test_one_that_nobody_uses_is_stopped_and_comes_back_with_its_files_when_it_is_opened(
    node_lab: Lab, bought: Room, alice: User, unused: Environment
) -> None:
    row = unused
    place = Place(Kubectl(node_lab.control), bought.spec.external_name)
    place.execute(row.external_name, "echo a day of work > /home/user/notes")
    assert use_now(row).conditions["InUse"]["status"] == "True"

    # two hours later: a cell still runs, then it does not
    long_ago = now() - timedelta(hours=2)
    status = f'{{"last_activity": "{long_ago:%Y-%m-%dT%H:%M:%SZ}"}}'
    place.execute(row.external_name, f"echo '{status}' > /tmp/www/api/status")
    place.execute(row.external_name, """echo '[{"execution_state": "busy"}]' > /tmp/www/api/kernels""")
    EnvironmentUse.objects.update(used_at=long_ago, since=long_ago)
    assert use_now(row).conditions["InUse"]["message"] == "a kernel is busy"
    place.execute(row.external_name, "echo '[]' > /tmp/www/api/kernels")
    EnvironmentUse.objects.update(used_at=long_ago, since=long_ago)
    told = use_now(row)
    assert told.conditions["InUse"]["reason"] == "StopsSoon"
    assert told.use.stop_at is not None
    assert told.use.stop_at > now()
    EnvironmentUse.objects.update(stop_at=now())
    assert use_now(row).state == "suspending"
    until(lambda: run_now(row).state == "suspended", "it is stopped")
    assert bought.admin.find(f"{bought.path('pods')}/{row.external_name}") is None

    browser = Client()
    browser.force_login(alice)
    entrance = f"{reverse('frontend:environment_enter', args=[row.label])}?browser={'a' * 64}"
    assert "Opening lab" in browser.get(entrance).content.decode()
    until(lambda: run_now(row).state == "ready", "it is ready again")
    assert (
        browser.get(entrance).headers["Location"].startswith(f"https://{row.label}.apps.test/.gpuaas/enter")
    )
    assert place.execute(row.external_name, "cat /home/user/notes") == "a day of work\n"
