"""A template and a cluster of it, ordered as tenants do; and more of each, as rows, for lists."""

from datetime import timedelta
from typing import Any

from gpuaas.catalog.models import Flavor, Site
from gpuaas.clusters.models import (
    Cluster,
    ClusterGrant,
    ClusterJob,
    ClusterOperation,
    ClusterOperationStep,
    ClusterPool,
    ClusterTemplate,
    LedgerEntry,
    ParametersImport,
    ScalingDecision,
    ScalingPolicy,
    TemplateVersion,
    WarmPool,
)
from gpuaas.clusters.services import (
    PolicyTerms,
    cluster_order,
    policy_create,
    template_create,
    template_grant,
    template_update,
    template_version_add,
)
from gpuaas.core import clock
from tenants.actors import Actor
from tenants.models import Project, User

DOCUMENT: dict[str, Any] = {
    "releases": ["1.35.6", "1.36.3"],
    "control_plane": {"vcpus": 2, "memory_gib": 4, "disk_gib": 20, "counts": [1, 3]},
    "pools": [
        {"name": "gpu", "label": "GPU workers", "flavors": ["h100.1"], "min": 0, "max": 8, "default": 1}
    ],
    "addons": [{"name": "monitoring", "label": "Monitoring"}],
    "parameters": {
        "type": "object",
        "properties": {"network": {"type": "string", "enum": ["cilium", "calico"], "default": "cilium"}},
    },
}
TEMPLATE = "k8s"


def template_stage(olga: Actor, site: Site, *, slug: str = TEMPLATE) -> ClusterTemplate:
    """Active, for everybody, of one version."""
    made = template_create(
        actor=olga, slug=slug, name="Kubernetes", kind="kubernetes", site=site, driver="sandbox"
    )
    template_version_add(actor=olga, template=made, document=DOCUMENT)
    return template_update(actor=olga, template=made, state="active", public=True)


def cluster_stage(*, olga: Actor, alice: Actor, project: Project, site: Site) -> dict[str, str]:
    """Path parameters of a cluster that was ordered a moment ago."""
    template_stage(olga, site)
    made = cluster_order(actor=alice, project=project, template=TEMPLATE, name="lab", document={})
    terms = PolicyTerms(kind="pending", minimum=0, maximum=4)
    policy = policy_create(actor=alice, cluster=made, pool="gpu", terms=terms)
    pool = warm_stage(made.template_version.template, project, made.created_by, name="stage")
    import_stage(made.template_version)
    template_grant(
        actor=olga, template=made.template_version.template, organization=project.organization, granted=True
    )
    return {
        "template": TEMPLATE,
        "cluster": str(made.pk),
        "cluster_job": str(job_row(made, made.created_by).pk),
        "policy": str(policy.pk),
        "warm_pool": str(pool.pk),
    }


def job_row(cluster: Cluster, user: User, name: str = "train") -> ClusterJob:
    sizes = {"nodes": 1, "tasks": 1, "gpus_per_node": 1, "cpus_per_task": 1}
    return ClusterJob.objects.create(
        cluster=cluster,
        created_by=user,
        created_at=clock.now(),
        name=name,
        script="#!/bin/sh\ntrue\n",
        partition="gpu",
        **sizes,
    )


def cluster_rows(*, project: Project, site: Site, user: User, number: int) -> None:
    """One more of everything that is listed: a template that may be ordered with a version, a cluster that is being deleted
    with a pool, and, on the first cluster of the project, an operation with a step and two objects in the ledger."""
    now = clock.now()
    words = {"name": "T", "kind": "kubernetes", "driver": "sandbox", "state": "active", "public": True}
    template = ClusterTemplate.objects.create(slug=f"t-{number:03}", site=site, **words)
    version = TemplateVersion.objects.create(
        template=template, number=1, document=DOCUMENT, created_by="olga"
    )
    import_stage(version)
    cluster = Cluster.objects.create(
        project=project,
        site=site,
        template_version=version,
        name=f"c-{number:03}",
        state="deleting",
        release="1.35.6",
        control_count=1,
        lease_ends_at=now + timedelta(days=1),
        created_by=user,
        created_at=now,
    )
    flavor = Flavor.objects.get(slug="h100.1")
    ClusterPool.objects.create(cluster=cluster, name="gpu", flavor=flavor, count=1, release="1.35.6")
    first = Cluster.objects.filter(project=project).earliest("pk")
    TemplateVersion.objects.create(
        template=first.template_version.template, number=number + 1, document=DOCUMENT, created_by="olga"
    )
    warm_stage(first.template_version.template, first.project, user, name=f"w-{number:03}")
    operation = ClusterOperation.objects.create(
        cluster=first, kind="scale", requested_by="alice", requested_at=now, finished_at=now, succeeded=True
    )
    job_row(first, user, f"j-{number:03}")
    ClusterOperationStep.objects.create(operation=operation, position=0, key="checks", label="Check")
    for name in ("one", "two"):
        LedgerEntry.objects.create(cluster=first, kind="machine", name=f"{name}-{number}", written_at=now)


def warm_stage(
    template: ClusterTemplate, project: Project, user: User, *, name: str = "w", wanted: int = 0
) -> WarmPool:
    """Of which nothing is there."""
    return WarmPool.objects.create(
        template=template,
        project=project,
        name=name,
        document={},
        wanted=wanted,
        making_most=1,
        trouble="the limit of gpu:h100-sxm-80gb in this project is reached: 8 of 8 held" if wanted else "",
        created_by=user,
        created_at=clock.now(),
    )


def import_stage(version: TemplateVersion) -> ParametersImport:
    """An answer of the site that nobody has published: the network can be chosen no longer."""
    now = clock.now()
    asked = {"base": version, "requested_by": "olga", "requested_at": now, "read_at": now}
    return ParametersImport.objects.create(
        template=version.template, parameters={"type": "object", "properties": {}}, **asked
    )


def policy_rows(*, project: Project, number: int) -> None:
    """On the first cluster of the project one more credential, and one more pool, with a policy and a decision."""
    now, flavor = clock.now(), Flavor.objects.get(slug="h100.1")
    first = Cluster.objects.filter(project=project).earliest("pk")
    ClusterGrant.objects.create(
        cluster=first, user=first.created_by, issued_at=now, expires_at=now + timedelta(hours=1)
    )
    pool = ClusterPool.objects.create(
        cluster=first, name=f"p-{number:03}", flavor=flavor, count=1, release="1.35.6"
    )
    ScalingPolicy.objects.create(
        pool=pool,
        kind="pending",
        minimum=0,
        maximum=4,
        step=1,
        up_delay=0,
        down_delay=0,
        cool_down=0,
        created_by="alice",
        created_at=now,
    )
    ScalingDecision.objects.create(
        cluster=first,
        pool=pool.name,
        kind="pending",
        at=now,
        outcome="scaled",
        before=1,
        wanted=2,
        after=2,
        reason="because",
        signals={"used_gpus": 1, "pending_gpus": 1, "queued": 1},
    )


def named_of_clusters() -> dict[str, Any]:
    """Of all that there are, as addresses name them."""
    return {
        "cluster": Cluster.objects.earliest("pk").pk,
        "template": "t-001",
        "policy": ScalingPolicy.objects.order_by("pk")[0].pk,
        "cluster_job": ClusterJob.objects.earliest("pk").pk,
        "warm_pool": WarmPool.objects.order_by("pk")[0].pk,
    }
