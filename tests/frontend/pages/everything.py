"""Besides a project in use: an environment with files, and what operators have, one of each."""

from datetime import timedelta

from allauth.socialaccount.models import SocialAccount
from django.db import transaction

from billing.models import Budget, Invoice
from billing.services import rate_draft_open
from billing.services.payments import payment_record
from gpuaas.catalog.models import Flavor, GpuPool, Node, Site
from gpuaas.clusters.models import Cluster
from gpuaas.core import clock
from gpuaas.environments.models import Environment
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import Project, Tries, User
from tests.api.cluster_stage import warm_stage
from tests.billing.stage import (
    grant_stage,
    interval_make,
    pool_stage,
    usage_import_stage,
    usage_write_off_stage,
    workspace_make,
    write_off_stage,
)
from tests.clusters.host_stage import host_at
from tests.environments.stage import at_site
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, SiteFactory
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.trouble import trouble_at


def everything_at(workspace: Workspace, alice: User, bob: User) -> None:
    project, site = workspace.project, workspace.site
    flavor = workspace.flavors.get().flavor
    now = clock.now()
    for pool in GpuPool.objects.filter(site=site):
        name = f"{pool.gpu_type.slug.partition('-')[0]}-01"
        common = {"vcpus": 128, "memory_gib": 1024, "observed_at": now, "capacity": 8, "allocated": 1}
        Node.objects.create(site=site, pool=pool, name=name, ready=True, **common)
    GpuPoolFactory.create(
        site=site, gpu_type__slug="unsold", gpu_type__name="Unsold", resource_name="x/unsold", capacity=4
    )
    trouble_at(site)
    plan_at(site, project, bob)
    interval_make(workspace, flavor, now - timedelta(hours=5), now)
    racked = SiteFactory.create(slug="rack-1", driver="bare-metal")
    host_at(racked)
    machines_at(project, alice)
    at_site(Environment.objects.get(workspace=workspace), "mine/", "mine.txt")
    cluster = Cluster.objects.get()
    warm_stage(cluster.template_version.template, project, bob, name="usual", wanted=2)
    rate_draft_open(actor=SYSTEM)
    pool_stage(project, flavor)
    usage_import_stage(project)
    usage_write_off_stage()
    organization = project.organization
    payment_record(actor=SYSTEM, organization=organization, amount="5")
    grant_stage(organization)
    with transaction.atomic():
        write_off_stage(Invoice.objects.get())
    Tries.objects.create(account=str(bob.pk), user=bob, network="192.0.2.1")
    SocialAccount.objects.create(user=bob, provider="oidc", uid=str(bob.pk))
    assert Budget.objects.exists()


def machines_at(project: Project, user: User) -> None:
    site: Site = SiteFactory.create(slug="ham-1", driver="sandbox-cloud")
    flavor: Flavor = FlavorFactory.create(
        pool=GpuPoolFactory.create(site=site, capacity=8, healthy=8), disk_gib=14
    )
    room = workspace_make(project, flavor, user, name="rooms")
    room.flavors.create(flavor=flavor, count=2)
    Workspace.objects.filter(pk=room.pk).update(state="ready", ready_at=clock.now())
    Machine.objects.create(workspace=room, name="train", created_at=clock.now())
