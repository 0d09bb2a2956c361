"""The holders that the warden judges, and where its actions are recorded: workspaces, and clusters in one namespace."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpuaas.clusters import allowances as cluster_allowances
from gpuaas.clusters.services import evictions as cluster_evictions
from gpuaas.workspaces import allowances as workspace_allowances
from gpuaas.workspaces.services import evictions as workspace_evictions
from quotas.allowances import Allowance


@dataclass(frozen=True)
class Book:
    """For one kind of holder; `streamed`: usage of its consumers is written from the stream."""

    holder: str
    allowances_at: Callable[..., dict[str, Allowance]]
    eviction_record: Callable[..., None]
    within_quota_note: Callable[..., bool]
    eviction_done: Callable[..., None] | None = None
    streamed: bool = True


WORKSPACES = Book(
    "workspace",
    workspace_allowances.allowances_at,
    workspace_evictions.eviction_record,
    workspace_evictions.within_quota_note,
    workspace_evictions.eviction_done,
)
# of these the audit log has what was removed, and usage is what the pools hold
CLUSTERS = Book(
    "cluster",
    cluster_allowances.allowances_at,
    cluster_evictions.eviction_record,
    cluster_evictions.within_quota_note,
    streamed=False,
)


@dataclass(frozen=True)
class Account:
    """One namespace or project of a site, with the book by which it is judged."""

    book: Book
    allowance: Allowance

    def afresh(self, site_id: uuid.UUID) -> Allowance | None:
        allowances = self.book.allowances_at(site_id=site_id, ids=[self.allowance.holder_id])
        return allowances.get(self.allowance.external_name)


def accounts_at(site_id: uuid.UUID, books: Iterable[Book] = (WORKSPACES, CLUSTERS)) -> dict[str, Account]:
    """By name at the site; 6 queries, whatever their number."""
    return {
        name: Account(book, allowance)
        for book in books
        for name, allowance in book.allowances_at(site_id=site_id).items()
    }
