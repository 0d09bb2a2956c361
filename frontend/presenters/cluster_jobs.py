"""Jobs on a Slurm cluster, as its pages show them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse

from frontend import formats
from frontend.components import Fact
from frontend.forms import sentence_of
from frontend.place import ProjectPlace
from frontend.presenters import held
from frontend.presenters.kept import kept_words
from frontend.presenters.transfers import Files, files_of
from gpuaas.clusters.job_order import Partition, counted
from gpuaas.clusters.job_rows import cluster_jobs_of
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import jobs_why_not
from gpuaas.clusters.spec import is_asleep
from gpuaas.clusters.states import JOB_LOOKS, JOB_OPEN, JOB_STAGING, ClusterJobState
from gpuaas.core import clock
from gpuaas.core.looks import Tone
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import ClusterKind
from gpuaas.staging.rclone import moved_of
from gpuaas.staging.transfers import Way
from tenants.roles import Permission

SHOWN = 5  # on the page of the cluster
STALE = timedelta(minutes=5)  # heads report twice a minute


@dataclass(frozen=True)
class Row:
    url: str
    name: str
    created_by: str
    tone: Tone
    word: str
    note: str
    slurm_id: int | None
    partition: str
    size: str
    created_at: datetime
    finished_at: datetime | None
    stale_since: datetime | None


@dataclass(frozen=True)
class Card:
    """On the page of the cluster. rows: of those that have not ended; more: how many are not shown."""

    rows: tuple[Row, ...]
    more: int
    text: str
    list_url: str
    new_url: str


@dataclass(frozen=True)
class Page:
    tone: Tone
    word: str
    note: str
    facts: tuple[Fact, ...]
    moving: bool
    may_cancel: bool
    may_log: bool
    no_log: str
    may_retry: bool
    files: Files
    kept: str


def url_of(cluster: Cluster, name: str = "cluster_jobs", *args: object) -> str:
    return reverse(f"frontend:{name}", args=[cluster.project.slug, cluster.pk, *args])


def why_not(cluster: Cluster, here: ProjectPlace) -> str:
    """Why this reader cannot submit a job now, as a sentence; "" where they can."""
    if not here.can(Permission.WORKSPACE_ACCESS):
        return "Only members of the project can submit jobs; your role is read-only."
    why = jobs_why_not(cluster)
    return sentence_of(why) if why else held.why_not(cluster, Verb.ENTER)


def card_of(cluster: Cluster, here: ProjectPlace) -> Card | None:
    """None where there is no Slurm."""
    if cluster.template_version.template.kind != ClusterKind.SLURM:
        return None
    rows = cluster_jobs_of(cluster=cluster, states=JOB_OPEN)
    count, shown = rows.count(), rows[:SHOWN]
    why = why_not(cluster, here)
    return Card(
        rows=tuple(row_of(row, cluster) for row in shown),
        more=max(0, count - SHOWN),
        text=why or ("" if count else "No job of the portal waits or runs here."),
        list_url=url_of(cluster),
        new_url="" if why else url_of(cluster, "cluster_job_new"),
    )


def partition_of(one: Partition) -> str:
    """As a choice of the form."""
    return f"{one.name}: {workers_of(one)}"


def workers_of(one: Partition) -> str:
    return f"{counted(one.workers, 'worker')}, each with {one.gpus} GPUs, {one.vcpus} vCPUs, {one.memory_gib:,} GiB for jobs"


def row_of(row: ClusterJob, cluster: Cluster) -> Row:
    tone, word = look_of(row)
    return Row(
        url=url_of(cluster, "cluster_job", row.pk),
        name=row.name,
        created_by=row.created_by.username,
        tone=tone,
        word=word,
        note=row.reason,
        slurm_id=row.slurm_id,
        partition=row.partition,
        size=size_of(row),
        created_at=row.created_at,
        finished_at=row.finished_at,
        stale_since=_stale_since(row),
    )


def _stale_since(row: ClusterJob) -> datetime | None:
    """When Slurm was last known to have one that has not ended, if that is long ago."""
    return row.seen_at if row.is_open and _is_old(row.seen_at) else None


def _is_old(moment: datetime | None) -> bool:
    return moment is not None and clock.now() - moment > STALE


def look_of(row: ClusterJob) -> tuple[Tone, str]:
    look = JOB_LOOKS[row.state]
    return (look.tone, "Cancelling") if row.is_open and row.cancel_asked_at else (look.tone, look.label)


def size_of(row: ClusterJob) -> str:
    nodes = "1 node" if row.nodes == 1 else f"{row.nodes} nodes"
    if not row.gpus_per_node:
        return f"{nodes}, no GPU"
    return f"{nodes} × {row.gpus_per_node} GPU{'' if row.gpus_per_node == 1 else 's'}"


def page_of(row: ClusterJob, here: ProjectPlace) -> Page:
    tone, word = look_of(row)
    enters = here.can(Permission.WORKSPACE_ACCESS)
    return Page(
        tone=tone,
        word=word,
        note=_note(row),
        facts=tuple(_facts(row)),
        moving=row.is_open,
        may_cancel=enters and row.is_open and row.cancel_asked_at is None,
        may_log=enters,
        kept=kept_words(row.emptied_at, "its log"),
        no_log="Not available: it is not kept any more."
        if row.emptied_at is not None
        else f"Not available: nothing {'has been' if row.is_open else 'was'} read of it{' so far' if row.is_open else ''}.",
        may_retry=enters and row.is_unmoved,
        files=files_of(
            {way: moved_of(row.transfers(way), row.moved.get(way, {})) for way in Way},
            row.moved,
            over=not row.is_open,
        ),
    )


def _note(row: ClusterJob) -> str:
    said = [_state_note(row)]
    if row.is_open and is_asleep(row.cluster):
        said.insert(0, "The cluster is suspended: it has no workers until it is resumed.")
    if stale := _stale_since(row):
        said.append(f"Nothing was heard of it since {formats.when(stale)}.")
    return " ".join(filter(None, said))


def _state_note(row: ClusterJob) -> str:
    if row.state == ClusterJobState.QUEUED and row.cancel_asked_at is None:
        reason, queue = sentence_of(row.reason) if row.reason else "", getattr(row.cluster, "queue", None)
        if queue is not None and _is_old(queue.told_at):
            asks = f"The head of the cluster has not reported since {formats.when(queue.told_at)}, and gets the job once it does."
        elif reason:
            asks = "The cluster asks for its jobs twice a minute, and tries again."
        else:
            asks = "The cluster asks for its jobs twice a minute, and has not confirmed this one yet."
        return f"{reason} {asks}".strip()
    if row.state in JOB_STAGING.values():
        files = f"Its {Way(row.staging).label.lower()} are moved by a job of Slurm's without GPUs"
        waits = f", which waits in the queue ({row.reason})" if row.reason else ""
        return f"{files}{waits}."
    if row.state == ClusterJobState.PENDING:
        return f"It waits in Slurm's queue ({row.reason})." if row.reason else "It waits in Slurm's queue."
    return sentence_of(row.reason) if row.reason else ""


def _facts(row: ClusterJob) -> list[Fact]:
    memory = "Slurm's share" if row.memory_gib is None else f"{row.memory_gib} GiB on each node"
    facts = [
        Fact("Job in Slurm", "not known yet" if row.slurm_id is None else str(row.slurm_id)),
        *([Fact("Mover in Slurm", str(row.mover_slurm_id))] if row.mover_slurm_id else []),
        Fact("Account", row.login.name if row.login else "shared"),
        Fact("Partition", row.partition),
        Fact("Size", size_of(row)),
        Fact("Tasks", f"{row.tasks:,}, each with {row.cpus_per_task} vCPU"),
        Fact("Memory", memory),
        Fact("Time limit", "none" if row.minutes is None else f"{row.minutes:,} minutes"),
        Fact("Submitted", formats.when(row.created_at)),
    ]
    if row.started_at is not None:
        facts.append(Fact("Started", formats.when(row.started_at)))
    if row.is_open and row.seen_at is not None:
        facts.append(Fact("Last seen in Slurm", formats.when(row.seen_at)))
    if row.finished_at is not None:
        facts.append(Fact("Ended", formats.when(row.finished_at)))
    if row.exit_code is not None:
        facts.append(Fact("Exit code", str(row.exit_code)))
    return facts
