"""A storage class that was not bought admits nothing at the site, also one that the site gets later."""

import pytest

from gpuaas.catalog.models import Site
from gpuaas.catalog.services.storage import storage_classes_write
from gpuaas.core import clock
from gpuaas.providers.base import ObservedStorageClass
from gpuaas.providers.sandbox.inventory import STORAGE_CLASSES
from gpuaas.providers.sandbox.models import SandboxQuota
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.tasks import site_changed
from tenants.actors import Actor
from tenants.models import Project
from tests.workspaces.stage import ready, run_now

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
