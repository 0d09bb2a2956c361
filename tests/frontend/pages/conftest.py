"""Signed-in browsers without a browser, and a project that has something to show."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.test import Client

from billing.services import rate_set
from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.metering.models import Meter
from gpuaas.providers.sandbox.dials import dials_set
from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed
from gpuaas.workspaces.machines.visit import visit
from gpuaas.workspaces.models import Workspace, WorkspaceMember
from gpuaas.workspaces.services import workspace_request
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tenants.selectors import actor_for
from tenants.services import token_create
from tests.api.cluster_stage import cluster_stage
from tests.billing.stage import budget_stage
from tests.environments.stage import kind, row_in
from tests.factories.billing import invoice_make
from tests.factories.quotas import limits_give
from tests.factories.tenants import OrganizationMembershipFactory, ProjectMembershipFactory, UserFactory
from tests.frontend.pages.everything import everything_at
from tests.frontend.pages.scene import busy, grant_of_cluster, grant_to, robot_of
from tests.jobs import stage as jobs
from tests.lasting import lasting
from tests.workspaces.stage import ready


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
@lasting
def dora(project: Project) -> User:
    """A viewer of alice's project."""
    user: User = UserFactory.create(username="dora")
    ProjectMembershipFactory.create(project=project, user=user, role="viewer")
    return user


@pytest.fixture
def alice_at(alice: User) -> Client:
    return signed_in(alice)


@pytest.fixture
def bob_at(bob: User) -> Client:
    return signed_in(bob)


@pytest.fixture
def charlie_at(charlie: User) -> Client:
    return signed_in(charlie)


@pytest.fixture
def dora_at(dora: User) -> Client:
    return signed_in(dora)


@pytest.fixture
def olga_at(olga: User) -> Client:
    return signed_in(olga)


@pytest.fixture
@lasting
def noon(db: None) -> Iterator[None]:
    """Of 10 November in Berlin: 492 hours of the month are left."""
    with time_machine.travel(datetime(2026, 11, 10, 11, tzinfo=UTC), tick=False):
        yield


@pytest.fixture
@lasting
def priced(h100: Flavor, l40s: Flavor) -> None:
    start = clock.now() - timedelta(days=1)
    for flavor, meter, price in (
        (h100, Meter.GPU_HELD, "2.40"),
        (l40s, Meter.GPU_HELD, "0.95"),
        (None, Meter.STORAGE_HELD, "0.00012"),
    ):
        rate_set(actor=SYSTEM, flavor=flavor, meter=meter, price=price, valid_from=start)


@pytest.fixture
@lasting
def limited(project: Project, priced: None) -> Project:
    """8 H100 for the project; prices are set."""
    limits_give(project, {"gpu:h100-sxm-80gb": 8})
    return project


@pytest.fixture
@lasting
def workspace(as_alice: Actor, limited: Project) -> Workspace:
    return workspace_request(
        actor=as_alice, project=limited, name="era5-finetune", items=[("h100.1", 2)], storage_gib=500
    )


@pytest.fixture
@lasting
def room(as_alice: Actor, project: Project, site: Site) -> Workspace:
    """Of 2 machines at a simulated cloud."""
    Site.objects.filter(pk=site.pk).update(driver="sandbox-cloud")
    Flavor.objects.filter(pool__site=site).update(disk_gib=14)
    site.refresh_from_db()
    fleet_seed(site.pk, slug=site.slug, racks=(Rack("h", 2, H100, 8),))
    dials_set(site.pk, machine_ms=0)
    made = ready(as_alice, project, site)
    assert visit(made.pk)
    return made


@pytest.fixture
@lasting
def people(alice: User, bob: User, dora: User, olga: User, workspace: Workspace) -> dict[str, User]:
    """An owner, a member, a viewer, an admin of the project, the billing role, an operator, an auditor."""
    pia: User = UserFactory.create(username="pia")
    ProjectMembershipFactory.create(project=workspace.project, user=pia, role="admin")
    bill: User = UserFactory.create(username="bill")
    OrganizationMembershipFactory.create(
        organization=workspace.project.organization, user=bill, role="billing"
    )
    ada: User = UserFactory.create(username="ada", platform_role="auditor")
    return {row.username: row for row in (alice, bob, dora, pia, bill, olga, ada)}


@pytest.fixture
@lasting
def known(people: dict[str, User], workspace: Workspace) -> dict[str, object]:
    """A project in use: what its addresses name, each with credentials, accounts and tokens of several people."""
    alice, bob = people["alice"], people["bob"]
    busy(workspace)
    WorkspaceMember.objects.create(workspace=workspace, user=bob, role="edit")
    for user in (alice, bob):
        grant_to(workspace, user)
        token_create(
            actor=actor_for(user=alice),
            project=workspace.project,
            name=f"ci-{user.username}",
            scopes=["workspace:view"],
            expires_at=clock.now() + timedelta(days=3),
        )
    found: dict[str, object] = {
        "project": workspace.project.slug,
        "organization": workspace.project.organization.slug,
        "workspace": workspace.pk,
        "robot": robot_of(workspace).pk,
        "user": bob.pk,
        "month": f"{clock.now():%Y-%m}",
        "number": invoice_make(workspace.project).number,
        "budget": budget_stage(workspace.project).pk,
        "environment": row_in(workspace).pk,
        "kind": kind().slug,
        "job": jobs.row_in(workspace).pk,
    }
    found |= cluster_stage(
        olga=SYSTEM, alice=actor_for(user=alice), project=workspace.project, site=workspace.site
    )
    cluster = Cluster.objects.get()
    Cluster.objects.filter(pk=cluster.pk).update(state="ready", ready_at=clock.now())
    for user in (alice, bob):
        grant_of_cluster(cluster, user)
    return found


@pytest.fixture
@lasting
def everything(known: dict[str, object], people: dict[str, User], workspace: Workspace) -> Workspace:
    """Besides the project in use: what operators have, one of each."""
    everything_at(workspace, people["alice"], people["bob"])
    return workspace
