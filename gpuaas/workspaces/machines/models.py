"""Machines, the last observation of a workspace's machines, and people's public keys."""

from django.db import models
from django.db.models import Q

from gpuaas.core.claims import Claimable
from gpuaas.core.rows import Identified
from gpuaas.core.statemachine import TransitionRow
from gpuaas.providers.base import MachineVerb
from gpuaas.workspaces.machines.states import MachineState

VERBS = [(verb.value, verb.value.capitalize()) for verb in MachineVerb]


class Machine(Identified):
    """One machine of a workspace: ordered here, or created with another client and found at the site.

    The pending action is `verb` ("" = none) with its id; told_at = the site has accepted it. `failure`: why the order
    or the last action failed. `observed`: the fields of ObservedMachine as last reported.
    """

    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="machines")
    name = models.CharField(max_length=255)
    state = models.CharField(max_length=16, choices=MachineState, default=MachineState.ORDERED)
    flavor_slug = models.CharField(max_length=255, blank=True)
    image = models.CharField(max_length=64, blank=True)
    image_name = models.CharField(max_length=255, blank=True)
    key_name = models.CharField(max_length=255, blank=True)
    public_key = models.TextField(blank=True, editable=False)
    # encrypted, and forgotten as soon as the site has it: people write passwords into it
    cloud_init = models.TextField(blank=True, editable=False)
    volume_gib = models.PositiveIntegerField(default=0)
    ordered_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField()
    behind = models.BooleanField(default=False)
    uid = models.CharField(max_length=80, blank=True)
    verb = models.CharField(max_length=16, choices=VERBS, blank=True)
    verb_id = models.UUIDField(null=True, blank=True, editable=False)
    verb_by = models.CharField(max_length=150, blank=True)
    verb_at = models.DateTimeField(null=True, blank=True)
    verb_image = models.CharField(max_length=64, blank=True)
    told_at = models.DateTimeField(null=True, blank=True, editable=False)
    failure = models.CharField(max_length=500, blank=True)
    observed = models.JSONField(default=dict, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "uid"], condition=~Q(uid=""), name="machine_once_per_workspace"
            ),
            models.CheckConstraint(condition=Q(state__in=MachineState.values), name="machine_state_known"),
        ]
        indexes = [models.Index(fields=["workspace", "state"], name="machine_workspace_idx")]

    def __str__(self) -> str:
        return self.name


class MachineTransition(TransitionRow):
    subject = models.ForeignKey(Machine, on_delete=models.CASCADE, related_name="transitions")


class MachineLook(Claimable):
    """The last observation of all machines of a workspace; its claim is held by the worker that calls the site for
    them.

    images, belongings: as in the driver contract, read at `slow_at`. `failure`: why the site could not be asked.
    """

    workspace = models.OneToOneField(
        "workspaces.Workspace", on_delete=models.CASCADE, primary_key=True, related_name="machine_look"
    )
    images = models.JSONField(default=list, blank=True)
    belongings = models.JSONField(default=list, blank=True)
    volumes_sold = models.BooleanField(null=True)
    observed_at = models.DateTimeField(null=True, blank=True)
    slow_at = models.DateTimeField(null=True, blank=True)
    failure = models.CharField(max_length=500, blank=True)
    # when the site said that it shows no screens; they are not offered for a day
    no_screens_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"machines of {self.workspace}"


class PublicKey(Identified):
    """A person's public key for machines; machines launched with it keep it."""

    user = models.ForeignKey("tenants.User", on_delete=models.CASCADE, related_name="public_keys")
    name = models.CharField(max_length=40)
    public_key = models.TextField()
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["user", "name"], name="public_key_name_once"),
            models.UniqueConstraint(fields=["user", "fingerprint"], name="public_key_once"),
        ]

    def __str__(self) -> str:
        return self.name
