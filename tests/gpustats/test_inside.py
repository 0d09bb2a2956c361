"""What the GPUs of one environment or job did: of its own pods, whatever else is called almost the same."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from pytest_django.fixtures import DjangoAssertNumQueries

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import rounds_fill, site_health
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.environments.models import Environment
from gpuaas.gpustats import selectors, services
from gpuaas.gpustats.selectors import environment_figures, environment_use, job_figures
from gpuaas.jobs.models import Job
from gpuaas.jobs.states import JobState
from gpuaas.providers.kubernetes import dcgm
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tenants.models import Project, User
from tests.environments.stage import ready, workspace_ready
from tests.environments.stage import row_in as environment_in
from tests.gpustats.stage import MINUTE, keep, keep_all, reading
from tests.jobs.stage import row_in as job_in
from tests.jobs.stage import running
from tests.metering.stage import utc, workspace_make
from tests.providers.kubernetes.test_dcgm import sample

AT = utc("2026-11-20 10:00")


def job_at(workspace: Workspace, name: str = "a", **changes: Any) -> Job:
    """One that runs since AT, with a GPU."""
    pool = workspace.flavors.get().flavor.pool
    usual = {"pool": pool, "gpus": 1, "state": JobState.RUNNING, "holding": True, "ready_at": AT}
    row = job_in(workspace, name, **{**usual, **changes})
    Job.objects.filter(pk=row.pk).update(created_at=AT - MINUTE)
    return Job.objects.select_related("workspace__project", "site", "pool").get(pk=row.pk)


def lab_at(workspace: Workspace, name: str = "lab", **changes: object) -> Environment:
    pool = workspace.flavors.get().flavor.pool
    row = environment_in(workspace, name, **{"pool": pool, "gpus": 1, **changes})
    return Environment.objects.select_related("workspace__project", "site").get(pk=row.pk)


def twins(*names: str) -> list[uuid.UUID]:
    """Keys by which rows of these names are called the same at a site, but for the names."""
    return [uuid.UUID(f"01980000-0000-7000-8000-{number:04x}0badcafe") for number, _ in enumerate(names)]


def pods_seen(workspace: Workspace, *pods: str, minutes: int = 2) -> None:
    told = [reading(workspace, pod=pod, device=f"GPU-{number}") for number, pod in enumerate(pods)]
    keep_all(workspace, AT, minutes, told)


def pods_of_job(actor: Actor, job: Job) -> set[str]:
    found = job_figures(actor=actor, job=job, now=AT + 10 * MINUTE)
    return {each.pod for each in found.devices}


def test_all_attempts_and_tasks_of_a_job(workspace: Workspace, as_bob: Actor) -> None:
    """As Kubernetes calls them, and the simulated site."""
    job = job_at(workspace, tasks=12)
    name = job.external_name
    own = {f"{name}-x7k2p", f"{name}-0-zz9ql", f"{name}-11-b4c5d", f"{name}-1", f"{name}-11-2"}
    others = [
        "train-0",
        f"{name}-in-x7k2p",
        f"{name}-out-1",
        name,
        f"{name}-",
        f"x{name}-x7k2p",
        f"{name}-a-b",
    ]
    pods_seen(workspace, *own, *others)
    assert pods_of_job(as_bob, job) == own


@pytest.mark.parametrize("renamed", ["", "exported_"])
def test_as_the_exporter_tells_it_or_a_prometheus_between(
    workspace: Workspace, as_bob: Actor, renamed: str
) -> None:
    """Which gives the exporter's own pod the plain labels."""
    job, labels = job_at(workspace), {"namespace": "monitoring", "pod": "dcgm-exporter-x7k2p"}
    own = {f"{renamed}namespace": workspace.external_name, f"{renamed}pod": f"{job.external_name}-x7k2p"}
    page = sample("DCGM_FI_DEV_GPU_UTIL", 87, **{**labels, **own})
    keep(workspace.site, AT, *dcgm.page_read("h100-01", page, space="monitoring").readings)
    (device,) = job_figures(actor=as_bob, job=job, now=AT).devices
    assert (device.pod, device.mean) == (f"{job.external_name}-x7k2p", 87)


def test_what_a_simulated_site_tells_of_them(as_alice: Actor, project: Project, site: Site) -> None:
    """The whole way: both run there, its exporter is asked, and each shows its own GPUs."""
    room = workspace_ready(as_alice, project, site)
    job, lab = running(as_alice, room, gpus=2), ready(as_alice, room)
    rounds_fill()
    for _ in range(2):
        assert site_health(site.pk)
        assert services.readings_keep(site.pk)
    of_job = job_figures(actor=as_alice, job=job).devices
    of_lab = environment_figures(actor=as_alice, environment=lab).devices
    assert [each.pod for each in of_job] == [f"{job.external_name}-1"] * 2
    assert [each.pod for each in of_lab] == [lab.external_name]
    assert not {(each.node, each.device) for each in of_job} & {(each.node, each.device) for each in of_lab}


def test_neither_of_two_jobs_has_pods_of_the_other(workspace: Workspace, as_bob: Actor) -> None:
    """Even where the part that no two share were the same."""
    names = ["a", "a-b", "a-b-c", "ab"]
    jobs = [job_at(workspace, name, pk=key) for name, key in zip(names, twins(*names), strict=True)]
    assert len({job.external_name.removesuffix(job.name) for job in jobs}) == 1
    pods = [f"{job.external_name}-{end}" for job in jobs for end in ("x7k2p", "3-x7k2p")]
    pods_seen(workspace, *pods)
    assert [pods_of_job(as_bob, job) for job in jobs] == [set(pods[at : at + 2]) for at in (0, 2, 4, 6)]


@pytest.mark.parametrize("name", ["a.b", "a%", "a_b", "a+", ".*", "a|b", "(a", "a\\d", "^a$"])
def test_what_means_something_in_patterns_is_a_name_here(
    workspace: Workspace, as_bob: Actor, name: str
) -> None:
    """No name has these, which the pattern does not rely on."""
    keys = twins(name, "axb")
    job, other = job_at(workspace, name, pk=keys[0]), job_at(workspace, "axb", pk=keys[1])
    pods_seen(workspace, f"{job.external_name}-x7k2p", f"{other.external_name}-x7k2p", "a-x7k2p")
    assert pods_of_job(as_bob, job) == {f"{job.external_name}-x7k2p"}


def test_pods_of_that_name_in_another_workspace_are_not_its_own(
    workspace: Workspace, h100: Flavor, alice: User, project: Project, other_project: Project, as_bob: Actor
) -> None:
    job, lab = job_at(workspace), lab_at(workspace)
    pods = [f"{job.external_name}-x7k2p", lab.external_name]
    for elsewhere in (project, other_project):
        theirs = workspace_make(elsewhere, h100, alice, name=f"fold-{elsewhere.slug}"[:20])
        keep(theirs.site, AT, *(reading(theirs, pod=pod, device=pod) for pod in pods))
    assert pods_of_job(as_bob, job) == set()
    assert not environment_figures(actor=as_bob, environment=lab, now=AT + MINUTE).devices


def test_an_environment_with_its_workers(workspace: Workspace, as_bob: Actor) -> None:
    lab = lab_at(workspace, workers=2, worker_gpus=1)
    name = lab.external_name
    pods_seen(workspace, name, f"{name}-w1", f"{name}-w2", f"{name}-w3", f"{name}-2", "train-0", minutes=30)
    found = environment_figures(actor=as_bob, environment=lab, now=AT + 31 * MINUTE)
    assert {each.pod for each in found.devices} == {name, f"{name}-w1", f"{name}-w2"}
    assert len(found.slots) == 96
    assert [each.utilization for each in found.slots[-4:]] == [None, 80, 80, 80]


def test_a_worker_that_shares_a_card_with_another_pod_is_seen(workspace: Workspace) -> None:
    """Else its environment never counts as idle."""
    lab = lab_at(workspace, workers=1, worker_gpus=1)
    pods = (lab.external_name, f"{lab.external_name}-w1")
    keep_all(workspace, AT, 2, [reading(workspace, pod=pod) for pod in pods])
    assert environment_use(lab, AT, AT + 2 * MINUTE).unknown == ""


def test_the_chart_of_a_job_is_of_its_time(workspace: Workspace, as_bob: Actor) -> None:
    job = job_at(workspace)
    pods_seen(workspace, f"{job.external_name}-x7k2p", minutes=30)
    found = job_figures(actor=as_bob, job=job, now=AT + 30 * MINUTE)
    assert (found.step, len(found.slots)) == (MINUTE, 31)
    assert (found.slots[0].starts_at, found.slots[0].utilization) == (AT, 80)
    assert found.kept_since is None
    Job.objects.update(
        state=JobState.SUCCEEDED, outcome="succeeded", finished_at=AT + 31 * MINUTE, holding=False
    )
    job.refresh_from_db()
    later = job_figures(actor=as_bob, job=job, now=AT + timedelta(hours=30))
    assert later.slots == found.slots
    assert [(each.now, each.mean) for each in later.devices] == [(None, 80)]


@pytest.mark.parametrize(
    ("hours", "step"), [(1, 1), (1.5, 1), (2, 2), (7, 5), (23, 15), (40, 30), (71, 60), (24 * 20, 480)]
)
def test_a_longer_job_has_longer_steps(workspace: Workspace, as_bob: Actor, hours: float, step: int) -> None:
    job = job_at(workspace)
    keep(workspace.site, AT + MINUTE, reading(workspace, pod=f"{job.external_name}-x7k2p"))
    with override_settings(GPU_SAMPLES_DAYS=30):
        found = job_figures(actor=as_bob, job=job, now=AT + timedelta(hours=hours))
    assert found.step == step * MINUTE
    assert 30 < len(found.slots) <= selectors.SLOTS
    assert found.slots[0].starts_at <= AT < found.slots[1].starts_at
    assert sum(each.utilization is not None for each in found.slots) == 1


def test_of_a_long_job_only_what_is_kept(workspace: Workspace, as_bob: Actor) -> None:
    job, now = job_at(workspace), AT + timedelta(days=5)
    pod = f"{job.external_name}-x7k2p"
    keep(workspace.site, AT, reading(workspace, pod=pod))
    keep(workspace.site, now - MINUTE, reading(workspace, pod=pod, utilization=10.0))
    found = job_figures(actor=as_bob, job=job, now=now)
    assert found.kept_since == now - timedelta(days=3)
    assert [each.mean for each in found.devices] == [10]
    assert (found.step, found.slots[0].starts_at) == (60 * MINUTE, now - timedelta(days=3))


def test_why_there_is_nothing(workspace: Workspace, as_bob: Actor) -> None:
    site, now = workspace.site, clock.now()

    def why(job: Job) -> str:
        found = job_figures(actor=as_bob, job=job, now=now)
        assert (list(found.devices), list(found.slots)) == ([], [])
        return found.why

    assert why(job_at(workspace, gpus=0, pool=None)) == "It asks for no GPUs."
    queued: dict[str, Any] = {"state": JobState.QUEUED, "holding": False, "ready_at": None}
    assert why(job_at(workspace, **queued)) == "It has not run yet."
    assert "reported nothing" in why(job_at(workspace))
    over: dict[str, Any] = {
        "state": JobState.FAILED,
        "outcome": "failed",
        "holding": False,
        "finished_at": now - 5 * MINUTE,
    }
    assert "about once a minute" in why(job_at(workspace, **over))
    gone: dict[str, Any] = {**over, "finished_at": now - timedelta(days=4)}
    assert why(job_at(workspace, **gone)) == "What GPUs did is kept for 3 days, and it ended before that."
    keep(site, now, reading())
    assert "about once a minute" in why(job_at(workspace))


def test_why_an_environment_has_nothing(workspace: Workspace, as_bob: Actor) -> None:
    def why(row: Environment) -> str:
        return environment_figures(actor=as_bob, environment=row).why

    assert why(lab_at(workspace, "plain", gpus=0, pool=None)) == "It asks for no GPUs."
    lab = lab_at(workspace)
    assert "reported nothing" in why(lab)
    keep(workspace.site, clock.now(), reading())
    assert why(lab) == "No pod of this environment had a GPU in the last 24 hours."


def test_outsiders_find_neither(workspace: Workspace, as_charlie: Actor, as_olga: Actor) -> None:
    job, lab = job_at(workspace), lab_at(workspace)
    with pytest.raises(NotFound):
        job_figures(actor=as_charlie, job=job)
    with pytest.raises(NotFound):
        environment_figures(actor=as_charlie, environment=lab)
    assert job_figures(actor=as_olga, job=job, now=AT).why
    assert environment_figures(actor=as_olga, environment=lab, now=AT).why


def test_queries_do_not_grow(
    workspace: Workspace, as_bob: Actor, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    job, lab = job_at(workspace, tasks=40), lab_at(workspace, workers=40, worker_gpus=1)
    pods_seen(workspace, *lab.pods, *(f"{job.external_name}-{number}-x7k2p" for number in range(40)))
    with django_assert_num_queries(3):
        assert len(job_figures(actor=as_bob, job=job, now=AT + 3 * MINUTE).devices) == 40
    with django_assert_num_queries(3):
        assert len(environment_figures(actor=as_bob, environment=lab, now=AT + 3 * MINUTE).devices) == 41
