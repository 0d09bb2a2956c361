"""A project and a site where every address of the API leads to something, made the way users and sites make it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest_django

from gpuaas.catalog.models import Flavor, Site
from gpuaas.catalog.services import node_check_look, node_check_request, site_probe
from gpuaas.core import clock
from gpuaas.providers.sandbox.drift import tamper
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed
from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create
from gpuaas.workspaces.machines.keys import keypair_add
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.reconcile import adoption
from gpuaas.workspaces.services import adoption_plan_request, adoption_scan_request, robot_create
from tenants.actors import Actor
from tenants.models import ApiToken, Project, User
from tenants.selectors import actor_for
from tests.apart import undone
from tests.api.caller import token_for
from tests.api.cluster_stage import cluster_stage
from tests.billing.ledger_stage import ledger_stage
from tests.billing.stage import (
    budget_stage,
    card_stage,
    pool_stage,
)
from tests.clusters.host_stage import host_at
from tests.environments.stage import named
from tests.factories.billing import invoice_make
from tests.factories.catalog import stock_site
from tests.factories.tenants import (
    OrganizationFactory,
    OrganizationMembershipFactory,
    ProjectFactory,
    ProjectMembershipFactory,
    UserFactory,
)
from tests.jobs import stage as jobs
from tests.workspaces.stage import ready, run_now

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
NODE, OLD = "h-01", "old-lab"


@dataclass(frozen=True)
class World:
    """The cast, and in `stage` the path parameters by name."""

    project: Project
    alice: User
    bob: User
    charlie: User
    olga: User
    stage: dict[str, Any]


@contextmanager
def furnished(blocker: pytest_django.DjangoDbBlocker) -> Iterator[World]:
    """For a fixture of a module's scope: its cases share one world, which is gone after them. Each has to undo what it writes, as
    a test in a transaction does."""
    with blocker.unblock(), undone():
        yield _world()


def _world() -> World:
    project = ProjectFactory.create(
        organization=OrganizationFactory.create(slug="climate"), slug="weather-lm"
    )
    other = ProjectFactory.create(slug="protein-fold")
    alice, bob, charlie = (UserFactory.create(username=name) for name in ("alice", "bob", "charlie"))
    olga = UserFactory.create(username="olga", platform_role="operator")
    OrganizationMembershipFactory.create(organization=project.organization, user=alice, role="owner")
    ProjectMembershipFactory.create(project=project, user=bob, role="member")
    ProjectMembershipFactory.create(project=other, user=charlie, role="admin")
    as_alice, as_olga = actor_for(user=alice), actor_for(user=olga)
    made = furnish(alice=as_alice, olga=as_olga, bob=bob, project=project, site=stock_site())
    return World(project, alice, bob, charlie, olga, made)


def furnish(*, alice: Actor, olga: Actor, bob: User, project: Project, site: Site) -> dict[str, Any]:
    """Path parameters by name: a ready workspace that has drifted, a planned adoption, a finished check of a node."""
    fleet_seed(site.pk, slug=site.slug, racks=(Rack("h", 2, H100, 8),))
    assert site_probe(site.pk)
    workspace = ready(alice, project, site)
    drift = _drift(workspace, site)
    project.memberships.filter(user=bob).update(role="admin")
    token_for(bob, project)
    invoice = invoice_make(project)
    return {
        "project": project.slug,
        "organization": project.organization.slug,
        "workspace": str(workspace.pk),
        "token": str(ApiToken.objects.get(user=bob).pk),
        "username": bob.username,
        "robot": robot_create(actor=alice, workspace=workspace, name="ci", role="edit").name,
        "machine": str(Machine.objects.create(workspace=workspace, name="old", created_at=clock.now()).pk),
        **{name: str(value) for name, value in (named(workspace) | jobs.named(workspace)).items()},
        "key": keypair_add(actor=alice, name="laptop", public_key=KEY).name,
        "site": site.slug,
        "host": host_at(site).name,
        "flavor": "h100.1",
        "gpu_type": "h100-sxm-80gb",
        "resource": "gpu:h100-sxm-80gb",
        "month": "2026-11",
        **{name: str(value) for name, value in ledger_stage(invoice, project).items()},
        "drift": drift,
        "budget": str(budget_stage(project).pk),
        "reservation": str(pool_stage(project, Flavor.objects.get(slug="h100.1")).pk),
        **{
            name: str(value) for name, value in card_stage(project, Flavor.objects.get(slug="h100.1")).items()
        },
        **cluster_stage(olga=olga, alice=alice, project=project, site=site),
        "adoption": _plan(olga, project, site),
        "check": _check(olga, site),
        "storage_class": str(site.storage_classes.get(name="fast").pk),
    }


def _drift(workspace: Workspace, site: Site) -> str:
    """Open: the site only observes."""
    Site.objects.filter(pk=site.pk).update(drift_policy="observe")
    tamper(site.pk, workspace.external_name, "network", by="kubectl-edit")
    Workspace.objects.filter(pk=workspace.pk).update(drift_due_at=clock.now())
    run_now(workspace)
    return str(workspace.drifts.get(state="open").pk)


def _plan(olga: Actor, project: Project, site: Site) -> str:
    """Of a namespace where a pod holds 2 H100; nothing is in its way."""
    foreign_namespace(site.pk, OLD)
    pod_create(site.pk, OLD, "old-train", 2)
    adoption_scan_request(actor=olga, site=site)
    assert adoption.scan(site.pk)
    wishes: dict[str, Any] = {"external_name": OLD, "items": [("h100.1", 2)], "name": "old-train"}
    plan = adoption_plan_request(actor=olga, site=site, project=project, **wishes)
    assert adoption.plan(plan.pk)
    return str(plan.pk)


def _check(olga: Actor, site: Site) -> str:
    check = node_check_request(actor=olga, site=site, node=NODE)
    while not node_check_look(check.pk):
        pass
    return str(check.pk)
