"""States of a cluster and of a template."""

from typing import Any

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look, Machine
from gpuaas.lifecycle.allowed import Allowed, Verb, always, once_ready, while_asleep
from gpuaas.lifecycle.operations import life_look
from gpuaas.providers.base import Change


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
        # the site confirmed; given up; put to sleep by the portal, which waits for nobody; deleted meanwhile
        S.SCALING: frozenset({S.READY, S.FAILED, S.SUSPENDING, S.DELETING}),
        S.UPGRADING: frozenset({S.READY, S.FAILED, S.SUSPENDING, S.DELETING}),
        # no worker is left and its GPUs are given back; deleted
        S.SUSPENDING: frozenset({S.SUSPENDED, S.DELETING}),
        # woken, if its GPUs can be reserved anew; deleted
        S.SUSPENDED: frozenset({S.RESUMING, S.DELETING}),
        # all workers are back; given up; put back to sleep by the portal; deleted
        S.RESUMING: frozenset({S.READY, S.FAILED, S.SUSPENDING, S.DELETING}),
        # retried from the step that failed; a failed scaling also taken back or changed; put to sleep; or deleted
        S.FAILED: frozenset({S.PROVISIONING, S.SCALING, S.UPGRADING, S.RESUMING, S.SUSPENDING, S.DELETING}),
        # a sweep of the site found nothing of it any more
        S.DELETING: frozenset({S.DELETED}),
        S.DELETED: frozenset(),
    },
)

LIVE = frozenset(set(S) - {S.DELETED})
STAYING = LIVE - {S.DELETING}
OVERTAKEN = frozenset({S.SCALING, S.UPGRADING, S.RESUMING})
ENTERED = frozenset({S.READY, S.SCALING, S.UPGRADING, S.SUSPENDING, S.SUSPENDED, S.RESUMING})


def failed_at(row: Any) -> str:
    """The kind of operation that failed."""
    newest = row.operations.first()
    return str(newest.kind) if newest else ""


def _failed_to_scale(row: Any) -> str:
    same = failed_at(row) == Change.SCALE
    return "" if same else "another operation failed before: retry that one, or delete the cluster"


def _not_half_way(row: Any) -> str:
    half_way = failed_at(row) == Change.UPGRADE
    return once_ready(row) or ("an upgrade failed halfway: retry it first" if half_way else "")


ALLOWED: dict[Verb, Allowed] = {
    Verb.RETRY: Allowed(frozenset(), always),
    Verb.RESIZE: Allowed(frozenset({S.READY}), _failed_to_scale),
    Verb.UPGRADE: Allowed(frozenset({S.READY})),
    Verb.SUSPEND: Allowed(frozenset({S.READY}), _not_half_way),
    Verb.RESUME: Allowed(frozenset({S.SUSPENDED}), while_asleep),
    Verb.EXTEND: Allowed(STAYING),
    Verb.DELETE: Allowed(STAYING),
    Verb.MANAGE: Allowed(STAYING),
    Verb.ENTER: Allowed(ENTERED, once_ready),
}
# while a change is under way, and which one
CHANGING: dict[ClusterState, Change] = {
    S.REQUESTED: Change.CREATE,
    S.PROVISIONING: Change.CREATE,
    S.SCALING: Change.SCALE,
    S.UPGRADING: Change.UPGRADE,
    S.SUSPENDING: Change.SUSPEND,
    S.RESUMING: Change.RESUME,
    S.DELETING: Change.DELETE,
}
STATE_OF: dict[Change, ClusterState] = {
    change: state for state, change in CHANGING.items() if state != S.REQUESTED
}
CLAIM = "claim"  # the kind of an operation: the steps of a creation, on what is there already


def change_of(kind: str) -> Change:
    """The driver's change for a kind of operation."""
    return Change.CREATE if kind == CLAIM else Change(kind)


class TemplateState(models.TextChoices):
    """Deprecated: can still be ordered, with a warning. Retired: no new orders; existing clusters continue."""

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
