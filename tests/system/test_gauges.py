"""The gauges say what the rows say, for whoever has the token, with as many statements for many rows as for one."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from billing.models import MonthClose
from billing.months import month_of, month_previous, month_span
from billing.services import rate_set
from billing.states import CloseState
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.models import Process
from gpuaas.metering.models import Meter, SiteMeter, UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.system import gauges
from gpuaas.system.selectors import system_get
from gpuaas.workspaces.models import Drift, Holding, Operation, Workspace
from quotas.models import SiteCapacity
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.architecture import reference
from tests.factories.catalog import SiteFactory
from tests.lasting import lasting
from tests.metering.stage import workspace_make

pytestmark = pytest.mark.django_db
TOKEN = "a token for Prometheus alone"
Ask = Callable[..., float | None]


@pytest.fixture
@lasting
def workspace(project: Project, h100: Flavor, alice: User) -> Workspace:
    return workspace_make(project, h100, alice)


@pytest.fixture
def value(client: Client, settings: Any) -> Ask:
    """The sample of this name and these labels; None where there is none."""
    settings.METRICS_TOKEN = TOKEN

    def ask(name: str, **labels: str) -> float | None:
        answer = client.get("/metrics/portal", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        for family in text_string_to_metric_families(answer.content.decode()):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    return ask


def test_they_are_for_the_token(client: Client, olga: User, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    client.force_login(olga)
    assert client.get("/metrics/portal").status_code == 404
    settings.METRICS_TOKEN = TOKEN
    assert client.get("/metrics/portal").status_code == 401
    assert client.post("/metrics/portal").status_code == 405


def test_processes_that_are_alive(value: Ask) -> None:
    now = clock.now()
    for pid, ago, skew in ((1, 0, -0.5), (2, 10, 0.2), (3, 16, 9.0)):
        seen = now - timedelta(seconds=ago)
        Process.objects.create(
            kind="worker", host="a", pid=pid, version="1", started_at=seen, seen_at=seen, skew_seconds=skew
        )
    assert value("gpuaas_clock_skew_seconds", kind="worker") == 0.5
    assert value("gpuaas_clock_skew_seconds", kind="meter") is None
    assert value("gpuaas_processes", kind="worker") in (1, 2)
    assert value("gpuaas_processes", kind="meter") == 0


def test_work_that_waits_and_work_that_is_claimed(value: Ask) -> None:
    now = clock.now()
    SiteFactory.create(due_at=now - timedelta(seconds=100))
    SiteFactory.create(due_at=now - timedelta(seconds=50))
    SiteFactory.create(due_at=now - timedelta(seconds=500), claim_until=now + timedelta(seconds=60))
    SiteFactory.create(due_at=None)
    assert value("gpuaas_work_due", kind="site") == 2
    assert value("gpuaas_work_claimed", kind="site") == 1
    oldest = value("gpuaas_work_oldest_due_seconds", kind="site")
    assert oldest is not None
    assert 100 <= oldest < 160
    assert value("gpuaas_work_oldest_due_seconds", kind="cluster") == 0


def test_the_oldest_claim_is_that_of_a_process_that_is_alive(value: Ask) -> None:
    now = clock.now()
    assert value("gpuaas_claim_oldest_seconds") == 0
    for pid, seen_ago, held in ((1, 0, None), (2, 1, 300), (3, 1, 20), (4, 60, 9000)):
        seen = now - timedelta(seconds=seen_ago)
        since = None if held is None else now - timedelta(seconds=held)
        Process.objects.create(
            kind="worker", host="a", pid=pid, version="1", started_at=seen, seen_at=seen, claim_since=since
        )
    oldest = value("gpuaas_claim_oldest_seconds")
    assert oldest is not None
    assert 300 <= oldest < 360


def test_gpus_that_run_without_a_price(value: Ask, workspace: Workspace, h100: Flavor) -> None:
    now = clock.now()
    for uid, flavor, ended in (("a", h100, None), ("b", None, None), ("c", h100, now)):
        UsageInterval.objects.create(
            site=workspace.site,
            project=workspace.project,
            workspace=workspace,
            flavor=flavor,
            consumer_uid=uid,
            consumer_name=uid,
            meter=Meter.GPU_HELD,
            resource_name=h100.slug if flavor else "gpu:unknown",
            quantity=4,
            started_at=now - timedelta(hours=1),
            ended_at=ended,
            last_seen_at=now,
        )
    assert value("gpuaas_usage_unpriced_gpus", meter="gpu_held") == 8
    assert value("gpuaas_usage_unpriced_gpus", meter="gpu_allocated") == 0
    start = now - timedelta(hours=2)
    rate_set(actor=SYSTEM, flavor=h100, meter=Meter.GPU_HELD, price="2", valid_from=start)
    assert value("gpuaas_usage_unpriced_gpus", meter="gpu_held") == 4


def test_only_gpus_can_be_without_a_flavor(
    value: Ask, workspace: Workspace, h100: Flavor, as_olga: Actor
) -> None:
    """vCPU, memory and storage of what tenants hold never have one."""
    now, site = clock.now(), workspace.site
    for meter, quantity in ((Meter.VCPU_HELD, 8), (Meter.MEMORY_HELD, 64), (Meter.STORAGE_HELD, 100)):
        Holding.objects.create(
            workspace=workspace, meter=meter.value, quantity=quantity, started_at=now - timedelta(hours=1)
        )
    assert held_sync() == 3
    (state,) = (row for row in system_get(actor=as_olga).sites if row.site == site)
    assert (value("gpuaas_usage_unsold_intervals", site=site.slug), state.unsold) == (None, 0)
    UsageInterval.objects.create(
        site=site,
        project=workspace.project,
        workspace=workspace,
        consumer_uid="a",
        consumer_name="a",
        meter=Meter.GPU_ALLOCATED,
        resource_name="nvidia.com/unknown",
        quantity=4,
        started_at=now - timedelta(hours=1),
        last_seen_at=now,
    )
    (state,) = (row for row in system_get(actor=as_olga).sites if row.site == site)
    assert (value("gpuaas_usage_unsold_intervals", site=site.slug), state.unsold) == (1, 1)


def test_months_that_can_be_closed(value: Ask, workspace: Workspace, h100: Flavor, settings: Any) -> None:
    assert value("gpuaas_months_open") == 0
    now = clock.now()
    first = month_previous(month_previous(month_of(now)))
    UsageInterval.objects.create(
        site=workspace.site,
        project=workspace.project,
        workspace=workspace,
        flavor=h100,
        consumer_uid="a",
        consumer_name="a",
        meter=Meter.GPU_HELD,
        resource_name=h100.slug,
        quantity=4,
        started_at=month_span(first).starts_at,
        last_seen_at=now,
    )
    settings.BILLING_GRACE_HOURS = 0
    assert value("gpuaas_months_open") == 2
    settings.BILLING_GRACE_HOURS = (now - month_span(first).ends_at) // timedelta(hours=1)
    assert value("gpuaas_months_open") == 1, "the other one is within its grace period"
    MonthClose.objects.create(
        month=first, state=CloseState.CLOSED, requested_at=now, requested_by="olga", closed_at=now
    )
    assert value("gpuaas_months_open") == 0


def test_workspaces_and_their_operations(value: Ask, workspace: Workspace) -> None:
    site, now = workspace.site.slug, clock.now()
    assert value("gpuaas_holders", holder="workspace", site=site, state=workspace.state) == 1
    Operation.objects.filter(workspace=workspace).update(finished_at=now, succeeded=True)
    row = Operation.objects.create(
        workspace=workspace, kind="resize", requested_by="alice", requested_at=now - timedelta(seconds=90)
    )
    labels = {"holder": "workspace", "site": site, "operation": "resize"}
    assert value("gpuaas_operations_open", **labels) == 1
    oldest = value("gpuaas_operations_oldest_open_seconds", **labels)
    assert oldest is not None
    assert 90 <= oldest < 150
    Operation.objects.filter(pk=row.pk).update(finished_at=now, succeeded=False)
    assert value("gpuaas_operations_open", **labels) is None
    assert value("gpuaas_operations_last_hour", **labels, outcome="failed") == 1
    Operation.objects.filter(pk=row.pk).update(succeeded=None)
    assert value("gpuaas_operations_last_hour", **labels, outcome="failed") is None
    assert value("gpuaas_operations_last_hour", **labels, outcome="overtaken") == 1
    Operation.objects.filter(pk=row.pk).update(finished_at=now - timedelta(hours=2))
    assert value("gpuaas_operations_last_hour", **labels, outcome="overtaken") is None
    Workspace.objects.filter(pk=workspace.pk).update(state="deleted")
    assert value("gpuaas_holders", holder="workspace", site=site, state="deleted") is None


def test_what_was_to_be_ended_and_still_runs(value: Ask, workspace: Workspace) -> None:
    site = workspace.site.slug
    assert value("gpuaas_not_ended", holder="workspace", site=site) is None
    Workspace.objects.filter(pk=workspace.pk).update(conditions={"Enforced": {"status": "False"}})
    assert value("gpuaas_not_ended", holder="workspace", site=site) == 1


def test_sites_and_their_meters(value: Ask) -> None:
    now = clock.now()
    site = SiteFactory.create(
        slug="s1", conditions={"Reachable": {"status": "True"}}, answer_ms=250, fit=False, reached_at=now
    )
    SiteFactory.create(slug="s2", conditions={"Reachable": {"status": "False"}})
    SiteFactory.create(slug="s3", enabled=False)
    refused = {"Reachable": {"status": "True"}, "Authorized": {"status": "False"}}
    SiteFactory.create(slug="s4", conditions=refused)
    assert value("gpuaas_site_reachable", site="s1") == 1
    assert value("gpuaas_site_reachable", site="s2") == 0
    assert value("gpuaas_site_reachable", site="s3") is None
    assert value("gpuaas_site_reachable", site="s4") == 1, "it answers, and lets nobody in"
    assert value("gpuaas_site_answer_seconds", site="s1") == 0.25
    assert value("gpuaas_site_fit", site="s1") == 0
    SiteMeter.objects.create(site=site, last_proof_at=now - timedelta(seconds=200))
    lag = value("gpuaas_meter_lag_seconds", site="s1")
    assert lag is not None
    assert 200 <= lag < 260
    assert value("gpuaas_meter_lag_seconds", site="s2") is None, "nothing has ever run there"


@pytest.mark.parametrize(
    ("answers", "admits", "reachable", "valid"),
    [
        ("True", "True", 1, 1),
        ("True", "False", 1, 0),
        ("False", "Unknown", 0, None),
        ("Unknown", "False", None, 0),
        (None, None, 0, None),
    ],
)
def test_a_site_that_refuses_the_credentials_is_not_one_that_is_away(
    value: Ask, answers: str | None, admits: str | None, reachable: int | None, valid: int | None
) -> None:
    """What is not known has no sample, so that one fault is one alert."""
    named = {"Reachable": answers, "Authorized": admits}
    SiteFactory.create(slug="s1", conditions={kind: {"status": each} for kind, each in named.items() if each})
    assert value("gpuaas_site_reachable", site="s1") == reachable
    assert value("gpuaas_site_credentials_valid", site="s1") == valid


def test_the_newest_backup_where_one_is_expected(value: Ask, settings: Any) -> None:
    assert value("gpuaas_backup_last_timestamp_seconds") == 0
    settings.BACKUPS_EXPECTED = False
    assert value("gpuaas_backup_last_timestamp_seconds") is None


def test_drift_and_capacity(value: Ask, workspace: Workspace) -> None:
    site = workspace.site
    Drift.objects.create(workspace=workspace, found_at=clock.now(), digest="x")
    assert value("gpuaas_drift_open", site=site.slug) == 1
    SiteCapacity.objects.filter(site=site).delete()
    SiteCapacity.objects.create(site=site, resource="gpu:x", healthy=8, hard=6, used=5)
    SiteCapacity.objects.create(site=site, resource="vcpus", healthy=64, hard=None, used=9)
    labels = {"site": site.slug, "resource": "gpu:x"}
    figures = [value(f"gpuaas_capacity_{name}", **labels) for name in ("healthy", "sellable", "reserved")]
    assert figures == [8, 6, 5]
    assert value("gpuaas_capacity_sellable", site=site.slug, resource="vcpus") is None


@pytest.mark.parametrize("count", [1, 40])
def test_many_sites_cost_as_many_statements_as_one(
    client: Client, settings: Any, django_assert_num_queries: Any, count: int
) -> None:
    settings.METRICS_TOKEN = TOKEN
    sites = SiteFactory.create_batch(count, reached_at=clock.now())
    SiteCapacity.objects.bulk_create([SiteCapacity(site=site, resource="gpu:x", hard=8) for site in sites])
    assert Site.objects.count() >= count
    with django_assert_num_queries(20):
        client.get("/metrics/portal", headers={"Authorization": f"Bearer {TOKEN}"})


def test_each_is_in_the_reference() -> None:
    """Families have their labels where there are no rows, too."""
    shown = {(each.name, each.labels) for each in reference.metrics()}
    families = [family for part in gauges.PARTS for family in part(clock.now())]
    asked = {
        (family.name, tuple(family._labelnames)) for family in families if hasattr(family, "_labelnames")
    }
    assert len(asked) == len(families)
    assert asked <= shown
