"""States of a workspace, of its operations and of their steps."""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.operations import STEP_LOOKS, StepState, life_look
from gpuaas.core.statemachine import Look, Machine

__all__ = ["STEP_LOOKS", "StepState"]  # of every operation, here for those of workspaces


class WorkspaceState(models.TextChoices):
    REQUESTED = "requested", "Requested"
    PROVISIONING = "provisioning", "Provisioning"
    READY = "ready", "Ready"
    RESIZING = "resizing", "Resizing"
    SUSPENDING = "suspending", "Suspending"
    SUSPENDED = "suspended", "Suspended"
    RESUMING = "resuming", "Resuming"
    FAILED = "failed", "Failed"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = WorkspaceState

MACHINE: Machine[WorkspaceState] = Machine(
    looks={state: life_look(state) for state in S},
    edges={
        # accepted and reserved; the reconciler takes it up, or the tenant changes their mind first
        S.REQUESTED: frozenset({S.PROVISIONING, S.DELETING}),
        # all steps confirmed; given up after the last retry; deleted while it is being made
        S.PROVISIONING: frozenset({S.READY, S.FAILED, S.DELETING}),
        # new counts asked; put to sleep by hand, by a budget or at the end of the lease; deleted
        S.READY: frozenset({S.RESIZING, S.SUSPENDING, S.DELETING}),
        # the site confirmed the new counts; taken back while it waits for what has to go; given up; deleted meanwhile
        S.RESIZING: frozenset({S.READY, S.RESIZING, S.FAILED, S.DELETING}),
        # nothing of it runs and its GPUs are given back; woken again while it was falling asleep; deleted
        S.SUSPENDING: frozenset({S.SUSPENDED, S.RESUMING, S.DELETING}),
        # woken, if its GPUs can be reserved anew; deleted
        S.SUSPENDED: frozenset({S.RESUMING, S.DELETING}),
        # all that it had is there again; given up; put back to sleep; deleted
        S.RESUMING: frozenset({S.READY, S.FAILED, S.SUSPENDING, S.DELETING}),
        # retried by hand: to making, resizing or waking, whichever failed; put to sleep; or deleted
        S.FAILED: frozenset({S.PROVISIONING, S.RESIZING, S.RESUMING, S.SUSPENDING, S.DELETING}),
        # the site holds nothing of it any more
        S.DELETING: frozenset({S.DELETED}),
        S.DELETED: frozenset(),
    },
)

LIVE = frozenset(set(S) - {S.DELETED})


class OperationKind(models.TextChoices):
    CREATE = "create", "Creation"
    RESIZE = "resize", "Resize"
    SUSPEND = "suspend", "Suspension"
    RESUME = "resume", "Resumption"
    ADOPT = "adopt", "Adoption"
    DELETE = "delete", "Deletion"


class AccessRole(models.TextChoices):
    """Of a member inside the workspace; the driver maps it to rights at the site."""

    ADMIN = "admin", "Admin"
    EDIT = "edit", "Edit"
    VIEW = "view", "View"


class GrantStanding(models.TextChoices):
    """Of a credential that was issued. Ending: asked to be ended, the site has not confirmed it yet."""

    VALID = "valid", "Valid"
    ENDING = "ending", "Ending"
    REVOKED = "revoked", "Revoked"
    EXPIRED = "expired", "Expired"


GRANT_LOOKS: dict[GrantStanding, Look] = {
    GrantStanding.VALID: Look("Valid", Tone.OK, "check"),
    GrantStanding.ENDING: Look("Ending", Tone.BUSY, "loader"),
    GrantStanding.REVOKED: Look("Revoked", Tone.OFF, "ban"),
    GrantStanding.EXPIRED: Look("Expired", Tone.OFF, "clock"),
}


class DriftState(models.TextChoices):
    """Open: it still differs, and the site's policy is only to observe, or the repair has not been confirmed."""

    OPEN = "open", "Open"
    REPAIRED = "repaired", "Repaired"
    GONE = "gone", "Gone by itself"


DRIFT_LOOKS: dict[DriftState, Look] = {
    DriftState.OPEN: Look("Open", Tone.WARN, "alert"),
    DriftState.REPAIRED: Look("Repaired", Tone.OK, "check"),
    DriftState.GONE: Look("Gone by itself", Tone.OFF, "minus"),
}


class AdoptionState(models.TextChoices):
    PLANNING = "planning", "Planning"
    PLANNED = "planned", "Planned"
    CONFIRMED = "confirmed", "Confirmed"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    DISCARDED = "discarded", "Discarded"


A = AdoptionState

ADOPTION: Machine[AdoptionState] = Machine(
    looks={
        A.PLANNING: Look("Planning", Tone.BUSY, "loader"),
        A.PLANNED: Look("Planned", Tone.WAIT, "list-check"),
        A.CONFIRMED: Look("Confirmed", Tone.BUSY, "loader"),
        A.DONE: Look("Done", Tone.OK, "check"),
        A.FAILED: Look("Failed", Tone.BAD, "alert"),
        A.DISCARDED: Look("Discarded", Tone.OFF, "minus"),
    },
    edges={
        # the site was asked; it says that this can never be; an operator thought better of it
        A.PLANNING: frozenset({A.PLANNED, A.FAILED, A.DISCARDED}),
        # an operator has seen the plan and wants it; or not, or the plan is too old
        A.PLANNED: frozenset({A.CONFIRMED, A.DISCARDED}),
        # it carries the workspace's mark; it is no longer as it was when it was planned, or the workspace was deleted
        A.CONFIRMED: frozenset({A.DONE, A.FAILED}),
        A.DONE: frozenset(),
        A.FAILED: frozenset(),
        A.DISCARDED: frozenset(),
    },
)
