"""The page of one workspace in trouble: what it says of pods, drift, access, sleep; and that its buttons do it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.services import rate_set
from frontend.presenters.held import conditions_of
from gpuaas.catalog.models import Flavor
from gpuaas.core import clock
from gpuaas.core.looks import Tone
from gpuaas.metering.models import Meter
from gpuaas.workspaces.models import Robot, Workspace
from gpuaas.workspaces.services import workspace_delete
from tenants.actors import SYSTEM, Actor
from tenants.models import User
from tests.billing.stage import interval_make
from tests.frontend.disabled import sentences_of
from tests.frontend.markup import words
from tests.frontend.operator.trouble import drift_of, eviction_of
from tests.frontend.pages.scene import busy, grant_to, robot_of
from tests.lasting import lasting
from tests.workspaces.stage import settle

QUERIES = 34


@pytest.fixture
@lasting
def troubled(workspace: Workspace) -> Workspace:
    return busy(workspace)


def url(workspace: Workspace, name: str = "", *more: object) -> str:
    full = f"frontend:workspace_{name}" if name else "frontend:workspace"
    return reverse(full, args=[workspace.project.slug, workspace.pk, *more])


def page(client: Client, workspace: Workspace) -> str:
    return " ".join(client.get(url(workspace)).content.decode().split())


def test_pods_say_whose_they_are_why_they_wait_and_what_is_too_many(
    alice_at: Client, troubled: Workspace
) -> None:
    text = page(alice_at, troubled)
    assert "<small>Job finetune</small>" in text
    assert "No node has 4 GPUs free at once" in text
    assert "2 running, 1 pending, 1 surplus" in text
    assert "exceeds what the workspace has bought and is being removed" in text
    assert "Removed after 2 s: with it, the workspace held 3" in text
    assert "Being removed: with it, the workspace held 3" in text


def test_drift_is_told_with_both_values_and_who(alice_at: Client, troubled: Workspace) -> None:
    text = page(alice_at, troubled)
    assert "2 objects changed in 2 places by kubectl-edit (admin@ber-1)" in text
    assert "Namespace changed by helm" in text
    assert '<code class="g-diff__wanted">2</code>' in text
    assert '<code class="g-diff__found">20</code>' in text
    assert "unknown" in text


def test_placement_tuning_and_remedies_are_shown(alice_at: Client, troubled: Workspace) -> None:
    text = page(alice_at, troubled)
    assert "One node" in text
    assert "Whole cores; 16 GiB in hugepages of 1 GiB; sysctl net.core.somaxconn" in text
    assert "Wait, or ask for fewer GPUs in one pod." in text


def test_what_a_deletion_ends_is_not_told_as_trouble(as_alice: Actor, workspace: Workspace) -> None:
    settle(workspace_delete(actor=as_alice, workspace=workspace))
    told = {row.name: row for row in conditions_of(Workspace.objects.get(pk=workspace.pk))}
    assert told["Access granted"].tone == Tone.OFF
    assert Tone.BAD not in {row.tone for row in told.values()}


def test_an_outsider_sees_none_of_it(charlie_at: Client, troubled: Workspace) -> None:
    assert charlie_at.get(url(troubled)).status_code == 404
    assert charlie_at.get(url(troubled, "robot", robot_of(troubled).pk)).status_code == 404


def test_the_page_costs_the_same_however_much_went_wrong(
    alice_at: Client, alice: User, bob: User, troubled: Workspace
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert alice_at.get(url(troubled)).status_code == 200
        return len(captured)

    queries()
    few = queries()
    for number in range(5):
        eviction_of(troubled, "nvidia.com/gpu", uid=f"more-{number}")
        drift_of(troubled, state="gone")
        grant_to(troubled, bob)
        grant_to(troubled, robot_of(troubled, f"ci-{number}"))
    assert queries() == few
    assert few <= QUERIES


def test_what_is_cut_says_how_many_there_are_and_leads_to_all(alice_at: Client, troubled: Workspace) -> None:
    for number in range(15):
        eviction_of(troubled, "nvidia.com/gpu", uid=f"more-{number}")
        drift_of(troubled, state="gone")
    history = url(troubled, "history")
    whole = alice_at.get(history).context
    counts = {name: whole[name].page.paginator.count for name in ("list", "found", "removed", "pods")}
    assert {name: counts[name] for name in ("found", "removed", "pods")} == {
        "found": 17,
        "removed": 17,
        "pods": 4,
    }
    assert counts["list"] > 16
    text = page(alice_at, troubled)
    assert f'10 of 17 findings. <a href="{history}#findings-list">View all</a>' in text
    assert re.search(rf'10 of 17 [a-z ]+\. <a href="{history}#evictions-list">View all</a>', text)
    assert f'12 of {counts["list"]} events. <a href="{history}">View all</a>' in text
    assert "10 of 4" not in text


def test_all_events_come_a_page_at_a_time_in_either_order(alice_at: Client, troubled: Workspace) -> None:
    for number in range(60):
        eviction_of(troubled, "nvidia.com/gpu", uid=f"more-{number}")
    history = url(troubled, "history")
    first, second = (alice_at.get(f"{history}?page={number}").context["list"] for number in (1, 2))
    every = [event.at for event in (*first.rows, *second.rows)]
    assert (len(first.rows), len(every)) == (50, first.page.paginator.count)
    assert every == sorted(every, reverse=True)
    oldest = alice_at.get(f"{history}?sort=at").context["list"].rows
    assert [event.at for event in oldest] == sorted(every)[:50]


def test_the_cost_to_the_end_of_the_lease_says_when_prices_change(
    alice_at: Client, workspace: Workspace, h100: Flavor
) -> None:
    now = clock.now()
    interval_make(workspace, h100, now - timedelta(hours=1), None)
    storage: dict[str, Any] = {"quantity": 500, "meter": Meter.STORAGE_HELD, "resource": ""}
    interval_make(workspace, None, now - timedelta(hours=1), None, **storage)
    lease_end = clock.whole_second(now) + timedelta(days=28, microseconds=900)
    Workspace.objects.filter(pk=workspace.pk).update(lease_ends_at=lease_end)
    assert "Prices change on" not in page(alice_at, workspace)
    soon = now + timedelta(days=1)
    rate_set(actor=SYSTEM, flavor=h100, meter=Meter.GPU_HELD, price="3", valid_from=soon)
    text = page(alice_at, workspace)
    assert "From now to end of lease" in text
    assert "Prices change on" in text
    Workspace.objects.filter(pk=workspace.pk).update(state="deleting")
    assert "Prices change on" not in page(alice_at, workspace)


def test_suspending_says_what_stops_and_what_stays(alice_at: Client, troubled: Workspace) -> None:
    text = page(alice_at, troubled)
    assert "All 4 running and waiting pods end" in text
    assert "Pods without a controller are not restored: jupyter-bob, eval-7c9f4." in text
    assert "Its GPUs are released for others: 2 × H100 SXM" in text
    assert "up to 500 GiB, at their current price" in text


def test_it_is_put_to_sleep_and_woken(alice_at: Client, troubled: Workspace) -> None:
    refused = alice_at.post(url(troubled, "suspend"), {"reason": "x" * 201})
    assert refused.status_code == 422
    assert 'aria-labelledby="suspend-title" open' in refused.content.decode()
    alice_at.post(url(troubled, "suspend"), {"reason": "over the weekend"})
    troubled.refresh_from_db()
    assert troubled.state == "suspending"
    Workspace.objects.filter(pk=troubled.pk).update(state="suspended")
    text = page(alice_at, troubled)
    assert "Nothing runs and nothing can be started" in text
    assert 'data-dialog="resume"' in text
    assert 'data-dialog="suspend"' not in text
    assert "Resume the workspace first." in sentences_of(text)


def test_a_viewer_has_no_button_for_it(dora_at: Client, troubled: Workspace) -> None:
    text = page(dora_at, troubled)
    for word in ("Suspend", "Revoke", "Compare now", "Add a service account", "Get kubeconfig"):
        assert word not in text, word
    for name in ("suspend", "resume", "drift_check", "robots"):
        assert dora_at.post(url(troubled, name), {"name": "ci", "role": "edit"}).status_code == 403
    assert not Robot.objects.exists()


def test_credentials_are_listed_by_holder_and_only_live_ones(
    alice_at: Client, bob: User, troubled: Workspace
) -> None:
    grant_to(troubled, bob)
    grant_to(troubled, bob, hours=0)
    text = page(alice_at, troubled)
    assert "1 credential, valid until" in text
    assert "no member now" in text
    assert url(troubled, "access_revoke", bob.pk) in text


def test_a_lifetime_that_is_not_offered_is_refused(alice_at: Client, troubled: Workspace) -> None:
    answer = alice_at.post(url(troubled, "credential"), {"lifetime": "9999"}, headers={"HX-Request": "true"})
    assert answer.status_code == 400
    assert "choose one of the lifetimes" in answer["HX-Trigger"]


def test_a_service_account_shows_what_was_issued_and_never_the_credential(
    alice_at: Client, troubled: Workspace
) -> None:
    robot = robot_of(troubled)
    grant = grant_to(troubled, robot)
    grant.revoked_at = clock.now() - timedelta(minutes=1)
    grant.save()
    shown = alice_at.get(url(troubled, "robot", robot.pk), headers={"HX-Request": "true"})
    text = shown.content.decode()
    assert "Revoked" in text
    assert "Issue credential" in text
    assert "<html" not in text
    assert "<html" in alice_at.get(url(troubled, "robot", robot.pk)).content.decode()


def test_another_workspaces_service_account_is_not_found_here(alice_at: Client, troubled: Workspace) -> None:
    other = Workspace.objects.get(pk=troubled.pk)
    other.pk, other.name, other._state.adding = Workspace().pk, "other", True
    other.save()
    robot = robot_of(other)
    assert alice_at.get(url(troubled, "robot", robot.pk)).status_code == 404
    assert alice_at.post(url(troubled, "robot_delete", robot.pk)).status_code == 404


def test_a_service_account_is_made_used_revoked_and_deleted(alice_at: Client, troubled: Workspace) -> None:
    bad = alice_at.post(url(troubled, "robots"), {"name": "Ci Bot", "role": "edit"})
    assert bad.status_code == 422
    assert 'aria-labelledby="add-robot-title" open' in words(bad)
    assert "lower-case letters" in str(bad.context["robot_form"].errors["name"])
    alice_at.post(url(troubled, "robots"), {"name": "ci", "role": "edit"})
    robot = Robot.objects.get()
    assert (robot.name, robot.role, robot.created_by) == ("ci", "edit", "alice")
    twice = alice_at.post(url(troubled, "robots"), {"name": "ci", "role": "view"})
    assert "already has a service account" in str(twice.context["robot_form"].errors["name"])
    grant = grant_to(troubled, robot)
    assert "1 credential, valid until" in page(alice_at, troubled)
    asked = words(alice_at.get(url(troubled, "robot", robot.pk)))
    assert (
        "Everything that was issued so far stops working"
        in asked.split(f'action="{url(troubled, "robot_revoke", robot.pk)}"')[1]
    )
    alice_at.post(url(troubled, "robot_revoke", robot.pk))
    grant.refresh_from_db()
    assert grant.revoke_due_at is not None
    alice_at.post(url(troubled, "robot_delete", robot.pk))
    assert alice_at.get(url(troubled, "robot", robot.pk)).status_code == 404


def test_ones_own_credentials_end_by_a_press(alice_at: Client, alice: User, troubled: Workspace) -> None:
    grant = grant_to(troubled, alice)
    answer = alice_at.post(url(troubled, "access_revoke", alice.pk), headers={"HX-Request": "true"})
    assert "All credentials of alice" in answer["HX-Trigger"]
    grant.refresh_from_db()
    assert grant.revoke_due_at is not None


def test_the_site_is_compared_on_request(alice_at: Client, troubled: Workspace) -> None:
    answer = alice_at.post(url(troubled, "drift_check"), headers={"HX-Request": "true"})
    assert answer.status_code == 204
    troubled.refresh_from_db()
    assert troubled.drift_due_at is not None
