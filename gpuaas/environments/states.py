"""States of an environment, of its operations, and of a kind that is offered.

The values are those of the frame (`gpuaas/lifecycle/states.py`); people, pages and the API read the names.
"""

from django.db import models

from gpuaas.lifecycle.allowed import Allowed, Verb, always
from gpuaas.lifecycle.states import life_allowed, life_changing, life_machine


class EnvironmentState(models.TextChoices):
    REQUESTED = "requested", "Requested"
    CREATING = "provisioning", "Creating"
    READY = "ready", "Ready"
    STOPPING = "suspending", "Stopping"
    STOPPED = "suspended", "Stopped"
    STARTING = "resuming", "Starting"
    FAILED = "failed", "Failed"
    DELETING = "deleting", "Deleting"
    DELETED = "deleted", "Deleted"


S = EnvironmentState

CHANGING = life_changing(S, {})
MACHINE = life_machine(
    S,
    (),
    also={
        # stopped before it was there
        S.REQUESTED: {S.STOPPING},
        S.CREATING: {S.STOPPING},
        # restarted
        S.READY: {S.STARTING},
    },
)
LIVE = frozenset(S) - {S.DELETED}
# nothing of it but its home is at the site
OFF = frozenset({S.STOPPED, S.DELETED})
ON_ITS_WAY = frozenset({S.REQUESTED, S.CREATING, S.STARTING})
ALLOWED = {
    **life_allowed(S),
    Verb.SUSPEND: Allowed(frozenset({S.REQUESTED, S.CREATING, S.READY, S.STARTING}), always),
    Verb.RESUME: Allowed(frozenset({S.STOPPED}), always),
    Verb.RUN: Allowed(frozenset({S.READY})),
    # its log
    Verb.ENTER: Allowed(frozenset({S.CREATING, S.READY, S.STARTING, S.STOPPING}), always),
}


class OperationKind(models.TextChoices):
    CREATE = "create", "Creation"
    SUSPEND = "suspend", "Stop"
    RESUME = "resume", "Start"
    RESTART = "restart", "Restart"
    DELETE = "delete", "Deletion"


class KindState(models.TextChoices):
    """Retired: what exists stays, nothing more can be ordered."""

    ACTIVE = "active", "Active"
    RETIRED = "retired", "Retired"


class Access(models.TextChoices):
    """Who may open it by the door, as long as they may at all. WORKSPACE: those who may run things in its workspace. PUBLIC:
    they, and who has a key."""

    PRIVATE = "private", "Private"
    WORKSPACE = "workspace", "Workspace"
    ORGANIZATION = "organization", "Organization"
    PUBLIC = "public", "Public with a key"
