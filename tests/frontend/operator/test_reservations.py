"""The page of reserved pools: looked at before it is confirmed, refused beside the field, ended."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import Flavor
from gpuaas.workspaces.models import Workspace
from quotas.models import PoolReservation
from tenants.models import AuditEntry, Project, User
from tests.factories.catalog import FlavorFactory
from tests.frontend.markup import words
from tests.frontend.operator.conftest import signed_in
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
LATER, DAY = "2199-01-01T00:00", timedelta(days=1)


@pytest.fixture
@lasting
def asked(workspace: Workspace) -> dict[str, str]:
    """The pool of which weather-lm holds some."""
    pool = workspace.flavors.get().flavor.pool
    FlavorFactory.create(pool=pool, slug="h100.own", price_class="reserved")
    return {"flavor": "h100.own", "project": "weather-lm"}


def page_of() -> str:
    return reverse("frontend:operator_reservations")


def test_it_is_looked_at_and_then_confirmed_and_ended(asked: dict[str, str], olga_at: Client) -> None:
    assert "No reserved pools" in words(olga_at.get(page_of()))
    looked = olga_at.post(page_of(), {**asked, "note": "the big run"})
    for said in ("for Climate Physics?", "Idle GPUs have no price yet", 'name="confirmed"', "Reserve pool"):
        assert said in words(looked)
    assert "the big run" in words(looked), "all that will be stored"
    back = olga_at.post(page_of(), {**asked, "note": "the big run", "valid_from": LATER, "back": "1"})
    assert (back.status_code, "for Climate Physics?" in words(back)) == (200, False)
    for kept in ('value="the big run"', f'value="{LATER}"', '<option value="h100.own" selected>'):
        assert kept in words(back), "as it was filled in"
    assert not PoolReservation.objects.exists()
    assert (
        olga_at.post(page_of(), {**asked, "note": "the big run", "confirmed": "on"})["Location"] == page_of()
    )
    made = PoolReservation.objects.get()
    page = words(olga_at.get(page_of()))
    for said in ("Climate Physics", "the big run", "in force", f'data-dialog="end-{made.pk}"'):
        assert said in page
    end = reverse("frontend:operator_reservation_end", args=[made.pk])
    for typed, why in (("2020-01-01T00:00", "now or later"), ("soon", "year-month-day")):
        refused = olga_at.post(end, {"at": typed})
        assert refused.status_code == 422
        dialog = words(refused).partition('id="end-')[2]
        assert why in dialog
        assert re.search(r"<dialog[^>]* open", refused.content.decode()), "with what was entered"
        tried = olga_at.post(f"{end}?check", {"at": typed}).content.decode()
        assert f'id="end-{made.pk}-at-help" hx-swap-oob="true"' in tried
        assert why in tried
    assert (
        olga_at.post(f"{end}?check", {"at": ""}).content.decode().strip().startswith('<p class="form-hint"')
    )
    made.refresh_from_db()
    assert made.valid_to is None, "a try ends nothing"
    later = words(olga_at.post(end, {"at": LATER}, follow=True))
    assert "others may have GPUs of it again then" in later
    actions = AuditEntry.objects.filter(action__startswith="pool.").values_list("action", flat=True)
    assert list(actions.order_by("pk")) == ["pool.reserve", "pool.reservation.end"]


def test_others_in_the_pool_refuse_it_now_and_are_named_where_it_waits(
    asked: dict[str, str], olga_at: Client, other_project: Project
) -> None:
    form = {**asked, "project": other_project.slug}
    for confirmed in ({}, {"confirmed": "on"}):
        refused = olga_at.post(page_of(), {**form, **confirmed})
        assert refused.status_code == 422
        assert "Weather LM of Climate Physics" in words(refused)
    waits = words(olga_at.post(page_of(), {**form, "valid_from": LATER}))
    assert "Others are still in the pool" in waits
    olga_at.post(page_of(), {**form, "valid_from": LATER, "confirmed": "on"})
    page = words(olga_at.get(page_of()))
    assert "upcoming" in page
    assert "Weather LM of Climate Physics holds" in page


def test_the_project_is_typed_and_some_are_proposed(
    asked: dict[str, str], olga_at: Client, project: Project
) -> None:
    more = [Project(organization=project.organization, slug=f"p-{number:03}") for number in range(250)]
    Project.objects.bulk_create(more)
    page = words(olga_at.get(page_of()))
    assert page.count("<option") < 210
    assert '<option value="p-000">Climate Physics' in page
    assert '<select class="form-select" name="project"' not in page
    looked = words(olga_at.post(page_of(), {**asked, "project": "p-249"}))
    assert "for Climate Physics?" in looked
    assert 'name="project" value="p-249"' in looked


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"flavor": ""}, "Choose a pool and price."),
        ({"flavor": "h100.1"}, "This is not a flavor of the class reserved."),
        ({"project": "nobody"}, "This project does not exist."),
        ({"valid_from": "2020-01-01T00:00"}, "choose a start now or later"),
        ({"valid_from": "soon"}, "Enter a date as year-month-day and a time."),
        ({"valid_from": LATER, "valid_to": LATER}, "A reservation must end after it starts."),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    asked: dict[str, str], olga_at: Client, change: dict[str, str], said: str
) -> None:
    refused = olga_at.post(page_of(), {**asked, **change, "confirmed": "on"})
    assert (refused.status_code, said in words(refused)) == (422, True)
    assert not PoolReservation.objects.exists()


def test_its_note_and_its_end_are_changed_and_what_is_past_stays(
    asked: dict[str, str], olga_at: Client, ada: User
) -> None:
    olga_at.post(page_of(), {**asked, "note": "the big run", "confirmed": "on"})
    made = PoolReservation.objects.get()
    url = reverse("frontend:operator_reservation_change", args=[made.pk])
    assert f'data-dialog="change-{made.pk}"' in words(olga_at.get(page_of()))
    for typed, why in (("2020-01-01T00:00", "now or later"), ("soon", "year-month-day")):
        refused = olga_at.post(url, {"valid_to": typed, "note": "x"})
        assert refused.status_code == 422
        dialog = words(refused).partition(f'id="change-{made.pk}"')[2].partition("</dialog>")[0]
        assert why in dialog
        tried = olga_at.post(f"{url}?check", {"valid_to": typed, "note": "x"}).content.decode()
        assert f'id="change-{made.pk}-valid_to-help" hx-swap-oob="true"' in tried
    changed = words(olga_at.post(url, {"valid_to": LATER, "note": "the bigger run"}, follow=True))
    for said in ("is changed", "the bigger run", "2199"):
        assert said in changed
    PoolReservation.objects.filter(pk=made.pk).update(valid_to="2198-12-31T23:00:07Z")
    olga_at.post(url, {"valid_to": LATER, "note": "the same end"})
    row = PoolReservation.objects.get()
    assert (row.valid_from, row.note) == (made.valid_from, "the same end")
    assert f"{row.valid_to:%S}" == "07", "an end that was not touched stays to the second"
    assert signed_in(ada).post(url, {"note": "x"}).status_code == 403
    (first, last) = AuditEntry.objects.filter(action="pool.reservation.change").order_by("pk")
    assert first.before is not None
    assert first.after is not None
    assert last.after is not None
    assert (first.before["note"], first.after["note"], last.after["note"]) == (
        "the big run",
        "the bigger run",
        "the same end",
    )
    PoolReservation.objects.update(valid_from=made.valid_from - DAY, valid_to=made.valid_from)
    late = olga_at.post(url, {"valid_to": "", "note": "x"}, follow=True)
    assert "it stays as it was" in words(late), "on the page, as its dialog is gone"
    assert f'data-dialog="change-{made.pk}"' not in words(olga_at.get(page_of()))


def test_what_was_changed_meanwhile_is_read_again_before_it_is_changed(
    asked: dict[str, str], olga_at: Client
) -> None:
    olga_at.post(page_of(), {**asked, "note": "the big run", "confirmed": "on"})
    made = PoolReservation.objects.get()
    seen = f'name="version" value="{made.version}"'
    assert words(olga_at.get(page_of())).count(seen) == 2, "of both its dialogs"
    change, end = (
        reverse(f"frontend:operator_reservation_{verb}", args=[made.pk]) for verb in ("change", "end")
    )
    read = {"version": made.version}
    assert olga_at.post(change, {**read, "valid_to": "", "note": "of somebody else"}).status_code == 302
    for url, form in ((change, {"note": "mine"}), (end, {"at": LATER})):
        late = olga_at.post(url, {**read, **form})
        dialog = words(late).partition(f'id="{url.split("/")[-2]}-{made.pk}"')[2].partition("</dialog>")[0]
        assert (late.status_code, seen in dialog) == (422, True)
        for said in (
            "has changed since you read it",
            "Read it again",
            f'value="{next(iter(form.values()))}"',
        ):
            assert said in dialog
        assert "Read it again" in words(olga_at.post(f"{url}?check", {**read, **form}))
    row = PoolReservation.objects.get()
    assert (row.note, row.valid_to, row.version) == ("of somebody else", None, made.version + 1)
    assert olga_at.post(end, {"version": row.version, "at": LATER}).status_code == 302


@pytest.mark.parametrize(
    ("span", "field", "instead"),
    [
        (("2199-01-15T00:00", ""), "valid_from", "choose a start after that"),
        (("", ""), "valid_to", "choose an end by then"),
        (("", "2199-01-15T00:00"), "valid_to", "choose an end by then"),
    ],
)
def test_an_overlap_is_refused_by_names_and_in_the_time_of_the_reader(
    asked: dict[str, str], olga: User, olga_at: Client, span: tuple[str, str], field: str, instead: str
) -> None:
    User.objects.filter(pk=olga.pk).update(time_zone="America/New_York")
    olga_at.post(page_of(), {**asked, "valid_from": LATER, "valid_to": "2199-02-01T00:00", "confirmed": "on"})
    form = {**asked, "valid_from": span[0], "valid_to": span[1]}
    refused = olga_at.post(page_of(), {**form, "confirmed": "on"})
    ((at, (said,)),) = refused.context["form"].errors.items()
    assert at == field
    until = "Tue 1 Jan 2199, 00:00 to Fri 1 Feb 2199, 00:00"
    named = f"H100 SXM 80 GB at ber-1 is reserved for Climate Physics from {until}"
    assert said == f"{named}; {instead}, or end that reservation first."
    assert f'id="id_{field}-help"' in words(olga_at.post(f"{page_of()}?check", form))


def test_the_tenant_reads_that_it_is_reserved_for_others(
    asked: dict[str, str], olga_at: Client, charlie: User
) -> None:
    olga_at.post(page_of(), {**asked, "confirmed": "on"})
    url = reverse("frontend:workspace_new", args=["protein-fold"])
    answer = words(signed_in(charlie).get(url, {"flavor": "h100.1", "count": "1"}))
    assert "are reserved for another organization" in answer
    assert "Climate" not in answer
    rows = offered(signed_in(charlie), "protein-fold")
    assert (rows["h100.1"].free, rows["h100.1"].reserved, rows["l40s.1"].reserved) == (0, "others", "")
    assert "reserved for others" in answer


def offered(client: Client, project: str) -> dict[str, Any]:
    page = client.get(reverse("frontend:workspace_new", args=[project]))
    return {offer.slug: offer for offer in page.context["offers"].rows}


def test_its_owner_reads_what_is_reserved_from_when_until_when(
    asked: dict[str, str], alice: User, bob: User, charlie: User, olga_at: Client, l40s: Flavor
) -> None:
    url, alice_at = reverse("frontend:organization_pools", args=["climate"]), signed_in(alice)
    assert "No reserved pools" in words(alice_at.get(url))
    olga_at.post(page_of(), {**asked, "note": "the big run", "confirmed": "on"})
    page = words(alice_at.get(url))
    for said in ("the big run", "in force", reverse("frontend:costs", args=["weather-lm"])):
        assert said in page
    row = offered(alice_at, "weather-lm")["h100.1"]
    assert row.reserved == "us"
    assert row.free > 0
    olga_at.post(
        reverse("frontend:operator_reservation_end", args=[PoolReservation.objects.get().pk]), {"at": LATER}
    )
    assert "2199" in words(alice_at.get(url))
    assert signed_in(charlie).get(url).status_code == 404
    assert signed_in(bob).get(url).status_code in {403, 404}, "who may not see the bill"
    assert words(olga_at.get(url)).count("in force") == 1
