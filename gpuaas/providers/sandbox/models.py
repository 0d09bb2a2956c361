"""The simulated site's own storage, like a cluster's etcd. No other room reads these tables."""

import uuid
from datetime import timedelta
from typing import Any

from django.db import models

from gpuaas.providers.base import storage_key

NOTICE = "notice"  # the label of a namespace that borrows its devices: in seconds


class SandboxSite(models.Model):
    """One simulated site and its dials. Its row lock is the site's single writer, so `revision` has no holes.

    faults: what the checks of the site find ("checks": type → status; "sick": node → MIG profile → cards or slices).
    failures: verb (`probe`, `create:quota`, `delete:gone`, `observe`, `access`, `watch`, `evict`) → {"error", "times"}; see
    `dials.py`. Events at or below `event_floor` are compacted: a cursor older than that must relist.
    """

    site_id = models.UUIDField(primary_key=True)
    slug = models.CharField(max_length=40, blank=True)
    token = models.CharField(max_length=100, blank=True)
    latency_ms = models.PositiveIntegerField(default=0)
    confirm_ms = models.PositiveIntegerField(default=150)
    grace_ms = models.PositiveIntegerField(default=200)
    namespace_ms = models.PositiveIntegerField(default=200)
    machine_ms = models.PositiveIntegerField(default=2000)
    environment_ms = models.PositiveIntegerField(default=500, db_default=500)
    down = models.BooleanField(default=False)
    retry_after = models.PositiveIntegerField(default=5)
    failures = models.JSONField(default=dict, blank=True)
    faults = models.JSONField(default=dict, blank=True)
    event_window = models.PositiveIntegerField(default=2000)
    revision = models.PositiveBigIntegerField(default=0)
    event_floor = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return self.slug or str(self.site_id)


class SandboxNode(models.Model):
    """A node with devices of one kind (`kind` = the fields of DeviceKind; empty for a node without GPUs).

    unhealthy: how many of its devices cannot take work; traits = the fields of NodeTraits.
    """

    site = models.ForeignKey(SandboxSite, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=63)
    kind = models.JSONField(default=dict, blank=True)
    resource_name = models.CharField(max_length=150, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    capacity = models.PositiveIntegerField(default=0)
    vcpus = models.PositiveIntegerField(default=0)
    memory_gib = models.PositiveIntegerField(default=0)
    ready = models.BooleanField(default=True)
    cordoned = models.BooleanField(default=False)
    reason = models.CharField(max_length=300, blank=True)
    unhealthy = models.PositiveIntegerField(default=0)
    traits = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="sandbox_node_once")]

    def __str__(self) -> str:
        return self.name


class SandboxNamespace(models.Model):
    """owner = the workspace it was made for; null = somebody else's, never to be touched.

    selectors: GPU resource → node labels that its pods are pinned to. gone_at is set while it goes away.
    suspended: no pod is admitted; `scaled_away` holds the pods of workloads that come back. preempted: pod → when it was last told to
    end because a buyer needed its devices.
    """

    site = models.ForeignKey(SandboxSite, on_delete=models.CASCADE, related_name="namespaces")
    name = models.CharField(max_length=63)
    owner = models.UUIDField(null=True)
    labels = models.JSONField(default=dict, blank=True)
    selectors = models.JSONField(default=dict, blank=True)
    limits = models.JSONField(default=dict, blank=True)
    isolated = models.BooleanField(default=False)
    suspended = models.BooleanField(default=False)
    scaled_away = models.JSONField(default=list, blank=True)
    preempted = models.JSONField(default=dict, db_default={}, blank=True)
    confirm_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="sandbox_namespace_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def notice(self) -> timedelta | None:
        """None: its devices were bought."""
        seconds = self.labels.get(NOTICE)
        return timedelta(seconds=int(seconds)) if seconds else None


class SandboxQuota(models.Model):
    """One key of a namespace's quota. `hard` is what is enforced; null until the site has confirmed `wanted`.

    As on a real cluster, a key that is not confirmed yet stops nobody, nor does a key that is not listed.
    """

    namespace = models.ForeignKey(SandboxNamespace, on_delete=models.CASCADE, related_name="quotas")
    resource = models.CharField(max_length=150)
    wanted = models.PositiveBigIntegerField()
    hard = models.PositiveBigIntegerField(null=True)
    used = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["resource"]
        constraints = [models.UniqueConstraint(fields=["namespace", "resource"], name="sandbox_quota_once")]

    def __str__(self) -> str:
        return f"{self.resource}: {self.used} of {self.hard}"


class SandboxMember(models.Model):
    namespace = models.ForeignKey(SandboxNamespace, on_delete=models.CASCADE, related_name="members")
    subject = models.CharField(max_length=150)
    name = models.CharField(max_length=150)
    role = models.CharField(max_length=16)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["namespace", "subject"], name="sandbox_member_once")]

    def __str__(self) -> str:
        return f"{self.name} ({self.role})"


class SandboxToken(models.Model):
    """A personal credential, by hash. It dies with its member's binding and does not come back with a new one."""

    member = models.ForeignKey(SandboxMember, on_delete=models.CASCADE, related_name="tokens")
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"of {self.member} until {self.expires_at:%H:%M:%S}"


class SandboxPod(models.Model):
    """run_seconds null = until it is deleted. gone_at is set when deletion was asked: the end of its grace."""

    uid = models.UUIDField(primary_key=True, default=uuid.uuid4)
    site = models.ForeignKey(SandboxSite, on_delete=models.CASCADE, related_name="pods")
    namespace = models.ForeignKey(SandboxNamespace, on_delete=models.CASCADE, related_name="pods")
    name = models.CharField(max_length=63)
    owner = models.CharField(max_length=100, blank=True)  # "Job/train"; "" for one made by hand
    resource_name = models.CharField(max_length=150, blank=True)
    gpus = models.PositiveIntegerField(default=0)
    vcpus = models.PositiveIntegerField(default=0)
    memory_gib = models.PositiveIntegerField(default=0)
    run_seconds = models.PositiveIntegerField(null=True)
    node = models.ForeignKey(SandboxNode, on_delete=models.SET_NULL, null=True, related_name="pods")
    node_name = models.CharField(max_length=63, blank=True)
    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)
    waiting_for = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["created_at", "pk"]
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="sandbox_pod_once")]
        indexes = [
            models.Index(
                fields=["site"], condition=models.Q(finished_at__isnull=True), name="sandbox_pod_live_idx"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def phase(self) -> str:
        if self.finished_at is not None:
            return "Succeeded"
        return "Pending" if self.scheduled_at is None else "Running"

    @property
    def charges(self) -> dict[str, int]:
        """What it takes of its namespace's quota, from creation until it has finished or is gone."""
        asked: dict[str, Any] = {"cpu": self.vcpus, "memory": self.memory_gib, self.resource_name: self.gpus}
        return {resource: amount for resource, amount in sorted(asked.items()) if amount}


class SandboxJob(models.Model):
    """A job of the portal's, which starts its attempts one after the other. made: whether the present one has its pod yet;
    outcome: a `JobPhase`, "" while it has not ended; detail: why it waits or has failed. tasks: of several, as tasks.py has them.
    moves: what a mover of files copies, as movers.py has it. preempted: the pod of it that was ended last for a buyer, and when.
    """

    namespace = models.ForeignKey(SandboxNamespace, on_delete=models.CASCADE, related_name="jobs")
    name = models.CharField(max_length=63)
    attempt = models.PositiveIntegerField(default=1)
    made = models.BooleanField(default=False)
    outcome = models.CharField(max_length=16, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    detail = models.CharField(max_length=300, blank=True)
    exit_code = models.IntegerField(null=True)
    tasks = models.JSONField(default=list, db_default=[], blank=True)
    moves = models.JSONField(default=list, db_default=[], blank=True)
    preempted = models.CharField(max_length=120, blank=True, default="", db_default="")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="sandbox_job_once")]

    def __str__(self) -> str:
        return self.name


class SandboxClaim(models.Model):
    """A claim of storage; it is bound at once and goes with its namespace."""

    namespace = models.ForeignKey(SandboxNamespace, on_delete=models.CASCADE, related_name="claims")
    name = models.CharField(max_length=63)
    storage_class = models.CharField(max_length=253)
    gib = models.PositiveIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["namespace", "name"], name="sandbox_claim_once")]

    def __str__(self) -> str:
        return self.name

    @property
    def charges(self) -> dict[str, int]:
        return {"storage": self.gib, storage_key(self.storage_class): self.gib}


class SandboxFile(models.Model):
    """A file or a folder on a claim. path: from its root, without a slash at either end."""

    claim = models.ForeignKey(SandboxClaim, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=1024)
    is_folder = models.BooleanField(default=False)
    content = models.BinaryField(default=bytes)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["claim", "path"], name="sandbox_file_once")]

    def __str__(self) -> str:
        return self.path


class SandboxMachine(models.Model):
    """A machine of a simulated cloud: it holds its devices as the pod `pod_name`, which it has unless it is shelved.

    wanted: "running", "stopped" or "shelved"; it moves there until `moves_until`. last_action: the id of the last rebuild.
    """

    uid = models.UUIDField(primary_key=True, default=uuid.uuid4)
    namespace = models.ForeignKey(SandboxNamespace, on_delete=models.CASCADE, related_name="machines")
    order = models.UUIDField(null=True)
    name = models.CharField(max_length=255)
    pod_name = models.CharField(max_length=63)
    flavor = models.CharField(max_length=255)
    image = models.CharField(max_length=64)
    key = models.CharField(max_length=255, blank=True)
    resource_name = models.CharField(max_length=150)
    gpus = models.PositiveIntegerField(default=0)
    vcpus = models.PositiveIntegerField(default=1)
    memory_gib = models.PositiveIntegerField(default=1)
    address = models.GenericIPAddressField()
    wanted = models.CharField(max_length=16, default="running")
    last_action = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    moves_until = models.DateTimeField()
    launched_at = models.DateTimeField(null=True)
    fault = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["created_at", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["namespace", "pod_name"], name="sandbox_machine_pod_once")
        ]

    def __str__(self) -> str:
        return self.name


class SandboxEvent(models.Model):
    """The site's watch log: a consumer's state at `revision`. `gone` = it was deleted and this was its last state."""

    site = models.ForeignKey(SandboxSite, on_delete=models.CASCADE, related_name="events")
    revision = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    gone = models.BooleanField(default=False)
    namespace = models.CharField(max_length=63)
    consumer = models.JSONField()

    class Meta:
        ordering = ["revision"]
        constraints = [models.UniqueConstraint(fields=["site", "revision"], name="sandbox_event_once")]

    def __str__(self) -> str:
        return f"{self.revision} {self.namespace}"


class SandboxChange(models.Model):
    """What the site's own administrator did to an object of ours. path as `Difference` has it; "" = all of it."""

    site = models.ForeignKey(SandboxSite, on_delete=models.CASCADE, related_name="changes")
    namespace = models.CharField(max_length=63)
    path = models.CharField(max_length=200, blank=True)
    by = models.CharField(max_length=100)
    at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.by} changed {self.namespace} {self.path}"


class SandboxClusterObject(models.Model):
    """Something of a cluster on demand: network, address, machine, add-on. tag = the cluster's id; null = somebody else's.

    facts of a machine: pool ("" = control plane), release, fault. A worker holds its devices as a pod of its own name in the
    namespace `room`. It works from ready_at on, and is gone at gone_at.
    """

    site = models.ForeignKey(SandboxSite, on_delete=models.CASCADE, related_name="cluster_objects")
    tag = models.UUIDField(null=True, db_index=True)
    kind = models.CharField(max_length=32)
    name = models.CharField(max_length=120)
    uid = models.UUIDField(default=uuid.uuid4)
    room = models.CharField(max_length=63, blank=True)
    facts = models.JSONField(default=dict, blank=True)
    ready_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["site", "kind", "name"], name="sandbox_cluster_object_once")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class SandboxClusterToken(models.Model):
    """A personal credential for a cluster, by hash. It dies with the cluster's address."""

    endpoint = models.ForeignKey(SandboxClusterObject, on_delete=models.CASCADE, related_name="tokens")
    subject = models.CharField(max_length=150)
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"of {self.subject} until {self.expires_at:%H:%M:%S}"


class SandboxSlurmJob(models.Model):
    """What the Slurm of a simulated cluster (`tag`) knows of one of the portal's jobs. outcome: Slurm's word, once it has ended."""

    site = models.ForeignKey(SandboxSite, on_delete=models.CASCADE, related_name="slurm_jobs")
    tag = models.UUIDField(db_index=True)
    job = models.UUIDField(unique=True)
    pool = models.CharField(max_length=20)
    gpus = models.PositiveIntegerField()
    minutes = models.PositiveIntegerField(null=True)
    script = models.TextField()
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, blank=True)
    exit_code = models.IntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.pk} in {self.pool}"
