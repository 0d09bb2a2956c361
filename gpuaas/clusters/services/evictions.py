"""What the warden does to a cluster in whose namespace more is held than its pools bought: written down before it is removed."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.rows import cluster_announce, cluster_lock
from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound
from gpuaas.core.visits import conditions_write
from quotas.allowances import WITHIN_QUOTA, Surplus, is_over_quota
from tenants.actors import SYSTEM
from tenants.audit import audit_record
from tenants.models import AuditEntry

EVICT = "cluster.evict"


@transaction.atomic
def eviction_record(*, holder_id: uuid.UUID, found: Sequence[Surplus], seen_at: datetime) -> None:
    """In the audit log, each consumer once, and on the cluster. Again changes nothing."""
    del seen_at
    cluster = cluster_lock(cluster_id=holder_id)
    known = _known(cluster)
    for each in found:
        after = {
            "consumer_uid": each.consumer.uid,
            "consumer_name": each.consumer.name,
            "resource_name": each.resource_name,
            "quantity": each.quantity,
            "limit": each.limit,
            "held": each.held,
        }
        if (each.consumer.uid, each.resource_name) not in known:
            audit_record(actor=SYSTEM, action=EVICT, target=cluster, project=cluster.project, after=after)
    words = f"its pods {found[0].in_words}; the newest are removed"
    _tell(cluster, Status.FALSE, "Surplus", words)


@transaction.atomic
def within_quota_note(*, holder_id: uuid.UUID, now: datetime) -> bool:
    """It holds no more than it may; False where nothing else was said of it, or it is gone."""
    del now
    try:
        cluster = cluster_lock(cluster_id=holder_id)
    except NotFound:
        return False
    if not is_over_quota(cluster.conditions):
        return False
    removed = len({uid for uid, _ in _known(cluster)})
    _tell(cluster, Status.TRUE, "Restored", f"it holds no more than it may; pods removed so far: {removed}")
    return True


def _known(cluster: Cluster) -> set[tuple[str, str]]:
    rows = AuditEntry.objects.filter(action=EVICT, target_id=str(cluster.pk), project_id=cluster.project_id)
    return set(rows.values_list("after__consumer_uid", "after__resource_name"))


def _tell(cluster: Cluster, status: Status, reason: str, message: str) -> None:
    change = {"type": WITHIN_QUOTA, "status": status, "reason": reason, "message": message}
    if conditions_write(cluster, change):
        cluster_announce(cluster)
