"""A job as its pages show it: rows of the list, and the page of one."""

import shlex
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend import formats
from frontend.components import Fact, Notice
from frontend.forms import sentence_of
from frontend.place import ProjectPlace
from frontend.presenters import held, inside
from frontend.presenters.machines import may_run
from gpuaas.core.looks import Tone
from gpuaas.jobs.models import Job, JobLog
from gpuaas.jobs.selectors import log_of, position_of
from gpuaas.jobs.states import ENDED, JobState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.workspaces.states import ALLOWED as WORKSPACE_ALLOWED

S = JobState
DEEDS = ("cancel", "rerun", "delete")


@dataclass(frozen=True)
class Row(inside.Row):
    note: str
    finished_at: datetime | None


@dataclass(frozen=True)
class Rights:
    cancel: bool
    rerun: bool
    delete: bool
    log: bool


@dataclass(frozen=True)
class Page:
    tone: Tone
    word: str
    moving: bool
    may: Rights
    notice: Notice | None
    facts: tuple[Fact, ...]
    conditions: tuple[held.ConditionRow, ...]
    log: JobLog | None


def row_of(row: Job) -> Row:
    note = row.waiting or row.cause
    return Row(**inside.fields_of(row), note=note, finished_at=row.finished_at)


def page_of(row: Job, here: ProjectPlace) -> Page:
    tone, word = held.look_of(row)
    may = _rights(row, here)
    return Page(
        tone=tone,
        word=word,
        moving=row.state not in ENDED | {S.DELETED},
        may=may,
        notice=_notice(row),
        facts=_facts(row),
        conditions=held.conditions_of(row),
        log=log_of(row) if may.log else None,
    )


def urls_of(row: Job) -> dict[str, str]:
    at = [row.project.slug, row.pk]
    urls = {name: reverse(f"frontend:job_{name}", args=at) for name in DEEDS}
    urls["again"] = held.url_of(row.again) if row.again is not None else ""
    return {**urls, "page": held.url_of(row), "workspace": held.url_of(row.workspace)}


def _rights(row: Job, here: ProjectPlace) -> Rights:
    """What the services decide, for showing buttons."""
    allowed, runs = held.allowed_now(row), may_run(row.workspace, here)
    return Rights(
        cancel=runs and Verb.SUSPEND in allowed,
        rerun=runs and row.workspace.state in WORKSPACE_ALLOWED[Verb.RUN].states,
        delete=runs and Verb.DELETE in allowed,
        log=runs and Verb.ENTER in allowed,
    )


def _notice(row: Job) -> Notice | None:
    """Why it does not run yet, or how it ended."""
    if row.state == S.QUEUED:
        place = position_of(row)
        title = f"Number {place} in the queue of {row.workspace.name}"
        return Notice(Tone.WAIT, title, sentence_of(row.waiting or "it starts once what it asks for is free"))
    if row.waiting:
        return Notice(Tone.WAIT, "It waits", sentence_of(row.waiting))
    if not row.failure or row.state == S.DELETED:
        return None
    if row.outcome == S.CANCELLED:
        return Notice(Tone.OFF, "It was cancelled", sentence_of(row.failure))
    return Notice(Tone.BAD, f"It failed: {row.cause}" if row.cause else "It failed", sentence_of(row.failure))


def _facts(row: Job) -> tuple[Fact, ...]:
    facts = [
        Fact("Image", row.image),
        Fact("Command", shlex.join(row.command) or "the image's own"),
        Fact("Arguments", shlex.join(row.arguments) or formats.NONE),
        Fact("GPUs", inside.gpus_of(row)),
        Fact("vCPU and memory", f"{row.vcpus} vCPU, {row.memory_gib} GiB"),
        Fact("Attempt", f"{row.attempt} of at most {row.retries + 1}" if row.attempt else formats.NONE),
        Fact("Deadline", f"{row.deadline_seconds:,} seconds" if row.deadline_seconds else "none"),
        Fact("Submitted", formats.when(row.created_at)),
        Fact("Started", formats.when(row.ready_at)),
        Fact("Ended", formats.when(row.finished_at)),
        Fact("Exit code", formats.NONE if row.exit_code is None else str(row.exit_code)),
        Fact("Node", str(row.observed.get("node") or formats.NONE)),
        Fact("Name at the site", row.external_name),
    ]
    if row.volume:
        facts.append(Fact("Volume", f"{row.volume} at {row.mount}"))
    return (*facts, *(Fact(name, value) for name, value in row.variables.items()))
