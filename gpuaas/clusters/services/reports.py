"""What machines of clusters report while they boot: by a token that is good for one boot of one machine, each stage once."""

from typing import NoReturn

from django.db import transaction

from gpuaas.clusters.models import Cluster, NodeBoot
from gpuaas.clusters.services.rows import cluster_wake
from gpuaas.clusters.states import LIVE, ClusterState
from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json, encrypt_json, needs_rotation
from gpuaas.core.errors import Conflict, Unauthorized
from gpuaas.providers.base import BootClaim, Stage, boot_claim

MESSAGE_MOST = 4000
REPORTING = LIVE - {ClusterState.DELETING}


def node_report(*, token: str, stage: Stage, message: str = "") -> NodeBoot:
    """Written down, told to the pages, and the reconciler looks at once. Raises Unauthorized for a token that is not good (any more),
    whatever the reason; Conflict for a stage that was reported before."""
    claim = boot_claim(token)
    if claim is None or not claim.is_timely(clock.now()) or not _is_sealed(claim):
        _refuse()
    with transaction.atomic():
        cluster = _lock(claim)
        row = cluster.boots.filter(node=claim.node, boot=claim.boot).first()
        if row is not None and Stage(row.stage).is_last and row.stage != stage:
            _refuse()
        if row is not None and not stage.follows(Stage(row.stage)):
            raise Conflict(f"the stage {stage} was reported already", detail={"stage": stage.value})
        row = row or NodeBoot(cluster=cluster, node=claim.node, boot=claim.boot)
        row.passed, row.stage = row.stage, stage.value
        row.message, row.reported_at = message[-MESSAGE_MOST:], clock.now()
        row.save()
        Cluster.objects.filter(pk=cluster.pk).update(due_at=clock.now())
        cluster_wake(cluster)
    return row


def seeds_rotate() -> int:
    """Seal with the newest key what an older one sealed; returns how many. May run beside everything else."""
    done = 0
    for row in Cluster.objects.exclude(seed="").only("pk", "seed"):
        if needs_rotation(row.seed):
            sealed = encrypt_json(decrypt_json(row.seed))
            done += Cluster.objects.filter(pk=row.pk, seed=row.seed).update(seed=sealed)
    return done


def _is_sealed(claim: BootClaim) -> bool:
    """Judged before anything is locked, for anybody may ask."""
    seed = Cluster.objects.filter(pk=claim.cluster).values_list("seed", flat=True).first()
    if not seed:
        return False
    return claim.is_sealed(str(decrypt_json(seed)["seed"]))


def _lock(claim: BootClaim) -> Cluster:
    """Two reports of one boot come one after the other."""
    rows = Cluster.objects.select_for_update(of=("self",), no_key=True).select_related("project")
    cluster = rows.filter(pk=claim.cluster, state__in=REPORTING).first()
    if cluster is None:
        _refuse()
    return cluster


def _refuse() -> NoReturn:
    """One answer for all: nobody learns from it which clusters and machines there are."""
    raise Unauthorized("this token is wrong, used up or too old")
