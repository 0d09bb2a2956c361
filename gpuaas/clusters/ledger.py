"""The ledger of what was made at its sites for a cluster: recorded before, proved gone by a sweep after."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.clusters.models import Cluster, LedgerEntry
from gpuaas.providers.base import SiteObject

SiteId = UUID | None  # None: the cluster's own


def ledger_write(
    *, cluster: Cluster, step: str, makes: Iterable[Sequence[str]], at: datetime, site_id: SiteId = None
) -> None:
    """Called before the step is requested from the site. Objects that were gone and may be made again are open
    again."""
    LedgerEntry.objects.bulk_create(
        [
            LedgerEntry(cluster=cluster, site_id=site_id, kind=kind, name=name, step=step[:32], written_at=at)
            for kind, name in makes
        ],
        update_conflicts=True,
        unique_fields=["cluster", "site", "kind", "name"],
        update_fields=["gone_at"],
    )


def ledger_settle(
    *, cluster: Cluster, found: Sequence[SiteObject], at: datetime, site_id: SiteId = None
) -> int:
    """What a sweep of the site found exists; recorded objects that it did not find are gone. Returns how many exist."""
    there = {(one.kind, one.name): one for one in found}
    written = cluster.ledger.filter(site=site_id)
    rows = {(row.kind, row.name): row for row in written}
    changed = []
    for key, row in rows.items():
        before = (row.uid, row.gone_at, row.seen_at is None)
        if key in there:
            row.uid, row.gone_at = there[key].uid, None
            row.seen_at = row.seen_at or at
        else:
            row.gone_at = row.gone_at or at
        if before != (row.uid, row.gone_at, row.seen_at is None):
            changed.append(row)
    LedgerEntry.objects.bulk_update(changed, ["uid", "gone_at", "seen_at"])
    LedgerEntry.objects.bulk_create(
        LedgerEntry(
            cluster=cluster,
            site_id=site_id,
            kind=one.kind,
            name=one.name,
            uid=one.uid,
            written_at=at,
            seen_at=at,
            found=True,
        )
        for key, one in there.items()
        if key not in rows
    )
    return len(there)
