"""States of a job and of its operations, and what may be asked in them.

The values are those of the frame (`gpuaas/lifecycle/states.py`) where they mean the same to it; people, pages and the API read
the names. The edges are a job's own: it runs once, so nothing leads back, but to another attempt of tasks that
run together.
"""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look, Machine
from gpuaas.lifecycle.allowed import Allowed, Verb
from gpuaas.lifecycle.states import life_look
from gpuaas.providers.base import Change


class JobState(models.TextChoices):
    QUEUED = "requested", "Queued"
    STARTING = "provisioning", "Starting"
    RUNNING = "ready", "Running"
    ENDING = "suspending", "Ending"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "suspended", "Cancelled"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = JobState

CHANGING = {S.STARTING: Change.CREATE, S.ENDING: Change.SUSPEND, S.DELETING: Change.DELETE}
# it has ended, and nothing of it is at the site
ENDED = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED})
LIVE = frozenset(S) - {S.DELETED}
MACHINE = Machine(
    looks={
        **{state: life_look(state) for state in S},
        S.RUNNING: Look(str(S.RUNNING.label), Tone.BUSY, "loader"),
        S.SUCCEEDED: Look(str(S.SUCCEEDED.label), Tone.OK, "check"),
        S.CANCELLED: Look(str(S.CANCELLED.label), Tone.OFF, "x"),
    },
    edges={
        # it has room now; or it is cancelled before
        S.QUEUED: frozenset({S.STARTING, S.CANCELLED, S.DELETING}),
        S.STARTING: frozenset({S.RUNNING, S.ENDING, S.DELETING}),
        # to start again, of tasks that run together, of which one has failed
        S.RUNNING: frozenset({S.STARTING, S.ENDING, S.DELETING}),
        # the site holds nothing of it any more: how it ended is known since before
        S.ENDING: frozenset({*ENDED, S.DELETING}),
        **{state: frozenset({S.DELETING}) for state in ENDED},
        S.DELETING: frozenset({S.DELETED}),
        S.DELETED: frozenset(),
    },
)
ALLOWED = {
    # to cancel it
    Verb.SUSPEND: Allowed(frozenset({S.QUEUED, S.STARTING, S.RUNNING})),
    Verb.DELETE: Allowed(frozenset(S) - {S.DELETING, S.DELETED}),
    # its log
    Verb.ENTER: Allowed(LIVE),
    # to follow the log of a task
    Verb.RUN: Allowed(frozenset({S.QUEUED, S.STARTING, S.RUNNING})),
}


class TaskState(models.TextChoices):
    """Of one task of several. ENDED: with its job, and not by itself."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    ENDED = "ended", "Ended"


class OperationKind(models.TextChoices):
    CREATE = "create", "Start"
    SUSPEND = "suspend", "End"
    DELETE = "delete", "Deletion"
