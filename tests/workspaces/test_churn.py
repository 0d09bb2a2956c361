"""Many workspaces at once on the real control plane: made, drifted at random by the site's administrator, set right, deleted.

At the end counts, quotas, reservations and meters agree, and no namespace is left. GPUAAS_CHURN sets how many (1000 for the
full run).
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import structlog
from django.db import connections

from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.kubeapi import managed_objects, names
from gpuaas.providers.kubeapi.client import Api
from gpuaas.providers.kubernetes.driver import KubernetesDriver
from gpuaas.workspaces.models import Drift, Holding, Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import workspace_delete, workspace_request
from gpuaas.workspaces.site import driver_of
from gpuaas.workspaces.spec import ref_of, spec_of
from gpuaas.workspaces.watch import ChangesWatcher
from quotas.models import Limit, Reservation, SiteCapacity
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.factories.quotas import counters_must_match
from tests.lab.fixtures import LabSite, until

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

COUNT = int(os.environ.get("GPUAAS_CHURN", "40"))
AT_ONCE = 4
SECONDS_EACH = 120
EDITOR = "kubectl-edit"
GPUS = "requests.nvidia.com/gpu"
log = structlog.get_logger(__name__)


@pytest.fixture
def lab_site(lab: LabSite, project: Project) -> Site:
    credentials = encrypt_json({"kubeconfig": lab.kubeconfig})
    site: Site = SiteFactory.create(slug="churn", driver="kubernetes", credentials=credentials)
    selector = {"gpuaas.io/pool": "h100-sxm-80gb"}
    pool = GpuPoolFactory.create(site=site, capacity=16, healthy=16, largest_block=8, selector=selector)
    FlavorFactory.create(pool=pool, slug="churn.1")
    for resource in (f"gpu:{pool.gpu_type.slug}", "vcpu", "memory", "storage"):
        Limit.objects.create(project=project, resource=resource, hard=None)
        Limit.objects.create(organization=project.organization, resource=resource, hard=None)
        SiteCapacity.objects.create(site=site, resource=resource, hard=None)
    return site


@pytest.fixture
def watcher(lab_site: Site) -> Iterator[ChangesWatcher]:
    stop = threading.Event()
    made = ChangesWatcher(lab_site, stop=stop)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    yield made
    stop.set()
    thread.join(timeout=75)


def at_once(what: Callable[[int], None], count: int) -> float:
    """How many a second."""

    def one(number: int) -> None:
        try:
            what(number)
        finally:
            connections.close_all()

    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(count)))
    return count / (time.monotonic() - began)


def drive(workspace: Workspace, state: str) -> None:
    """As workers do it that look when it is due."""
    end = time.monotonic() + SECONDS_EACH
    run(workspace.pk)
    while (row := Workspace.objects.get(pk=workspace.pk)).state != state:
        assert row.state != "failed", row.failure
        assert row.due_at is not None
        assert time.monotonic() < end, f"{workspace} is not {state}: {row.conditions}"
        time.sleep(min(max((row.due_at - clock.now()).total_seconds(), 0), 2))
        run(workspace.pk)


def work(made: list[Workspace]) -> None:
    """What is due now, as a sweep finds it."""
    keys = [workspace.pk for workspace in made]
    rows = Workspace.objects.filter(pk__in=keys, due_at__lte=clock.now()).exclude(state="deleted")
    due = list(rows.values_list("pk", flat=True))
    at_once(lambda number: run(due[number]), len(due))


def drift_at_random(api: Api, name: str, member: str, dice: random.Random) -> None:
    """One edit or deletion of anything of ours."""
    space = f"/namespaces/{name}"
    quota = f"/api/v1{space}/resourcequotas/{names.QUOTA}"
    policy = f"{managed_objects.NETWORK}{space}/networkpolicies/gpuaas-default-deny"
    binding = f"{managed_objects.RBAC}{space}/rolebindings/{member}-admin"
    account = f"/api/v1{space}/serviceaccounts/{member}"
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    deeds: list[Callable[[], object]] = [
        lambda: api.merge(quota, {"spec": {"hard": {GPUS: "8"}}}, fieldManager=EDITOR),
        lambda: api.merge(quota, {"spec": {"hard": {GPUS: None}}}, fieldManager=EDITOR),
        lambda: api.merge(policy, {"spec": {"ingress": [{}]}}, fieldManager=EDITOR),
        lambda: api.merge(f"/api/v1{space}", label, fieldManager=EDITOR),
        *(lambda path=path: api.delete(path) for path in (quota, policy, binding, account)),
        lambda: api.delete(f"/api/v1{space}"),
    ]
    dice.choice(deeds)()


def test_many_are_made_drifted_repaired_and_deleted(
    lab: LabSite, lab_site: Site, watcher: ChangesWatcher, as_alice: Actor, project: Project
) -> None:
    made: list[Workspace] = []
    # ours, as the administrator's hand: under another manager
    api, dice = lab.api(), random.Random(COUNT)

    def make(number: int) -> None:
        wish = {"name": f"c-{number}", "items": [("churn.1", 1)], "storage_gib": 10}
        workspace = workspace_request(actor=as_alice, project=project, **wish)  # type: ignore[arg-type]
        made.append(workspace)
        drive(workspace, "ready")

    made_rate = at_once(make, COUNT)
    try:
        assert Limit.objects.get(project=project, resource="vcpu").used == COUNT * 16
        _drift_and_repair(api, made, dice)
        driver = driver_of(lab_site)
        assert isinstance(driver, KubernetesDriver)
        for workspace in made:
            row = Workspace.objects.select_related("project__organization", "site").get(pk=workspace.pk)
            assert driver.drift(spec_of(row)) == (), row.external_name
            assert driver.observe(ref_of(row)).hard["nvidia.com/gpu"] == 1
        deleted_rate = _delete(as_alice, made)
    finally:
        for workspace in made:
            api.delete(f"/api/v1/namespaces/{workspace.external_name}")
    _all_agrees(api, made, project)
    log.info("churn", workspaces=COUNT, made_per_second=made_rate, deleted_per_second=deleted_rate)


def _drift_and_repair(api: Api, made: list[Workspace], dice: random.Random) -> None:
    """Half of them, and the watch alone makes them due."""
    chosen = dice.sample(made, len(made) // 2)
    far = clock.now() + timedelta(hours=1)
    keys = [workspace.pk for workspace in made]
    Workspace.objects.filter(pk__in=keys).update(due_at=far, drift_due_at=far)
    spec = spec_of(Workspace.objects.select_related("project__organization").get(pk=made[0].pk))
    for workspace in chosen:
        drift_at_random(api, workspace.external_name, spec.members[0].subject, dice)
    touched = {workspace.pk for workspace in chosen}

    def all_set_right() -> bool:
        work(made)
        found = Drift.objects.filter(workspace__in=keys)
        repaired = set(found.filter(state="repaired").values_list("workspace_id", flat=True))
        return touched <= repaired and not found.filter(state="open").exists()

    until(all_set_right, "every drift is set right", seconds=60 + len(made))
    assert set(Drift.objects.values_list("workspace_id", flat=True)) == touched, "nobody else drifted"


def _delete(actor: Actor, made: list[Workspace]) -> float:
    began = time.monotonic()
    for workspace in made:
        workspace_delete(actor=actor, workspace=workspace)

    def all_gone() -> bool:
        work(made)
        return not Workspace.objects.filter(pk__in=[one.pk for one in made]).exclude(state="deleted").exists()

    until(all_gone, "all are deleted", seconds=60 + 2 * len(made))
    return len(made) / (time.monotonic() - began)


def _all_agrees(api: Api, made: list[Workspace], project: Project) -> None:
    counters_must_match()
    assert not Limit.objects.exclude(used=0).exists()
    assert not SiteCapacity.objects.exclude(used=0).exists()
    assert not Reservation.objects.filter(state="held").exists()
    assert not Holding.objects.filter(ended_at=None).exists()
    held_sync()
    assert not UsageInterval.objects.filter(ended_at=None).exists()
    spans = {(h.workspace_id, h.meter): (h.started_at, h.ended_at) for h in Holding.objects.all()}
    metered = {(u.workspace_id, u.meter): (u.started_at, u.ended_at) for u in UsageInterval.objects.all()}
    assert metered == spans
    assert len(spans) == 4 * len(made)
    left = {item["metadata"]["name"] for item in api.items("/api/v1/namespaces")}
    assert not left & {workspace.external_name for workspace in made}
