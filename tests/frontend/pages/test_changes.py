"""Resizing and extending: what it costs and whether it may be had is said before anything is pressed."""

from datetime import timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.test import Client
from django.urls import reverse

from frontend.formats import money
from gpuaas.core import clock
from gpuaas.metering.services import held_sync
from gpuaas.workspaces.holdings import holdings_set
from gpuaas.workspaces.models import Workspace
from tenants.models import Project


def test_a_resize_says_now_then_and_the_difference(
    noon: None, alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    flavor = workspace.flavors.get().flavor
    holdings_set(workspace=workspace, items=[(flavor, 2)], storage_gib=workspace.storage_gib, at=clock.now())
    held_sync()
    url = reverse("frontend:workspace_effect", args=[limited.slug, workspace.pk])
    asked = {"count-h100.1": "5", "storage_gib": str(workspace.storage_gib)}
    text = alice_at.post(url, asked).content.decode()
    assert "Difference" in text
    assert "+€7.20" in text  # 3 × 2.40 per hour
    assert "In November (492 h)" in text
    assert f"+{money(Decimal('7.20') * 492)}" in text


def effect(client: Client, workspace: Workspace, name: str, **asked: str) -> str:
    url = reverse(f"frontend:workspace_{name}_effect", args=[workspace.project.slug, workspace.pk])
    response = client.post(url, asked)
    assert response.status_code == 200
    return str(response.content.decode())


def test_a_resize_that_would_be_refused_leaves_nothing_to_press(
    alice_at: Client, limited: Project, workspace: Workspace
) -> None:
    url = reverse("frontend:workspace_resize", args=[limited.slug, workspace.pk])
    assert "nothing has changed yet" in alice_at.get(url).content.decode()
    url = reverse("frontend:workspace_effect", args=[limited.slug, workspace.pk])
    for count, reason in (
        ("9", "exceeds the limit"),
        ("x", "not complete yet"),
        ("0", "nothing would be left"),
    ):
        text = alice_at.post(url, {"count-h100.1": count, "storage_gib": "500"}).content.decode()
        button = text.partition('id="change-button"')[2]
        assert "data-blocked" in button
        assert reason in button
    text = alice_at.post(url, {"count-h100.1": "8", "storage_gib": "500"}).content.decode()
    assert "data-blocked" not in text


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
