"""The worker is killed by SIGKILL at every boundary of a visit, and the next one comes to the same end: one machine."""

import multiprocessing
import os
import signal

import pytest
from django.db import connections

from gpuaas.core import claims, clock
from gpuaas.providers.base import MachineVerb
from gpuaas.providers.sandbox.machines import SandboxCloudDriver
from gpuaas.providers.sandbox.models import SandboxMachine
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.services import MachineOrder, machine_act, machine_order
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.workspaces.crashing_worker import Boundaries

pytestmark = pytest.mark.django_db(transaction=True)
ORDER = MachineOrder(name="train", flavor="h100.1", image="img-debian-12", cloud_init="#!/bin/sh\n")
CALLS = ("launch", "act", "machines", "images", "belongings")


def killed_at(workspace: Workspace, number: int) -> str:
    """A visit that dies at its n-th boundary; the name of that, "" where it survived."""
    connections.close_all()
    heard, told = os.pipe()
    worker = multiprocessing.get_context("fork").Process(target=_work, args=(workspace, number, told))
    worker.start()
    os.close(told)
    with os.fdopen(heard) as lines:
        crossed = lines.read().splitlines()
    worker.join(60)
    MachineLook.objects.filter(pk=workspace.pk).update(claim_until=clock.now(), due_at=clock.now())
    if worker.exitcode == 0:
        return ""
    assert worker.exitcode == -signal.SIGKILL, worker.exitcode
    return crossed[-1]


def _work(workspace: Workspace, number: int, told: int) -> None:
    boundaries = Boundaries(number, told)
    for place, names in ((SandboxCloudDriver, CALLS), (claims, ("claim", "apply"))):
        for name in names:
            setattr(place, name, boundaries.around(name, getattr(place, name)))
    visit(workspace.pk)
    connections.close_all()
    os._exit(0)


def test_killed_anywhere_there_is_one_machine_and_one_stop(as_bob: Actor, workspace: Workspace) -> None:
    met = set()
    for number in range(1, 60):
        machine = machine_order(actor=as_bob, workspace=workspace, order=ORDER)
        MachineLook.objects.filter(pk=workspace.pk).update(slow_at=None)
        met.add(killed_at(workspace, number))
        assert visit(workspace.pk)
        assert SandboxMachine.objects.count() == 1
        machine.refresh_from_db()
        assert (machine.state, machine.cloud_init) == ("running", "")
        machine = _asked(as_bob, machine, MachineVerb.STOP)
        last = killed_at(workspace, number)
        met.add(last)
        assert visit(workspace.pk)
        machine.refresh_from_db()
        assert (machine.state, machine.verb, SandboxMachine.objects.get().wanted) == (
            "stopped",
            "",
            "stopped",
        )
        _asked(as_bob, machine, MachineVerb.DELETE)
        assert visit(workspace.pk)
        assert not SandboxMachine.objects.exists()
        if not last:
            break
    assert {"before launch", "after launch", "before act stop", "after act stop", "after machines"} <= met
    assert "" in met


def _asked(actor: Actor, machine: Machine, verb: MachineVerb) -> Machine:
    row = Machine.objects.select_related("workspace__project__organization", "workspace__site").get(
        pk=machine.pk
    )
    return machine_act(actor=actor, machine=row, verb=verb)
