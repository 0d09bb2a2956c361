"""One round of one warm pool: claim, count ready clusters, order missing ones, delete surplus. Does not call the
site."""

import contextlib
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from gpuaas.clusters.models import Cluster, WarmPool
from gpuaas.clusters.selectors import ORDERED, template_version_get
from gpuaas.clusters.services.changes import cluster_delete
from gpuaas.clusters.services.order import cluster_build
from gpuaas.clusters.services.planning import Draft, draft_make
from gpuaas.clusters.states import ClusterState
from gpuaas.clusters.waiting import CLAIMABLE, MAKING, WAITING, alike
from gpuaas.clusters.warm_plan import Deed, Waiting, keep
from gpuaas.core import clock, events
from gpuaas.core.backoff import delay
from gpuaas.core.claims import claimed, extend, release
from gpuaas.core.errors import Conflict, GpuaasError, NoCapacity, NotFound, QuotaRefused, StaleVersion
from gpuaas.lifecycle.lease import LEASE_MAX
from gpuaas.lifecycle.visits import CLAIM_SECONDS
from tenants.actors import SYSTEM

EVERY = timedelta(seconds=30)
BROKEN_AFTER = timedelta(minutes=10)  # of mending in vain
ORDERS_MAX = 50  # in one round
S = ClusterState


def warm_keep(pool_id: uuid.UUID) -> None:
    """Brings one pool nearer to its target. Safe at any time, in any number of processes."""
    claimed(WarmPool, pool_id, _work, seconds=CLAIM_SECONDS)


def _work(row: WarmPool) -> None:
    trouble = ""
    for _ in range(ORDERS_MAX):
        again, trouble = _act(row)
        if not again:
            break
    _rest(row, trouble)


@transaction.atomic
def _act(row: WarmPool) -> tuple[bool, str]:
    """Counted and acted on under the pool's lock, so that two workers never order the same one. Returns whether there
    is more to do, and why fewer are ready than wanted, if known."""
    pool = _locked(row)
    maintained = pool.ended_at is None and pool.template.state in ORDERED
    wanted = pool.wanted if maintained else 0
    draft, trouble = None, ""
    if wanted:
        try:
            draft = draft_of(pool)
        except GpuaasError as error:
            trouble = error.message
    waiting = {row.pk: row for row in _waiting(pool)}
    deed = _deed(pool, draft, waiting.values(), wanted)
    if failed := next((row for row in waiting.values() if row.pk in deed.delete and row.trouble), None):
        trouble = f"The last one failed: {failed.trouble.get('cause', '')}"
    for pk in deed.delete:
        _delete(waiting[pk])
    if draft is None or not deed.order or trouble:
        return False, trouble
    try:
        with transaction.atomic():
            cluster_build(actor=SYSTEM, draft=draft)
    except GpuaasError as error:
        if deed.yields and isinstance(error, NoCapacity | QuotaRefused):
            _delete(waiting[deed.yields[0]])
        return False, error.message
    return deed.order > 1, ""


def draft_of(pool: WarmPool) -> Draft:
    """The next cluster, of the template's newest version. Raises Invalid, or Conflict if it accepts no such order."""
    draft = draft_make(
        project=pool.project,
        version=template_version_get(template=pool.template),
        document=pool.document,
        name="warm",
        lease_ends_at=clock.now() + LEASE_MAX,  # it has none until it is claimed
        warm_pool=pool,
    )
    draft.cluster.created_by = pool.created_by
    return draft


def _deed(pool: WarmPool, draft: Draft | None, rows: Iterable[Cluster], wanted: int) -> Deed:
    """If nothing can be ordered, all ready clusters count as wanted."""
    fit = set(Cluster.objects.filter(CLAIMABLE, warm_pool=pool).values_list("pk", flat=True))
    current = set()
    if draft is not None:
        current = set(alike(draft.cluster, draft.pools).filter(warm_pool=pool).values_list("pk", flat=True))
    deeds = [
        Waiting(row.pk, row.pk in fit, _is_broken(row), draft is None or row.pk in current) for row in rows
    ]
    return keep(deeds, wanted=wanted, making_most=pool.making_most)


def _is_broken(row: Cluster) -> bool:
    if row.state in MAKING:
        return False
    if row.state != S.READY:
        return True
    health = row.conditions.get("Healthy", {})
    since = datetime.fromisoformat(health["since"]) if health.get("status") == "False" else None
    return since is not None and clock.now() - since > BROKEN_AFTER


def _waiting(pool: WarmPool) -> list[Cluster]:
    rows = Cluster.objects.filter(WAITING, warm_pool=pool)
    rows = rows.exclude(state__in=[S.DELETING, S.DELETED])
    return list(rows.select_related("project__organization", "site").order_by("pk"))


def _delete(row: Cluster) -> None:
    """Unless somebody has claimed it since it was read."""
    with contextlib.suppress(Conflict, StaleVersion, NotFound), transaction.atomic():
        reason = "not needed in its warm pool"
        cluster_delete(actor=SYSTEM, cluster=row, expected_version=row.version, reason=reason)


def _locked(row: WarmPool) -> WarmPool:
    """Extends the claim if it is still ours."""
    extend(row, seconds=CLAIM_SECONDS)
    rows = WarmPool.objects.select_related("project__organization", "template__site", "created_by")
    return rows.get(pk=row.pk)


@transaction.atomic
def _rest(row: WarmPool, trouble: str) -> None:
    """Until the next round; after a refusal or a failure sooner, then later each time."""
    pool = _locked(row)
    news = pool.trouble != trouble[:500]
    wait = timedelta(seconds=delay(pool.attempts + 1)) if trouble else EVERY
    done = pool.ended_at is not None and not _waiting(pool)
    release(
        row,
        due_at=None if done else clock.now() + wait,
        attempts=F("attempts") + 1 if trouble else 0,
        trouble=trouble[:500],
    )
    if news:
        events.publish(kind="warm_pool", id=pool.pk, groups=(events.OPERATORS_GROUP,))
