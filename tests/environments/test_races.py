"""Orders, starts and the workspace's own changes at the same moment, on real connections."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from gpuaas.catalog.models import Site
from gpuaas.environments.models import Environment, EnvironmentOperation
from gpuaas.environments.services import (
    environment_create,
    environment_delete,
    environment_start,
    environment_stop,
    kind_version_add,
)
from gpuaas.workspaces.services import workspace_delete, workspace_suspend
from tenants.actors import SYSTEM, Actor
from tenants.models import Project
from tests.environments.stage import DOCUMENT, kind, ordered, settle, workspace_ready
from tests.lab.fixtures import until
from tests.workspaces import stage as workspaces
from tests.workspaces.machines.test_races import waiting
from tests.workspaces.test_races import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_eight_orders_for_the_last_two_gpus(as_alice: Actor, project: Project, site: Site) -> None:
    workspace, slug = workspace_ready(as_alice, project, site, h100s=2), kind().slug
    answers = at_once(
        8,
        lambda number: environment_create(
            actor=as_alice, workspace=workspace, kind=slug, name=f"n-{number}", gpus=1
        ),
    )
    assert answers == {"done": 2, "quota_exceeded": 6}
    assert Environment.objects.count() == EnvironmentOperation.objects.count() == 2


def test_one_of_many_gets_the_name(as_alice: Actor, project: Project, site: Site) -> None:
    workspace, slug = workspace_ready(as_alice, project, site), kind().slug
    answers = at_once(
        6,
        lambda _: environment_create(actor=as_alice, workspace=workspace, kind=slug, name="lab", gpus=0),
    )
    assert answers == {"done": 1, "conflict": 5}


def test_starts_at_once_take_what_one_may(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = workspace_ready(as_alice, project, site, h100s=2)
    rows = []
    for number in range(3):
        row = settle(ordered(as_alice, workspace, f"n-{number}", gpus=2))
        environment_stop(actor=as_alice, environment=row)
        rows.append(settle(row))
    answers = at_once(3, lambda number: environment_start(actor=as_alice, environment=rows[number]))
    assert answers == {"done": 1, "quota_exceeded": 2}


@pytest.mark.parametrize("take_down", [workspace_suspend, workspace_delete])
def test_orders_while_the_workspace_goes(
    as_alice: Actor, project: Project, site: Site, take_down: object
) -> None:
    """Whoever comes first: nothing runs in the end, and nobody waits for the other for ever."""
    workspace, slug = workspace_ready(as_alice, project, site), kind().slug
    first = ordered(as_alice, workspace, gpus=0)

    def deed(number: int) -> object:
        if number == 0:
            return take_down(actor=as_alice, workspace=workspace)  # type: ignore[operator]
        if number == 1:
            return environment_stop(actor=as_alice, environment=first)
        return environment_create(actor=as_alice, workspace=workspace, kind=slug, name=f"n-{number}", gpus=0)

    answers = at_once(6, deed)
    assert answers["done"] >= 1
    assert set(answers) <= {"done", "conflict"}
    assert workspaces.settle(workspace).state in {"suspended", "deleted"}
    states = {settle(row).state for row in Environment.objects.all()}
    assert states <= {"suspended", "deleted"}


@pytest.mark.parametrize("take_down", [workspace_suspend, workspace_delete])
def test_one_is_deleted_while_its_workspace_goes(
    as_alice: Actor, project: Project, site: Site, take_down: Callable[..., object]
) -> None:
    """The deletion has its row, and ends while the workspace looks for what is in it: neither is refused."""
    workspace = workspace_ready(as_alice, project, site)
    gone, other = (settle(ordered(as_alice, workspace, name, gpus=0, vcpus=1)) for name in ("one", "two"))
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            environment_delete(actor=as_alice, environment=gone)
            down = pool.submit(at_once, 1, lambda _: take_down(actor=as_alice, workspace=workspace))
            until(waiting, "the workspace waits for the row")
        assert down.result() == {"done": 1}
    assert Environment.objects.get(pk=gone.pk).state == "deleting"
    assert Environment.objects.get(pk=other.pk).state in {"suspending", "deleting"}


def test_versions_at_once_are_numbered(db: None) -> None:
    found = kind()
    assert at_once(4, lambda _: kind_version_add(actor=SYSTEM, kind=found, document=DOCUMENT)) == {"done": 4}
    assert sorted(found.versions.values_list("number", flat=True)) == [1, 2, 3, 4, 5]
