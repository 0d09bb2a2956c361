"""The demo's data: people, two organizations, a sandbox site with prices, limits. Every part is skipped where it is there.

`--lab KUBECONFIG` attaches a Kubernetes cluster as site `lab`, publishes what was discovered, prices it, and gives
the demo's projects limits for it. `--cloud` adds a simulated cloud, `--work` a workspace with an environment and jobs.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import django

from deploy.embedded.history import history_make
from deploy.embedded.offers import offer

LIMITS = {"weather-lm": 8, "downscale": 4, "protein-fold": 8}
UNITS = {"vcpu": 512, "memory": 8192, "storage": 20_000}
CLUSTER = {
    "releases": ["1.34.9", "1.35.6", "1.36.3"],
    "control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40, "counts": [1, 3]},
    "addons": [
        {"name": "gpu-operator", "label": "NVIDIA GPU Operator", "required": True},
        {"name": "monitoring", "label": "Monitoring", "default": True},
    ],
    "parameters": {
        "type": "object",
        "properties": {
            "pod_network": {
                "type": "string",
                "title": "Pod network",
                "enum": ["cilium", "calico"],
                "default": "cilium",
            }
        },
    },
}
SLURM = {"releases": ["25.05.3"], "control_plane": {"vcpus": 4, "memory_gib": 8, "disk_gib": 40}}
PASSWORD = "demo"
ANSWER_SECONDS = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.embedded.seed")
    parser.add_argument("--lab", type=Path, help="the kubeconfig of a cluster to attach as site `lab`")
    parser.add_argument(
        "--cloud", action="store_true", help="add a simulated cloud, whose workspaces hold machines"
    )
    parser.add_argument(
        "--work", action="store_true", help="add a workspace with an environment and jobs in it"
    )
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings.demo")
    django.setup()
    if options.lab:
        attach(
            "lab",
            "Lab",
            driver="kubernetes",
            credentials={"kubeconfig": options.lab.read_text(encoding="utf-8")},
        )
    elif options.cloud:
        cloud()
    else:
        people()
        sandbox()
    since = last_month()
    offer(since)
    past(since)
    limits()
    clusters()
    if options.work:
        environments()
        jobs()


def people() -> None:
    """alice owns an organization with two projects, bob is her teammate, charlie is elsewhere, olga operates."""
    from tenants.actors import SYSTEM
    from tenants.models import Organization, User
    from tenants.services import (
        organization_create,
        organization_member_set,
        project_create,
        project_member_set,
        user_create,
    )

    if User.objects.filter(username="olga").exists():
        return
    made = {}
    for name, role in (("olga", "operator"), ("alice", ""), ("bob", ""), ("charlie", "")):
        made[name] = user_create(
            actor=SYSTEM, username=name, email=f"{name}@example.org", platform_role=role, password=PASSWORD
        )
    climate = organization_create(actor=SYSTEM, slug="climate", name="Climate Physics", owner=made["alice"])
    biology = organization_create(actor=SYSTEM, slug="biology", name="Structural Biology")
    for organization, slug, name in (
        (climate, "weather-lm", "Weather LM"),
        (climate, "downscale", "Downscaling"),
        (biology, "protein-fold", "Protein Folding"),
    ):
        project_create(actor=SYSTEM, organization=organization, slug=slug, name=name)
    weather, fold = climate.projects.get(slug="weather-lm"), biology.projects.get(slug="protein-fold")
    project_member_set(actor=SYSTEM, project=weather, user=made["bob"], role="member")
    project_member_set(actor=SYSTEM, project=fold, user=made["charlie"], role="admin")
    organization_member_set(
        actor=SYSTEM, organization=Organization.objects.get(pk=biology.pk), user=made["charlie"], role="owner"
    )


def sandbox() -> None:
    from gpuaas.catalog.models import Site
    from gpuaas.providers.sandbox.dials import dials_set, fault_set
    from gpuaas.providers.sandbox.fleet import fleet_seed
    from gpuaas.providers.sandbox.pods import foreign_namespace, pod_create

    if Site.objects.filter(slug="ber-1").exists():
        return
    attach(
        "ber-1",
        "Berlin 1",
        driver="sandbox",
        credentials={},
        before_probe=lambda site_id: fleet_seed(site_id, slug="ber-1"),
    )
    site_id = Site.objects.get(slug="ber-1").pk
    # so that a new user sees what a site in trouble looks like: a card that is sick, a check that failed, and somebody
    # who was there before the portal
    fault_set(site_id, area="sick", name="a100-02", found={"": 1})
    fault_set(site_id, area="nodes", name="l40s-02", found={"GpuMetrics": "False"})
    fault_set(site_id, area="checks", name="DefaultStorageClass", found="False")
    foreign_namespace(site_id, "old-lab")
    pod_create(site_id, "old-lab", "jupyter-old", 1)
    dials_set(site_id, latency_ms=150, confirm_ms=800)


def cloud() -> None:
    """A simulated cloud beside it, whose workspaces hold machines."""
    from gpuaas.providers.sandbox.fleet import H100, Rack, fleet_seed

    attach(
        "ham-1",
        "Hamburg 1",
        driver="sandbox-cloud",
        credentials={},
        before_probe=lambda site_id: fleet_seed(site_id, slug="ham-1", racks=(Rack("gpu", 2, H100, 8),)),
    )


def attach(
    slug: str,
    name: str,
    *,
    driver: str,
    credentials: dict[str, str],
    before_probe: Callable[[UUID], object] | None = None,
) -> None:
    """Make the site, or renew its credentials, look at it at once, and count what it may sell."""
    from gpuaas.catalog.models import Site
    from gpuaas.catalog.services import site_create, site_look, site_update
    from quotas.tasks import capacity_sync
    from tenants.actors import SYSTEM

    site = Site.objects.filter(slug=slug).first()
    if site is None:
        site = site_create(actor=SYSTEM, slug=slug, name=name, driver=driver, credentials=credentials)
    else:
        site_update(actor=SYSTEM, site=site, credentials=credentials, enabled=True)
    if before_probe:
        before_probe(site.pk)
    if not site_look(site.pk, seconds=ANSWER_SECONDS):
        site.refresh_from_db()
        why = " ".join(row["message"] for row in site.conditions.values() if row["status"] != "True")
        sys.exit(f"the site {slug} does not answer: {why}")
    capacity_sync(str(site.pk))


def last_month() -> datetime:
    """When it began: from then on there are prices and a past."""
    from billing.months import month_of, month_span
    from gpuaas.core import clock

    this = month_span(month_of(clock.now()))
    return month_span(month_of(this.starts_at - timedelta(days=1))).starts_at


def past(since: datetime) -> None:
    from gpuaas.catalog.models import Site

    site = Site.objects.filter(slug="ber-1").first()
    if site is not None:
        history_make(site, since)


def limits() -> None:
    """Each project may hold some of every GPU type; its organization twice what its largest may. What is there stays."""
    from gpuaas.catalog.models import Flavor, GpuType
    from quotas.models import Limit
    from quotas.resources import flavor_resource, gpu_resource
    from quotas.services import limit_set
    from tenants.actors import SYSTEM
    from tenants.models import Project

    types = [
        gpu_resource(slug) for slug in GpuType.objects.filter(state="active").values_list("slug", flat=True)
    ]
    types += sorted(
        {
            flavor_resource(row)
            for row in Flavor.objects.filter(notice_seconds__gt=0).select_related("pool__gpu_type")
        }
    )
    known = {(row.project_id or row.organization_id, row.resource) for row in Limit.objects.all()}
    projects = Project.objects.filter(slug__in=LIMITS).select_related("organization")
    for project in sorted(projects, key=lambda row: -LIMITS[row.slug]):
        wanted = {**dict.fromkeys(types, LIMITS[project.slug]), **UNITS}
        for resource, hard in wanted.items():
            if (project.pk, resource) not in known:
                limit_set(actor=SYSTEM, project=project, resource=resource, hard=hard)
            if (project.organization_id, resource) not in known:
                limit_set(actor=SYSTEM, organization=project.organization, resource=resource, hard=2 * hard)
                known.add((project.organization_id, resource))


def clusters() -> None:
    """Something to order at the sandbox: Kubernetes and Slurm, each with a pool of large GPUs and one of small ones."""
    from gpuaas.catalog.models import Flavor, Site
    from gpuaas.clusters.models import ClusterTemplate
    from gpuaas.clusters.services import template_create, template_update, template_version_add
    from tenants.actors import SYSTEM

    site = Site.objects.filter(slug="ber-1").first()
    if site is None or ClusterTemplate.objects.exists():
        return
    sold = Flavor.objects.filter(pool__site=site, state="active", notice_seconds=0).order_by("-slug")
    slugs = [slug for slug in sold.values_list("slug", flat=True) if "mig" not in slug]
    large = [slug for slug in slugs if slug.startswith(("h100", "a100"))]
    small = [slug for slug in slugs if slug.startswith("l40s")]
    pools = [
        {"name": name, "label": label, "flavors": flavors, "min": least, "max": 8}
        for name, label, flavors, least in (
            ("gpu", "GPU workers", large, 1),
            ("small", "Small workers", small, 0),
        )
        if flavors
    ]
    summary = "A control plane of your own, GPU workers and the NVIDIA operator"
    for kind, name, words, document in (
        ("kubernetes", "Kubernetes with GPUs", summary, CLUSTER),
        ("slurm", "Slurm with GPUs", "A head of your own, and GPU workers as partitions", SLURM),
    ):
        template = template_create(
            actor=SYSTEM, slug=kind, name=name, summary=words, kind=kind, site=site, driver="sandbox"
        )
        template_version_add(actor=SYSTEM, template=template, document={**document, "pools": pools})
        template_update(actor=SYSTEM, template=template, state="active", public=True)


def environments() -> None:
    """Kinds to order, and two of them ready at the sandbox, in a workspace of alice's that is there for them."""
    from gpuaas.catalog.models import Flavor
    from gpuaas.environments import reconcile
    from gpuaas.environments.models import Environment
    from gpuaas.environments.services import environment_create
    from gpuaas.environments.shipped import kinds_ship
    from gpuaas.workspaces.reconcile import run
    from gpuaas.workspaces.services import workspace_request
    from tenants.actors import SYSTEM
    from tenants.models import Project, User
    from tenants.selectors import actor_for

    kinds_ship(actor=SYSTEM)
    flavor = Flavor.objects.filter(pool__site__slug="ber-1", slug__startswith="l40s").first()
    if flavor is None or Environment.objects.exists():
        return
    alice = actor_for(user=User.objects.get(username="alice"))
    project = Project.objects.get(slug="weather-lm")
    workspace = workspace_request(
        actor=alice, project=project, name="notebooks", items=[(flavor.slug, 2)], storage_gib=50
    )
    if until_ready(workspace, run):
        small = {"gpus": 1, "vcpus": 2, "memory_gib": 8, "home_gib": 10}
        model = {"parameters": {"model": "Qwen/Qwen3-8B"}}
        for name, kind, more in (("explore", "jupyterlab", {}), ("chat", "vllm", model)):
            made = environment_create(actor=alice, workspace=workspace, kind=kind, name=name, **small, **more)
            until_ready(made, reconcile.run)


SWEEP = ["sh", "-c", "if [ $JOB_COMPLETION_INDEX = 7 ]; then exit 3; fi"]
INTO = {"credential": "archive", "folder": "data"}
TRAINING = {"image": "ghcr.io/weather/lm:7", "command": ["sh", "-c", "sleep 86400"]}
# their names, the states in which they are left, and what else they are given
JOBS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("prepare", "succeeded", {"command": ["sh", "-c", "sleep 1"]}),
    ("convert", "failed", {"command": ["sh", "-c", "exit 2"], "retries": 1}),
    ("train", "ready", {"template": "training", "variables": {"EPOCHS": "90"}}),
    ("sweep", "failed", {"command": SWEEP, "tasks": 12, "at_once": 4, "retries": 1}),
    (
        "fine-tune",
        "ready",
        {"command": ["torchrun", "train.py", "sleep 86400"], "tasks": 2, "together": True},
    ),
    ("evaluate", "requested", {"command": ["sh", "-c", "sleep 600"], "gpus": 1}),
    (
        "digits",
        "requested",
        {"command": ["true"], "gpus": 1, "inputs": [{"url": "s3://sets/digits", **INTO}]},
    ),
    ("radar", "failed", {"command": ["true"], "inputs": [{"url": "s3://missing/radar", **INTO}]}),
)


def jobs() -> None:
    """In the workspace of the environments, which have its GPUs: one that succeeded, one that failed, one that runs, an array
    of which one task failed, two tasks that run together, two with files, of which one could not be moved, and one that waits for
    a GPU; and the template of one of them."""
    from gpuaas.environments.models import Environment
    from gpuaas.jobs import reconcile
    from gpuaas.jobs.models import Job
    from gpuaas.jobs.services import credential_create, job_submit, queue_start, template_create
    from gpuaas.workspaces.models import Workspace
    from tenants.models import User
    from tenants.selectors import actor_for

    workspace = Workspace.objects.filter(name="notebooks", state="ready").first()
    if workspace is None or Job.objects.exists():
        return
    alice = actor_for(user=User.objects.get(username="alice"))
    key: dict[str, Any] = {"name": "archive", "access_key_id": "AKIDEXAMPLE", "secret": "of-the-demo"}
    us: dict[str, Any] = {"actor": alice, "project": workspace.project}
    credential_create(**us, endpoint="https://s3.example.org", **key)
    template_create(**us, name="training", order=TRAINING, locked=["image"])
    volume = Environment.objects.get(name="explore").external_name
    for name, state, given in JOBS:
        for each in given.get("inputs", ()):
            each["volume"] = volume
        order = {"workspace": str(workspace.pk), "name": name, "image": TRAINING["image"], **given}
        made = job_submit(**us, given=order)
        queue_start(workspace_id=workspace.pk)
        until_ready(made, reconcile.run, state)


def until_ready(row: Any, visit: Callable[[UUID], object], state: str = "ready") -> bool:
    """By the visits that a worker would make; False if it takes longer than the site's answers."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while row.state != state and time.monotonic() < deadline:
        visit(row.pk)
        time.sleep(0.1)
        row.refresh_from_db()
    return bool(row.state == state)


if __name__ == "__main__":
    main()
