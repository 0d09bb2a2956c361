"""A cluster as its pages show it: rows of lists, pools, machines, the ledger, why it failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from billing.clusters import cluster_quote
from billing.quotes import Quote
from frontend import formats
from frontend.components import Fact, Notice, Tone
from frontend.place import ProjectPlace
from frontend.presenters import operations
from frontend.presenters.answer import price_line
from frontend.presenters.cluster_access import Grantees, grantees_of
from frontend.presenters.sleep import after_lease
from frontend.presenters.workspaces import SOON, ConditionRow, conditions_of
from gpuaas.clusters.models import Cluster, ClusterPool, LedgerEntry
from gpuaas.clusters.selectors import definition_of, ledger_of, releases_offered, timeline
from gpuaas.clusters.spec import burst_site
from gpuaas.clusters.states import CHANGING, MACHINE, ClusterState
from gpuaas.core.looks import Tone as StateTone
from gpuaas.providers.base import ClusterKind
from tenants.roles import Permission

S = ClusterState
MOVING = frozenset(CHANGING)
ENTERED = frozenset({S.READY, S.SCALING, S.UPGRADING, S.SUSPENDING, S.SUSPENDED, S.RESUMING})
HISTORY = "the median of the last 90 days with this template"
SHOWN = 100


@dataclass(frozen=True)
class Row:
    """One line of a list."""

    url: str
    name: str
    tone: StateTone
    word: str
    holds: str
    template: str
    release: str
    site: str
    project: str
    organization: str
    created_by: str
    created_at: datetime
    lease_ends_at: datetime
    ends_soon: bool


@dataclass(frozen=True)
class PoolRow:
    name: str
    label: str
    flavor: str
    gpus: int
    count: str
    release: str
    ready: str
    tone: StateTone | Tone


@dataclass(frozen=True)
class Ledger:
    """What was made: open first. `said` is the sentence above it."""

    said: str
    gone: int
    entries: tuple[LedgerEntry, ...]
    more: int
    proved: bool

    @property
    def total(self) -> int:
        return len(self.entries) + self.more


@dataclass(frozen=True)
class Trouble:
    notice: Notice
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    per_hour: str
    facts: tuple[Fact, ...]
    warning: str


@dataclass(frozen=True)
class Rights:
    """What this reader may press now; services decide for themselves."""

    change: bool
    retry: bool
    scale: bool
    upgrade: bool
    suspend: bool
    resume: bool
    extend: bool
    delete: bool
    access: bool
    why_not: str = ""


CREDENTIAL_WORDS = {ClusterKind.KUBERNETES: "Get kubeconfig", ClusterKind.SLURM: "Get access by ssh"}


@dataclass(frozen=True)
class Page:
    tone: StateTone
    word: str
    may: Rights
    moving: bool
    gone: bool
    lease_over: bool
    trouble: Trouble | None
    operation: operations.OperationShown | None
    pools: tuple[PoolRow, ...]
    control: str
    nodes: tuple[Mapping[str, Any], ...]
    ledger: Ledger
    cost: Cost | None
    setup: tuple[Fact, ...]
    conditions: tuple[ConditionRow, ...]
    endpoint: str
    access_said: str
    grantees: Grantees
    credential_word: str
    releases: tuple[str, ...]
    after_lease: str


def look_of(cluster: Cluster) -> tuple[StateTone, str]:
    look = MACHINE.looks[S(cluster.state)]
    return look.tone, look.label


def url_of(cluster: Cluster) -> str:
    return reverse("frontend:cluster", args=[cluster.project.slug, cluster.pk])


def row_of(cluster: Cluster, *, now: datetime) -> Row:
    tone, word = look_of(cluster)
    gone = cluster.state == S.DELETED
    return Row(
        url=url_of(cluster),
        name=cluster.name,
        tone=tone,
        word=word,
        holds=holds_of(cluster),
        template=cluster.template_version.template.name,
        release=cluster.confirmed_release or cluster.release,
        site=cluster.site.slug,
        project=cluster.project.slug,
        organization=cluster.project.organization.name,
        created_by=cluster.created_by.username,
        created_at=cluster.created_at,
        lease_ends_at=cluster.lease_ends_at,
        ends_soon=not gone and cluster.lease_ends_at - now < SOON,
    )


def holds_of(cluster: Cluster) -> str:
    """`1 → 2 × 2 × H100 SXM`: workers that are there, and where they go."""
    parts = [
        f"{count_of(pool)} × {pool.flavor.name}"
        for pool in cluster.pools.all()
        if pool.count or pool.confirmed
    ]
    return ", ".join(parts) or "its control plane"


def count_of(pool: Any) -> str:
    return f"{pool.confirmed} → {pool.count}" if pool.confirmed != pool.count else str(pool.count)


def page_of(cluster: Cluster, here: ProjectPlace, *, now: datetime) -> Page:
    tone, word = look_of(cluster)
    may = rights_of(cluster, here)
    retry = urls_of(cluster)["retry"] if may.retry else ""
    nodes = tuple(cluster.observed.get("nodes", ()))
    return Page(
        tone=tone,
        word=word,
        may=may,
        moving=S(cluster.state) in MOVING,
        gone=cluster.state == S.DELETED,
        lease_over=cluster.lease_ends_at <= now,
        trouble=_trouble(cluster),
        operation=operations.operation_of(
            timeline(cluster=cluster), now=now, history=HISTORY, retry_url=retry
        ),
        pools=_pools(cluster, nodes),
        control=_control(cluster, nodes),
        nodes=nodes,
        ledger=_ledger(cluster),
        cost=_cost(cluster) if here.can(Permission.BILLING_VIEW) else None,
        setup=_setup(cluster),
        conditions=conditions_of(cluster),
        endpoint=str(cluster.observed.get("endpoint", "")),
        access_said=_access_said(cluster, here),
        grantees=grantees_of(cluster, here),
        credential_word=CREDENTIAL_WORDS[ClusterKind(cluster.template_version.template.kind)],
        releases=releases_offered(cluster=cluster),
        after_lease=after_lease(),
    )


def urls_of(cluster: Cluster) -> dict[str, str]:
    slug = cluster.project.slug
    names = ("credential", "scale", "upgrade", "suspend", "resume", "extend", "delete", "retry", "policies")
    found = {name: reverse(f"frontend:cluster_{name}", args=[slug, cluster.pk]) for name in names}
    found["page"] = url_of(cluster)
    found["audit"] = f"{reverse('frontend:audit', args=[slug])}?q={cluster.name}"
    return found


def rights_of(cluster: Cluster, here: ProjectPlace) -> Rights:
    state = S(cluster.state)
    change = here.can(Permission.WORKSPACE_CREATE)
    staying = state not in {S.DELETING, S.DELETED}
    made = cluster.ready_at is not None
    failed_at = _failed_at(cluster)
    scale = state == S.READY or failed_at == "scale"
    word = MACHINE.looks[state].label.lower()
    return Rights(
        change=change,
        retry=change and state == S.FAILED,
        scale=change and scale,
        upgrade=change and state == S.READY,
        suspend=change and made and (state == S.READY or failed_at not in {"", "upgrade"}),
        resume=change and (state == S.SUSPENDED or (failed_at != "" and cluster.suspended_at is not None)),
        extend=change and staying,
        delete=change and staying,
        access=here.can(Permission.WORKSPACE_ACCESS) and (state in ENTERED or (state == S.FAILED and made)),
        why_not="" if scale else f"one change at a time: it is {word}",
    )


def _failed_at(cluster: Cluster) -> str:
    """What failed, "" where nothing did."""
    if cluster.state != S.FAILED:
        return ""
    newest = cluster.operations.first()
    return str(newest.kind) if newest else ""


def _trouble(cluster: Cluster) -> Trouble | None:
    if cluster.state != S.FAILED or not cluster.trouble:
        return None
    held = cluster.trouble
    cause = str(held.get("cause", ""))
    text = f"{cause[:1].upper()}{cause[1:]}. {held.get('next', '')}"
    return Trouble(
        Notice(Tone.BAD, "It was not done", text), tuple(str(line) for line in held.get("evidence", ()))
    )


def _pools(cluster: Cluster, nodes: Sequence[Mapping[str, Any]]) -> tuple[PoolRow, ...]:
    definition = definition_of(cluster.template_version)
    rows = []
    for pool in cluster.pools.all():
        ready, seen = _ready(nodes, pool.name)
        release = pool.confirmed_release or pool.release
        rows.append(
            PoolRow(
                name=pool.name,
                label=_placed(cluster, pool, definition.pool(pool.name).label),
                flavor=pool.flavor.name,
                gpus=pool.flavor.gpus * pool.count,
                count=count_of(pool),
                release=release if release == pool.release else f"{release} → {pool.release}",
                ready=f"{ready} of {seen} ready" if seen else "none there",
                tone=(Tone.OK if ready == seen else Tone.WARN) if seen else Tone.OFF,
            )
        )
    return tuple(rows)


def _placed(cluster: Cluster, pool: ClusterPool, label: str) -> str:
    site = burst_site(cluster, pool.flavor)
    return f"{label}, at {site.slug}" if site else label


def _ready(nodes: Sequence[Mapping[str, Any]], pool: str) -> tuple[int, int]:
    there = [node for node in nodes if node["pool"] == pool]
    return sum(1 for node in there if node["ready"]), len(there)


def _control(cluster: Cluster, nodes: Sequence[Mapping[str, Any]]) -> str:
    ready, seen = _ready(nodes, "")
    return f"{ready} of {seen} ready" if seen else f"{cluster.control_count} wanted, none there"


def _ledger(cluster: Cluster) -> Ledger:
    found = list(ledger_of(cluster=cluster))
    there = [one for one in found if one.gone_at is None]
    gone = len(found) - len(there)
    shown = [*there, *(one for one in found if one.gone_at is not None)][:SHOWN]
    proved = cluster.state == S.DELETED and not there
    if proved:
        said = f"A sweep of the site found nothing of it: all {gone} objects are proved gone."
    elif not found:
        said = "Nothing was made yet. Every object is written down here before the site is asked for it."
    elif cluster.state in {S.DELETING, S.DELETED}:
        said = f"{len(there)} of {len(found)} objects are left; the charge ends when a sweep of the site finds none."
    else:
        said = f"{len(there)} objects at the site, each written down before it was made."
    return Ledger(said, gone, tuple(shown), len(found) - len(shown), proved)


def _cost(cluster: Cluster) -> Cost:
    found: Quote = cluster_quote(cluster=cluster)
    lines = [price_line(line, found.currency) for line in found.lines]
    facts = [Fact(line.name, line.per_hour) for line in lines]
    if found.to_lease_end is not None and cluster.state != S.DELETED:
        facts.append(Fact("To end of lease", formats.money(found.to_lease_end, found.currency)))
    missing = () if found.complete else ("Something here has no price yet; the sums leave it out.",)
    return Cost(
        per_hour=formats.money(found.per_hour, found.currency),
        facts=tuple(facts),
        warning=" ".join((*missing, *found.notes)),
    )


def _setup(cluster: Cluster) -> tuple[Fact, ...]:
    version = cluster.template_version
    facts = [
        Fact("Template", f"{version.template.name}, version {version.number}"),
        Fact("Release", cluster.confirmed_release or cluster.release),
        Fact("Control plane", f"{cluster.control_count} machine{'' if cluster.control_count == 1 else 's'}"),
        Fact("Add-ons", ", ".join(cluster.addons) or "none"),
        Fact("Name at the site", cluster.external_name),
    ]
    facts += [Fact(key.replace("_", " "), str(value)) for key, value in cluster.parameters.items()]
    return tuple(facts)


def _access_said(cluster: Cluster, here: ProjectPlace) -> str:
    if cluster.state in {S.DELETING, S.DELETED}:
        return "Access has ended."
    if not here.can(Permission.WORKSPACE_ACCESS):
        return "A member of the project can take a credential; your role here may look."
    if cluster.ready_at is None:
        return "You can take a credential as soon as it is ready."
    return "Yours alone, short-lived, shown once."
