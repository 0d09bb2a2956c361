"""A portal is restored while a real Kubernetes API server has moved on: nothing that it does not know is touched, and nothing
at all before an operator has confirmed the site."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuaas.backup.services import backup_make, restore
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.services import site_probe, site_update
from gpuaas.core.crypto import encrypt_json
from gpuaas.providers.kubeapi.client import Api
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import drifts_at
from gpuaas.workspaces.services import workspace_delete, workspace_resize
from tenants.actors import Actor
from tenants.models import Project
from tests.backup.stage import elsewhere
from tests.lab.fixtures import LabSite, until
from tests.workspaces.stage import RESTING, request, run_now

pytestmark = pytest.mark.django_db(transaction=True)
SPACES = "/api/v1/namespaces"


class World:
    """The portal's workspaces at the shared API server."""

    def __init__(self, lab: LabSite, site: Site, actor: Actor, project: Project) -> None:
        secret = encrypt_json({"kubeconfig": lab.kubeconfig})
        Site.objects.filter(pk=site.pk).update(driver="kubernetes", credentials=secret)
        GpuPool.objects.filter(site=site).update(selector={"gpuaas.io/pool": "h100-sxm-80gb"})
        self.api: Api = lab.api()
        self.actor, self.project = actor, project
        self.made: list[str] = []

    def settled(self, row: Workspace) -> Workspace:
        def rests() -> Workspace | None:
            found = run_now(row)
            return found if found.state in RESTING else None

        return until(rests, f"{row.name} rests")

    def ready(self, name: str) -> Workspace:
        row = self.settled(request(self.actor, self.project, name=name))
        self.made.append(row.external_name)
        assert row.state == "ready", row.failure
        return row

    def uid(self, row: Workspace) -> str:
        """Of its namespace; "" if there is none."""
        found = self.api.find(f"{SPACES}/{row.external_name}")
        return str(found["metadata"]["uid"]) if found else ""

    def hard(self, row: Workspace) -> str:
        quota = self.api.get(f"{SPACES}/{row.external_name}/resourcequotas/gpuaas")
        return str(quota["spec"]["hard"]["requests.nvidia.com/gpu"])

    def data(self, row: Workspace) -> str:
        """The uid of what the tenant has put there."""
        path = f"{SPACES}/{row.external_name}/configmaps"
        if self.api.find(f"{path}/results") is None:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "results"},
                "data": {"loss": "0.1"},
            }
            self.api.create(path, body)
        return str(self.api.get(f"{path}/results")["metadata"]["uid"])


@pytest.fixture
def world(lab: LabSite, site: Site, h100: Flavor, as_alice: Actor, project: Project) -> Iterator[World]:
    made = World(lab, site, as_alice, project)
    yield made
    for name in made.made:
        if made.api.find(f"{SPACES}/{name}"):
            made.api.delete(f"{SPACES}/{name}")


def test_nothing_unknown_is_touched(
    folder: Path, empty: str, world: World, site: Site, as_alice: Actor, as_olga: Actor
) -> None:
    kept, grown, deleted = (world.ready(name) for name in ("kept", "grown", "deleted"))
    path = backup_make(folder=folder)
    made = world.ready("made")
    world.settled(workspace_resize(actor=as_alice, workspace=grown, items=[("h100.1", 4)]))
    world.settled(workspace_delete(actor=as_alice, workspace=deleted))
    assert not world.uid(deleted)

    def state() -> list[str]:
        return [world.uid(made), world.data(made), world.uid(kept), world.data(kept), world.uid(grown)]

    before = state()
    assert all(before)
    with elsewhere(empty):
        restore(path=path)
        for row in (kept, grown, deleted):
            run_now(row)
        assert (state(), world.hard(grown), world.uid(deleted)) == (before, "4", "")
        assert site_probe(site.pk)
        shown = Site.objects.get().conditions["Confirmed"]
        assert (shown["status"], made.external_name in shown["message"]) == ("False", True)
        assert kept.external_name not in shown["message"]
        (missing,) = [one for one in drifts_at(site=site) if one.workspace_id == deleted.pk]
        assert (missing.state, missing.resolved_by) == ("open", "")
        workspace_delete(actor=as_alice, workspace=deleted)
        assert run_now(deleted).state == "deleting"
        site_update(actor=as_olga, site=site, confirmed=True)
        ends = [world.settled(row).state for row in (kept, grown, deleted)]
        assert ends == ["ready", "ready", "deleted"]
        assert (state(), world.hard(grown), world.uid(deleted)) == (before, "2", "")
        assert site_probe(site.pk)
        shown = Site.objects.get().conditions["Confirmed"]
        assert (shown["status"], shown["reason"]) == ("True", "Strangers")
        assert made.external_name in shown["message"]
