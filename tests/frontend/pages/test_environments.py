"""Pages of environments: ordered, refused beside the field, seen live, stopped, cloned and deleted; and their kinds."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.environments.door.hostkey import host_key
from gpuaas.environments.models import Environment, EnvironmentKind, EnvironmentUse, SshKey
from gpuaas.environments.reconcile import log_fetch
from gpuaas.environments.services import environment_stop, kind_retire
from gpuaas.workspaces.machines.keys import fingerprint_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_suspend
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.environments.stage import DOCUMENT, kind, ordered, settle, workspace_ready
from tests.environments.stage import ready as environment_ready
from tests.frontend.markup import asks_again, words
from tests.frontend.pages.conftest import signed_in
from tests.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture
@lasting
def room(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of two GPUs."""
    return workspace_ready(as_alice, project, site, h100s=2)


@pytest.fixture
@lasting
def notebook(as_alice: Actor, room: Workspace) -> Environment:
    return environment_ready(as_alice, room)


def at(name: str, project: Project, *more: object) -> str:
    return reverse(f"frontend:{name}", args=[project.slug, *more])


def order(room: Workspace, **changes: object) -> dict[str, object]:
    sizes = {"gpus": 1, "vcpus": 4, "memory_gib": 16, "home_gib": 10}
    folder = {"parameters.folder": "work"}
    usual = {"workspace": str(room.pk), "name": "lab", "gpu": "", "access": "workspace"}
    return {**usual, **sizes, **folder, **changes}


def test_it_is_ordered_and_its_page_says_how_to_reach_it(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    assert "No environments yet" in words(alice_at.get(at("environments", project)))
    assert "No environments are offered" in words(alice_at.get(at("environment_new", project)))
    slug = kind().slug
    offered = alice_at.get(at("environment_new", project)).content.decode()
    assert at("environment_order", project, slug) in offered
    form = words(alice_at.get(at("environment_order", project, slug)))
    assert "GPUs" in form
    assert "Free" in form
    answer = alice_at.post(at("environment_order", project, slug), order(room))
    row = Environment.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, at("environment", project, row.pk))
    shown = words(alice_at.get(at("environment", project, row.pk)))
    assert "Requested" in shown
    assert "Create the home volume" in shown
    row = settle(row)
    page = alice_at.get(at("environment", project, row.pk))
    port = f"port-forward service/{row.external_name} 8888:8888"
    assert f"kubectl --kubeconfig {room.name}.yaml -n {room.external_name} {port}" in words(page)
    assert "http://localhost:8888/" in words(page)
    assert ">Open<" not in page.content.decode()
    assert "Its home stays" in words(page)
    assert "its home of 10 GiB is deleted with all files" in words(page)


def test_it_is_stopped_started_restarted_and_deleted(
    alice_at: Client, notebook: Environment, project: Project
) -> None:
    row = notebook
    assert alice_at.post(at("environment_stop", project, row.pk)).status_code == 302
    row = settle(row)
    stopped = words(alice_at.get(at("environment", project, row.pk)))
    assert "Stopped" in stopped
    assert "port-forward" not in stopped
    assert alice_at.post(at("environment_start", project, row.pk)).status_code == 302
    assert settle(row).state == "ready"
    assert alice_at.post(at("environment_restart", project, row.pk)).status_code == 302
    assert settle(row).state == "ready"
    wrong = alice_at.post(at("environment_delete", project, row.pk), {"confirm_name": "wrong"})
    assert asks_again(wrong, "delete", "wrong")
    assert settle(row).state == "ready"
    right = alice_at.post(at("environment_delete", project, row.pk), {"confirm_name": "lab"})
    assert right.status_code == 302
    assert settle(row).state == "deleted"
    assert "No environments yet" in words(alice_at.get(at("environments", project)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "Not A Name"}, "use 1 to 40 lower-case"),
        (
            {"gpus": "3"},
            "has bought 2 h100 sxm 80 gb, and its other environments and jobs take 0: 2 are free",
        ),
        ({"gpus": "-1"}, "must be a whole number from 0"),
        ({"memory_gib": "9999"}, "gib of memory"),
        ({"home_gib": "9999"}, "gib of storage"),
        ({"vcpus": "many"}, "enter a whole number"),
        ({"workspace": str(uuid.uuid4())}, "choose one of the workspaces"),
        ({"gpu": "a100"}, "choose one of the list"),
    ],
)
def test_a_refusal_is_beside_its_field(
    alice_at: Client, room: Workspace, project: Project, change: dict[str, str], said: str
) -> None:
    answer = alice_at.post(at("environment_order", project, kind().slug), order(room, **change))
    assert answer.status_code == 422
    assert said in words(answer).lower()
    assert not Environment.objects.exists()


def test_a_clone_is_refused_in_its_dialog(alice_at: Client, notebook: Environment, project: Project) -> None:
    answer = alice_at.post(at("environment_clone", project, notebook.pk), {"name": "lab"})
    assert answer.status_code == 422
    assert "already has an environment called lab" in words(answer)
    assert alice_at.post(at("environment_clone", project, notebook.pk), {"name": "two"}).status_code == 302
    assert Environment.objects.count() == 2


def test_nobody_uses_it_and_it_is_kept(alice_at: Client, notebook: Environment, project: Project) -> None:
    page = at("environment", project, notebook.pk)
    shown = words(alice_at.get(page))
    assert "Stopped without use</dt><dd>never" in shown
    refused = alice_at.post(at("environment_idle", project, notebook.pk), {"idle_hours": "721"})
    assert refused.status_code == 422
    assert "from 1 to 720" in words(refused)
    done = alice_at.post(at("environment_idle", project, notebook.pk), {"idle_hours": "1"}, follow=True)
    assert "is stopped after 1 hour without use" in words(done)
    assert alice_at.post(at("environment_idle", project, notebook.pk), {"idle_hours": "8"}).status_code == 302
    assert "Stopped without use</dt><dd>after 8 hours" in words(alice_at.get(page))
    assert "Keep it running" not in words(alice_at.get(page))
    stop_at = now() + timedelta(minutes=30)
    EnvironmentUse.objects.filter(pk=notebook.pk).update(stop_at=stop_at, unknown="")
    told = {"status": "False", "reason": "StopsSoon", "since": now().isoformat()}
    message = f"nothing has used it since long ago; it is stopped on {stop_at:%Y-%m-%d %H:%M} UTC unless it is used before"
    Environment.objects.filter(pk=notebook.pk).update(conditions={"InUse": {**told, "message": message}})
    shown = words(alice_at.get(page))
    assert "It is about to be stopped" in shown
    assert "Keep it running" in shown
    assert alice_at.post(at("environment_keep", project, notebook.pk), {"hours": "5"}).status_code == 422
    assert alice_at.post(at("environment_keep", project, notebook.pk), {"hours": "72"}).status_code == 302
    shown = words(alice_at.get(page))
    assert "Kept until" in shown
    assert "It is about to be stopped" not in shown
    assert alice_at.post(at("environment_idle", project, notebook.pk), {"idle_hours": ""}).status_code == 302
    assert Environment.objects.get(pk=notebook.pk).idle_hours is None
    EnvironmentUse.objects.filter(pk=notebook.pk).update(unknown="its site does not answer")
    assert "Not known: its site does not answer" in words(alice_at.get(page))


def test_the_order_says_after_how_long_it_is_stopped(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    slug = kind(idle_hours=4).slug
    form = words(alice_at.get(at("environment_order", project, slug)))
    assert "after the most that this kind allows, 4 hours" in form
    refused = alice_at.post(at("environment_order", project, slug), order(room, idle_hours="5"))
    assert refused.status_code == 422
    assert "from 1 to 4" in words(refused)
    assert (
        alice_at.post(at("environment_order", project, slug), order(room, idle_hours="3")).status_code == 302
    )
    assert Environment.objects.get().idle_hours == 3


def entrance(row: Environment) -> str:
    return f"{reverse('frontend:environment_enter', args=[row.label])}?browser={'a' * 64}"


@pytest.mark.parametrize(
    ("port", "command", "place"),
    [(22, "ssh {}@ssh.test", "ssh.test"), (2222, "ssh -p 2222 {}@ssh.test", "[ssh.test]:2222")],
)
def test_the_way_in_by_ssh_is_shown_to_those_who_have_one(
    port: int,
    command: str,
    place: str,
    alice_at: Client,
    bob_at: Client,
    as_alice: Actor,
    notebook: Environment,
    project: Project,
    settings: Any,
) -> None:
    page = at("environment", project, notebook.pk)
    assert "ssh" not in words(alice_at.get(page))
    settings.DOOR_SSH = ("ssh.test", port)
    shown = words(alice_at.get(page))
    assert command.format(notebook.label) in shown
    assert "known_hosts" not in shown, "no door has run"
    host_key()
    public = SshKey.objects.get().public
    shown = words(alice_at.get(page))
    assert f"{place} {public}" in shown
    assert fingerprint_of(public) in shown
    assert "ssh" not in words(bob_at.get(page)), "he may look at the workspace alone"
    settle(environment_stop(actor=as_alice, environment=notebook))
    assert "ssh" not in words(alice_at.get(page))


@override_settings(DOOR_DOMAIN="apps.test")
def test_opening_it_starts_what_was_stopped_for_want_of_use_alone(
    alice_at: Client, charlie_at: Client, as_alice: Actor, notebook: Environment, project: Project
) -> None:
    row = settle(environment_stop(actor=as_alice, environment=notebook))
    assert alice_at.get(entrance(row)).headers["Location"] == at("environment", project, row.pk)
    assert Environment.objects.get().state == "suspended"  # by a person, so it stays
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=now())
    assert "It was stopped for want of use" in words(alice_at.get(at("environment", project, row.pk)))
    assert charlie_at.get(entrance(row)).status_code == 404
    for looks in ({"Sec-Purpose": "prefetch"}, {"Sec-Fetch-Dest": "image"}, {"Sec-Fetch-Dest": "iframe"}):
        alice_at.get(entrance(row), headers=looks)
        assert Environment.objects.get().state == "suspended", looks
    waits = alice_at.get(entrance(row))
    assert (waits.status_code, waits.headers["Refresh"]) == (200, "2")
    assert "Opening lab" in words(waits)
    assert "what was only in memory is lost" in words(waits)
    assert alice_at.get(entrance(row)).status_code == 200
    assert row.operations.filter(kind="resume").count() == 1
    row = settle(row)
    assert row.state == "ready"
    there = alice_at.get(entrance(row)).headers["Location"]
    assert there.startswith(f"https://{row.label}.apps.test/.gpuaas/enter")


def test_a_failed_one_says_what_it_keeps(alice_at: Client, as_alice: Actor, notebook: Environment) -> None:
    Environment.objects.filter(pk=notebook.pk).update(
        state="failed", failure="the image is not there", gpus=1
    )
    page = at("environment", notebook.project, notebook.pk)
    shown = words(alice_at.get(page))
    assert "The image is not there. It keeps its GPUs, vCPUs and memory until it is stopped." in shown
    environment_stop(actor=as_alice, environment=Environment.objects.get(pk=notebook.pk))
    assert "until it is stopped" not in words(alice_at.get(page))


@override_settings(DOOR_DOMAIN="apps.test")
def test_one_that_never_ran_has_nothing_in_memory(alice_at: Client, as_alice: Actor, room: Workspace) -> None:
    waits = words(alice_at.get(entrance(ordered(as_alice, room, "second", gpus=0))))
    assert ("Opening second" in waits, "in memory" in waits) == (True, False)


@override_settings(DOOR_DOMAIN="apps.test")
def test_where_there_is_no_room_the_page_says_so(
    alice_at: Client, as_alice: Actor, notebook: Environment, room: Workspace, project: Project
) -> None:
    row = settle(environment_stop(actor=as_alice, environment=notebook))
    EnvironmentUse.objects.filter(pk=row.pk).update(stopped_at=now())
    environment_ready(as_alice, room, "other", gpus=2)
    answer = alice_at.get(entrance(row))
    assert answer.headers["Location"] == at("environment", project, row.pk)
    assert any("0 are free" in str(each) for each in get_messages(answer.wsgi_request))


def test_its_log_is_fetched_and_shown(alice_at: Client, notebook: Environment, project: Project) -> None:
    page = at("environment", project, notebook.pk)
    assert "Not available: nobody has fetched it yet" in words(alice_at.get(page))
    assert alice_at.post(at("environment_log", project, notebook.pk)).status_code == 302
    assert "The portal is fetching the log" in words(alice_at.get(page))
    log_fetch(notebook.pk)
    assert "listening at port 8888" in words(alice_at.get(page))


def test_with_its_workspace_asleep_it_cannot_be_started(
    alice_at: Client, as_alice: Actor, notebook: Environment, room: Workspace, project: Project
) -> None:
    workspace_suspend(actor=as_alice, workspace=room)
    row = settle(notebook)
    shown = words(alice_at.get(at("environment", project, row.pk)))
    assert f"Its workspace {room.name} is suspending." in shown
    refused = alice_at.post(at("environment_start", project, row.pk))
    assert any("suspend" in str(each).lower() for each in get_messages(refused.wsgi_request))
    assert "No workspace is ready for one" in words(alice_at.get(at("environment_new", project)))


def test_a_site_without_them_says_so(alice_at: Client, room: Workspace, project: Project) -> None:
    room.site.driver = "sandbox-cloud"
    room.site.save()
    assert "These sites offer none: ber-1." in words(alice_at.get(at("environment_new", project)))


def test_a_viewer_sees_and_runs_nothing(
    dora: User, notebook: Environment, project: Project, charlie_at: Client
) -> None:
    dora_at = signed_in(dora)
    page = words(dora_at.get(at("environment", project, notebook.pk)))
    assert "lab" in words(dora_at.get(at("environments", project)))
    assert "Stop environment" not in page
    assert "port-forward" not in page
    for name in ("start", "stop", "restart", "keep", "idle", "clone", "delete", "log"):
        address = at(f"environment_{name}", project, notebook.pk)
        assert dora_at.post(address, {"confirm_name": "lab", "name": "x"}).status_code == 403
        assert charlie_at.post(address, {"confirm_name": "lab", "name": "x"}).status_code == 404
    assert dora_at.get(at("environment_new", project)).status_code == 403
    for name in ("environments", "environment_new"):
        assert charlie_at.get(at(name, project)).status_code == 404
    assert charlie_at.get(at("environment", project, notebook.pk)).status_code == 404


def test_lists_cost_the_same_at_any_length(
    alice_at: Client, as_alice: Actor, notebook: Environment, room: Workspace, project: Project
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            assert alice_at.get(at("environments", project)).status_code == 200
        return len(found)

    queries()
    one = queries()
    for number in range(3):
        environment_ready(as_alice, room, f"more-{number}", gpus=0)
    assert queries() == one


# -- operators ----------------------------------------------------------------------------------------------------


def test_olga_makes_a_kind_adds_a_version_and_retires_it(olga: User, room: Workspace) -> None:
    olga_at = signed_in(olga)
    assert "No kinds yet" in words(olga_at.get(reverse("frontend:operator_environment_kinds")))
    new = reverse("frontend:operator_environment_kind_new")
    given = {"slug": "notebook", "name": "Notebook", "description": "", "note": ""}
    wrong = olga_at.post(new, {**given, "document": json.dumps({**DOCUMENT, "port": 80})})
    assert wrong.status_code == 422
    assert "port: a whole number of at least 1024" in words(wrong).lower()
    assert olga_at.post(new, {**given, "document": json.dumps(DOCUMENT)}).status_code == 302
    row = EnvironmentKind.objects.get()
    page = reverse("frontend:operator_environment_kind", args=[row.slug])
    assert "notebook:1" in words(olga_at.get(page))
    version = reverse("frontend:operator_environment_kind_version", args=[row.slug])
    assert olga_at.post(version, {"document": "{", "note": ""}).status_code == 422
    newer = json.dumps({**DOCUMENT, "image": "notebook:2"})
    assert olga_at.post(version, {"document": newer, "note": "newer"}).status_code == 302
    assert "notebook:2" in words(olga_at.get(page))
    retire = reverse("frontend:operator_environment_kind_retire", args=[row.slug])
    assert olga_at.post(retire).status_code == 302
    assert "Retired" in words(olga_at.get(reverse("frontend:operator_environment_kinds")))
    kind_retire(actor=SYSTEM, kind=row, retired=False)


def test_tenants_find_no_pages_of_operators(alice_at: Client, room: Workspace) -> None:
    row = kind()
    for name, args in (
        ("operator_environment_kinds", []),
        ("operator_environment_kind_new", []),
        ("operator_environment_kind", [row.slug]),
    ):
        assert alice_at.get(reverse(f"frontend:{name}", args=args)).status_code == 404


def test_all_mistakes_are_named_at_once(alice_at: Client, notebook: Environment, project: Project) -> None:
    """Those that cannot be read, and those that the service finds."""
    mistakes = {
        "gpus": "3",
        "vcpus": "many",
        "memory_gib": "9999",
        "home_gib": "9999",
        "idle_hours": "721",
        "access": "public",
        "parameters.folder": "a\x00b",
    }
    url = at("environment_order", project, kind().slug)
    form = alice_at.post(url, order(notebook.workspace, **mistakes)).context["form"]
    assert set(form.errors) == {*mistakes, "name"}  # lab is taken
    nowhere = alice_at.post(url, order(notebook.workspace, name="No", gpus="-1", workspace="x"))
    assert set(nowhere.context["form"].errors) == {"name", "gpus", "workspace"}


def test_an_order_at_a_site_that_is_not_confirmed_says_that_it_waits(
    alice_at: Client, room: Workspace, project: Project
) -> None:
    waits = "waits until an operator has confirmed the site."
    assert waits not in words(alice_at.get(at("environment_order", project, kind().slug)))
    Site.objects.update(confirmed=False)
    assert f"What is ordered at {room.site.slug} {waits}" in words(
        alice_at.get(at("environment_order", project, kind().slug))
    )
