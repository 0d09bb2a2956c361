"""A cluster as its pages show it: rows of lists, pools, machines, the ledger, why it failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing.clusters import cluster_wanted_quote
from billing.held import held_quote
from frontend import formats
from frontend.components import Fact, Notice
from frontend.place import ProjectPlace
from frontend.presenters import held, operations
from frontend.presenters.answer import price_line
from frontend.presenters.cluster_access import Grantees, grantees_of
from frontend.presenters.cluster_jobs import Card, card_of
from frontend.presenters.cluster_use import MonthOfUse, use_of
from frontend.presenters.money import notes_of
from frontend.presenters.sleep import after_lease
from gpuaas.clusters.models import Cluster, ClusterPool, LedgerEntry
from gpuaas.clusters.selectors import definition_of, ledger_of, releases_offered, timeline
from gpuaas.clusters.spec import burst_site, nodes_of
from gpuaas.clusters.states import ClusterState
from gpuaas.core.looks import Tone
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import ClusterKind
from tenants.roles import Permission

S = ClusterState
HISTORY = "the median of the last 90 days with this template"
SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Row(held.Row):
    template: str
    release: str
    project: str
    organization: str


@dataclass(frozen=True)
class PoolRow:
    name: str
    label: str
    flavor: str
    gpus: int
    count: str
    release: str
    ready: str
    tone: Tone


@dataclass(frozen=True)
class Ledger:
    """The objects of the cluster, those that still exist first. `text` is the sentence above them."""

    text: str
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


@dataclass(frozen=True, kw_only=True)
class Rights(held.Rights):
    scale: bool
    upgrade: bool
    access: bool
    why_not: str = ""


CREDENTIAL_WORDS = {ClusterKind.KUBERNETES: "Get kubeconfig", ClusterKind.SLURM: "Get SSH access"}


@dataclass(frozen=True)
class Page:
    tone: Tone
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
    use: tuple[MonthOfUse, ...]
    jobs: Card | None
    setup: tuple[Fact, ...]
    conditions: tuple[held.ConditionRow, ...]
    endpoint: str
    access_text: str
    grantees: Grantees
    credential_word: str
    releases: tuple[str, ...]
    after_lease: str


def row_of(cluster: Cluster, *, now: datetime) -> Row:
    return Row(
        **held.row_facts(cluster, now=now),
        holds=holds_of(cluster),
        template=cluster.template_version.template.name,
        release=cluster.confirmed_release or cluster.release,
        project=cluster.project.slug,
        organization=cluster.project.organization.name,
    )


def holds_of(cluster: Cluster) -> str:
    """`1 → 2 × 2 × H100 SXM`: the confirmed and the requested workers."""
    parts = [
        f"{count_of(pool)} × {pool.flavor.name}"
        for pool in cluster.pools.all()
        if pool.count or pool.confirmed
    ]
    return ", ".join(parts) or "control plane only"


def count_of(pool: Any) -> str:
    return f"{pool.confirmed} → {pool.count}" if pool.confirmed != pool.count else str(pool.count)


def page_of(cluster: Cluster, here: ProjectPlace, *, now: datetime) -> Page:
    tone, word = held.look_of(cluster)
    may = rights_of(cluster, here)
    nodes = nodes_of(cluster, now)
    return Page(
        tone=tone,
        word=word,
        may=may,
        moving=held.is_moving(cluster),
        gone=cluster.state == S.DELETED,
        lease_over=cluster.lease_ends_at <= now,
        trouble=_trouble(cluster),
        operation=operations.operation_of(
            timeline(cluster=cluster), now=now, history=HISTORY, may_retry=may.retry
        ),
        pools=_pools(cluster, nodes),
        control=_control(cluster, nodes),
        nodes=nodes,
        ledger=_ledger(cluster),
        cost=_cost(cluster) if here.can(Permission.BILLING_VIEW) else None,
        use=use_of(cluster, here, now=now),
        jobs=card_of(cluster, here),
        setup=_setup(cluster),
        conditions=held.conditions_of(cluster),
        endpoint=str(cluster.observed.get("endpoint", "")),
        access_text=_access_text(cluster, here),
        grantees=grantees_of(cluster, here),
        credential_word=CREDENTIAL_WORDS[ClusterKind(cluster.template_version.template.kind)],
        releases=releases_offered(cluster=cluster),
        after_lease=after_lease(cluster, here.zone),
    )


def urls_of(cluster: Cluster) -> dict[str, str]:
    return held.urls_of(cluster, "scale", "upgrade", "policies", "objects", "access")


def rights_of(cluster: Cluster, here: ProjectPlace) -> Rights:
    allowed = held.allowed_now(cluster)
    change = here.can(Permission.WORKSPACE_CREATE)
    why_not = held.why_not(cluster, Verb.RESIZE)
    return Rights(
        **held.rights_facts(allowed, here),
        scale=change and not why_not,
        upgrade=change and not held.why_not(cluster, Verb.UPGRADE),
        access=here.can(Permission.WORKSPACE_ACCESS) and Verb.ENTER in allowed,
        why_not=why_not,
    )


def _trouble(cluster: Cluster) -> Trouble | None:
    if cluster.state != S.FAILED or not cluster.trouble:
        return None
    told = cluster.trouble
    cause = str(told.get("cause", ""))
    text = f"{cause[:1].upper()}{cause[1:]}. {told.get('next', '')}"
    return Trouble(
        Notice(Tone.BAD, "The last change failed", text),
        tuple(str(line) for line in told.get("evidence", ())),
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
                ready=f"{ready} of {seen} ready" if seen else "no machines",
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
    return f"{ready} of {seen} ready" if seen else f"0 of {cluster.control_count} ready"


def _ledger(cluster: Cluster) -> Ledger:
    entries = list(ledger_of(cluster=cluster))
    present = [entry for entry in entries if entry.gone_at is None]
    gone = len(entries) - len(present)
    shown = [*present, *(entry for entry in entries if entry.gone_at is not None)][:SHOWN]
    proved = cluster.state == S.DELETED and not present
    if proved:
        text = f"A sweep of the site found nothing left: all {gone} objects are confirmed gone."
    elif not entries:
        text = "No objects yet. Every object is recorded here before it is created at the site."
    elif cluster.state in {S.DELETING, S.DELETED}:
        text = f"{len(present)} of {len(entries)} objects remain. Charges end when a sweep of the site finds none."
    else:
        objects = f"{len(present)} object{'' if len(present) == 1 else 's'}"
        text = f"{objects} at the site, each recorded before it was created."
    return Ledger(text, gone, tuple(shown), len(entries) - len(shown), proved)


def _cost(cluster: Cluster) -> Cost:
    """The price of what runs now, and of the requested size while that differs."""
    runs = held_quote(holder=cluster)
    lines = [price_line(line, runs.currency) for line in runs.lines]
    facts = [Fact(line.name, line.per_hour) for line in lines]
    if cluster.state not in {S.DELETING, S.DELETED}:
        facts.append(Fact("To end of lease", formats.money(runs.to_lease_end, runs.currency)))
        wanted = cluster_wanted_quote(cluster=cluster) if held.is_moving(cluster) else runs
        if wanted.per_hour != runs.per_hour:
            facts.append(Fact("Per hour as requested", formats.price(wanted.per_hour, wanted.currency)))
    return Cost(
        per_hour=formats.price(runs.per_hour, runs.currency),
        facts=tuple(facts),
        warning=" ".join(notes_of(runs)),
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


def _access_text(cluster: Cluster, here: ProjectPlace) -> str:
    if cluster.state in {S.DELETING, S.DELETED}:
        return "Access has ended."
    if not here.can(Permission.WORKSPACE_ACCESS):
        return "Only members of the project can get a credential; your role is read-only."
    if cluster.ready_at is None:
        return "You can get a credential as soon as the cluster is ready."
    return "The credential is personal, short-lived and shown once."
