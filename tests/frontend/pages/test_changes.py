"""Resizing and extending: what it costs and whether it may be had is said before anything is pressed."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.urls import reverse

from frontend import formats
from frontend.formats import money
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.lifecycle.lease import LEASE_MAX
from gpuaas.metering.services import held_sync
from gpuaas.workspaces.holdings import holdings_set
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_suspend
from quotas.models import Limit
from tenants.actors import SYSTEM, Actor
from tenants.models import Project
from tests.clusters.stage import offered, order
from tests.factories.quotas import limits_give
from tests.frontend.markup import words
from tests.lasting import lasting
from tests.workspaces.stage import ready, settle


def test_a_resize_says_now_then_and_the_difference(
    noon: None, alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    flavor = workspace.flavors.get().flavor
    holdings_set(
        workspace=workspace, items=[(flavor, 2)], storage={None: workspace.storage_gib}, at=clock.now()
    )
    held_sync()
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    url = reverse("frontend:workspace_effect", args=[limited.slug, workspace.pk])
    asked = {"count-h100.1": "5", "storage_gib": str(workspace.storage_gib)}
    text = alice_at.post(url, asked).content.decode()
    assert "Difference" in text
    assert "+€7.20" in text  # 3 × 2.40 per hour
    assert "In November (492 h)" in text
    assert f"+{money(Decimal('7.20') * 492)}" in text


@pytest.mark.parametrize(
    ("became", "why"),
    [
        ({"state": "suspended", "suspended_at": clock.now()}, "Resume the workspace first."),
        ({"state": "suspending", "suspended_at": clock.now()}, "while the workspace is suspending"),
        ({"state": "ready", "lease_ends_at": clock.now()}, "The lease has ended: extend it first."),
        ({"state": "resizing"}, "Another resize is running."),
    ],
    ids=["asleep", "falling asleep", "over", "another"],
)
def test_what_cannot_be_resized_now_says_why_and_shows_no_numbers(
    alice_at: Client, limited: Project, workspace: Workspace, became: dict[str, object], why: str
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(**became)
    page = alice_at.get(_url(workspace, "resize")).content.decode()
    typed = alice_at.post(
        _url(workspace, "effect"), {"count-h100.1": "3", "storage_gib": "500"}
    ).content.decode()
    for text in (page, typed):
        assert why in text.partition('id="change-button"')[2], "beside the button"
        assert "g-meter" not in text
        assert "Difference" not in text
    assert why in alice_at.get(_url(workspace, "")).content.decode()
    refused = alice_at.post(_url(workspace, "resize"), {"count-h100.1": "3", "storage_gib": "500"})
    assert refused.status_code == 422


def test_a_lease_that_is_over_is_said_before_it_is_resumed(
    alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(
        state="suspended", suspended_at=clock.now(), lease_ends_at=clock.now()
    )
    text = effect(alice_at, workspace, "resume")
    assert "The lease has ended: extend it first." in text.partition('id="resume-button"')[2]
    Workspace.objects.filter(pk=workspace.pk).update(state="failed")
    text = effect(alice_at, workspace, "retry")
    assert "The lease has ended: extend it first." in text.partition('id="retry-button"')[2]
    assert "Try again or delete the workspace." in alice_at.get(_url(workspace, "")).content.decode()


def effect(client: Client, workspace: Workspace, name: str, **asked: str) -> str:
    url = reverse(f"frontend:workspace_{name}_effect", args=[workspace.project.slug, workspace.pk])
    response = client.post(url, asked)
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_resize_that_would_be_refused_leaves_nothing_to_press(
    alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    url = reverse("frontend:workspace_resize", args=[limited.slug, workspace.pk])
    assert "Nothing has changed yet." in alice_at.get(url).content.decode()
    url = reverse("frontend:workspace_effect", args=[limited.slug, workspace.pk])
    for count, reason in (
        ("9", "exceeds the limit"),
        ("x", "Enter a whole number from 0 to 1,000."),
        ("0", "nothing would be left"),
    ):
        text = alice_at.post(url, {"count-h100.1": count, "storage_gib": "500"}).content.decode()
        button = text.partition('id="change-button"')[2]
        assert "data-blocked" in button
        assert reason in button
    text = alice_at.post(url, {"count-h100.1": "8", "storage_gib": "500"}).content.decode()
    assert "data-blocked" not in text


@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("storage_gib", "1000001", "Enter a whole number of GiB from 0 to 1,000,000."),
        ("storage_gib", "x", "Enter a whole number of GiB from 0 to 1,000,000."),
        ("storage_gib", "", "Enter a whole number of GiB from 0 to 1,000,000."),
        ("count-h100.1", "1001", "Enter a whole number from 0 to 1,000."),
        ("count-h100.1", "-1", "Enter a whole number from 0 to 1,000."),
    ],
)
def test_what_is_out_of_bounds_is_said_beside_its_field_with_its_bounds(
    alice_at: Client, limited: Project, workspace: Workspace, name: str, typed: str, sentence: str
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="ready")
    sent = {"count-h100.1": "2", "storage_gib": "500"} | {name: typed}
    for url in (_url(workspace, "effect"), _url(workspace, "resize")):
        text = alice_at.post(url, sent).content.decode()
        assert sentence in text.partition(f'id="id_{name}-help"')[2].partition("</p>")[0]
        assert text.count(sentence) == 2, "beside the field and beside the button"
        assert sentence in text.partition('id="change-button"')[2]
    wide = alice_at.post(_url(workspace, "effect"), {"count-h100.1": "2", "storage_gib": "100000"})
    assert "Check your input" not in wide.content.decode(), "the bound of storage is its own"


def test_a_new_end_that_is_refused_is_red_with_the_bounds(
    noon: None, alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    end, last = (
        formats.when(each, ZoneInfo("Europe/Berlin"))
        for each in (workspace.lease_ends_at, clock.now() + LEASE_MAX)
    )
    bounds = f"It must be after {end} and until {last}."
    for until in ("2020-01-01T00:00", "2026-11-11T11:00", "2199-01-01T00:00"):
        text = effect(alice_at, workspace, "extend", until=until)
        assert bounds in text.partition('id="id_until-help"')[2]
        sent = alice_at.post(_url(workspace, "extend"), {"until": until})
        assert sent.status_code == 422
        assert bounds in sent.content.decode().partition('id="id_until-help"')[2]


def test_a_longer_lease_says_what_it_adds(
    noon: None, alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    """A week of 2 × 2.40 and 500 GiB × 0.00012 per hour."""
    here = ZoneInfo("Europe/Berlin")
    end = workspace.lease_ends_at
    week = f"{(end + timedelta(days=7)).astimezone(here):%Y-%m-%dT%H:%M}"
    text = effect(alice_at, workspace, "extend", until=week)
    assert "7 d longer" in text
    assert f"+{money(Decimal('4.86') * 168)}" in text
    assert money(Decimal("4.86") * 24 * 35) in text
    assert "data-blocked" not in text
    for until, said in (
        (f"{end.astimezone(here):%Y-%m-%dT%H:%M}", "No change yet"),
        ("2026-11-11T11:00", "after the current end"),
        ("2020-01-01T00:00", "in the future"),
        ("2199-01-01T00:00", "within 365 days"),
        ("", "Choose a date and time"),
    ):
        text = effect(alice_at, workspace, "extend", until=until)
        assert said in text
        assert "data-blocked" in text
    Workspace.objects.filter(pk=workspace.pk).update(state="suspended")
    asleep = effect(alice_at, workspace, "extend", until=week)
    assert f"+{money(Decimal('0.06') * 168)}" in asleep
    workspace.refresh_from_db()
    assert workspace.lease_ends_at == end


@pytest.fixture
@lasting
def running(noon: None, limited: Project, workspace: Workspace) -> Workspace:
    """2 × 2.40 and 500 GiB × 0.00012 per hour, metered."""
    flavor = workspace.flavors.get().flavor
    holdings_set(
        workspace=workspace, items=[(flavor, 2)], storage={None: workspace.storage_gib}, at=clock.now()
    )
    held_sync()
    return workspace


@pytest.mark.parametrize(
    ("verb", "then", "less"), [("suspend", "€0.06", "€4.80"), ("delete", "€0.00", "€4.86")]
)
def test_what_is_given_back_is_told_before(
    alice_at: Client, running: Workspace, verb: str, then: str, less: str
) -> None:
    text = words(alice_at.post(_url(running, f"{verb}_effect")))
    assert "Limit of weather-lm, H100 SXM 80 GB GPUs" in text
    assert "h100-sxm-80gb" not in text
    assert "2 → 0 of 8" in text
    assert re.search(rf"Per hour then.*?{then}", text)
    assert f"−{less}" in text
    page = words(alice_at.get(_url(running, "")))
    assert page.count(f'hx-post="{_url(running, f"{verb}_effect")}"') == 1


def test_a_resumption_that_has_no_room_is_said_in_its_dialog_and_leaves_nothing_to_press(
    as_alice: Actor, alice_at: Client, limited: Project, site: Site
) -> None:
    row = ready(as_alice, limited, site)
    row = settle(workspace_suspend(actor=as_alice, workspace=row))
    free = words(alice_at.post(_url(row, "resume_effect")))
    assert "Available now" in free
    assert "data-blocked" not in free
    Limit.objects.filter(project=limited, resource="gpu:h100-sxm-80gb").update(hard=1)
    text = words(alice_at.post(_url(row, "resume_effect")))
    assert "may hold at most 1" in text
    assert "exceeds the limit" in text.partition('id="resume-button"')[2]
    refused = alice_at.post(_url(row, "resume"))
    assert refused.status_code == 422
    assert 'aria-labelledby="resume-title" open' in words(refused)
    assert "Not resumed" in words(refused)
    row.refresh_from_db()
    assert row.state == "suspended"


def test_what_a_size_has_no_room_for_is_said_beside_its_field(
    as_alice: Actor, alice_at: Client, limited: Project, site: Site
) -> None:
    row = ready(as_alice, limited, site)
    Limit.objects.filter(project=limited, resource="gpu:h100-sxm-80gb").update(hard=8)
    asked = {"count-h100.1": "9", "storage_gib": "100"}
    told = words(alice_at.post(_url(row, "effect"), asked))
    assert 'id="id_count-h100.1-help" hx-swap-oob="true"' in told.partition('class="invalid-feedback"')[2]
    refused = words(alice_at.post(_url(row, "resize"), asked))
    assert "invalid-feedback" in refused.partition('name="count-h100.1"')[2][:900]
    assert "Not resized" not in refused
    asked = {"count-h100.1": "2", "storage_gib": "999999"}
    refused = words(alice_at.post(_url(row, "resize"), asked))
    assert "invalid-feedback" in refused.partition('name="storage_gib"')[2][:600]
    assert "Not resized" not in refused


def _url(workspace: Workspace, name: str) -> str:
    name = f"workspace_{name}" if name else "workspace"
    return reverse(f"frontend:{name}", args=[workspace.project.slug, workspace.pk])


def test_trying_again_tells_its_effect_before(alice_at: Client, workspace: Workspace) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(state="failed", failure="The site rejected it.")
    page = alice_at.get(reverse("frontend:workspace", args=[workspace.project.slug, workspace.pk]))
    assert 'data-dialog="retry"' in page.content.decode()
    text = effect(alice_at, workspace, "retry")
    for said in ("What it needs is still reserved", "Per hour now", "Per hour then", "Difference per hour"):
        assert said in text, said
    workspace.refresh_from_db()
    assert workspace.state == "failed"


@pytest.mark.parametrize("kind", ["resize", "scale"])
def test_what_has_changed_meanwhile_is_read_again(
    alice_at: Client, as_alice: Actor, project: Project, limited: Project, workspace: Workspace, kind: str
) -> None:
    """While it is typed and when it is sent: the button says so, and a link leads to what it is now."""
    row: Any = workspace
    if kind == "scale":
        offered(SYSTEM, workspace.site)
        limits_give(project)
        row = order(as_alice, project)
    type(row).objects.filter(pk=row.pk).update(state="ready", version=7)
    home = "workspaces" if kind == "resize" else "clusters"
    at = f"/p/{limited.slug}/{home}/{row.pk}/"
    sent = {"count-h100.1": "3", "storage_gib": "500", "pools.gpu": "1", "pools.small": "0"}
    effect = f"{at}{kind}/effect/"
    assert "Read it again" not in words(alice_at.post(effect, sent | {"version": "7"}))
    for url in (effect, f"{at}{kind}/"):
        answer = words(alice_at.post(url, sent | {"version": "6"}))
        assert re.search(rf'href="{at}{kind}/"\s*>Read it again', answer)
        button = answer.partition('id="change-button"')[2].partition('class="g-reason"')[2]
        assert "has changed since you read it. Read it again, then decide." in button
