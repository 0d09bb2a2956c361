"""States of a workspace, of its operations and of their steps."""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look, Machine
from gpuaas.lifecycle.allowed import Allowed, Verb, once_ready, while_asleep, while_awake
from gpuaas.lifecycle.states import life_allowed, life_changing, life_machine
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

OWN = {S.RESIZING: Change.RESIZE}
CHANGING = life_changing(S, OWN)
MACHINE = life_machine(
    S,
    OWN,
    also={
        # taken back while it waits for what has to go
        S.RESIZING: {S.RESIZING},
        # woken again while it was falling asleep
        S.SUSPENDING: {S.RESUMING},
    },
)

LIVE = frozenset(set(S) - {S.DELETED})
STAYING = LIVE - {S.DELETING}
# what is compared with the site: in periods, and all of a site when somebody asks for it
LOOKED_AT = frozenset({S.READY, S.RESIZING, S.SUSPENDING, S.SUSPENDED, S.FAILED})
CHECKS_PER_SECOND = 10  # so that a large site is not asked everything in one second
ALLOWED: dict[Verb, Allowed] = {
    **life_allowed(S),
    # while another one is under way only where that waits for what runs to end
    Verb.RESIZE: Allowed(frozenset({S.READY, S.RESIZING}), while_awake),
    Verb.SUSPEND: Allowed(frozenset({S.READY, S.RESUMING}), once_ready),
    Verb.RESUME: Allowed(frozenset({S.SUSPENDING, S.SUSPENDED}), while_asleep),
    Verb.COMPARE: Allowed(LOOKED_AT),
    Verb.ORDER: Allowed(frozenset({S.READY})),
    Verb.RUN: Allowed(frozenset({S.READY, S.RESIZING})),
    Verb.HALT: Allowed(STAYING - {S.REQUESTED, S.PROVISIONING}),
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
