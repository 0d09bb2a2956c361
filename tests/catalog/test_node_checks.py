"""A check of a node, from the operator's wish to its result, whoever is killed in between."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine

from gpuaas.catalog.models import NodeCheck, Site
from gpuaas.catalog.selectors import node_check_get_for, node_checks_of
from gpuaas.catalog.services import node_check_look, node_check_request, site_probe, site_update
from gpuaas.catalog.states import NodeCheckState
from gpuaas.catalog.tasks import node_check, node_checks
from gpuaas.core import claims, clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound
from gpuaas.providers.sandbox.dials import ALWAYS, dials_set, failure_plan, fault_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.fleet import node_set
from gpuaas.providers.sandbox.models import SandboxPod
from tenants.actors import Actor
from tenants.models import AuditEntry, User
from tenants.selectors import actor_for

START = "2027-11-21T10:00:00Z"
Ask = Callable[[str], NodeCheck]


@pytest.fixture
def probed(attached: Site) -> Site:
    assert site_probe(attached.pk)
    return attached


@pytest.fixture
def ask(probed: Site, as_olga: Actor) -> Ask:
    return lambda node: node_check_request(actor=as_olga, site=probed, node=node)


def drive(row: NodeCheck, travel: time_machine.Traveller, *, looks: int = 10) -> NodeCheck:
    """As the sweep does: a look whenever it is due."""
    for _ in range(looks):
        row.refresh_from_db()
        if row.finished_at:
            break
        if row.due_at and row.due_at > clock.now():
            travel.move_to(row.due_at)
        node_check_look(row.pk)
    row.refresh_from_db()
    return row


def test_from_the_wish_to_the_output(ask: Ask) -> None:
    with time_machine.travel(START, tick=False) as travel:
        row = ask("h100-01")
        assert (row.state, row.requested_by) == (NodeCheckState.WAITING, "olga")
        assert not node_check_look(row.pk)
        row.refresh_from_db()
        assert row.state == NodeCheckState.RUNNING
        row = drive(row, travel)
        assert row.state == NodeCheckState.PASSED
        assert "1 GPU" in row.detail
        assert "H100" in row.output
        assert row.finished_at is not None
        assert row.due_at is None
        assert not SandboxPod.objects.filter(pk=row.pk).exists()


def test_errors_of_memory_fail_it(probed: Site, ask: Ask) -> None:
    with time_machine.travel(START, tick=False) as travel:
        fault_set(probed.pk, area="sick", name="h100-01", found={"": 2})
        row = drive(ask("h100-01"), travel)
        assert row.state == NodeCheckState.FAILED
        assert "memory errors" in row.detail
        assert row.output


def test_it_waits_for_a_free_gpu_up_to_an_hour(probed: Site, ask: Ask) -> None:
    with time_machine.travel(START, tick=False) as travel:
        row = ask("h100-01")
        node_set(probed.pk, name="h100-01", cordoned=True)
        row = drive(row, travel, looks=3)
        assert row.state == NodeCheckState.WAITING
        assert "waiting for a free GPU" in row.detail
        travel.shift(timedelta(hours=1))
        row = drive(row, travel)
        assert row.state == NodeCheckState.FAILED
        assert "stopped after an hour" in row.detail
        assert not SandboxPod.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("times", [1, 3])
def test_a_site_that_is_away_for_a_while_delays_it(probed: Site, ask: Ask, times: int) -> None:
    with time_machine.travel(START, tick=False) as travel:
        row = ask("h100-01")
        failure_plan(probed.pk, verb="node-check", times=times)
        row = drive(row, travel, looks=20)
        assert row.state == NodeCheckState.PASSED
        assert row.finished_at is not None


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_who_is_killed_is_succeeded(ask: Ask, looks: int) -> None:
    """A claim that was taken and never given back runs out; the next one goes on, to one result and no leftover."""
    with time_machine.travel(START, tick=False) as travel:
        row = drive(ask("h100-01"), travel, looks=looks)
        assert claims.claim(NodeCheck, row.pk, now=clock.now(), seconds=60)
        assert not node_check_look(row.pk)
        travel.shift(61)
        row = drive(row, travel)
        assert row.state == NodeCheckState.PASSED
        assert not SandboxPod.objects.filter(pk=row.pk).exists()


def test_a_lost_answer_is_found_again(probed: Site, ask: Ask) -> None:
    with time_machine.travel(START, tick=False) as travel:
        row = ask("h100-01")
        failure_plan(probed.pk, verb="node-check", error="lost", times=2)
        node_check_look(row.pk)
        assert SandboxPod.objects.filter(pk=row.pk).count() == 1
        row = drive(row, travel)
        assert row.state == NodeCheckState.PASSED
        assert not SandboxPod.objects.filter(pk=row.pk).exists()


def test_one_that_makes_way_before_it_is_looked_at_begins_again(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's pod drives it out between the two calls of one look."""
    start = SandboxDriver.node_check_start
    driven_out: list[object] = []

    def started(self: SandboxDriver, node: str, check_id: uuid.UUID) -> None:
        start(self, node, check_id)
        if not driven_out:
            driven_out.append(SandboxPod.objects.get(pk=check_id).delete())

    monkeypatch.setattr(SandboxDriver, "node_check_start", started)
    with time_machine.travel(START, tick=False) as travel:
        row = drive(ask("h100-01"), travel, looks=1)
        assert row.state == NodeCheckState.WAITING
        assert driven_out
        assert drive(row, travel).state == NodeCheckState.PASSED


def test_a_refusal_ends_it_in_words(probed: Site, ask: Ask) -> None:
    with time_machine.travel(START, tick=False) as travel:
        row = ask("h100-01")
        failure_plan(probed.pk, verb="node-check", error="permanent", times=ALWAYS)
        row = drive(row, travel)
        assert row.state == NodeCheckState.FAILED
        assert "refuses" in row.detail
        assert row.finished_at is not None


def test_one_open_check_for_each_node(ask: Ask) -> None:
    with time_machine.travel(START, tick=False) as travel:
        row = ask("h100-01")
        ask("h100-02")
        with pytest.raises(Conflict, match="already running"):
            ask("h100-01")
        drive(row, travel)
        ask("h100-01")


@pytest.mark.parametrize("node", ["", "no-such", "cpu-01", "h100-01\x00", "x" * 300])
def test_only_nodes_with_gpus(ask: Ask, node: str) -> None:
    with pytest.raises(Invalid) as caught:
        ask(node)
    assert "node" in caught.value.fields
    assert not NodeCheck.objects.exists()


def test_the_sweep_finds_what_is_due(ask: Ask) -> None:
    with time_machine.travel(START, tick=False):
        row = ask("h100-01")
        assert node_checks() == 1
        assert not node_check(str(row.pk))
        assert node_checks() == 0, "the next look is some seconds away"


def test_who_may_ask_and_who_may_look(
    probed: Site, ask: Ask, as_alice: Actor, as_olga: Actor, olga: User
) -> None:
    row = ask("h100-01")
    entry = AuditEntry.objects.get(action="node.check")
    assert entry.after == {"node": "h100-01"}
    with pytest.raises(NotFound):
        node_check_request(actor=as_alice, site=probed, node="h100-02")
    with pytest.raises(NotFound):
        node_check_get_for(actor=as_alice, site=probed, id=row.pk)
    with pytest.raises(NotFound):
        node_check_get_for(actor=as_olga, site=probed, id=uuid.uuid4())
    olga.platform_role = "auditor"
    olga.save()
    auditor = actor_for(user=olga)
    assert node_check_get_for(actor=auditor, site=probed, id=row.pk) == row
    assert list(node_checks_of(site=probed)) == [row]
    with pytest.raises(Forbidden):
        node_check_request(actor=auditor, site=probed, node="h100-02")


def test_not_at_a_disabled_site(probed: Site, as_olga: Actor, ask: Ask) -> None:
    probed = site_update(actor=as_olga, site=probed, enabled=False)
    with pytest.raises(Conflict):
        node_check_request(actor=as_olga, site=probed, node="h100-01")


def test_a_site_that_is_away_keeps_it_open(probed: Site, ask: Ask) -> None:
    with time_machine.travel(START, tick=False):
        row = ask("h100-01")
        dials_set(probed.pk, down=True)
        node_check_look(row.pk)
        row.refresh_from_db()
        assert row.finished_at is None
        assert row.attempts == 1
        assert row.due_at is not None
        assert "does not answer" in row.detail
