"""Holdings tell the meter that they began or ended, on commit, and only then."""

import pytest
from celery import current_app
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from gpuaas.catalog.models import Flavor, Site
from gpuaas.core.clock import now
from gpuaas.workspaces.holdings import holdings_end, holdings_set
from tenants.models import Project, User
from tests.metering.stage import workspace_make

pytestmark = pytest.mark.django_db


def test_costs_do_not_wait_for_the_meters_round(
    project: Project,
    site: Site,
    h100: Flavor,
    alice: User,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda task, **_: sent.append(task))
    settings.QUEUE_ENABLED = True
    workspace = workspace_make(project, h100, alice)

    with django_capture_on_commit_callbacks(execute=True):
        holdings_set(workspace=workspace, items=[(h100, 2)], storage={None: 10}, at=now())
    assert sent == ["metering.held_sync"]
    with django_capture_on_commit_callbacks(execute=True):
        holdings_set(workspace=workspace, items=[(h100, 2)], storage={None: 10}, at=now())
    assert len(sent) == 1
    with django_capture_on_commit_callbacks(execute=True):
        holdings_end(workspace=workspace, at=now())
        holdings_end(workspace=workspace, at=now())
    assert len(sent) == 2
