"""The end of a lease, whatever stood still: told, asleep, a whole grace period, then deleted; for both kinds, by a frozen clock."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from pytest_django import Settings

from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters import lease as clusters
from gpuaas.clusters.services import (
    cluster_extend,
    cluster_resume,
    cluster_scale,
    cluster_upgrade,
    template_version_add,
)
from gpuaas.clusters.services.rows import CLUSTER
from gpuaas.core.clock import now
from gpuaas.core.errors import Conflict
from gpuaas.lifecycle import enforce
from gpuaas.lifecycle.allowed import Verb
from gpuaas.lifecycle.kind import Kind
from gpuaas.providers.base import Change
from gpuaas.providers.sandbox.clusters.driver import SandboxClusterDriver
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.workspaces import lease as workspaces
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import workspace_extend, workspace_resize, workspace_suspend
from gpuaas.workspaces.services.rows import WORKSPACE
from tenants.actors import SYSTEM, Actor
from tenants.models import Project
from tests.clusters import stage as cluster_stage
from tests.clusters.stage import SLIM, offered
from tests.workspaces import stage as workspace_stage

pytestmark = pytest.mark.django_db
DAY, GRACE = timedelta(days=1), timedelta(days=7)
Row = Any


@dataclass
class Holder:
    """One of a kind, made when the clock still runs, and its rounds."""

    row: Row
    kind: Kind[Any]
    site: Site
    driver: Any
    enforce: Callable[..., int]
    settle: Callable[[Row], Row]
    visit: Callable[[Row], Row]
    extend: Callable[..., Row]

    def round(self) -> Row:
        self.enforce(now=now())
        self.row.refresh_from_db()
        return self.row

    def asleep(self) -> Row:
        self.row = self.settle(self.row)
        assert self.row.state == "suspended"
        return self.row

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = self.row.conditions.get("LeaseEnding", {})
        return found


@pytest.fixture(params=["workspace", "cluster"])
def holder(
    request: pytest.FixtureRequest, as_alice: Actor, as_olga: Actor, project: Project, site: Site
) -> Holder:
    if request.param == "workspace":
        row: Row = workspace_stage.ready(as_alice, project, site)
        extend = lambda row, until: workspace_extend(actor=as_alice, workspace=row, lease_ends_at=until)  # noqa: E731
        steps = (workspaces.leases_enforce, workspace_stage.settle, workspace_stage.run_now, extend)
        return Holder(row, WORKSPACE, site, SandboxDriver, *steps)
    offered(as_olga, site, words=SLIM)
    row = cluster_stage.ready(as_alice, project)
    longer = lambda row, until: cluster_extend(actor=as_alice, cluster=row, lease_ends_at=until)  # noqa: E731
    rounds = (clusters.leases_enforce, cluster_stage.settle, cluster_stage.run_now, longer)
    return Holder(row, CLUSTER, site, SandboxClusterDriver, *rounds)


@pytest.fixture
def frozen(holder: Holder) -> Iterator[time_machine.Traveller]:
    """The portal wakes eight days after the lease ended."""
    with time_machine.travel(holder.row.lease_ends_at + 8 * DAY, tick=False) as clock:
        yield clock


def test_what_ended_while_the_portal_stood_still_sleeps_first_and_has_a_whole_grace(
    holder: Holder, frozen: time_machine.Traveller
) -> None:
    row = holder.round()
    assert (row.state, row.deleted_after, holder.told["reason"]) == ("suspending", None, "LeaseOver")
    assert "7 days later" in holder.told["message"]
    frozen.shift(timedelta(minutes=5))
    slept = now()
    row = holder.asleep()
    assert row.deleted_after == slept + GRACE
    assert f"is deleted on {slept + GRACE:%Y-%m-%d %H:%M} UTC" in holder.told["message"]
    frozen.shift(GRACE - timedelta(seconds=1))
    assert holder.round().state == "suspended"
    frozen.shift(timedelta(seconds=1))
    assert holder.round().state == "deleting"
    assert holder.settle(row).state == "deleted"


def test_a_shorter_grace_hits_nobody_who_sleeps_already(
    holder: Holder, frozen: time_machine.Traveller, settings: Settings
) -> None:
    holder.round()
    until = holder.asleep().deleted_after
    settings.LEASE_GRACE_DAYS = 0
    frozen.shift(6 * DAY)
    row = holder.round()
    assert (row.state, row.deleted_after) == ("suspended", until)


def test_who_slept_before_the_lease_ended_is_told_and_has_the_grace_from_then(
    holder: Holder, frozen: time_machine.Traveller
) -> None:
    """As what slept when this release was installed."""
    holder.round()
    holder.asleep()
    type(holder.row).objects.update(deleted_after=None, conditions={})
    frozen.shift(20 * DAY)
    row = holder.round()
    assert (row.state, row.deleted_after) == ("suspended", now() + GRACE)
    assert f"{row.deleted_after:%Y-%m-%d}" in holder.told["message"]
    assert holder.enforce(now=now()) == 0


def test_an_extension_takes_the_date_away(holder: Holder, frozen: time_machine.Traveller) -> None:
    holder.round()
    row = holder.asleep()
    row = holder.extend(row, now() + 3 * DAY)
    assert (row.deleted_after, row.conditions.get("LeaseEnding")) == (None, None)
    frozen.shift(4 * DAY)
    row = holder.round()
    assert (row.state, row.deleted_after) == ("suspended", now() + GRACE)


def test_who_missed_the_early_warning_is_told(holder: Holder) -> None:
    with time_machine.travel(holder.row.lease_ends_at + timedelta(hours=1), tick=False):
        assert holder.told == {}
        holder.round()
        assert holder.told["reason"] == "LeaseOver"


def test_what_cannot_sleep_is_told_and_its_time_begins_then(
    holder: Holder, frozen: time_machine.Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = holder.driver.changes
    kept = (
        {key: changes[key] for key in changes if key is not Change.SUSPEND}
        if isinstance(changes, dict)
        else (frozenset(changes) - {Change.SUSPEND})
    )
    monkeypatch.setattr(holder.driver, "changes", kept)
    row = holder.round()
    began = row.deleted_after
    assert (row.state, began) == ("ready", now() + GRACE)
    assert "it cannot be suspended" in holder.told["message"]
    assert (row.conditions["Enforced"]["status"], row.conditions["Enforced"]["reason"]) == (
        "False",
        "Refused",
    )
    frozen.shift(GRACE - timedelta(minutes=1))
    assert (holder.round().state, row.deleted_after) == ("ready", began)
    frozen.shift(enforce.TRY_AGAIN)  # with the next try, which would have put it to sleep instead
    assert holder.round().state == "deleting"
    assert "Enforced" not in holder.settle(row).conditions


def test_what_can_sleep_again_is_not_deleted_instead(
    holder: Holder, frozen: time_machine.Traveller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(holder.driver, "changes", {} if holder.kind is WORKSPACE else frozenset())
        holder.round()
    frozen.shift(30 * DAY)
    row = holder.round()
    assert (row.state, row.deleted_after) == ("suspending", None)
    assert holder.asleep().deleted_after == now() + GRACE
    assert "Enforced" not in holder.row.conditions


def test_where_the_site_is_away_it_is_told_and_its_time_begins_then(
    holder: Holder, frozen: time_machine.Traveller
) -> None:
    dials_set(holder.site.pk, down=True)
    holder.round()
    holder.visit(holder.row)
    frozen.shift(enforce.PATIENCE)
    row = holder.round()
    assert (row.state, row.deleted_after) == ("suspending", now() + GRACE)
    assert "the site has not confirmed the suspension" in holder.told["message"]
    assert row.conditions["Enforced"]["reason"] == "Overdue"
    dials_set(holder.site.pk, down=False)
    frozen.shift(2 * DAY)
    row = holder.asleep()
    assert row.deleted_after == now() + GRACE, "from the sleep that happened"
    assert "Enforced" not in row.conditions


def test_what_was_never_ready_is_told(holder: Holder, frozen: time_machine.Traveller) -> None:
    type(holder.row).objects.update(state="failed", ready_at=None)
    row = holder.round()
    assert (row.state, row.deleted_after) == ("failed", now() + GRACE)
    assert "was never ready" in holder.told["message"]
    frozen.shift(GRACE)
    assert holder.round().state == "deleting"


def test_nothing_is_begun_any_more_once_the_lease_is_over(holder: Holder, as_alice: Actor) -> None:
    row = holder.row
    ask: Callable[[], object]
    if holder.kind is WORKSPACE:
        ask = partial(workspace_resize, actor=as_alice, workspace=row, items=[("h100.1", 3)])
    else:
        ask = partial(cluster_scale, actor=as_alice, cluster=row, counts={"gpu": 2})
    with time_machine.travel(row.lease_ends_at, tick=False), pytest.raises(Conflict, match="extend it first"):
        ask()


def test_what_waits_for_the_tenant_is_overtaken(
    holder: Holder, as_alice: Actor, as_olga: Actor, frozen: time_machine.Traveller
) -> None:
    """A shrink that waits for the tenant's pods, a scaling or an upgrade whose machines cannot be drained."""
    frozen.move_to(holder.row.lease_ends_at - timedelta(minutes=1))
    if holder.kind is WORKSPACE:
        workspace_resize(actor=as_alice, workspace=holder.row, items=[("h100.1", 1)])
    else:
        template = holder.row.template_version.template
        template_version_add(
            actor=as_olga, template=template, document={**SLIM, "releases": ["1.35.6", "1.36.3"]}
        )
        cluster_upgrade(actor=as_alice, cluster=holder.row, release="1.36.3")
    frozen.shift(timedelta(minutes=2))
    assert holder.round().state in {"resizing", "upgrading"}, "a change just begun is not interrupted"
    frozen.shift(enforce.PATIENCE)
    assert holder.round().state == "suspending"
    row = holder.asleep()
    holder.extend(row, now() + 30 * DAY)
    if holder.kind is WORKSPACE:
        assert [item.count for item in row.flavors.all()] == [2], "as it was before"
    else:
        row = holder.settle(cluster_resume(actor=as_alice, cluster=row))
        assert (row.state, row.confirmed_release, row.trouble) == ("ready", "1.36.3", {}), (
            "the upgrade goes on"
        )
        assert {node["release"] for node in row.observed["nodes"]} == {"1.36.3"}


def test_one_row_that_raises_does_not_end_the_round_for_the_others(
    as_alice: Actor, project: Project, site: Site, h100: Flavor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do many of them keep the rest waiting."""
    names = ("first", "second", "third")
    rows = [workspace_stage.ready(as_alice, project, site, name=name, h100s=1) for name in names]
    monkeypatch.setattr("gpuaas.lifecycle.lease.BATCH", 2)

    def breaks(*, workspace: Workspace, **asked: Any) -> Workspace:
        if workspace.name != "third":
            raise RuntimeError("its driver is not installed")
        return workspace_suspend(workspace=workspace, **asked)

    monkeypatch.setattr(workspaces, "workspace_suspend", breaks)
    end = max(row.lease_ends_at for row in rows)
    for minute in (1, 2):
        workspaces.leases_enforce(now=end + timedelta(minutes=minute))
    states = dict(Workspace.objects.values_list("name", "state"))
    assert states == {"first": "ready", "second": "ready", "third": "suspending"}
    assert "unexpected error" in Workspace.objects.get(name="first").conditions["Enforced"]["message"]


def test_an_extension_at_the_last_moment_counts(holder: Holder, frozen: time_machine.Traveller) -> None:
    holder.round()
    row = holder.asleep()
    frozen.shift(GRACE)

    def extended(*, expected_version: int, **_asked: object) -> None:
        holder.extend(row, now() + 9 * DAY)
        holder.kind.asked(SYSTEM, row, Verb.DELETE, expected_version)

    assert enforce.enforce(holder.kind, row, extended, "the lease ended", now=now()) == ""
    row.refresh_from_db()
    assert (row.state, row.deleted_after) == ("suspended", None)


def test_what_is_settled_is_told_no_longer(holder: Holder) -> None:
    def refuses(**_asked: object) -> None:
        raise Conflict("not now")

    moment: datetime = now()
    assert enforce.enforce(holder.kind, holder.row, refuses, "it is spent", now=moment) == "not now"
    enforce.overdue_tell(holder.kind, now=moment + timedelta(minutes=11))
    holder.row.refresh_from_db()
    assert "Enforced" in holder.row.conditions, "it will be tried again"
    enforce.overdue_tell(holder.kind, now=moment + timedelta(minutes=21))
    holder.row.refresh_from_db()
    assert "Enforced" not in holder.row.conditions
