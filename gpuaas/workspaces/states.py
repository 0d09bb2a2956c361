"""States of a workspace, of its operations and of their steps."""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look, Machine


class WorkspaceState(models.TextChoices):
    REQUESTED = "requested", "Requested"
    PROVISIONING = "provisioning", "Provisioning"
    READY = "ready", "Ready"
    RESIZING = "resizing", "Resizing"
    FAILED = "failed", "Failed"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = WorkspaceState

MACHINE: Machine[WorkspaceState] = Machine(
    looks={
        S.REQUESTED: Look("Requested", Tone.WAIT, "clock"),
        S.PROVISIONING: Look("Provisioning", Tone.BUSY, "loader"),
        S.READY: Look("Ready", Tone.OK, "check"),
        S.RESIZING: Look("Resizing", Tone.BUSY, "loader"),
        S.FAILED: Look("Failed", Tone.BAD, "alert"),
        S.DELETING: Look("Deleting", Tone.BUSY, "loader"),
        S.DELETED: Look("Deleted", Tone.OFF, "minus"),
    },
    edges={
        # accepted and reserved; the reconciler takes it up, or the tenant changes their mind first
        S.REQUESTED: frozenset({S.PROVISIONING, S.DELETING}),
        # all steps confirmed; given up after the last retry; deleted while it is being made
        S.PROVISIONING: frozenset({S.READY, S.FAILED, S.DELETING}),
        # new counts asked; the lease is over or the tenant deletes
        S.READY: frozenset({S.RESIZING, S.DELETING}),
        # the site confirmed the new counts; given up; deleted meanwhile
        S.RESIZING: frozenset({S.READY, S.FAILED, S.DELETING}),
        # retried by hand: to making or to resizing, whichever failed; or deleted
        S.FAILED: frozenset({S.PROVISIONING, S.RESIZING, S.DELETING}),
        # the site holds nothing of it any more
        S.DELETING: frozenset({S.DELETED}),
        S.DELETED: frozenset(),
    },
)

LIVE = frozenset(set(S) - {S.DELETED})


class OperationKind(models.TextChoices):
    CREATE = "create", "Creation"
    RESIZE = "resize", "Resize"
    DELETE = "delete", "Deletion"


class StepState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


STEP_LOOKS: dict[StepState, Look] = {
    StepState.WAITING: Look("Waiting", Tone.WAIT, "clock"),
    StepState.RUNNING: Look("Running", Tone.BUSY, "loader"),
    StepState.DONE: Look("Done", Tone.OK, "check"),
    StepState.FAILED: Look("Failed", Tone.BAD, "alert"),
}


class AccessRole(models.TextChoices):
    """Of a member inside the workspace; the driver maps it to rights at the site."""

    ADMIN = "admin", "Admin"
    EDIT = "edit", "Edit"
    VIEW = "view", "View"
