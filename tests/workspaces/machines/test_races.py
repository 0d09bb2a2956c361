"""Two of everything at once, on a real database."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from django.db import connection, transaction

from gpuaas.core.errors import Conflict, GpuaasError
from gpuaas.providers.base import MachineVerb
from gpuaas.providers.sandbox.models import SandboxMachine
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.services import MachineOrder, machine_act, machine_order
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.lab.fixtures import until

pytestmark = pytest.mark.django_db(transaction=True)
ORDER = MachineOrder(name="train", flavor="h100.1", image="img-debian-12")


def together(*calls: object) -> list[object]:
    def one(call: object) -> object:
        try:
            return call()  # type: ignore[operator]
        except GpuaasError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def test_of_two_orders_with_room_for_one_one_is_taken(
    as_alice: Actor, as_bob: Actor, workspace: Workspace
) -> None:
    machine_order(actor=as_bob, workspace=workspace, order=replace(ORDER, name="first"))
    answers = together(
        lambda: machine_order(actor=as_alice, workspace=workspace, order=replace(ORDER, name="hers")),
        lambda: machine_order(actor=as_bob, workspace=workspace, order=replace(ORDER, name="his")),
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["Machine", "QuotaRefused"]
    assert Machine.objects.count() == 2


def test_two_visits_at_once_make_one_machine(as_bob: Actor, workspace: Workspace) -> None:
    machine_order(actor=as_bob, workspace=workspace, order=ORDER)
    together(lambda: visit(workspace.pk), lambda: visit(workspace.pk))
    assert SandboxMachine.objects.count() == 1
    assert Machine.objects.get().state == "running"


def test_of_two_wishes_at_once_one_wins(as_alice: Actor, as_bob: Actor, workspace: Workspace) -> None:
    machine_order(actor=as_bob, workspace=workspace, order=ORDER)
    assert visit(workspace.pk)
    row = Machine.objects.select_related("workspace__project__organization", "workspace__site").get()
    answers = together(
        lambda: machine_act(actor=as_alice, machine=row, verb=MachineVerb.STOP),
        lambda: machine_act(actor=as_bob, machine=row, verb=MachineVerb.RESTART),
    )
    assert sum(isinstance(answer, Conflict) for answer in answers) == 1


def test_a_wish_and_a_visit_take_their_rows_in_one_order(as_bob: Actor, workspace: Workspace) -> None:
    """A visit holds its look and then takes machines; a wish that waits for the look holds no machine meanwhile."""
    machine_order(actor=as_bob, workspace=workspace, order=ORDER)
    assert visit(workspace.pk)
    row = Machine.objects.select_related("workspace__project__organization", "workspace__site").get()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            MachineLook.objects.select_for_update().get(workspace=workspace)
            order = pool.submit(
                together, lambda: machine_act(actor=as_bob, machine=row, verb=MachineVerb.STOP)
            )
            until(waiting, "the wish waits for the look")
            Machine.objects.select_for_update(nowait=True, no_key=True).get(pk=row.pk)
        assert [type(answer).__name__ for answer in order.result()] == ["Machine"]
    assert Machine.objects.get().verb == "stop"


def waiting() -> bool:
    """Whether somebody in this database waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_stat_clear_snapshot()"
        )  # else one transaction sees the same activity for good
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])
