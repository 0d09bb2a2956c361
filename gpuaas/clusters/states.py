"""States of a cluster and of a template."""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.operations import life_look
from gpuaas.core.statemachine import Look, Machine
from gpuaas.providers.base import ClusterChange


class ClusterState(models.TextChoices):
    REQUESTED = "requested", "Requested"
    PROVISIONING = "provisioning", "Provisioning"
    READY = "ready", "Ready"
    SCALING = "scaling", "Scaling"
    UPGRADING = "upgrading", "Upgrading"
    SUSPENDING = "suspending", "Suspending"
    SUSPENDED = "suspended", "Suspended"
    RESUMING = "resuming", "Resuming"
    FAILED = "failed", "Failed"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = ClusterState

MACHINE: Machine[ClusterState] = Machine(
    looks={state: life_look(state) for state in S},
    edges={
        # accepted and reserved; the reconciler takes it up, or the tenant changes their mind first
        S.REQUESTED: frozenset({S.PROVISIONING, S.DELETING}),
        # all steps confirmed; given up after the last retry; deleted while it is being made
        S.PROVISIONING: frozenset({S.READY, S.FAILED, S.DELETING}),
        # other counts, another release, put to sleep by hand or at the end of the lease; deleted; claimed from a warm pool: then
        # it is brought under its new project
        S.READY: frozenset({S.SCALING, S.UPGRADING, S.SUSPENDING, S.PROVISIONING, S.DELETING}),
        # the site confirmed; given up; deleted meanwhile
        S.SCALING: frozenset({S.READY, S.FAILED, S.DELETING}),
        S.UPGRADING: frozenset({S.READY, S.FAILED, S.DELETING}),
        # no worker is left and its GPUs are given back; deleted
        S.SUSPENDING: frozenset({S.SUSPENDED, S.DELETING}),
        # woken, if its GPUs can be reserved anew; deleted
        S.SUSPENDED: frozenset({S.RESUMING, S.DELETING}),
        # all workers are back; given up; deleted
        S.RESUMING: frozenset({S.READY, S.FAILED, S.DELETING}),
        # retried from the step that failed; a failed scaling also taken back or changed; put to sleep; or deleted
        S.FAILED: frozenset({S.PROVISIONING, S.SCALING, S.UPGRADING, S.RESUMING, S.SUSPENDING, S.DELETING}),
        # a sweep of the site found nothing of it any more
        S.DELETING: frozenset({S.DELETED}),
        S.DELETED: frozenset(),
    },
)

LIVE = frozenset(set(S) - {S.DELETED})
# while a change is under way, and which one
CHANGING: dict[ClusterState, ClusterChange] = {
    S.REQUESTED: ClusterChange.CREATE,
    S.PROVISIONING: ClusterChange.CREATE,
    S.SCALING: ClusterChange.SCALE,
    S.UPGRADING: ClusterChange.UPGRADE,
    S.SUSPENDING: ClusterChange.SUSPEND,
    S.RESUMING: ClusterChange.RESUME,
    S.DELETING: ClusterChange.DELETE,
}
STATE_OF: dict[ClusterChange, ClusterState] = {
    change: state for state, change in CHANGING.items() if state != S.REQUESTED
}
CLAIM = "claim"  # the kind of an operation: the steps of a creation, on what is there already


def change_of(kind: str) -> ClusterChange:
    """What an operation of the kind asks of the driver."""
    return ClusterChange.CREATE if kind == CLAIM else ClusterChange(kind)


class TemplateState(models.TextChoices):
    """Deprecated: still ordered, with a warning. Retired: nothing new; what was made of it lives on."""

    DRAFT = "draft", "Draft"
    ACTIVE = "active", "Active"
    DEPRECATED = "deprecated", "Deprecated"
    RETIRED = "retired", "Retired"


TEMPLATE_LOOKS: dict[TemplateState, Look] = {
    TemplateState.DRAFT: Look("Draft", Tone.WAIT, "pencil"),
    TemplateState.ACTIVE: Look("Active", Tone.OK, "check"),
    TemplateState.DEPRECATED: Look("Deprecated", Tone.WARN, "alert"),
    TemplateState.RETIRED: Look("Retired", Tone.OFF, "minus"),
}


class GrantStanding(models.TextChoices):
    """Of a credential. Ending: the site has not confirmed yet."""

    VALID = "valid", "Valid"
    ENDING = "ending", "Ending"
    REVOKED = "revoked", "Revoked"
    EXPIRED = "expired", "Expired"


CLUSTER_KINDS = [("kubernetes", "Kubernetes"), ("slurm", "Slurm")]
CHANGE_KINDS = [
    ("create", "Creation"),
    (CLAIM, "Claim"),
    ("scale", "Scaling"),
    ("upgrade", "Upgrade"),
    ("suspend", "Suspension"),
    ("resume", "Resumption"),
    ("delete", "Deletion"),
]
