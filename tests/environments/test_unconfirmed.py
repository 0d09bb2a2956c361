"""At a site that nobody has confirmed since a restore, environments are neither started nor ended."""

from gpuaas.catalog.services import site_update
from gpuaas.environments.services import environment_delete
from gpuaas.providers.sandbox.models import SandboxPod
from gpuaas.workspaces.models import Workspace
from tenants.actors import Actor
from tests.environments.stage import homes, ordered, pods, run_now, settle


def test_it_stays_as_it_is(as_alice: Actor, as_olga: Actor, workspace: Workspace) -> None:
    row = settle(ordered(as_alice, workspace, gpus=1))
    site_update(actor=as_olga, site=workspace.site, confirmed=False)
    SandboxPod.objects.filter(name=row.external_name).delete()
    row = run_now(row)
    assert (pods(workspace), row.conditions["Progressing"]["reason"]) == ([], "Unconfirmed")
    environment_delete(actor=as_alice, environment=row)
    row = run_now(row)
    assert (row.state, homes(workspace)) == ("deleting", [row.external_name])
    site_update(actor=as_olga, site=workspace.site, confirmed=True)
    assert settle(row).state == "deleted"
    assert homes(workspace) == []
