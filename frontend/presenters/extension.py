"""The cost of a longer lease, shown before it is extended."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from billing.clusters import cluster_wanted_quote
from billing.held import what_if
from billing.quotes import Quote, QuoteItem
from frontend import formats
from frontend.components import Fact, Notice
from frontend.forms import first_wrong
from frontend.forms.workspaces import UNCHANGED, ExtendForm
from frontend.place import ProjectPlace
from frontend.presenters import money
from gpuaas.clusters.models import Cluster
from gpuaas.core.looks import Tone
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.states import WorkspaceState
from tenants.roles import Permission

ASLEEP = frozenset({WorkspaceState.SUSPENDING, WorkspaceState.SUSPENDED})
Ends = Callable[[datetime], tuple[Quote, Quote]]


@dataclass(frozen=True)
class Extension:
    """blocked: why the service would refuse it now; "" if it would not."""

    notice: Notice
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    blocked: str = ""


def workspace_extension(row: Workspace, form: ExtendForm, here: ProjectPlace) -> Extension:
    """A suspended workspace is priced as suspended, any other as it is wanted, until either end."""

    def ends(until: datetime) -> tuple[Quote, Quote]:
        items: list[QuoteItem] | None = [] if row.state in ASLEEP else None
        now, later = (
            what_if(workspace=row, items=items, lease_ends_at=end) for end in (row.lease_ends_at, until)
        )
        return now.then, later.then

    return _extension(form, row.lease_ends_at, here, ends)


def cluster_extension(row: Cluster, form: ExtendForm, here: ProjectPlace) -> Extension:
    def ends(until: datetime) -> tuple[Quote, Quote]:
        return cluster_wanted_quote(cluster=row), cluster_wanted_quote(cluster=row, lease_ends_at=until)

    return _extension(form, row.lease_ends_at, here, ends)


def _extension(form: ExtendForm, ends_at: datetime, here: ProjectPlace, ends: Ends) -> Extension:
    if form.has_error("until", UNCHANGED):
        del form.errors["until"]
        notice = Notice(Tone.WAIT, "No change yet", "Choose a later date or time to see the cost.")
        return Extension(notice, blocked="Nothing has changed yet.")
    if not form.is_valid():
        notice = Notice(Tone.WARN, "Check your input", "The reason stands beside the new end.")
        return Extension(notice, blocked=first_wrong(form))
    until = form.cleaned_data["until"]
    longer = formats.duration(until - ends_at)
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    if here.can(Permission.BILLING_VIEW):
        with money.Unpriced():
            facts, notes = _priced(*ends(until))
    notice = Notice(Tone.OK, f"{longer} longer", f"The lease then ends {formats.when(until, here.zone)}.")
    return Extension(notice, facts, notes)


def _priced(now: Quote, then: Quote) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    if now.to_lease_end is None or then.to_lease_end is None:
        return (), ()
    facts = (
        Fact("Per hour, unchanged", formats.price(now.per_hour, now.currency)),
        Fact("Added cost", formats.signed(then.to_lease_end - now.to_lease_end, now.currency)),
        Fact("From now to the new end", formats.money(then.to_lease_end, now.currency)),
    )
    return facts, money.notes_of(then)
