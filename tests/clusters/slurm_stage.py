"""A Slurm cluster at a site of the sandbox, and reports of its head as far as they are about people and jobs."""

from typing import Any

from gpuaas.catalog.models import Site
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster, ClusterJob, ClusterTemplate
from gpuaas.clusters.services import (
    cluster_job_submit,
    cluster_order,
    queue_report,
    template_create,
    template_update,
    template_version_add,
)
from gpuaas.clusters.spec import spec_of
from gpuaas.providers.base import SlurmOrder, SlurmSeen, queue_token
from tenants.actors import Actor
from tenants.models import Project
from tests.clusters.stage import SLIM, settle, stocked
from tests.factories.quotas import limits_give

ORDER: dict[str, Any] = {"name": "train", "script": "echo hello\n", "gpus_per_node": 2}


def slurm_ready(
    as_alice: Actor, as_olga: Actor, project: Project, site: Site, *, workers: int = 1
) -> Cluster:
    stocked(site)
    template = template_create(
        actor=as_olga, slug="slurm", name="Slurm", kind="slurm", site=site, driver="sandbox"
    )
    head = {"vcpus": 4, "memory_gib": 8, "disk_gib": 40}
    words = {**SLIM, "releases": ["25.05.3"], "control_plane": head}
    template_version_add(actor=as_olga, template=template, document=words)
    template_update(actor=as_olga, template=template, state="active", public=True)
    limits_give(project)
    wanted = {"release": "25.05.3", "pools": {"gpu": {"count": workers}}}
    made = settle(
        cluster_order(actor=as_alice, project=project, template="slurm", name="train", document=wanted)
    )
    assert made.state == "ready", made.trouble
    return reread(made)


def reread(cluster: Cluster) -> Cluster:
    return Cluster.objects.select_related("project", "site", "template_version__template", "warm_pool").get(
        pk=cluster.pk
    )


def by_head() -> None:
    """Clusters are as at a site whose driver reaches no Slurm: heads report."""
    ClusterTemplate.objects.update(driver="openstack")


def answered(
    cluster: Cluster, *seen: SlurmSeen, logins: tuple[str, ...] = ("bob",), moves: bool = True
) -> list[SlurmOrder]:
    """What the head is answered."""
    token = queue_token(spec_of(cluster).boots.seed, cluster=cluster.pk)
    answer = queue_report(token=token, pools=None, logins=logins, jobs=seen, moves=moves)
    assert answer.jobs is not None
    return answer.jobs


def entered(cluster: Cluster) -> Cluster:
    """Its head has reported twice: it takes jobs, and lets bob in."""
    answered(cluster)
    answered(cluster)
    return reread(cluster)


def jobs_carry_out() -> None:
    """As the tasks of one round."""
    for cluster_id in services.jobs_due():
        services.jobs_carry_out(cluster_id)


def submitted(actor: Actor, cluster: Cluster, **given: Any) -> ClusterJob:
    return cluster_job_submit(actor=actor, cluster=cluster, given={**ORDER, **given})
