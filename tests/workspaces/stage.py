"""Helpers of the workspace tests: request one, and drive its reconciler by hand until it rests."""

from gpuaas.catalog.models import Site
from gpuaas.core.clock import now
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.models import SandboxMember, SandboxNamespace
from gpuaas.workspaces.models import Step, Workspace
from gpuaas.workspaces.reconcile import run
from gpuaas.workspaces.services import workspace_request
from tenants.actors import Actor
from tenants.models import Project
from tests.factories.quotas import limits_give

RESTING = {"ready", "suspended", "failed", "deleted"}


def fast(site: Site) -> None:
    """A site that confirms at once: tests drive time by runs, not by waiting."""
    dials_set(site.pk, confirm_ms=0, grace_ms=0, namespace_ms=0, latency_ms=0, retry_after=0)


def request(actor: Actor, project: Project, *, name: str = "train", h100s: int = 2) -> Workspace:
    limits_give(project)
    return workspace_request(
        actor=actor, project=project, name=name, items=[("h100.1", h100s)], storage_gib=100
    )


def run_now(workspace: Workspace) -> Workspace:
    """One run, whenever it would have been due."""
    Workspace.objects.filter(pk=workspace.pk).update(due_at=now())
    run(workspace.pk)
    return Workspace.objects.select_related("project__organization", "site").get(pk=workspace.pk)


def settle(workspace: Workspace, *, runs: int = 30) -> Workspace:
    """Run until it is ready, failed or deleted."""
    row = workspace
    for _ in range(runs):
        row = run_now(workspace)
        if row.state in RESTING:
            return row
    steps = list(Step.objects.filter(operation__workspace=workspace).values_list("key", "state", "detail"))
    raise AssertionError(f"still {row.state} after {runs} runs: {row.conditions} {steps}")


def ready(actor: Actor, project: Project, site: Site, *, name: str = "train", h100s: int = 2) -> Workspace:
    fast(site)
    workspace = settle(request(actor, project, name=name, h100s=h100s))
    assert workspace.state == "ready", workspace.failure
    return workspace


def namespaces(site: Site) -> list[str]:
    return sorted(SandboxNamespace.objects.filter(site=site.pk).values_list("name", flat=True))


def members_at_site(site: Site) -> dict[str, str]:
    return dict(SandboxMember.objects.filter(namespace__site=site.pk).values_list("name", "role"))
