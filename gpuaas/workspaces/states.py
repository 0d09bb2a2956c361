"""States of a workspace, of its operations and of their steps."""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look, Machine
from gpuaas.lifecycle.allowed import Allowed, Verb, always, once_ready, while_asleep, while_awake
from gpuaas.lifecycle.operations import life_look
from gpuaas.providers.base import Change


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
        # the site confirmed the new counts; taken back while it waits for what has to go; given up; put to sleep by the
        # portal, which waits for nobody; deleted meanwhile
        S.RESIZING: frozenset({S.READY, S.RESIZING, S.FAILED, S.SUSPENDING, S.DELETING}),
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
STAYING = LIVE - {S.DELETING}
# what is compared with the site: in periods, and all of a site when somebody asks for it
LOOKED_AT = frozenset({S.READY, S.RESIZING, S.SUSPENDING, S.SUSPENDED, S.FAILED})
CHECKS_PER_SECOND = 10  # so that a large site is not asked everything in one second
# members stay in while nothing runs: their data is there
ENTERED = frozenset({S.READY, S.RESIZING, S.SUSPENDING, S.SUSPENDED, S.RESUMING})
ALLOWED: dict[Verb, Allowed] = {
    Verb.RETRY: Allowed(frozenset(), always),
    # while another one is under way only where that waits for what runs to end
    Verb.RESIZE: Allowed(frozenset({S.READY, S.RESIZING}), while_awake),
    Verb.SUSPEND: Allowed(frozenset({S.READY, S.RESUMING}), once_ready),
    Verb.RESUME: Allowed(frozenset({S.SUSPENDING, S.SUSPENDED}), while_asleep),
    Verb.EXTEND: Allowed(STAYING),
    Verb.DELETE: Allowed(STAYING),
    Verb.MANAGE: Allowed(STAYING),
    Verb.ENTER: Allowed(ENTERED, once_ready),
}


# while a change is under way, and which one
CHANGING: dict[WorkspaceState, Change] = {
    S.REQUESTED: Change.CREATE,
    S.PROVISIONING: Change.CREATE,
    S.RESIZING: Change.RESIZE,
    S.SUSPENDING: Change.SUSPEND,
    S.RESUMING: Change.RESUME,
    S.DELETING: Change.DELETE,
}


class OperationKind(models.TextChoices):
    CREATE = "create", "Creation"
    RESIZE = "resize", "Resize"
    SUSPEND = "suspend", "Suspension"
    RESUME = "resume", "Resumption"
    ADOPT = "adopt", "Adoption"
    DELETE = "delete", "Deletion"


class AccessRole(models.TextChoices):
    """The role of a member inside the workspace; the driver maps it to rights at the site."""

    ADMIN = "admin", "Admin"
    EDIT = "edit", "Edit"
    VIEW = "view", "View"


class DriftState(models.TextChoices):
    """Open: it still differs, because the site's policy is only to observe, or because the repair is not confirmed."""

    OPEN = "open", "Open"
    REPAIRED = "repaired", "Repaired"
    GONE = "gone", "Gone without repair"


DRIFT_LOOKS: dict[DriftState, Look] = {
    DriftState.OPEN: Look("Open", Tone.WARN, "alert"),
    DriftState.REPAIRED: Look("Repaired", Tone.OK, "check"),
    DriftState.GONE: Look("Gone without repair", Tone.OFF, "minus"),
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
