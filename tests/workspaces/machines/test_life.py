"""A machine's life from the order to the deletion, at a simulated cloud; what is refused in advance and what later."""

from copy import copy
from dataclasses import replace

import pytest

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import Conflict, Forbidden, Invalid, NotFound, QuotaRefused, StaleVersion
from gpuaas.core.events import project_group
from gpuaas.providers.base import MachineVerb
from gpuaas.providers.sandbox.dials import ALWAYS, failure_plan
from gpuaas.providers.sandbox.machines import machine_behind
from gpuaas.providers.sandbox.models import SandboxMachine, SandboxNode
from gpuaas.workspaces.machines.models import Machine, MachineLook
from gpuaas.workspaces.machines.selectors import flavors_left, machines_of, verbs_now
from gpuaas.workspaces.machines.services import (
    MachineOrder,
    console_request,
    machine_act,
    machine_delete,
    machine_order,
)
from gpuaas.workspaces.machines.tasks import machines_sweep
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import member_set, workspace_delete, workspace_resume, workspace_suspend
from tenants.actors import Actor
from tenants.models import AuditEntry
from tests.live.hearing import heard, listen
from tests.workspaces.stage import settle

pytestmark = pytest.mark.django_db
V = MachineVerb
ORDER = MachineOrder(name="train", flavor="h100.1", image="img-debian-12")
SECRET = "#cloud-config\npassword: hunter2\n"


def order(actor: Actor, workspace: Workspace, **changes: object) -> Machine:
    return machine_order(actor=actor, workspace=workspace, order=replace(ORDER, **changes))  # type: ignore[arg-type]


def visited(machine: Machine) -> Machine:
    assert visit(machine.workspace_id)
    return Machine.objects.select_related("workspace__project__organization", "workspace__site").get(
        pk=machine.pk
    )


def act(actor: Actor, machine: Machine, verb: MachineVerb, image: str = "") -> Machine:
    return visited(machine_act(actor=actor, machine=machine, verb=verb, image=image))


def test_the_whole_life(as_bob: Actor, workspace: Workspace) -> None:
    made = order(as_bob, workspace, cloud_init=SECRET)
    assert made.state == "ordered"
    running = visited(made)
    assert (running.state, running.observed["addresses"] != [], running.behind) == ("running", True, False)
    for verb, state in (
        (V.STOP, "stopped"),
        (V.START, "running"),
        (V.RESTART, "running"),
        (V.REBUILD, "running"),
        (V.SHELVE, "shelved"),
        (V.UNSHELVE, "running"),
    ):
        asked = machine_act(actor=as_bob, machine=running, verb=verb)
        assert (asked.state, asked.verb) == ("changing", verb.value)
        running = visited(asked)
        assert (running.state, running.verb, running.failure) == (state, "", ""), verb
    gone = visited(machine_delete(actor=as_bob, machine=running))
    assert gone.state == "deleted"
    assert gone.deleted_at is not None
    assert SandboxMachine.objects.count() == 0
    said = [(row.old, row.new, row.actor) for row in gone.transitions.all()]
    assert said[0] == ("ordered", "running", "portal")
    assert said[-2:] == [("running", "deleting", "bob"), ("deleting", "deleted", "site")]
    actions = list(
        AuditEntry.objects.filter(target_id=str(made.pk)).order_by("pk").values_list("action", flat=True)
    )
    assert actions == [
        f"machine.{verb}"
        for verb in ("order", "stop", "start", "restart", "rebuild", "shelve", "unshelve", "delete")
    ]


def test_cloud_init_is_encrypted_and_forgotten_once_the_site_has_built_it(
    as_bob: Actor, workspace: Workspace
) -> None:
    made = order(as_bob, workspace, cloud_init=SECRET)
    assert made.cloud_init
    assert "hunter2" not in str([Machine.objects.values().get(pk=made.pk), *AuditEntry.objects.values()])
    assert visited(made).cloud_init == ""


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": "Not A Name"}),
        ("flavor", {"flavor": "l40s.1"}),
        ("image", {"image": "windows"}),
        ("image", {"image": "img-ubuntu-2404"}),  # 16 GiB, and the flavor gives 14
        ("key", {"key": "laptop"}),
        ("public_key", {"public_key": "-----BEGIN OPENSSH PRIVATE KEY-----"}),
        ("cloud_init", {"cloud_init": "packages: [htop]"}),
        ("cloud_init", {"cloud_init": "#cloud-config\n" + "é" * 30_000}),
        ("volume_gib", {"volume_gib": 10}),
    ],
)
def test_what_can_never_be_is_refused_beside_its_field(
    as_bob: Actor, workspace: Workspace, field: str, changes: dict[str, object]
) -> None:
    with pytest.raises(Invalid) as refused:
        order(as_bob, workspace, **changes)
    assert list(refused.value.fields) == [field]
    assert not machines_of(workspace=workspace).exists()


def test_no_more_machines_than_were_bought(as_bob: Actor, workspace: Workspace) -> None:
    first = visited(order(as_bob, workspace))
    with pytest.raises(Conflict, match="already has a machine called train"):
        order(as_bob, workspace)
    order(as_bob, workspace, name="second")
    with pytest.raises(QuotaRefused, match="has bought 2") as refused:
        order(as_bob, workspace, name="third")
    assert refused.value.detail["field"] == "flavor"
    act(as_bob, first, V.SHELVE)
    assert [room.left for room in flavors_left(workspace=workspace)] == [0]  # a shelved one counts
    visited(machine_delete(actor=as_bob, machine=first))
    assert [room.left for room in flavors_left(workspace=workspace)] == [1]
    assert visited(order(as_bob, workspace, name="third")).state == "running"


def test_who_may_run_them(as_alice: Actor, as_bob: Actor, as_charlie: Actor, workspace: Workspace) -> None:
    made = visited(order(as_alice, workspace))
    member_set(actor=as_alice, workspace=workspace, username="bob", role="view")
    with pytest.raises(Forbidden, match="view"):
        order(as_bob, workspace, name="mine")
    with pytest.raises(Forbidden):
        machine_act(actor=as_bob, machine=made, verb=V.STOP)
    with pytest.raises(Forbidden):
        console_request(actor=as_bob, machine=made)
    for ask in (
        lambda: order(as_charlie, workspace),
        lambda: machine_act(actor=as_charlie, machine=made, verb=V.STOP),
        lambda: machine_delete(actor=as_charlie, machine=made),
        lambda: console_request(actor=as_charlie, machine=made),
    ):
        with pytest.raises(NotFound):
            ask()


def test_one_thing_at_a_time_and_a_deletion_goes_before(as_bob: Actor, workspace: Workspace) -> None:
    made = visited(order(as_bob, workspace))
    with pytest.raises(Conflict, match="running cannot start"):
        machine_act(actor=as_bob, machine=made, verb=V.START)
    stopping = machine_act(actor=as_bob, machine=made, verb=V.STOP)
    with pytest.raises(Conflict):
        machine_act(actor=as_bob, machine=stopping, verb=V.RESTART)
    with pytest.raises(StaleVersion):
        machine_delete(actor=as_bob, machine=stopping, expected_version=made.version)
    deleting = machine_delete(actor=as_bob, machine=stopping)
    assert machine_delete(actor=as_bob, machine=deleting).version == deleting.version
    assert visited(deleting).state == "deleted"


def test_a_deletion_that_is_asked_for_twice_at_once_changes_nothing(
    as_bob: Actor, workspace: Workspace
) -> None:
    """As by a client that has waited too long for the first answer, and sends the same again."""
    made = visited(order(as_bob, workspace))
    late, later = copy(made), copy(made)
    deleting = machine_delete(actor=as_bob, machine=made, expected_version=made.version)
    for again, version in ((late, late.version), (later, None)):
        found = machine_delete(actor=as_bob, machine=again, expected_version=version)
        assert (found.state, found.version) == ("deleting", deleting.version)
    assert AuditEntry.objects.filter(action="machine.delete").count() == 1


def test_no_host_with_room_is_told_in_words(as_bob: Actor, workspace: Workspace) -> None:
    SandboxNode.objects.update(cordoned=True)
    made = visited(order(as_bob, workspace))
    assert made.state == "failed"
    assert "no host has enough free GPUs" in made.failure
    assert visited(machine_delete(actor=as_bob, machine=made)).state == "deleted"


def test_what_the_site_refuses_is_told_and_given_up(as_bob: Actor, workspace: Workspace) -> None:
    failure_plan(workspace.site_id, verb="launch", error="permanent")
    made = visited(order(as_bob, workspace))
    assert (made.state, made.uid, made.cloud_init) == ("failed", "", "")
    assert "refuses launch" in made.failure
    assert verbs_now(made) == [V.DELETE]
    with pytest.raises(Conflict, match="never made it"):
        machine_act(actor=as_bob, machine=made, verb=V.REBUILD)
    assert visited(machine_delete(actor=as_bob, machine=made)).state == "deleted"
    other = visited(order(as_bob, workspace, name="other"))
    failure_plan(workspace.site_id, verb="act:stop", error="permanent")
    kept = act(as_bob, other, V.STOP)
    assert (kept.state, kept.verb) == ("running", "")
    assert "refuses act:stop" in kept.failure
    assert act(as_bob, kept, V.STOP).failure == ""


@pytest.mark.parametrize("verb", ["launch", "machines", "images"])
def test_a_lost_answer_makes_no_second_machine(as_bob: Actor, workspace: Workspace, verb: str) -> None:
    made = order(as_bob, workspace)
    MachineLook.objects.filter(workspace=workspace).update(slow_at=None)
    failure_plan(workspace.site_id, verb=verb, error="lost")
    visit(workspace.pk)
    assert visited(made).state == "running"
    assert SandboxMachine.objects.count() == 1
    assert machines_of(workspace=workspace).count() == 1


def test_a_site_that_does_not_answer_is_waited_for(as_bob: Actor, workspace: Workspace) -> None:
    made = visited(order(as_bob, workspace))
    failure_plan(workspace.site_id, verb="machines", error="unavailable", times=ALWAYS)
    asked = machine_act(actor=as_bob, machine=made, verb=V.STOP)
    assert not visit(workspace.pk)
    look = MachineLook.objects.get(workspace=workspace)
    assert "did not answer" in look.failure
    assert look.due_at is not None
    assert look.due_at > clock.now()
    failure_plan(workspace.site_id, verb="machines", times=0)
    assert visited(asked).state == "stopped"
    assert MachineLook.objects.get(workspace=workspace).failure == ""


def test_a_machine_made_behind_the_portal_appears_and_goes(as_bob: Actor, workspace: Workspace) -> None:
    uid = machine_behind(workspace.site_id, workspace.external_name, "by-cli")
    assert visit(workspace.pk)
    found = machines_of(workspace=workspace).get()
    assert (found.name, found.behind, found.state, found.uid) == ("by-cli", True, "running", uid)
    assert act(as_bob, found, V.STOP).state == "stopped"
    SandboxMachine.objects.all().delete()
    gone = visited(found)
    assert gone.state == "deleted"
    assert gone.transitions.last().reason == "deleted with another client"  # type: ignore[union-attr]


def test_a_machine_that_was_gone_and_is_restored_is_seen_again(as_bob: Actor, workspace: Workspace) -> None:
    """As clouds that keep deleted machines for a while let their owners do."""
    mine = visited(order(as_bob, workspace))
    uid = machine_behind(workspace.site_id, workspace.external_name, "by-cli")
    assert visit(workspace.pk)
    kept = list(SandboxMachine.objects.all())
    SandboxMachine.objects.all().delete()
    assert visited(mine).state == "deleted"
    for each in kept:
        each.save(force_insert=True)
    back = visited(mine)
    assert (back.state, back.deleted_at, back.behind) == ("running", None, False)
    assert set(machines_of(workspace=workspace).values_list("uid", flat=True)) == {mine.uid, uid}
    assert [each.new for each in back.transitions.all()] == ["running", "deleted", "running"]
    assert act(as_bob, back, V.STOP).state == "stopped"


def test_an_order_that_was_taken_back_before_its_answer_came_goes_again(
    as_bob: Actor, workspace: Workspace
) -> None:
    made = order(as_bob, workspace)
    failure_plan(workspace.site_id, verb="launch", error="lost")
    failure_plan(workspace.site_id, verb="machines", error="unavailable")
    visit(workspace.pk)
    kept = SandboxMachine.objects.get()
    SandboxMachine.objects.all().delete()  # the site does not show it yet
    assert visited(machine_delete(actor=as_bob, machine=made)).state == "deleted"
    kept.save(force_insert=True)
    assert visit(workspace.pk)
    assert machines_of(workspace=workspace).get().state == "deleting"
    assert visit(workspace.pk)
    assert not machines_of(workspace=workspace).exists()
    assert SandboxMachine.objects.count() == 0


def test_the_console_is_audited_and_not_kept(as_bob: Actor, workspace: Workspace) -> None:
    made = visited(order(as_bob, workspace))
    console = console_request(actor=as_bob, machine=made)
    token = console.url.partition("token=")[2]
    rows = [*Machine.objects.values(), *MachineLook.objects.values(), *AuditEntry.objects.values()]
    assert token
    assert token not in str(rows)
    assert AuditEntry.objects.filter(action="machine.console", actor="bob").count() == 1
    with pytest.raises(Conflict, match="only a running machine"):
        console_request(actor=as_bob, machine=act(as_bob, made, V.STOP))


def test_asleep_only_what_frees_may_be_asked(as_alice: Actor, workspace: Workspace) -> None:
    made = visited(order(as_alice, workspace))
    workspace_suspend(actor=as_alice, workspace=workspace, reason="")
    asleep = settle(workspace)
    assert asleep.state == "suspended"
    made = visited(made)
    assert made.state == "shelved"
    with pytest.raises(Conflict, match="suspended"):
        machine_act(actor=as_alice, machine=made, verb=V.UNSHELVE)
    with pytest.raises(Conflict, match="suspended"):
        order(as_alice, asleep, name="other")
    workspace_resume(actor=as_alice, workspace=asleep)
    assert settle(asleep).state == "ready"
    assert visited(made).state == "running"


def test_the_workspace_takes_its_machines_along(as_alice: Actor, workspace: Workspace) -> None:
    made = visited(order(as_alice, workspace))
    late = order(as_alice, workspace, name="late")
    look = MachineLook.objects.get(workspace=workspace)
    assert look.belongings
    workspace_delete(actor=as_alice, workspace=workspace)
    assert settle(workspace).state == "deleted"
    assert visit(workspace.pk)
    for row in (made, late):
        row.refresh_from_db()
        assert row.state == "deleted"
    look.refresh_from_db()
    assert (look.belongings, look.due_at) == ([], None)


def test_a_lost_poke_is_found_by_the_sweep(as_bob: Actor, workspace: Workspace) -> None:
    assert machines_sweep() == 0
    order(as_bob, workspace)
    assert machines_sweep() == 1


@pytest.mark.django_db(transaction=True)
def test_nobody_is_told_where_nothing_is_new(as_bob: Actor, workspace: Workspace) -> None:
    listen(project_group(workspace.project_id), "team")
    for name in ("one", "two"):
        visited(order(as_bob, workspace, name=name))
    assert {event["kind"] for event in heard("team")} >= {"machines"}
    assert visit(workspace.pk)
    assert heard("team") == []


def test_a_site_without_machines_says_so(as_alice: Actor, workspace: Workspace) -> None:
    Site.objects.filter(pk=workspace.site_id).update(driver="sandbox")
    pods = Workspace.objects.select_related("project__organization", "site").get(pk=workspace.pk)
    with pytest.raises(Conflict, match="does not provide machines"):
        order(as_alice, pods)
    assert visit(pods.pk)


def test_one_of_another_flavor_takes_of_what_fits(as_bob: Actor, workspace: Workspace) -> None:
    machine_behind(workspace.site_id, workspace.external_name, "by-cli", flavor="their-own")
    assert visit(workspace.pk)
    assert [(room.held, room.left) for room in flavors_left(workspace=workspace)] == [(0, 1)]
    order(as_bob, workspace)
    with pytest.raises(QuotaRefused):
        order(as_bob, workspace, name="second")
