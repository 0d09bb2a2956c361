"""How many devices a workspace or cluster may hold, by the resource names of its site, and which consumers exceed
that."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet

from gpuaas.catalog.models import Site
from gpuaas.core.conditions import Status
from gpuaas.core.errors import NotFound
from gpuaas.lifecycle.kind import Kind
from gpuaas.lifecycle.models import Provisioned
from gpuaas.providers.base import ObservedConsumer, WorkspaceRef

RowT = TypeVar("RowT", bound=Provisioned)
WITHIN_QUOTA = "WithinQuota"  # the condition that the warden writes


@dataclass(frozen=True)
class Allowance:
    """limits: devices by resource name, 0 for every name of the site that was not bought; other names are not
    limited.

    settled=False: a change is running, so the higher of the new limit and what the site enforces applies.
    `older_than`: in an adopted workspace, consumers from before that time stay, however much they hold. `over_quota`:
    the present condition. external_name: of its namespace or project.
    """

    holder_id: uuid.UUID
    external_name: str
    limits: Mapping[str, int]
    settled: bool = True
    older_than: datetime | None = None
    over_quota: bool = False

    @property
    def ref(self) -> WorkspaceRef:
        return WorkspaceRef(self.holder_id, self.external_name)


@dataclass(frozen=True)
class Surplus:
    """A consumer of `quantity` devices that started when `limit` were already held; `held` counts it and all others."""

    consumer: ObservedConsumer
    resource_name: str
    quantity: int
    limit: int
    held: int

    @property
    def in_words(self) -> str:
        return f"held {self.held} × {self.resource_name} with a limit of {self.limit}"

    def reason(self, holder: str) -> str:
        """The reason shown for a removed consumer; holder: workspace or cluster."""
        return f"removed by the portal: the {holder} {self.in_words}; the newest are removed first"


def bought_of(rows: QuerySet[Any], holder: str) -> dict[uuid.UUID, dict[str, int]]:
    """Devices by resource name that each holder bought; during a change, the higher of the old and new count.

    rows: one per flavor, with count and confirmed. holder: the column that names the holder.
    """
    columns = (f"{holder}_id", "flavor__pool__resource_name", "flavor__gpus", "count", "confirmed")
    bought: dict[uuid.UUID, dict[str, int]] = {}
    for holder_id, name, gpus, count, confirmed in rows.order_by().values_list(*columns):
        held = bought.setdefault(holder_id, {})
        held[name] = held.get(name, 0) + gpus * max(count, confirmed)
    return bought


def nothing_at(site_id: uuid.UUID) -> dict[str, int]:
    """0 for every resource name under which the site counts devices or ever did, as it is closed at the site itself.

    Second names of devices (`also`) are left out: who bought the devices has them under these names too. One query.
    """
    columns = ("gpu_names", "pools__resource_name", "pools__also")
    counted: set[str] = set()
    sold: set[str] = set()
    second: set[str] = set()
    for names, pool, also in Site.objects.filter(pk=site_id).order_by().values_list(*columns):
        counted.update(names)
        sold.update([pool] if pool else [])
        second.update(also or [])
    return dict.fromkeys(sorted(sold | (counted - second)), 0)


def is_over_quota(conditions: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the warden has found a surplus that is not resolved yet."""
    return bool(conditions.get(WITHIN_QUOTA, {}).get("status") == Status.FALSE)


def over_quota(words: str) -> dict[str, Any]:
    """The condition, before anything is removed."""
    return {"type": WITHIN_QUOTA, "status": Status.FALSE, "reason": "Surplus", "message": words}


@transaction.atomic
def quota_restored_note(kind: Kind[RowT], holder_id: uuid.UUID, removed: Callable[[RowT], str]) -> bool:
    """Notes that it is within its allowance; False if the condition already said so, or if it is gone. removed: a phrase that
    counts what was removed so far."""
    try:
        row = kind.lock(holder_id)
    except NotFound:
        return False
    if not is_over_quota(row.conditions):
        return False
    words = f"it is within its limits; {removed(row)}"
    kind.tell(row, {**over_quota(words), "status": Status.TRUE, "reason": "Restored"})
    return True
