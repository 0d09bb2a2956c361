"""What a workspace or cluster may hold of devices, by the names that its site counts, and what of it is too much."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuaas.core.conditions import Status
from gpuaas.providers.base import ObservedConsumer, WorkspaceRef

WITHIN_QUOTA = "WithinQuota"  # the condition that the warden writes


@dataclass(frozen=True)
class Allowance:
    """limits: devices by resource name, 0 for every name of the site that was not bought; others are not limited.

    settled=False: a change is under way, and what the site enforces counts too where it is more. `older_than`: of a
    workspace that was taken over, what was there before that moment stays, however much it is. `over_quota`: so its
    condition says. external_name: of its namespace or project.
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
    """A consumer of `quantity` devices that came when `limit` were held already; `held` with it and all others."""

    consumer: ObservedConsumer
    resource_name: str
    quantity: int
    limit: int
    held: int

    @property
    def in_words(self) -> str:
        return f"held {self.held} × {self.resource_name} and may hold {self.limit}"

    def reason(self, holder: str) -> str:
        """For whoever looks at what was removed; holder: workspace or cluster."""
        return f"removed by the portal: the {holder} {self.in_words}; the newest go first"


def is_over_quota(conditions: Mapping[str, Mapping[str, Any]]) -> bool:
    """So the warden has found, and has not taken it back yet."""
    return bool(conditions.get(WITHIN_QUOTA, {}).get("status") == Status.FALSE)
