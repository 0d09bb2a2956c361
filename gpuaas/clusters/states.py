"""States of a cluster and of a template."""

from typing import Any

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look
from gpuaas.lifecycle.allowed import Allowed, Verb, once_ready, while_asleep
from gpuaas.lifecycle.states import life_allowed, life_changing, life_look, life_machine
from gpuaas.providers.base import Change
from gpuaas.staging.transfers import Way


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

OWN = {S.SCALING: Change.SCALE, S.UPGRADING: Change.UPGRADE}
CHANGING = life_changing(S, OWN)
# claimed from a warm pool: then it is brought under its new project
MACHINE = life_machine(S, OWN, also={S.READY: {S.PROVISIONING}})

LIVE = frozenset(set(S) - {S.DELETED})
OVERTAKEN = frozenset({S.SCALING, S.UPGRADING, S.RESUMING})


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
    **life_allowed(S),
    Verb.RESIZE: Allowed(frozenset({S.READY}), _failed_to_scale),
    Verb.UPGRADE: Allowed(frozenset({S.READY})),
    Verb.SUSPEND: Allowed(frozenset({S.READY}), _not_half_way),
    Verb.RESUME: Allowed(frozenset({S.SUSPENDED}), while_asleep),
}
CLAIM = "claim"  # the kind of an operation: the steps of a creation, on what is there already


def change_of(kind: str) -> Change:
    """The driver's change for a kind of operation."""
    return Change.CREATE if kind == CLAIM else Change(kind)


class ClusterJobState(models.TextChoices):
    """Of a job on a Slurm cluster. QUEUED: its head has not confirmed yet that Slurm has it. STAGING_IN, STAGING_OUT: its files are
    moved, by a job of Slurm's without GPUs."""

    STAGING_IN = "staging_in", "Staging in"
    QUEUED = "queued", "Queued"
    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    STAGING_OUT = "staging_out", "Staging out"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


JOB_STAGING = {Way.IN: ClusterJobState.STAGING_IN, Way.OUT: ClusterJobState.STAGING_OUT}
JOB_OPEN = frozenset(
    {ClusterJobState.QUEUED, ClusterJobState.PENDING, ClusterJobState.RUNNING, *JOB_STAGING.values()}
)
JOB_OVER = sorted(frozenset(ClusterJobState) - JOB_OPEN)
JOB_LOOKS: dict[str, Look] = {
    **{state: life_look(state) for state in JOB_STAGING.values()},
    ClusterJobState.QUEUED: Look("Queued", Tone.WAIT, "clock"),
    ClusterJobState.PENDING: Look("Pending", Tone.WAIT, "clock"),
    ClusterJobState.RUNNING: Look("Running", Tone.BUSY, "loader"),
    ClusterJobState.SUCCEEDED: Look("Succeeded", Tone.OK, "check"),
    ClusterJobState.FAILED: Look("Failed", Tone.BAD, "alert"),
    ClusterJobState.CANCELLED: Look("Cancelled", Tone.OFF, "x"),
}


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
