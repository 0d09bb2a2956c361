"""A job as its pages show it: rows of the list, and the page of one."""

import shlex
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend import formats
from frontend.components import Action, Fact, Meter, Notice
from frontend.forms import sentence_of
from frontend.place import ProjectPlace
from frontend.presenters import held, inside
from frontend.presenters.kept import kept_words
from frontend.presenters.machines import may_run
from frontend.presenters.transfers import Files, files_of
from gpuaas.core.looks import Tone
from gpuaas.jobs.models import Job, JobLog, TaskLog
from gpuaas.jobs.outlook import starts_by
from gpuaas.jobs.seen import Task, counts_of, moved_of
from gpuaas.jobs.seen import tasks_of as seen_of
from gpuaas.jobs.selectors import log_chosen, logs_taken, position_of
from gpuaas.jobs.services.queue import BEHIND
from gpuaas.jobs.states import ENDED, JobState, TaskState
from gpuaas.lifecycle.allowed import Verb
from gpuaas.staging.transfers import Way
from gpuaas.workspaces.states import ALLOWED as WORKSPACE_ALLOWED
from tenants.roles import Permission

S = JobState
DEEDS = ("file", "gpus", "template_of", "cancel", "rerun", "retry", "delete", "follow", "prioritize")
TASK_TONES = {
    TaskState.FAILED: Tone.BAD,
    TaskState.RUNNING: Tone.BUSY,
    TaskState.WAITING: Tone.WAIT,
    TaskState.ENDED: Tone.OFF,
    TaskState.SUCCEEDED: Tone.OK,
}


FOLLOWED = frozenset({TaskState.WAITING, TaskState.RUNNING})


@dataclass(frozen=True)
class Row(inside.Row):
    note: str
    tasks: int
    priority: str
    place: str
    finished_at: datetime | None


@dataclass(frozen=True)
class Rights:
    cancel: bool
    rerun: bool
    delete: bool
    log: bool
    follow: bool
    retry: bool
    prioritize: bool
    save: bool
    file: bool


@dataclass(frozen=True)
class Page:
    tone: Tone
    word: str
    moving: bool
    may: Rights
    notice: Notice | None
    facts: tuple[Fact, ...]
    conditions: tuple[held.ConditionRow, ...]
    log: JobLog | TaskLog | None
    no_log: str
    task: int | None
    followed: int | None
    progress: Meter | None
    files: Files
    why_not: str
    kept: str

    @property
    def following(self) -> str:
        return "" if self.followed is None else f"Task {self.followed} is followed; one is at a time."


@dataclass(frozen=True)
class TaskRow:
    """log_url: "" where it is not kept; follows: whether it can be asked for; followed: whether it was."""

    number: int
    tone: Tone
    word: str
    node: str
    attempt: int | None
    exit_code: int | None
    reason: str
    log_url: str
    follows: bool
    followed: bool

    @property
    def follow(self) -> str:
        return f"Follow the log of task {self.number}"


def row_of(row: Job) -> Row:
    fields, note = inside.fields_of(row), row.waiting or row.cause
    if not note and row.state == S.FAILED and row.staging:
        note = f"its {row.staging}puts could not be moved"
    if row.tasks > 1:
        each = f"{row.tasks:,} tasks, each "
        fields |= {
            "size": each + fields["size"],
            "gpus": each + fields["gpus"] if row.gpus else fields["gpus"],
        }
        note = note or (_counts_in_words(row) if row.observed else "")
    fields |= {"place": row.place.name if row.place is not None else "", "note": note}
    return Row(**fields, tasks=row.tasks, priority=row.priority, finished_at=row.finished_at)


def page_of(row: Job, here: ProjectPlace, task: int | None = None) -> Page:
    """task: whose log is asked for."""
    tone, word = held.look_of(row)
    may = _rights(row, here)
    chosen, log = log_chosen(row, task) if may.log else (task, None)
    return Page(
        tone=tone,
        word=word,
        moving=row.state not in ENDED | {S.DELETED},
        may=may,
        notice=_notice(row),
        facts=(*_facts(row), *inside.cost_facts(row, here)),
        conditions=held.conditions_of(row),
        log=log,
        no_log=_no_log(row, chosen),
        task=chosen if row.tasks > 1 else None,
        followed=row.followed if may.follow else None,
        progress=_progress(row) if row.tasks > 1 else None,
        files=files_of({way: moved_of(row, way) for way in Way}, row.moved, over=bool(row.outcome)),
        kept=kept_words(row.emptied_at, "its variables and its log"),
        why_not="" if row.state == S.DELETED else inside.why_not(row, here),
    )


def tasks_of(row: Job) -> list[Task]:
    """Those first that people look for."""
    order = list(TASK_TONES)
    return sorted(seen_of(row), key=lambda task: (order.index(task.state), task.number))


def task_rows(row: Job, page: Page, tasks: list[Task]) -> list[TaskRow]:
    kept = set(logs_taken(row)) if page.may.log else set()
    return [
        TaskRow(
            number=task.number,
            tone=TASK_TONES[task.state],
            word=str(task.state.label),
            node=task.node or formats.NONE,
            attempt=task.attempt or None,
            exit_code=task.exit_code,
            reason=task.reason,
            log_url=f"{held.url_of(row)}?task={task.number}" if task.number in kept else "",
            follows=page.may.follow and task.number != row.followed and task.state in FOLLOWED,
            followed=task.number == page.followed and task.state in FOLLOWED,
        )
        for task in tasks
    ]


def _no_log(row: Job, task: int | None) -> str:
    """Why there is none of it, and what a reader can do."""
    if row.emptied_at is not None:
        return "it is not kept any more."
    if row.state in ENDED or row.state == S.DELETING:
        return "nothing of it was taken before it ended."
    if row.tasks == 1 or not held.kind_of(row).may(row, Verb.RUN):
        return "nothing has been written yet."
    if task == row.followed:
        return "nothing has been taken of it yet. It is followed, so its log is taken as soon as it writes something."
    return "nothing has been taken of it. Follow it below to have its log taken while it runs."


def _progress(row: Job) -> Meter:
    found = counts_of(row)
    done, busy = (found.get(state, 0) for state in (TaskState.SUCCEEDED, TaskState.RUNNING))
    return Meter(done, held=busy, limit=row.tasks, label="Tasks", text=_counts_in_words(row))


def _counts_in_words(row: Job) -> str:
    found = counts_of(row)
    order = (TaskState.SUCCEEDED, TaskState.RUNNING, TaskState.FAILED, TaskState.WAITING, TaskState.ENDED)
    return ", ".join(f"{found[state]:,} {state.label.lower()}" for state in order if state in found)


def urls_of(row: Job) -> dict[str, str]:
    at = [row.project.slug, row.pk]
    urls = {name: reverse(f"frontend:job_{name}", args=at) for name in DEEDS}
    urls["place"] = held.url_of(row.place) if row.place is not None else ""
    urls["again"] = held.url_of(row.again) if row.again is not None else ""
    return {**urls, "page": held.url_of(row), "workspace": held.url_of(row.workspace)}


def _rights(row: Job, here: ProjectPlace) -> Rights:
    """What the services decide, for showing buttons."""
    allowed, runs = held.allowed_now(row), may_run(row.workspace, here)
    return Rights(
        cancel=runs and Verb.SUSPEND in allowed,
        rerun=runs and row.emptied_at is None and row.workspace.state in WORKSPACE_ALLOWED[Verb.RUN].states,
        delete=runs and Verb.DELETE in allowed,
        log=runs and Verb.ENTER in allowed,
        follow=runs and Verb.RUN in allowed,
        retry=runs and Verb.RETRY in allowed,
        prioritize=runs and Verb.MANAGE in allowed,
        save=row.emptied_at is None and here.can(Permission.WORKSPACE_ACCESS),
        file=row.emptied_at is None,
    )


def _notice(row: Job) -> Notice | None:
    """Why it does not run yet, or how it ended."""
    if row.state == S.QUEUED:
        place = position_of(row)
        title = f"Number {place} in the queue of {row.workspace.name}"
        words = sentence_of(row.waiting or waits(row, place))
        if (at := starts_by(row)) is not None:
            words = f"{words} It starts by {formats.when(at)} at the latest, if nothing comes before it."
        queue = reverse("frontend:job_queue", args=[row.project.slug, row.workspace_id])
        return Notice(Tone.WAIT, title, words, (Action("The whole queue", queue),))
    if row.waiting:
        return Notice(Tone.WAIT, "It waits", sentence_of(row.waiting))
    if not row.failure or row.state == S.DELETED:
        return None
    if row.outcome == S.CANCELLED:
        return Notice(Tone.OFF, "It was cancelled", sentence_of(row.failure))
    title = f"It failed: {row.cause}" if row.cause else "It failed"
    return Notice(Tone.BAD, title, sentence_of(row.failure))


def waits(row: Job, place: int | None) -> str:
    """Until the queue has looked at it."""
    if place != 1:
        return BEHIND
    count = row.takes["gpus"]
    gpus = f"{count:,} {'GPU' if count == 1 else 'GPUs'}, " if count else ""
    cpus, memory = row.takes["vcpus"], row.takes["memory_gib"]
    return f"it starts once {gpus}{cpus:,} vCPU and {memory:,} GiB are free in {row.workspace.name}"


def _facts(row: Job) -> tuple[Fact, ...]:
    of_each = " of each task" if row.tasks > 1 else ""
    facts = [
        Fact("Image", row.image),
        *_script_facts(row),
        *_tasks_facts(row),
        Fact(f"GPUs{of_each}", inside.gpus_of(row)),
        Fact(f"vCPU and memory{of_each}", f"{row.vcpus:,} vCPU, {row.memory_gib:,} GiB"),
        *inside.spot_facts(row),
        *_place_facts(row),
        Fact("Priority", row.get_priority_display().lower()),
        Fact("Attempt", _attempt_of(row)),
        Fact("Deadline", formats.duration(row.deadline_seconds) if row.deadline_seconds else "none"),
        Fact("Submitted", formats.when(row.created_at)),
        Fact("Started", formats.when(row.ready_at)),
        Fact("Ended", formats.when(row.finished_at)),
        Fact("Exit code", formats.NONE if row.exit_code is None else str(row.exit_code)),
        *([Fact("Node", str(row.observed.get("node") or formats.NONE))] if row.tasks == 1 else []),
        Fact("Name at the site", row.external_name),
    ]
    if row.mail:
        facts.append(Fact("E-mail at its end", f"to {row.created_by.username}"))
    if row.template:
        facts.append(Fact("Template", row.template))
    if row.volume:
        facts.append(Fact("Volume", f"{row.volume} at {row.mount}"))
    return (*facts, *(Fact(name, value) for name, value in row.variables.items()))


def _place_facts(row: Job) -> list[Fact]:
    if row.place is not None:
        ran = "Runs in" if row.holding else "Ran in"
        words = (
            f"{row.place.name}, since {formats.when(row.placed_at)}: {row.workspace.name} had no room for it"
        )
        return [Fact(ran, words)]
    return (
        [Fact("May run in", "another workspace of the project while this one is full")] if row.borrow else []
    )


def _script_facts(row: Job) -> list[Fact]:
    if row.emptied_at is not None:
        return []
    command, arguments = shlex.join(row.command), shlex.join(row.arguments)
    return [Fact("Command", command or "the image's own"), Fact("Arguments", arguments or formats.NONE)]


def _tasks_facts(row: Job) -> list[Fact]:
    at_once = "together" if row.together else f"{row.at_once:,} at once"
    at_once += f", started by {row.get_launcher_display()}" if row.launcher else ""
    at_once += f", by the training runtime {row.runtime}" if row.runtime else ""
    return [Fact("Tasks", f"{row.tasks:,}, {at_once}")] if row.tasks > 1 else []


def _attempt_of(row: Job) -> str:
    if row.tasks > 1 and not row.together:
        return f"each task has at most {row.retries + 1}"
    return f"{row.attempt} of at most {row.retries + 1}" if row.attempt else formats.NONE
