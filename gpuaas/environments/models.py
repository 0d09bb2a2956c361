"""Kinds of environments and their versions; environments, their operations and their logs."""

import secrets

from django.db import models
from django.db.models import Q

from gpuaas.catalog.models import Site
from gpuaas.core.claims import Claimable
from gpuaas.core.rows import Identified
from gpuaas.core.statemachine import TransitionRow
from gpuaas.environments.states import Access, EnvironmentState, KindState, OperationKind
from gpuaas.lifecycle.models import Inside
from gpuaas.lifecycle.operations import OperationRow, StepRow, open_once
from gpuaas.providers.base import worker_name
from gpuaas.workspaces.models import Workspace
from tenants.models import Project, User


class EnvironmentKind(Identified):
    """What can be ordered, such as JupyterLab; the details are in its versions."""

    slug = models.CharField(max_length=40, unique=True)
    name = models.CharField(max_length=100)
    description = models.CharField(max_length=300, blank=True)
    state = models.CharField(max_length=16, choices=KindState, default=KindState.ACTIVE)
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=KindState.values), name="environment_kind_state_known"
            )
        ]

    def __str__(self) -> str:
        return self.name


class KindVersion(Identified):
    """The document of a kind, as `definition.py` parses it. Never changed (a trigger enforces it): another version is
    added."""

    kind = models.ForeignKey(EnvironmentKind, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    document = models.JSONField()
    note = models.CharField(max_length=300, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["kind", "number"], name="kind_version_once")]

    def __str__(self) -> str:
        return f"{self.kind_id} v{self.number}"


def label_new() -> str:
    """128 bits, as a label of a host name."""
    return secrets.token_hex(16)


class Environment(Inside):
    """Something to work in, inside what its workspace bought.

    observed: node, restarts, detail, workers (how many of them run). workers: pods that work for it, each with the sizes of one.
    label: of its host at the door, which nobody can guess. last_used_at: when somebody last was in by the door, to the minute.
    idle_hours: without use, after which it is stopped, as its tenant chose; null = the kind's. kept_until: until then it is not
    stopped for that. access: who may open it by the door, one of those that its kind allows.
    """

    prefix, asks = "env", (*Inside.asks, "home_gib")

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="environments")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="environments")
    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="environments")
    made_of = models.ForeignKey(KindVersion, on_delete=models.PROTECT, related_name="environments")
    state = models.CharField(max_length=16, choices=EnvironmentState, default=EnvironmentState.REQUESTED)
    parameters = models.JSONField(default=dict, blank=True)
    home_gib = models.PositiveIntegerField()
    workers = models.PositiveIntegerField(default=0, db_default=0)
    worker_gpus = models.PositiveIntegerField(default=0, db_default=0)
    worker_vcpus = models.PositiveIntegerField(default=0, db_default=0)
    worker_memory_gib = models.PositiveIntegerField(default=0, db_default=0)
    label = models.CharField(max_length=32, null=True, default=label_new, editable=False)  # noqa: DJ001  none of the last release's
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    idle_hours = models.PositiveIntegerField(null=True, blank=True)
    kept_until = models.DateTimeField(null=True, blank=True)
    access = models.CharField(
        max_length=16, choices=Access, default=Access.WORKSPACE, db_default=Access.WORKSPACE.value
    )

    class Meta(Inside.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=~Q(state="deleted"),
                name="environment_name_once_per_workspace",
            ),
            models.UniqueConstraint(fields=["label"], name="environment_label_once"),
            models.CheckConstraint(
                condition=Q(state__in=EnvironmentState.values), name="environment_state_known"
            ),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="environment_project_idx")]

    @property
    def of_worker(self) -> dict[str, int]:
        return {name: getattr(self, f"worker_{name}") for name in Inside.asks}

    @property
    def of_workers(self) -> dict[str, int]:
        """All of them together."""
        return {name: self.workers * size for name, size in self.of_worker.items()}

    @property
    def takes(self) -> dict[str, int]:
        return {name: size + self.of_workers.get(name, 0) for name, size in self.sizes.items()}

    @property
    def has_gpus(self) -> bool:
        return self.takes["gpus"] > 0

    @property
    def pods(self) -> list[str]:
        """Their names at the site."""
        main = self.external_name
        return [main, *(worker_name(main, number) for number in range(1, self.workers + 1))]


class EnvironmentTransition(TransitionRow):
    subject = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="transitions")


class EnvironmentOperation(OperationRow):
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="operations")
    kind = models.CharField(max_length=16, choices=OperationKind)

    class Meta(OperationRow.Meta):
        constraints = [open_once("environment", "environment_operation_one_open")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.environment_id}"


class EnvironmentStep(StepRow):
    operation = models.ForeignKey(EnvironmentOperation, on_delete=models.CASCADE, related_name="steps")

    class Meta(StepRow.Meta):
        constraints = [
            models.UniqueConstraint(fields=["operation", "key"], name="environment_step_once_per_operation")
        ]


class EnvironmentLog(Claimable):
    """The last lines of an environment, as they were at taken_at; due while somebody asks for them. worker: of which one they are,
    0 = of the main pod; asked: whose were asked for last. failure: why there are none."""

    environment = models.OneToOneField(
        Environment, on_delete=models.CASCADE, primary_key=True, related_name="log"
    )
    worker = models.PositiveIntegerField(default=0, db_default=0)
    asked = models.PositiveIntegerField(default=0, db_default=0)
    text = models.TextField(blank=True)
    taken_at = models.DateTimeField(null=True, blank=True)
    failure = models.CharField(max_length=500, blank=True)

    def __str__(self) -> str:
        return f"log of {self.environment_id}"


class EnvironmentUse(Claimable):
    """What is known of the use of an environment, and due while it is ready.

    used_at: of its last use, its start included. since: from then on it is known that nobody used it. unknown: why that is
    not known now, "" = it is. stop_at: announced, unless it is used before; stopped_at: when that was done, null once it
    has been started again.
    """

    environment = models.OneToOneField(
        Environment, on_delete=models.CASCADE, primary_key=True, related_name="use"
    )
    used_at = models.DateTimeField()
    since = models.DateTimeField()
    unknown = models.CharField(max_length=300, blank=True)
    stop_at = models.DateTimeField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"use of {self.environment_id}"


class EnvironmentCounter(Claimable):
    """What the counters of its server were at read_at, null before; due while it is ready, in an environment whose kind has some.
    moved_at: when they were last found to have risen, or it began. failure: why they are not known now."""

    environment = models.OneToOneField(
        Environment, on_delete=models.CASCADE, primary_key=True, related_name="counter"
    )
    requests = models.BigIntegerField(default=0)
    tokens_in = models.BigIntegerField(default=0)
    tokens_out = models.BigIntegerField(default=0)
    read_at = models.DateTimeField(null=True, blank=True)
    moved_at = models.DateTimeField(null=True, blank=True)
    failure = models.CharField(max_length=300, blank=True)

    def __str__(self) -> str:
        return f"counter of {self.environment_id}"


class TokenDay(models.Model):
    """What an environment has counted on one day of the billing time zone; a day without requests has no row."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="token_days")
    day = models.DateField()
    requests = models.BigIntegerField()
    tokens_in = models.BigIntegerField()
    tokens_out = models.BigIntegerField()

    class Meta:
        ordering = ["-day"]
        constraints = [models.UniqueConstraint(fields=["environment", "day"], name="token_day_once")]

    def __str__(self) -> str:
        return f"{self.day} of {self.environment_id}"


class DoorKey(Identified):
    """What opens an environment that is public with a key, to a program or to people without an account. Shown once; only its
    hash is kept."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    secret_hash = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name


class DoorPass(models.Model):
    """One person's way into one environment, in one browser: first a ticket of seconds, then the cookie for which it was
    exchanged, once; or a cookie that was given for a key, to nobody in particular. Only hashes are kept.

    session_key: of the portal's session that it was given in, with which it ends; proof: as which it was signed in, so that a
    new password ends it. browser: of what the browser held when it asked.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="passes")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    key = models.ForeignKey(DoorKey, on_delete=models.CASCADE, null=True, blank=True, related_name="passes")
    session_key = models.CharField(max_length=40)
    proof = models.CharField(max_length=128)
    browser = models.CharField(max_length=64)
    ticket = models.CharField(max_length=64, unique=True, null=True, blank=True)
    cookie = models.CharField(max_length=64, unique=True, null=True, blank=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.user_id or self.key_id} at {self.environment_id}"


class SshKey(models.Model):
    """By which all doors are known to clients of SSH; the first door makes it. secret: the private key in OpenSSH's format,
    sealed. public: one line."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    secret = models.TextField(editable=False)
    public = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="ssh_key_one")]

    def __str__(self) -> str:
        return self.public
