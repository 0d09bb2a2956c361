"""Jobs on a Slurm cluster, as its pages show them."""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend import formats
from frontend.components import Fact
from frontend.forms import sentence_of
from frontend.place import ProjectPlace
from frontend.presenters import held
from frontend.presenters.transfers import Files, files_of
from gpuaas.clusters.models import Cluster, ClusterJob
from gpuaas.clusters.services import jobs_why_not
from gpuaas.clusters.states import JOB_LOOKS, JOB_OPEN, JOB_STAGING, ClusterJobState
from gpuaas.core.looks import Tone
from gpuaas.lifecycle.allowed import Verb
from gpuaas.providers.base import ClusterKind
from gpuaas.staging.rclone import moved_of
from gpuaas.staging.transfers import Way
from tenants.roles import Permission

SHOWN = 5  # on the page of the cluster


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
    may_retry: bool
    files: Files


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
    rows = list(cluster.jobs.filter(state__in=JOB_OPEN).select_related("created_by", "login").order_by("-pk"))
    why = why_not(cluster, here)
    return Card(
        rows=tuple(row_of(row, cluster) for row in rows[:SHOWN]),
        more=max(0, len(rows) - SHOWN),
        text=why or ("" if rows else "No job of the portal waits or runs here."),
        list_url=url_of(cluster),
        new_url="" if why else url_of(cluster, "cluster_job_new"),
    )


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
    )


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
        may_retry=enters and row.is_unmoved,
        files=files_of(
            {way: moved_of(row.transfers(way), row.moved.get(way, {})) for way in Way},
            row.moved,
            over=not row.is_open,
        ),
    )


def _note(row: ClusterJob) -> str:
    if row.state == ClusterJobState.QUEUED:
        return "The cluster asks for its jobs twice a minute, and has not confirmed this one yet."
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
    if row.finished_at is not None:
        facts.append(Fact("Ended", formats.when(row.finished_at)))
    if row.exit_code is not None:
        facts.append(Fact("Exit code", str(row.exit_code)))
    return facts
