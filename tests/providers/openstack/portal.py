"""A portal whose site is the real cloud: what it sells, and its reconciler driven by hand."""

import time
from collections.abc import Iterable
from datetime import timedelta

from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor, Site
from gpuaas.core import clock
from gpuaas.core.crypto import encrypt_json
from gpuaas.providers.base import Connection
from gpuaas.providers.openstack.driver import OpenStackDriver
from gpuaas.workspaces.models import Step, Workspace
from gpuaas.workspaces.reconcile import run
from quotas.models import SiteCapacity
from tests.factories.catalog import FlavorFactory, GpuPoolFactory, GpuTypeFactory, SiteFactory
from tests.lab.fixtures import PATIENCE, pause

A100 = "CUSTOM_PCI_10DE_20B0"
H100 = "CUSTOM_PCI_10DE_2330"
A16 = "CUSTOM_PCI_10DE_25B7"
ALIASES = {A100: "a100", H100: "h100", A16: "a16vf"}
OPTIONS = {"external_network": "public", "aliases": ALIASES}


def site_make(
    lab: Lab,
    *,
    slug: str = "cloud",
    kind: str = "h100-sxm-80gb",
    resource: str = H100,
    alias: str = "h100",
    **options: object,
) -> Site:
    """Sells one GPU with 4 vCPUs and 8 GiB as `<slug>.<alias>`; capacity is not counted."""
    credentials = {"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"}
    site: Site = SiteFactory.create(
        slug=slug,
        driver="openstack",
        credentials=encrypt_json(credentials),
        options={**OPTIONS, **options},
        gpu_names=["VGPU", *ALIASES],
    )
    pool = GpuPoolFactory.create(
        site=site,
        gpu_type=GpuTypeFactory.create(slug=kind),
        resource_name=resource,
        capacity=8,
        healthy=8,
        largest_block=8,
        selector={"pci_passthrough:alias": alias},
    )
    FlavorFactory.create(pool=pool, slug=f"{slug}.{alias}", gpus=1, vcpus=4, memory_gib=8, disk_gib=1)
    for counted in (f"gpu:{kind}", "vcpu", "memory", "storage"):
        SiteCapacity.objects.create(site=site, resource=counted, hard=None)
    return site


def flavor_of(site: Site) -> Flavor:
    return Flavor.objects.get(pool__site=site)


def driver_at(site: Site, lab: Lab) -> OpenStackDriver:
    credentials = {"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"}
    return OpenStackDriver(Connection(site.pk, site.slug, "", credentials, site.options))


def visit(workspace: Workspace) -> Workspace:
    """Its next look, made due now; its comparison too."""
    moment = clock.now()
    Workspace.objects.filter(pk=workspace.pk).update(due_at=moment, drift_due_at=moment)
    run(workspace.pk)
    return Workspace.objects.get(pk=workspace.pk)


def reach(workspace: Workspace, state: str, *, seconds: float = 60) -> Workspace:
    """Visits until it is in that state."""
    began = time.monotonic()
    while (row := visit(workspace)).state != state:
        steps = list(
            Step.objects.filter(operation__workspace=workspace).values_list("key", "state", "detail")
        )
        assert time.monotonic() < began + PATIENCE * seconds, (
            f"{row.name} is still {row.state}: {row.conditions} {steps}"
        )
        pause(began)
    return row


def sweep(workspaces: Iterable[Workspace]) -> None:
    """What is due, as the sweep finds it; nothing is made due."""
    soon = clock.now() + timedelta(milliseconds=50)
    keys = [row.pk for row in workspaces]
    for pk in Workspace.objects.filter(pk__in=keys, due_at__lte=soon).values_list("pk", flat=True):
        run(pk)
