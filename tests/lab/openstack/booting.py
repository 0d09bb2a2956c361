"""Slurm clusters of machines that boot from their own user data, at a portal that runs. Root, for machines are containers."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache

from deploy.lab.guest import network
from deploy.lab.guest.keeper import lab_name
from deploy.lab.openstack import Lab
from gpuaas.catalog.models import Flavor, GpuPool, Site
from gpuaas.catalog.services import pool_publish, site_create, site_probe
from gpuaas.catalog.services.flavors import flavor_create, flavor_publish
from gpuaas.clusters.models import Cluster, NodeBoot
from gpuaas.clusters.services import (
    cluster_order,
    template_create,
    template_update,
    template_version_add,
)
from quotas.tasks import capacity_sync
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import RESTING, run_now
from tests.factories.quotas import limits_give
from tests.lab.fixtures import until

BOOTING = [
    pytest.mark.openstack,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.geteuid() != 0, reason="machines that boot are containers, which need root"),
]
H100, NAME, RELEASE = "h100-sxm-80gb", "CUSTOM_PCI_10DE_2330", "22.05.8"
PORTAL = f"http://{network.METADATA}"  # which leads on to the portal that runs
BOOTS = 300  # seconds for machines to come up, where others use this one too


def left_behind(lab: Lab) -> list[str]:
    """Namespaces, mounts, groups and processes of the lab's machines."""
    folder = str(lab.state_dir)
    tag = f"{network.TAG}-{lab_name(lab.state_dir / 'data/machines')}"
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if folder in line or tag in line]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{tag}*")]
    running = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text()
        except OSError:
            continue
        if folder in words or tag in words:
            running.append(words)
    return [*network.namespaces(tag.removeprefix(f"{network.TAG}-")), *mounts, *groups, *running]


def credentials_of(lab: Lab) -> dict[str, str]:
    return {"clouds_yaml": lab.clouds.read_text(), "cloud": "lab"}


def site_made(olga: Actor, lab: Lab, slug: str, **options: Any) -> Site:
    """That has answered."""
    known = {"external_network": "public", "aliases": {NAME: "h100"}, **options}
    site = site_create(
        actor=olga, slug=slug, name=slug, driver="openstack", credentials=credentials_of(lab), options=known
    )
    until(lambda: site_probe(site.pk), "the site answers")
    return site


def flavor_sold(olga: Actor, site: Site, slug: str) -> Flavor:
    """Two GPUs for each worker."""
    pool = GpuPool.objects.get(site=site, gpu_type__slug=H100)
    pool_publish(actor=olga, pool=pool)
    flavor = flavor_create(
        actor=olga, pool=pool, slug=slug, name="2 × H100", vcpus=2, memory_gib=4, disk_gib=8, gpus=2
    )
    flavor_publish(actor=olga, flavor=flavor)
    capacity_sync(str(site.pk))
    return flavor


def slurm_ordered(
    alice: Actor,
    olga: Actor,
    project: Project,
    sold: Flavor,
    workers: int,
    *,
    more: Sequence[dict[str, Any]] = (),
    burst: Sequence[str] = (),
    **settings: Any,
) -> Cluster:
    """By a template of its own; `settings` are the template's. more: pools beside that of the flavor; burst: where they may be."""
    cache.clear()
    limits_give(project, {f"gpu:{H100}": None})
    template = template_create(
        actor=olga, slug="slurm", name="Slurm", kind="slurm", site=sold.pool.site, driver="openstack"
    )
    words = {
        "releases": [RELEASE],
        "control_plane": {"vcpus": 2, "memory_gib": 2, "disk_gib": 8},
        "pools": [{"name": "gpu", "flavors": [sold.slug], "min": 0, "max": 4, "default": workers}, *more],
        "burst": list(burst),
        "settings": {"image": "tiny", **settings},
    }
    template_version_add(actor=olga, template=template, document=words)
    template_update(actor=olga, template=template, state="active", public=True)
    return cluster_order(
        actor=alice, project=project, template="slurm", name="train", document={"release": RELEASE}
    )


def rested(cluster: Cluster, *, state: str = "") -> Cluster:
    """After as many looks as it takes; in this state, or else as is wished. Whatever fails is told by the machine itself."""
    until(lambda: run_now(cluster).state in RESTING, f"{cluster.external_name} rests", seconds=BOOTS)
    row = Cluster.objects.get(pk=cluster.pk)
    told = list(NodeBoot.objects.filter(cluster=cluster).values_list("node", "stage", "message"))
    assert row.state in ({state} if state else {"ready", "deleted"}), (row.state, row.trouble, told)
    return row
