"""What an exporter told becomes samples and hours, once, whoever repeats it."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connections
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.catalog.models import Flavor, SiteReadings
from gpuaas.catalog.services import site_health
from gpuaas.core import claims, clock
from gpuaas.gpustats import services, tasks
from gpuaas.gpustats.models import GpuHour, GpuSample
from gpuaas.workspaces.models import Workspace
from tests.gpustats.stage import MINUTE, keep, keep_all, leave, reading
from tests.metering.stage import utc

AT = utc("2026-11-20 10:00")


def test_samples_and_the_hour_they_add_up_to(workspace: Workspace, h100: Flavor) -> None:
    told = [reading(workspace, device=f"GPU-{n}", utilization=n * 40.0) for n in range(2)]
    keep_all(workspace, AT, 10, told)
    row = GpuSample.objects.order_by("-at").first()
    assert row is not None
    assert (row.workspace, row.project, row.gpu_type) == (workspace, workspace.project, h100.pool.gpu_type)
    assert (row.seconds, row.spent_mj) == (60, 36_000_000)
    hour = GpuHour.objects.get()
    assert (hour.workspace, hour.project, hour.gpu_type, hour.hour) == (
        workspace,
        workspace.project,
        h100.pool.gpu_type,
        AT,
    )
    assert (hour.seconds, hour.measured_seconds, hour.busy_seconds) == (1200, 1200, 240)
    assert (hour.utilization_max, hour.memory_max_mib) == (40, 60_000)
    assert hour.memory_mib_seconds == 1200 * 60_000
    assert hour.energy_mj == 2 * 600 * 600 * 1000


def test_a_round_that_is_kept_again_adds_nothing(workspace: Workspace) -> None:
    keep(workspace.site, AT, reading(workspace))
    for _ in range(3):
        assert keep(workspace.site, AT + MINUTE, reading(workspace, energy_mj=37_000_000))
    assert GpuSample.objects.count() == 2
    hour = GpuHour.objects.get()
    assert (hour.seconds, hour.energy_mj) == (60, 36_000_000)


def test_at_rest_there_is_nothing_to_keep(workspace: Workspace) -> None:
    keep(workspace.site, AT, reading(workspace))
    assert not services.readings_keep(workspace.site.pk)
    assert tasks.keep_due() == 0


def test_a_kill_before_the_end_leaves_all_to_the_next(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(row: SiteReadings) -> int:
        written(row)
        raise KeyboardInterrupt

    written = services._write
    monkeypatch.setattr(services, "_write", killed)
    leave(workspace.site, AT, reading(workspace))
    with pytest.raises(KeyboardInterrupt):
        services.readings_keep(workspace.site.pk)
    assert GpuSample.objects.count() == 0
    monkeypatch.undo()
    SiteReadings.objects.update(claim_until=clock.now())
    assert tasks.keep_due() == 1
    assert services.readings_keep(workspace.site.pk)
    assert GpuSample.objects.count() == 1


def test_who_lost_the_claim_writes_nothing(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(workspace.site, AT, reading(workspace))
    released = claims.release

    def late(row: SiteReadings, **changes: object) -> bool:
        SiteReadings.objects.update(claim_until=clock.now())
        assert claims.claim(SiteReadings, row.pk, now=clock.now(), seconds=60)
        return released(row, due_at=None, **{k: v for k, v in changes.items() if k != "due_at"})

    monkeypatch.setattr(services, "release", late)
    assert not services.readings_keep(workspace.site.pk)
    assert GpuSample.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_write_it_once(workspace: Workspace) -> None:
    keep(workspace.site, AT, reading(workspace))
    gate, answers = threading.Barrier(4), []
    leave(workspace.site, AT + MINUTE, reading(workspace))

    def work() -> None:
        gate.wait()
        answers.append(services.readings_keep(workspace.site.pk))
        connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(True) == 1
    assert GpuSample.objects.count() == 2
    assert GpuHour.objects.get().seconds == 60


def test_time_that_nobody_saw_counts_for_nothing(workspace: Workspace) -> None:
    keep(workspace.site, AT, reading(workspace))
    keep(workspace.site, AT + 10 * MINUTE, reading(workspace, energy_mj=10_000_000))
    assert not GpuHour.objects.exists()
    keep(workspace.site, AT + 12 * MINUTE, reading(workspace, energy_mj=20_000_000))
    assert GpuHour.objects.get().seconds == 120


def test_another_pod_on_the_same_card_begins_anew(workspace: Workspace) -> None:
    keep(workspace.site, AT, reading(workspace))
    keep(workspace.site, AT + MINUTE, reading(workspace, pod="train-1", energy_mj=9_000_000))
    assert not GpuHour.objects.exists()


@pytest.mark.parametrize("after", [999_999, 1_000_000 + 60 * 5000 * 1000 + 1, None])
def test_a_counter_that_fell_or_leapt_is_no_energy(workspace: Workspace, after: int | None) -> None:
    keep(workspace.site, AT, reading(workspace))
    keep(workspace.site, AT + MINUTE, reading(workspace, energy_mj=after))
    hour = GpuHour.objects.get()
    assert (hour.seconds, hour.energy_mj) == (60, 0)


@pytest.mark.parametrize("namespace", ["kube-system", "gpu-00000000-train", ""])
def test_a_namespace_that_is_no_workspace_is_nobody(workspace: Workspace, namespace: str) -> None:
    for minute in range(2):
        keep(workspace.site, AT + minute * MINUTE, reading(workspace, namespace=namespace))
    assert not GpuSample.objects.exclude(workspace=None, project=None).exists()
    assert not GpuHour.objects.exists()


def test_a_workspace_of_another_site_is_nobody_either(workspace: Workspace, h100: Flavor) -> None:
    """Whoever serves the page of one site says nothing of another's."""
    site = h100.pool.site
    other = type(site).objects.create(slug="ber-2", name="ber-2", driver="sandbox")
    keep(other, AT, reading(workspace))
    assert GpuSample.objects.get().workspace is None


def test_a_device_of_an_unknown_node_has_no_gpu_type(workspace: Workspace) -> None:
    for minute in range(2):
        keep(workspace.site, AT + minute * MINUTE, reading(workspace, node="new", profile="1g.5gb"))
    hour = GpuHour.objects.get()
    assert (hour.gpu_type, hour.seconds) == (None, 60)


def test_what_is_old_is_forgotten(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "BATCH", 3)
    now = clock.whole_second(clock.now())
    keep_all(workspace, now - timedelta(days=4), 6, [reading(workspace)])
    keep_all(workspace, now - MINUTE, 1, [reading(workspace)])
    assert services.samples_forget() == 7
    assert GpuSample.objects.count() == 2
    assert GpuHour.objects.count() >= 2
    with override_settings(GPU_HOURS_DAYS=3):
        services.samples_forget()
    assert GpuHour.objects.filter(hour__lt=now - timedelta(days=3)).count() == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    figures=st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(0, 100)),
            st.one_of(st.none(), st.integers(0, 2**53)),
            st.one_of(st.none(), st.integers(0, 2**22)),
            st.integers(0, 200),
        ),
        max_size=6,
    )
)
def test_hours_are_the_sums_of_samples(
    workspace: Workspace, figures: list[tuple[float, int, int, int]]
) -> None:
    GpuSample.objects.all().delete()
    GpuHour.objects.all().delete()
    at = AT
    for utilization, energy, memory, wait in figures:
        at += timedelta(seconds=wait)
        told = reading(workspace, utilization=utilization, energy_mj=energy, memory_used_mib=memory)
        keep(workspace.site, at, told, replace(told, device="GPU-1"))
    samples = list(GpuSample.objects.filter(seconds__gt=0))
    hours = list(GpuHour.objects.all())
    assert sum(each.seconds for each in hours) == sum(each.seconds for each in samples)
    assert sum(each.energy_mj for each in hours) == sum(each.spent_mj or 0 for each in samples)
    busy = sum(each.seconds * (each.utilization or 0) / 100 for each in samples)
    assert sum(each.busy_seconds for each in hours) == pytest.approx(busy)
    assert all(0 <= each.busy_seconds <= each.measured_seconds <= each.seconds for each in hours)


def test_the_round_of_health_leaves_what_a_simulated_site_tells(workspace: Workspace) -> None:
    from gpuaas.catalog.services import rounds_fill
    from gpuaas.providers.sandbox.fleet import fleet_seed

    fleet_seed(workspace.site.pk)
    rounds_fill()
    assert site_health(workspace.site.pk)
    row = SiteReadings.objects.get(site=workspace.site)
    assert len(row.devices) == 2 * 8 + 2 * 8 + 2 * 4 + 14
    assert services.readings_keep(workspace.site.pk)
    assert GpuSample.objects.count() == len(row.devices)
