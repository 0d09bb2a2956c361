"""States of a job and of its operations, and what may be asked in them.

The values are those of the frame (`gpuaas/lifecycle/states.py`) where they mean the same to it; people, pages and the API read
the names. The edges are a job's own: it runs once, so nothing leads back, but to another attempt of tasks that
run together, to start after it was ended for a buyer, to wait again after it was a guest, and to move files that could not be
moved.
"""

from typing import Any

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.retention import EMPTIED
from gpuaas.core.statemachine import Look, Machine
from gpuaas.lifecycle.allowed import Allowed, Verb
from gpuaas.lifecycle.states import life_look
from gpuaas.providers.base import Change
from gpuaas.staging.transfers import Way


class JobState(models.TextChoices):
    STAGING_IN = "staging_in", "Staging in"
    QUEUED = "requested", "Queued"
    STARTING = "provisioning", "Starting"
    RUNNING = "ready", "Running"
    ENDING = "suspending", "Ending"
    STAGING_OUT = "staging_out", "Staging out"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "suspended", "Cancelled"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = JobState

CHANGING = {S.STARTING: Change.CREATE, S.ENDING: Change.SUSPEND, S.DELETING: Change.DELETE}
# while its files are moved: no GPU is held; at the site a mover is made, which is a job without GPUs
STAGING = {S.STAGING_IN: Change.CREATE, S.STAGING_OUT: Change.CREATE}
STAGING_OF = {Way.IN: S.STAGING_IN, Way.OUT: S.STAGING_OUT}
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
        # its inputs are there; the mover failed, or it is cancelled while that is there; cancelled before
        S.STAGING_IN: frozenset({S.QUEUED, S.ENDING, S.CANCELLED, S.DELETING}),
        # it has room now; or it is cancelled before
        S.QUEUED: frozenset({S.STARTING, S.CANCELLED, S.DELETING}),
        S.STARTING: frozenset({S.RUNNING, S.ENDING, S.DELETING}),
        # to start again: of tasks that run together, of which one has failed; or once it was ended for a buyer
        S.RUNNING: frozenset({S.STARTING, S.ENDING, S.DELETING}),
        # the site holds nothing of it any more: how it ended is known since before
        # or it had to leave the workspace that it was a guest of, and waits in its own queue again
        S.ENDING: frozenset({*ENDED, S.STAGING_OUT, S.QUEUED, S.DELETING}),
        # its outputs are where they belong; the rest as in staging in
        S.STAGING_OUT: frozenset({S.SUCCEEDED, S.ENDING, S.CANCELLED, S.DELETING}),
        **{state: frozenset({S.DELETING}) for state in ENDED},
        # what could not be moved is tried again
        S.FAILED: frozenset({S.STAGING_IN, S.STAGING_OUT, S.DELETING}),
        S.DELETING: frozenset({S.DELETED}),
        S.DELETED: frozenset(),
    },
)


def _unmoved(row: Any) -> str:
    if row.emptied_at is not None:
        return EMPTIED
    return "" if row.staging else "its files were not what failed: run it again"


ALLOWED = {
    # to cancel it
    Verb.SUSPEND: Allowed(frozenset({S.STAGING_IN, S.QUEUED, S.STARTING, S.RUNNING, S.STAGING_OUT})),
    # to move its files again
    Verb.RETRY: Allowed(frozenset(), _unmoved),
    Verb.DELETE: Allowed(frozenset(S) - {S.DELETING, S.DELETED}),
    # its log
    Verb.ENTER: Allowed(LIVE),
    # its priority
    Verb.MANAGE: Allowed(frozenset({S.STAGING_IN, S.QUEUED})),
    # to follow the log of a task
    Verb.RUN: Allowed(frozenset({S.QUEUED, S.STARTING, S.RUNNING})),
}


class Priority(models.TextChoices):
    """In the order in which jobs leave the queue of their workspace."""

    HIGH = "high", "High"
    NORMAL = "normal", "Normal"
    LOW = "low", "Low"


class Launcher(models.TextChoices):
    """What starts the processes of tasks that run together, from task 0."""

    MPI = "mpi", "MPI"


class TaskState(models.TextChoices):
    """Of one task of several. ENDED: with its job, and not by itself."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    ENDED = "ended", "Ended"


class OperationKind(models.TextChoices):
    CREATE = "create", "Start"
    STAGING_IN = "staging_in", "Staging in"
    STAGING_OUT = "staging_out", "Staging out"
    SUSPEND = "suspend", "End"
    DELETE = "delete", "Deletion"


class CredentialKind(models.TextChoices):
    S3 = "s3", "S3"
