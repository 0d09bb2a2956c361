"""Requests, resizes and deletions at the same moment, on real connections."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from gpuaas.catalog.models import Site
from gpuaas.core.errors import GpuaasError
from gpuaas.providers.sandbox.pods import pod_create
from gpuaas.workspaces.models import Operation, Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import workspace_delete, workspace_request, workspace_resize
from quotas.models import Limit
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import counters_must_match, limits_give
from tests.workspaces.stage import namespaces, ready, request, settle

pytestmark = pytest.mark.django_db(transaction=True)
H100 = "gpu:h100-sxm-80gb"
CLIENTS = 64


def at_once(count: int, work: Callable[[int], object]) -> Counter[str]:
    """Answers or refusals of `work(number)` in that many threads, let go at the same moment."""
    gate = threading.Barrier(count)

    def one(number: int) -> str:
        try:
            connection.ensure_connection()
            gate.wait()
            work(number)
        except GpuaasError as error:
            return error.code
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(one, range(count)))


def test_64_requests_for_the_last_8_gpus(as_alice: Actor, project: Project, site: Site) -> None:
    limits_give(project, {H100: 8})

    answers = at_once(
        CLIENTS,
        lambda number: workspace_request(
            actor=as_alice, project=project, name=f"n-{number}", items=[("h100.1", 1)]
        ),
    )

    assert answers == {"done": 8, "quota_exceeded": CLIENTS - 8}
    assert Workspace.objects.count() == Operation.objects.count() == 8
    counters_must_match()


def test_who_loses_the_name_with_the_last_gpu_is_told_the_limit(
    as_alice: Actor, project: Project, site: Site
) -> None:
    """As is whoever comes a moment later."""
    limits_give(project, {H100: 1})

    answers = at_once(
        8, lambda _: workspace_request(actor=as_alice, project=project, name="n", items=[("h100.1", 1)])
    )

    assert answers == {"done": 1, "quota_exceeded": 7}
    counters_must_match()


def test_one_of_many_resizes_wins(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)

    answers = at_once(
        8,
        lambda number: workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 3 + number)]),
    )

    assert answers == {"done": 1, "conflict": 7}
    workspace = settle(workspace)
    assert Limit.objects.get(project=project, resource=H100).used == workspace.flavors.get().confirmed
    counters_must_match()


def test_one_of_many_takes_a_waiting_shrink_back(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site, h100s=4)
    pod_create(site.pk, workspace.external_name, "all", 4)
    workspace = workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)])
    run(workspace.pk)

    def again(number: int) -> object:
        return workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 4 + number)])

    assert at_once(8, again) == {"done": 1, "conflict": 7}
    workspace = settle(workspace)
    assert workspace.state == "ready"
    assert Limit.objects.get(project=project, resource=H100).used == workspace.flavors.get().confirmed >= 4
    counters_must_match()


def test_many_deletions_and_workers_release_once(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    answers = at_once(8, lambda _: workspace_delete(actor=as_alice, workspace=workspace))
    assert answers == {"done": 8}
    assert workspace.operations.filter(kind="delete").count() == 1

    at_once(8, lambda _: run(workspace.pk))

    assert settle(workspace).state == "deleted"
    assert Limit.objects.get(project=project, resource=H100).used == 0
    counters_must_match()


def test_deleting_while_workers_make_it(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = request(as_alice, project)

    def work(number: int) -> None:
        if number == 0:
            workspace_delete(actor=as_alice, workspace=workspace)
        else:
            run(workspace.pk)

    at_once(6, work)

    assert settle(workspace, runs=400).state == "deleted"
    assert namespaces(site) == []
    assert Limit.objects.get(project=project, resource=H100).used == 0
    counters_must_match()
