"""The lives of a machine whose worker is killed in a visit: the next one comes to the same end, with one machine at the site, and
none after its deletion. `kill` chooses at which boundaries."""

import multiprocessing
import os
import signal
from collections.abc import Callable

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
from tests.kills import Change, Kill
from tests.workspaces.crashing_worker import SURVIVED, Boundaries, Life

ORDER = MachineOrder(name="train", flavor="h100.1", image="img-debian-12", cloud_init="#!/bin/sh\n")
CALLS = ("launch", "act", "machines", "images", "belongings")


def life_of(workspace: Workspace, boundary: int) -> Life:
    """Of a worker that visits once. Its claim is over, as time would do."""
    connections.close_all()
    heard, told = os.pipe()
    worker = multiprocessing.get_context("fork").Process(target=_work, args=(workspace, boundary, told))
    worker.start()
    os.close(told)
    with os.fdopen(heard) as lines:
        crossed = tuple(lines.read().splitlines())
    worker.join(60)
    MachineLook.objects.filter(pk=workspace.pk).update(claim_until=clock.now(), due_at=clock.now())
    assert worker.exitcode in {SURVIVED, -signal.SIGKILL}, worker.exitcode
    return Life(killed=worker.exitcode != SURVIVED, crossed=crossed)


def _work(workspace: Workspace, boundary: int, told: int) -> None:
    boundaries = Boundaries(boundary, told)
    for place, names in ((SandboxCloudDriver, CALLS), (claims, ("claim", "apply"))):
        for name in names:
            setattr(place, name, boundaries.around(name, getattr(place, name)))
    visit(workspace.pk)
    connections.close_all()
    os._exit(SURVIVED)


def launch_stop_and_deletion(kill: Kill, *, actor: Actor, workspace: Workspace) -> None:
    """One machine after the other, killed in its launch, in its stop and in its deletion in turn."""

    def row() -> Machine:
        """The machine of the round, the newest."""
        rows = Machine.objects.select_related("workspace__project__organization", "workspace__site")
        return rows.filter(workspace=workspace).latest("created_at")

    def ordered(number: int) -> Workspace:
        machine_order(actor=actor, workspace=workspace, order=ORDER)
        MachineLook.objects.filter(pk=workspace.pk).update(slow_at=None)
        return workspace

    def runs(_: Workspace) -> None:
        assert SandboxMachine.objects.count() == 1
        machine = row()
        assert (machine.state, machine.cloud_init) == ("running", "")

    def stopped(_: Workspace) -> None:
        machine, at_site = row(), SandboxMachine.objects.get()
        assert (machine.state, machine.verb, at_site.wanted) == ("stopped", "", "stopped")

    def gone(_: Workspace) -> None:
        assert not SandboxMachine.objects.exists()

    def told(verb: MachineVerb) -> Callable[[int], Workspace]:
        def ask(number: int) -> Workspace:
            machine_act(actor=actor, machine=row(), verb=verb)
            return workspace

        return ask

    kill(
        _change(ordered, runs, "launch", "machines", "images", "belongings"),
        _change(told(MachineVerb.STOP), stopped, "act stop", "machines"),
        _change(told(MachineVerb.DELETE), gone, "act delete", "machines"),
    )


def _change(
    ask: Callable[[int], Workspace], check: Callable[[Workspace], None], *calls: str
) -> Change[Workspace]:
    return Change(ask=ask, life=life_of, settle=_visited, check=check, calls=calls)


def _visited(workspace: Workspace) -> Workspace:
    assert visit(workspace.pk)
    return workspace
