"""A storage class that was not bought admits nothing at the site, also one that the site gets later."""

from dataclasses import replace
from typing import Any

import pytest

from gpuaas.catalog.models import Site, StorageClass
from gpuaas.catalog.services import storage_class_retire, storage_class_sell
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.core.errors import Invalid, QuotaRefused
from gpuaas.metering.models import UsageInterval
from gpuaas.metering.services import held_sync
from gpuaas.providers.base import ObservedStorageClass, ObservedWorkspace, WorkspaceRef
from gpuaas.providers.sandbox.claims import claim_create
from gpuaas.providers.sandbox.driver import SandboxDriver
from gpuaas.providers.sandbox.inventory import STORAGE_CLASSES
from gpuaas.providers.sandbox.models import SandboxQuota
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.services import (
    workspace_delete,
    workspace_request,
    workspace_resize,
    workspace_resume,
    workspace_suspend,
)
from gpuaas.workspaces.tasks import site_changed
from quotas.selectors import reservations_held
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give
from tests.workspaces.stage import fast, ready, run_now, settle

pytestmark = pytest.mark.django_db


def enforced(workspace: Workspace) -> dict[str, int]:
    rows = SandboxQuota.objects.filter(
        namespace__name=workspace.external_name, resource__startswith="storage"
    )
    return {row.resource: row.hard for row in rows if row.hard is not None}


@pytest.fixture(autouse=True)
def classes(site: Site) -> None:
    storage_classes_write(site=site, found=STORAGE_CLASSES, at=clock.now())


def test_plain_storage_is_of_one_class(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    assert enforced(workspace) == {"storage": 100, "storage:fast": 0, "storage:standard": 100}
    assert workspace.observed["hard"]["storage:fast"] == 0


def test_a_class_that_the_site_gets_later_is_closed(as_alice: Actor, project: Project, site: Site) -> None:
    workspace = ready(as_alice, project, site)
    seen = (*STORAGE_CLASSES, ObservedStorageClass("premium"))
    storage_classes_write(site=site, found=seen, at=clock.now())
    site_changed(str(site.pk))
    assert run_now(workspace).state == "ready"
    assert enforced(workspace)["storage:premium"] == 0
    assert not workspace.operations.filter(finished_at=None).exists()


@pytest.fixture
def fast_class(site: Site, as_olga: Actor) -> StorageClass:
    row = StorageClass.objects.get(site=site, name="fast")
    return storage_class_sell(actor=as_olga, storage_class=row, slug="fast-ber-1")


def bought(actor: Actor, project: Project, site: Site, **amounts: int) -> Workspace:
    """10 GiB of plain storage beside `amounts`."""
    fast(site)
    limits_give(project)
    made = workspace_request(
        actor=actor,
        project=project,
        name="data",
        items=[("h100.1", 1)],
        storage_gib=10,
        storage_classes=[(slug.replace("_", "-"), gib) for slug, gib in amounts.items()],
    )
    return settle(made)


def held(workspace: Workspace) -> dict[str, int]:
    """Open intervals of storage, by the name that prices have."""
    held_sync()
    rows = UsageInterval.objects.filter(workspace=workspace, meter="storage_held", ended_at=None)
    return dict(rows.values_list("resource_name", "quantity"))


def reserved(workspace: Workspace) -> int:
    return reservations_held(holder_kind="workspace", holder_id=workspace.pk)["storage"]


def test_a_class_is_bought_held_counted_and_given_back(
    as_alice: Actor, project: Project, site: Site, fast_class: StorageClass
) -> None:
    workspace = bought(as_alice, project, site, fast_ber_1=50)
    assert enforced(workspace) == {"storage": 60, "storage:fast": 50, "storage:standard": 10}
    assert held(workspace) == {"storage_held": 10, "storage:fast-ber-1": 50}
    assert reserved(workspace) == 60
    assert workspace.operations.get().summary == "1 × H100 SXM, 10 GiB storage, 50 GiB fast-ber-1"

    resized = workspace_resize(
        actor=as_alice, workspace=workspace, items=[("h100.1", 1)], storage_classes=[("fast-ber-1", 80)]
    )
    assert reserved(settle(resized)) == 90
    assert held(workspace) == {"storage_held": 10, "storage:fast-ber-1": 80}

    resized = workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)], storage_classes=[])
    assert reserved(workspace) == 90, "released only when the site has confirmed"
    settle(resized)
    assert enforced(workspace) == {"storage": 10, "storage:fast": 0, "storage:standard": 10}
    assert (held(workspace), reserved(workspace)) == ({"storage_held": 10}, 10)


def test_a_suspension_keeps_it_and_a_deletion_ends_it(
    as_alice: Actor, project: Project, site: Site, fast_class: StorageClass
) -> None:
    workspace = bought(as_alice, project, site, fast_ber_1=50)
    settle(workspace_suspend(actor=as_alice, workspace=workspace))
    assert held(workspace) == {"storage_held": 10, "storage:fast-ber-1": 50}
    assert reserved(workspace) == 60
    assert enforced(workspace)["storage:fast"] == 50
    settle(workspace_resume(actor=as_alice, workspace=workspace))
    settle(workspace_delete(actor=as_alice, workspace=workspace))
    assert held(workspace) == {}
    assert not reservations_held(holder_kind="workspace", holder_id=workspace.pk)


def test_what_is_in_use_of_a_class_that_is_given_back_is_waited_for(
    as_alice: Actor, project: Project, site: Site, fast_class: StorageClass
) -> None:
    workspace = bought(as_alice, project, site, fast_ber_1=50)
    claim_create(site.pk, workspace.external_name, "scratch", 40, "fast")
    with pytest.raises(QuotaRefused):
        claim_create(site.pk, workspace.external_name, "more", 11, "fast")
    with pytest.raises(QuotaRefused):
        claim_create(site.pk, workspace.external_name, "plain", 11)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)], storage_classes=[])
    row = run_now(workspace)
    row = run_now(workspace)
    assert row.state == "resizing"
    assert "40 of storage" in row.conditions["Progressing"]["message"]
    assert held(workspace)["storage:fast-ber-1"] == 50
    back = [("fast-ber-1", 40)]
    settle(workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)], storage_classes=back))
    assert held(workspace)["storage:fast-ber-1"] == 40


def test_a_site_that_does_not_keep_a_lower_limit_ends_the_resize_in_words(
    as_alice: Actor,
    project: Project,
    site: Site,
    fast_class: StorageClass,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes what is written, confirms it, and then has the old limit again."""
    workspace = bought(as_alice, project, site, fast_ber_1=50)
    claim_create(site.pk, workspace.external_name, "scratch", 40, "fast")
    looked = SandboxDriver.observe

    def forgets(driver: SandboxDriver, ref: WorkspaceRef) -> ObservedWorkspace:
        seen = looked(driver, ref)
        return replace(seen, hard={**seen.hard, "storage:fast": 50})

    monkeypatch.setattr(SandboxDriver, "observe", forgets)
    workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 1)], storage_classes=[])
    row = settle(workspace)
    assert row.state == "failed"
    assert row.failure == (
        "the site does not retain what was set: 40 of storage:fast are left; its limit is still 50, "
        "although the site has taken a lower one"
    )
    assert held(workspace)["storage:fast-ber-1"] == 50


@pytest.mark.parametrize(
    ("storage", "sentence"),
    [
        ([("made-up", 1)], "no more storage of the class 'made-up' on offer"),
        ([("standard", 1)], "on offer"),
        ([("fast-ber-1", 0)], "whole number of GiB from 1"),
        ([("fast-ber-1", -5)], "whole number of GiB from 1"),
        ([("fast-ber-1", 1_000_001)], "whole number of GiB from 1"),
        ([("fast-ber-1", True)], "whole number of GiB from 1"),
        ([("fast-ber-1", 1), ("fast-ber-1", 2)], "only once"),
        ([("a\x00b", 1)], "on offer"),
        ([(None, 1)], "on offer"),
    ],
)
def test_what_is_not_on_offer_is_refused(
    as_alice: Actor,
    project: Project,
    site: Site,
    fast_class: StorageClass,
    storage: list[tuple[Any, Any]],
    sentence: str,
) -> None:
    limits_give(project)
    with pytest.raises(Invalid, match=sentence) as refused:
        workspace_request(
            actor=as_alice, project=project, name="data", items=[("h100.1", 1)], storage_classes=storage
        )
    assert list(refused.value.fields) == ["storage_classes"]
    assert not Workspace.objects.exists()


def test_a_retired_class_is_kept_or_given_back_and_not_grown(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site, fast_class: StorageClass
) -> None:
    workspace = bought(as_alice, project, site, fast_ber_1=50)
    storage_class_retire(actor=as_olga, storage_class=fast_class)
    with pytest.raises(Invalid, match="on offer"):
        workspace_resize(
            actor=as_alice, workspace=workspace, items=[("h100.1", 1)], storage_classes=[("fast-ber-1", 51)]
        )
    settle(workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 2)]))
    assert held(workspace)["storage:fast-ber-1"] == 50
    fewer = [("fast-ber-1", 20)]
    settle(
        workspace_resize(actor=as_alice, workspace=workspace, items=[("h100.1", 2)], storage_classes=fewer)
    )
    assert enforced(workspace)["storage:fast"] == 20


def test_limits_count_all_classes_together(
    as_alice: Actor, project: Project, site: Site, fast_class: StorageClass
) -> None:
    limits_give(project, {"storage": 59})
    with pytest.raises(QuotaRefused):
        workspace_request(
            actor=as_alice,
            project=project,
            name="data",
            items=[("h100.1", 1)],
            storage_gib=10,
            storage_classes=[("fast-ber-1", 50)],
        )
