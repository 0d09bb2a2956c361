"""Pages of machines and keys: what is there, what is refused beside its field, and what a viewer does not see."""

from datetime import timedelta

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.providers.sandbox.dials import fault_set
from gpuaas.providers.sandbox.machines import machine_behind
from gpuaas.workspaces.machines.models import Machine, MachineLook, PublicKey
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace
from tenants.models import User
from tests.frontend.markup import asks_again, words
from tests.frontend.pages.conftest import signed_in
from tests.frontend.pages.test_request import FORM, post

pytestmark = pytest.mark.django_db
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
ORDER = {"name": "train-vm", "flavor": "h100.1", "image": "img-debian-12", "key": "", "cloud_init": ""}


def url(name: str, room: Workspace, *more: object) -> str:
    return reverse(f"frontend:{name}", args=[room.project.slug, room.pk, *more])


def test_a_machine_is_ordered_seen_stopped_and_deleted(alice_at: Client, room: Workspace) -> None:
    overview = alice_at.get(url("workspace", room)).content.decode()
    assert url("machines", room) in overview
    empty = alice_at.get(url("machines", room)).content.decode()
    assert "No machines yet" in empty
    assert "0 of 2" in empty
    assert "Debian 12" in alice_at.get(url("machine_new", room)).content.decode()
    assert alice_at.post(url("machine_new", room), ORDER).status_code == 302
    assert visit(room.pk)
    listed = words(alice_at.get(url("machines", room)))
    assert "train-vm" in listed
    assert "Running" in listed
    assert "1 of 2" in listed
    assert "Volumes and networks</h2><p>checked " in listed
    assert "h-01" not in listed  # which host it runs on is no tenant's business
    row = Machine.objects.get()
    page = alice_at.get(url("machine", room, row.pk)).content.decode()
    assert "Console" in page
    assert 'value="start"' not in page
    assert alice_at.post(url("machine_act", room, row.pk), {"verb": "stop"}).status_code == 302
    assert visit(room.pk)
    assert "Stopped" in alice_at.get(url("machine", room, row.pk)).content.decode()
    wrong = alice_at.post(url("machine_delete", room, row.pk), {"confirm_name": "wrong"})
    assert asks_again(wrong, "delete", "wrong")
    assert Machine.objects.get().state == "stopped"
    assert alice_at.post(url("machine_delete", room, row.pk), {"confirm_name": "train-vm"}).status_code == 302
    assert visit(room.pk)
    assert url("machine", room, row.pk) not in alice_at.get(url("machines", room)).content.decode()


def test_what_cuts_work_off_is_asked_before(alice_at: Client, room: Workspace) -> None:
    alice_at.post(url("machine_new", room), ORDER)
    assert visit(room.pk)
    row = Machine.objects.get()
    page = words(alice_at.get(url("machine", room, row.pk)))
    for verb, label in (("stop", "Stop"), ("restart", "Restart"), ("shelve", "Shelve")):
        dialog = page.partition(f'id="{verb}"')[2].partition("</dialog>")[0]
        assert f"{label} train-vm?" in dialog
        assert "Everything that runs on it ends" in dialog
        assert page.count(f'name="verb" value="{verb}"') == dialog.count(f'name="verb" value="{verb}"') == 1
    alice_at.post(url("machine_act", room, row.pk), {"verb": "shelve"})
    assert visit(room.pk)
    shelved = words(alice_at.get(url("machine", room, row.pk)))
    assert 'value="unshelve"' in shelved
    assert 'id="unshelve"' not in shelved


def test_an_order_is_checked_while_it_is_typed(alice_at: Client, room: Workspace) -> None:
    url_ = f"{url('machine_new', room)}?check"
    assert "invalid-feedback" not in words(alice_at.post(url_, ORDER))
    wrong = words(alice_at.post(url_, {**ORDER, "image": "none", "cloud_init": "rm"}))
    assert wrong.startswith("Image: Choose one of the images.")
    assert '<p class="invalid-feedback" id="id_image-help" hx-swap-oob="true">' in wrong
    assert "id_volume_gib-help" not in wrong, "what the page does not show is not answered"
    assert not Machine.objects.exists()
    alice_at.post(url("machine_new", room), ORDER)
    taken = words(alice_at.post(url_, ORDER))
    assert taken.startswith("Name: The workspace already has a machine called")
    assert '<p class="invalid-feedback" id="id_name-help" hx-swap-oob="true">' in taken


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "Not A Name"}, "use 1 to 40 lower-case"),
        ({"image": "img-ubuntu-2404"}, "needs 16 GiB of disk"),
        ({"flavor": "l40s.1"}, "Choose one of the flavors"),
        ({"cloud_init": "packages: []"}, "must start with #cloud-config"),
        ({"volume_gib": "10"}, "has no volumes"),
    ],
)
def test_a_refusal_is_beside_its_field(
    alice_at: Client, room: Workspace, change: dict[str, str], said: str
) -> None:
    answer = alice_at.post(url("machine_new", room), {**ORDER, **change})
    assert answer.status_code == 422
    assert said.lower() in answer.content.decode().lower()
    assert not Machine.objects.exists()


def test_one_of_the_tenants_own_client_is_marked(alice_at: Client, room: Workspace) -> None:
    machine_behind(room.site_id, room.external_name, "by-cli")
    assert visit(room.pk)
    listed = words(alice_at.get(url("machines", room)))
    assert "by-cli" in listed
    assert "created outside the portal" in listed


def test_a_viewer_sees_and_runs_nothing(alice_at: Client, dora_at: Client, room: Workspace) -> None:
    alice_at.post(url("machine_new", room), ORDER)
    assert visit(room.pk)
    row = Machine.objects.get()
    listed = dora_at.get(url("machines", room)).content.decode()
    assert "train-vm" in listed
    assert "New machine" not in listed
    page = dora_at.get(url("machine", room, row.pk)).content.decode()
    assert 'name="verb" value="stop"' not in page
    assert "Console" not in page
    for name in ("machine_act", "machine_delete", "machine_console"):
        assert dora_at.post(url(name, room, row.pk), {"verb": "stop"}).status_code == 403
    assert dora_at.get(url("machine_new", room)).status_code == 403


def test_the_console_is_shown_once(alice_at: Client, room: Workspace) -> None:
    alice_at.post(url("machine_new", room), ORDER)
    assert visit(room.pk)
    answer = alice_at.post(url("machine_console", room, Machine.objects.get().pk))
    assert "console.ber-1.example" in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]


def test_a_screen_that_the_site_does_not_show_is_offered_no_more(alice_at: Client, room: Workspace) -> None:
    alice_at.post(url("machine_new", room), ORDER)
    assert visit(room.pk)
    row = Machine.objects.get()
    page, screen = url("machine", room, row.pk), url("machine_console", room, row.pk)
    assert screen in alice_at.get(page).content.decode()
    fault_set(room.site_id, area="screens", name="all", found=True)
    refused = alice_at.post(screen)
    said = [str(each).lower() for each in get_messages(refused.wsgi_request)]
    assert any("the site has no consoles: use ssh" in each for each in said)
    assert screen not in alice_at.get(page).content.decode()
    fault_set(room.site_id, area="screens", name="all")
    MachineLook.objects.update(no_screens_at=clock.now() - timedelta(days=2))
    assert screen in alice_at.get(page).content.decode(), "it is tried again after a day"


def test_where_there_are_no_screens_none_is_ever_offered(alice_at: Client, room: Workspace) -> None:
    fault_set(room.site_id, area="screens", name="all", found=True)
    alice_at.post(url("machine_new", room), ORDER)
    assert visit(room.pk)
    row = Machine.objects.get()
    assert row.state == "running"
    assert (
        url("machine_console", room, row.pk)
        not in alice_at.get(url("machine", room, row.pk)).content.decode()
    )


def test_the_line_that_opens_it_is_shown(alice_at: Client, room: Workspace) -> None:
    alice_at.post(url("machine_new", room), ORDER)
    assert visit(room.pk)
    row = Machine.objects.get()
    page = url("machine", room, row.pk)
    assert "It has no address that is reachable from outside" in alice_at.get(page).content.decode()
    Machine.objects.update(observed={**row.observed, "outside": "203.0.113.9", "key": "mine"})
    image = next(each for each in MachineLook.objects.get().images if each["id"] == row.image)
    assert f"ssh {image['user']}@203.0.113.9" in alice_at.get(page).content.decode()
    MachineLook.objects.update(images=[{"id": row.image, "name": "of an earlier release"}])
    Machine.objects.update(observed={"outside": "203.0.113.9"})
    unknown = alice_at.get(page).content.decode()
    assert "ssh USER@203.0.113.9" in unknown
    assert "the image does not name it" in unknown


def test_a_site_without_machines_has_no_such_page(alice_at: Client, room: Workspace) -> None:
    Site.objects.filter(pk=room.site_id).update(driver="sandbox")
    assert alice_at.get(url("machines", room)).status_code == 404
    assert url("machines", room) not in alice_at.get(url("workspace", room)).content.decode()


def test_keys_are_ones_own(alice_at: Client, charlie_at: Client, room: Workspace) -> None:
    page = reverse("frontend:keys")
    assert "No keys yet" in alice_at.get(page).content.decode()
    refused = alice_at.post(page, {"name": "laptop", "public_key": "-----BEGIN OPENSSH PRIVATE KEY-----"})
    assert refused.status_code == 422
    assert "never give it to anybody" in refused.content.decode()
    assert alice_at.post(page, {"name": "laptop", "public_key": KEY}).status_code == 302
    key = PublicKey.objects.get()
    shown = alice_at.get(page).content.decode()
    assert key.fingerprint in shown
    remove = f'action="{reverse("frontend:key_remove", args=[key.pk])}"'
    assert shown.count(remove) == 1, "only the dialog does it"
    assert remove in shown.split("Remove key laptop?")[0].rsplit("<dialog", 1)[1]
    assert "laptop" in alice_at.get(url("machine_new", room)).content.decode()
    assert key.fingerprint not in charlie_at.get(page).content.decode()
    assert charlie_at.post(reverse("frontend:key_remove", args=[key.pk])).status_code == 404
    assert alice_at.post(reverse("frontend:key_remove", args=[key.pk])).status_code == 302
    assert not PublicKey.objects.exists()


def test_pages_speak_of_machines_where_there_are_no_pods(
    alice_at: Client, olga: User, room: Workspace
) -> None:
    olga_at = signed_in(olga)
    overview = alice_at.get(url("workspace", room)).content.decode()
    assert "No machines yet" in overview
    assert "Machines run wherever GPUs are free" in overview
    assert "Machines are shelved" in overview
    assert " pods" not in overview.lower()
    assert "Get clouds.yaml" in overview
    assert "openstack --os-cloud" in overview
    assert "namespace" not in overview.lower()
    form = {**FORM, "name": "second", "count": "1", "placement": "rack"}
    asked = reverse("frontend:workspace_answer", args=[room.project.slug])
    answer = alice_at.post(asked, form, headers={"HX-Request": "true"}).content.decode()
    assert "Project <" in answer.replace("</b>", "<")
    refused = post(alice_at, room.project, name="second", count="1", placement="rack")
    assert refused.status_code == 422
    assert "places machines itself" in str(refused.context["form"].errors["placement"])
    for tab, said in (
        ("adoption", "Projects that tenants used before"),
        ("metering", "Machines shelved or deleted"),
    ):
        shown = olga_at.get(f"/operator/sites/at/{room.site.slug}/{tab}/").content.decode()
        assert said in shown
        assert " pods" not in shown.lower()


def test_an_order_at_a_site_that_is_not_confirmed_says_that_it_waits(
    alice_at: Client, room: Workspace
) -> None:
    waits = "waits until an operator has confirmed the site."
    assert waits not in words(alice_at.get(url("machine_new", room)))
    Site.objects.update(confirmed=False)
    assert f"What is ordered at {room.site.slug} {waits}" in words(alice_at.get(url("machine_new", room)))
