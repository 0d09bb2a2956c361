"""What pages and the API tell of machines that were put away, that do not fit now, and of a workspace that sleeps."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from gpuaas.catalog.models import Flavor, GpuPool, Node
from gpuaas.core import clock
from gpuaas.core.conditions import Status, condition_set
from gpuaas.providers.base import MachineVerb
from gpuaas.providers.sandbox.machines import SandboxCloudDriver
from gpuaas.workspaces.machines.models import Machine, MachineTransition
from gpuaas.workspaces.machines.selectors import flavors_left, surplus_marks
from gpuaas.workspaces.machines.services import machine_act
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Eviction, Workspace
from gpuaas.workspaces.services import workspace_suspend
from gpuaas.workspaces.services.evictions import eviction_done, eviction_record
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.spec import ref_of
from quotas.allowances import WITHIN_QUOTA, Surplus
from tenants.actors import Actor
from tenants.models import User
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.scene import put_away
from tests.frontend.pages.test_machines import ORDER, url
from tests.workspaces.stage import settle

pytestmark = pytest.mark.django_db
TOLD = "Shelved or deleted by the portal: with it, the workspace held 3 H100 SXM 80 GB but has bought 2."
THEN = "Delete another machine or resize the workspace, then unshelve it"


@pytest.fixture
def machine(alice_at: Client, room: Workspace) -> Machine:
    assert alice_at.post(url("machine_new", room), ORDER).status_code == 302
    assert visit(room.pk)
    made = Machine.objects.get()
    assert made.state == "running"
    return made


def text_of(client: Client, address: str) -> str:
    return words(client.get(address))


def over(workspace: Workspace, status: Status) -> None:
    """What the warden says of it."""
    workspace.conditions = condition_set(
        workspace.conditions, type=WITHIN_QUOTA, status=status, reason="Surplus", message="", now=clock.now()
    )
    workspace.save(update_fields=["conditions"])


def test_the_warden_puts_one_away_and_its_people_read_why(
    alice_at: Client, dora_at: Client, olga: User, as_alice: Actor, machine: Machine, room: Workspace
) -> None:
    driver = driver_of(room.site)
    assert isinstance(driver, SandboxCloudDriver)
    (consumer,) = driver.observe(ref_of(room)).consumers
    assert (consumer.name, consumer.uid.partition(":")[0]) == ("train-vm", machine.uid)
    resource = next(iter(consumer.gpus))
    found = Surplus(consumer, resource, 1, limit=2, held=3)
    eviction_record(holder_id=room.pk, found=[found], seen_at=clock.now())
    before = text_of(alice_at, url("machines", room))
    assert "Surplus" in before
    assert "is being shelved or deleted" in before
    assert driver.evict(room.external_name, consumer, reason=found.reason("workspace"))
    eviction_done(holder_id=room.pk, consumer_uid=consumer.uid, removed_at=clock.now())
    assert visit(room.pk)
    assert Machine.objects.get().state == "shelved"
    for place in ("machines", "workspace"):
        shown = text_of(alice_at, url(place, room))
        assert TOLD in shown
        assert THEN in shown
    own = text_of(alice_at, url("machine", room, machine.pk))
    assert TOLD in own
    assert "Surplus: with it, the workspace held 3" in own
    timeline = text_of(dora_at, url("workspace", room))  # a viewer, without the audit log
    assert "train-vm: Shelved or deleted after" in timeline
    operator = text_of(signed_in(olga), f"/operator/sites/at/{room.site.slug}/metering/")
    assert "Machines shelved or deleted" in operator
    assert "whether a machine is shelved or deleted" in operator
    machine_act(actor=as_alice, machine=Machine.objects.get(), verb=MachineVerb.UNSHELVE)
    assert visit(room.pk)
    assert visit(room.pk)
    back = Machine.objects.get()
    assert back.state == "running", back.failure
    assert TOLD not in text_of(alice_at, url("machines", room))
    assert "train-vm: Shelved or deleted after" in text_of(alice_at, url("workspace", room))


def test_one_that_gave_its_devices_back_by_itself_is_no_surplus(
    alice_at: Client, machine: Machine, room: Workspace
) -> None:
    put_away(machine, removed=False)
    over(room, Status.FALSE)
    assert set(surplus_marks(workspace=room)) == {machine.pk}
    over(room, Status.TRUE)
    assert surplus_marks(workspace=room) == {}
    assert "Released its GPUs before it was shelved or deleted" in text_of(alice_at, url("workspace", room))


def test_the_newest_mark_of_each_machine_counts(machine: Machine, room: Workspace) -> None:
    first = put_away(machine)
    earlier = clock.now() - timedelta(hours=1)
    Eviction.objects.filter(pk=first.pk).update(removed_at=earlier)
    MachineTransition.objects.filter(subject=machine).update(at=earlier - timedelta(minutes=1))
    assert set(surplus_marks(workspace=room)) == {machine.pk}
    back = MachineTransition.objects.create(subject=machine, old="shelved", new="running", actor="site")
    assert surplus_marks(workspace=room) == {}
    Eviction.objects.filter(pk=first.pk).update(consumer_uid=f"{machine.uid}:first")
    again = put_away(machine)
    Eviction.objects.filter(pk=again.pk).update(removed_at=back.at + timedelta(seconds=1))
    assert {row.pk for row in surplus_marks(workspace=room).values()} == {again.pk}


def hosts(room: Workspace, *free: int) -> GpuPool:
    """What the last look at the site found free on each host."""
    pool = room.flavors.get().flavor.pool
    Node.objects.filter(pool=pool).delete()
    for number, block in enumerate(free):
        Node.objects.create(
            site=room.site,
            pool=pool,
            name=f"h-{number}",
            capacity=8,
            allocated=8 - block,
            observed_at=clock.now(),
        )
    GpuPool.objects.filter(pk=pool.pk).update(
        healthy=8 * len(free), allocated=8 * len(free) - sum(free), largest_block=max(free)
    )
    return pool


@pytest.mark.parametrize(
    ("gpus", "free", "fits"), [(1, (0, 1), 1), (4, (3, 3), 0), (4, (7, 3), 1), (2, (3, 5), 2), (8, (8, 8), 2)]
)
def test_a_machine_fits_where_one_host_has_room(
    room: Workspace, gpus: int, free: tuple[int, ...], fits: int
) -> None:
    pool = hosts(room, *free)
    Flavor.objects.filter(pool=pool).update(gpus=gpus)
    (found,) = flavors_left(workspace=room)
    assert (found.left, found.fits, bool(found.full)) == (2, fits, not fits)


def test_nothing_fits_and_the_form_says_why(alice_at: Client, room: Workspace) -> None:
    pool = hosts(room, 3, 2)
    form = text_of(alice_at, url("machine_new", room))
    assert 'data-l="GPUs not allocated at ber-1">5<' in form
    assert 'data-l="Most on one host">3<' in form
    assert "No host" not in form
    Flavor.objects.filter(pool=pool).update(gpus=4)
    form = text_of(alice_at, url("machine_new", room))
    why = "No host at the site has 4 free H100 SXM 80 GB at this moment; the most on one is 3."
    assert form.count(why) == 2  # beside the flavor, and beside the button that cannot be pressed
    assert why in text_of(alice_at, url("machines", room))
    shown: Any = alice_at.get(api(room, "/flavors")).json()["results"][0]
    assert (shown["left"], shown["fits"], shown["unallocated_gpus"], shown["largest_block"]) == (2, 0, 5, 3)
    assert shown["reason"].startswith(why)


def api(room: Workspace, more: str = "") -> str:
    return f"/api/v1/projects/{room.project.slug}/workspaces/{room.pk}/machines{more}"


def test_nothing_is_launched_or_started_while_the_workspace_sleeps(
    alice_at: Client, as_alice: Actor, machine: Machine, room: Workspace
) -> None:
    workspace_suspend(actor=as_alice, workspace=room, reason="")
    asleep = settle(room)
    assert asleep.state == "suspended"
    assert visit(room.pk)
    assert Machine.objects.get().state == "shelved"
    listed = text_of(alice_at, url("machines", room))
    assert "The workspace is suspended. Resume it" in listed
    page = text_of(alice_at, url("machine", room, machine.pk))
    assert "This machine cannot be started now" in page
    assert 'value="unshelve"' not in page
    assert "The workspace is suspended. Resume it" in text_of(alice_at, url("machine_new", room))
    refused = alice_at.post(url("machine_new", room), {**ORDER, "name": "second"})
    assert refused.status_code == 422
    assert "The workspace is suspended. Resume it" in refused.content.decode()
    for verb in ("start", "unshelve", "restart", "rebuild"):
        here = url("machine", room, machine.pk)
        answer = alice_at.post(
            url("machine_act", room, machine.pk), {"verb": verb}, headers={"referer": here}, follow=True
        )
        assert "while the workspace is suspended; resume it first" in answer.content.decode()
        told = alice_at.post(
            api(room, f"/{machine.pk}/actions"), {"verb": verb}, content_type="application/json"
        )
        assert told.status_code == 409
        assert "resume it first" in told.content.decode()
    ordered = alice_at.post(
        api(room),
        {"name": "second", "flavor": "h100.1", "image": "img-debian-12"},
        content_type="application/json",
    )
    assert ordered.status_code == 409
    assert "resume it first" in ordered.content.decode()
    assert alice_at.get(api(room, f"/{machine.pk}")).json()["actions"] == ["delete"]
    assert Machine.objects.count() == 1
