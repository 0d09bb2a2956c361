"""The warden's writes for a cluster whose namespace holds more than its pools bought: recorded before the removal."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from gpuaas.clusters.models import Cluster
from gpuaas.clusters.services.rows import CLUSTER, cluster_lock
from quotas.allowances import Surplus, over_quota, quota_restored_note
from tenants.actors import SYSTEM
from tenants.audit import audit_record
from tenants.models import AuditEntry

EVICT = "cluster.evict"


@transaction.atomic
def eviction_record(*, holder_id: uuid.UUID, found: Sequence[Surplus], seen_at: datetime) -> None:
    """Writes the audit log, each consumer once, and the cluster. Repeating it changes nothing."""
    del seen_at
    cluster = cluster_lock(holder_id)
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
    CLUSTER.tell(cluster, over_quota(f"its pods {found[0].in_words}; the newest are removed"))


def within_quota_note(*, holder_id: uuid.UUID) -> bool:
    """It is within its allowance; False if the condition already said so, or if the cluster is gone."""
    return quota_restored_note(CLUSTER, holder_id, _removed)


def _removed(cluster: Cluster) -> str:
    return f"pods removed so far: {len({uid for uid, _ in _known(cluster)})}"


def _known(cluster: Cluster) -> set[tuple[str, str]]:
    rows = AuditEntry.objects.filter(action=EVICT, target_id=str(cluster.pk), project_id=cluster.project_id)
    return set(rows.values_list("after__consumer_uid", "after__resource_name"))
