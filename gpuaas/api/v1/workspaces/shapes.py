"""The shapes of workspaces."""

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from gpuaas.api.fields import (
    ChangeInput,
    Conditions,
    Input,
    Instant,
    Money,
    Output,
    PageQuery,
    Pick,
    Switch,
    Text,
    TextOrEmpty,
    Whole,
)
from gpuaas.api.v1.shapes import SUCCEEDED, MemberOutput
from gpuaas.api.v1.workspaces.matching import AskInput
from gpuaas.lifecycle.grants import GrantStanding
from gpuaas.lifecycle.operations import StepState
from gpuaas.providers.base import AccessKind
from gpuaas.workspaces.models import PLACEMENTS
from gpuaas.workspaces.states import AccessRole, OperationKind, WorkspaceState

List = serializers.ListField


class WorkspaceQuery(PageQuery):
    state = serializers.ChoiceField(choices=WorkspaceState.choices, required=False)
    site = Text(required=False, max_length=40, help_text="A site's slug.")
    search = Text(required=False, max_length=40, help_text="Part of the name.")


class ItemInput(Input):
    flavor = Text(max_length=64, help_text="Slug of a flavor.")
    count = Whole(min_value=1, max_value=1000)


class StorageInput(Input):
    storage_class = Text(max_length=40, help_text="Short name of a storage class of the site.")
    gib = Whole(min_value=1, max_value=1_000_000)


BY_CLASS = "Storage by class, beside `storage_gib`, which is taken from the site's plain class."


class WorkspaceMemberInput(Input):
    username = Text(max_length=150)
    role = Pick(choices=AccessRole.choices)


class WorkspaceInput(Input):
    name = Text(max_length=40, help_text="Lower-case letters, digits and hyphens; unique in the project.")
    items = List(child=AskInput(), max_length=20, min_length=1)
    storage_gib = Whole(required=False, default=0, max_value=1_000_000)
    storage_classes = List(
        child=StorageInput(), required=False, max_length=20, default=list, help_text=BY_CLASS
    )
    lease_ends_at = Instant(required=False, help_text="Default: in 28 days. At most 365 days ahead.")
    members = List(
        child=WorkspaceMemberInput(), required=False, max_length=200, help_text="Default: you, as its admin."
    )
    placement = Pick(
        choices=PLACEMENTS,
        required=False,
        default="",
        allow_blank=True,
        help_text="How close together its pods are placed if there is room. Default: anywhere.",
    )


class WorkspacePatchInput(ChangeInput):
    items = List(
        child=ItemInput(),
        required=False,
        max_length=20,
        min_length=1,
        help_text="All items wanted from now on.",
    )
    storage_gib = Whole(required=False, max_value=1_000_000)
    storage_classes = List(
        child=StorageInput(),
        required=False,
        max_length=20,
        help_text="All storage by class that is wanted from now on; what is left out is given back.",
    )
    lease_ends_at = Instant(required=False, help_text="A later end of the lease.")
    open_to_project = Switch(
        required=False,
        help_text="Whether jobs of the project's other workspaces may run in it while there is room.",
    )


class PreviewInput(Input):
    items = List(child=AskInput(), max_length=20, min_length=1)
    storage_gib = Whole(required=False, default=0, max_value=1_000_000)
    storage_classes = List(
        child=StorageInput(), required=False, max_length=20, default=list, help_text=BY_CLASS
    )
    lease_ends_at = Instant(required=False)


class CredentialInput(Input):
    lifetime_seconds = Whole(
        required=False,
        min_value=600,
        max_value=86_400,
        help_text="Default: 8 hours (1 hour for a service account), or the provider's maximum.",
    )


class ReasonInput(Input):
    reason = TextOrEmpty(max_length=200, help_text="For the timeline and the audit log.")


class RevocationInput(Input):
    username = Text(
        required=False, max_length=150, help_text="Username of the owner of the credentials. Default: you."
    )
    service_account = Text(required=False, max_length=40, help_text="Instead of a person.")


class RobotInput(Input):
    name = Text(max_length=40, help_text="Lower-case letters, digits and hyphens; unique in the workspace.")
    role = Pick(choices=AccessRole.choices)


class WorkspaceRoleInput(Input):
    role = Pick(choices=AccessRole.choices)


class ItemOutput(Output):
    flavor = serializers.CharField(source="flavor.slug")
    name = serializers.CharField(source="flavor.name")
    gpu_type = serializers.CharField(source="flavor.pool.gpu_type.slug")
    gpus = serializers.IntegerField(source="flavor.gpus", help_text="GPUs of one unit of this flavor.")
    count = serializers.IntegerField(help_text="Wanted.")
    confirmed = serializers.IntegerField(help_text="As confirmed by the site.")


class StorageOutput(Output):
    storage_class = serializers.CharField(source="storage_class.slug")
    gib = serializers.IntegerField(help_text="Wanted.")
    confirmed = serializers.IntegerField(help_text="As confirmed by the site.")


class ObjectBoundOutput(Output):
    name = serializers.CharField()
    label = serializers.CharField(help_text="Of several, for people.")
    used = serializers.IntegerField()
    most = serializers.IntegerField()
    remedy = serializers.CharField(help_text="What to do when it is used up.")


class WorkspaceOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField(source="project.slug")
    organization = serializers.CharField(source="project.organization.slug")
    site = serializers.CharField(source="site.slug")
    external_name = serializers.CharField(help_text="Name of the namespace or project at the site.")
    state = serializers.ChoiceField(choices=WorkspaceState.choices)
    failure = serializers.CharField(allow_blank=True, help_text="Why it failed, in words.")
    items = ItemOutput(source="flavors", many=True)
    storage_gib = serializers.IntegerField(help_text="Plain storage, beside `storage_classes`.")
    storage_classes = StorageOutput(source="storage", many=True)
    placement = serializers.ChoiceField(choices=PLACEMENTS, allow_blank=True)
    spot = serializers.BooleanField(
        source="is_spot",
        help_text="It borrows its GPUs: what runs is charged, and ends with notice once a buyer needs them.",
    )
    notice_seconds = serializers.IntegerField(help_text="Of spot; else 0.")
    open_to_project = serializers.BooleanField(
        help_text="Jobs of the project's other workspaces may run in it while there is room."
    )
    members = MemberOutput(many=True)
    conditions = Conditions()
    object_bounds = ObjectBoundOutput(
        source="observed.bounds",
        many=True,
        default=list,
        help_text="How many objects of each kind it has at the site, and may have; empty where the site has no such bounds.",
    )
    lease_ends_at = serializers.DateTimeField()
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()
    suspended_at = serializers.DateTimeField(allow_null=True, help_text="When its suspension started.")
    deleted_after = serializers.DateTimeField(
        allow_null=True,
        help_text="Set once its lease is over and it sleeps: then it is deleted, unless the lease is extended.",
    )
    ready_at = serializers.DateTimeField(allow_null=True)
    deleted_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()


class StepOutput(Output):
    key = serializers.CharField(source="step.key")
    label = serializers.CharField(source="step.label")
    state = serializers.ChoiceField(choices=StepState.choices, source="step.state")
    detail = serializers.CharField(source="step.detail", allow_blank=True)
    attempts = serializers.IntegerField(source="step.attempts")
    started_at = serializers.DateTimeField(source="step.started_at", allow_null=True)
    finished_at = serializers.DateTimeField(source="step.finished_at", allow_null=True)
    usual_seconds = serializers.FloatField(
        allow_null=True, help_text="Median at this site; null: no history."
    )


class OperationOutput(Output):
    id = serializers.UUIDField(source="operation.id")
    kind = serializers.ChoiceField(choices=OperationKind.choices, source="operation.kind")
    requested_by = serializers.CharField(source="operation.requested_by")
    requested_at = serializers.DateTimeField(source="operation.requested_at")
    finished_at = serializers.DateTimeField(source="operation.finished_at", allow_null=True)
    succeeded = serializers.BooleanField(source="operation.succeeded", allow_null=True, help_text=SUCCEEDED)
    summary = serializers.CharField(source="operation.summary", allow_blank=True)
    remaining_seconds = serializers.FloatField(allow_null=True)
    steps = StepOutput(many=True)


class RobotOutput(Output):
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=AccessRole.choices)
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class GrantOutput(Output):
    id = serializers.UUIDField()
    username = serializers.CharField(source="user.username", allow_null=True, default=None)
    service_account = serializers.CharField(source="robot.name", allow_null=True, default=None)
    issued_by = serializers.CharField()
    issued_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    standing = serializers.ChoiceField(choices=GrantStanding.choices)


class RevokedOutput(Output):
    credentials = serializers.IntegerField(
        help_text="Number of credentials being ended; they are invalid within seconds."
    )


class SignInKubeconfigOutput(Output):
    kubeconfig = serializers.CharField(help_text="A YAML document without a credential.")


class KubeconfigOutput(Output):
    kubeconfig = serializers.CharField(
        source="document", help_text="A YAML document, or the script. Shown once, never stored."
    )
    expires_at = serializers.DateTimeField()


class CredentialOutput(Output):
    kind = serializers.ChoiceField(
        choices=[(kind.value, kind.value) for kind in AccessKind],
        help_text="File format: for kubectl, for the openstack command, or a script that opens a shell by ssh.",
    )
    document = serializers.CharField(help_text="A YAML document, or the script. Shown once, never stored.")
    expires_at = serializers.DateTimeField()


class CheckOutput(Output):
    scope = serializers.CharField(source="scope.word", help_text="project, organization or site.")
    scope_name = serializers.CharField()
    resource = serializers.CharField()
    limit = serializers.IntegerField(allow_null=True, help_text="null = unlimited.")
    used = serializers.IntegerField(help_text="Held.")
    asked = serializers.IntegerField()
    left = serializers.IntegerField(allow_null=True)
    fits = serializers.BooleanField()


class QuoteInput(WorkspacePatchInput):
    """A change whose price is requested."""


class QuoteLineOutput(Output):
    label = serializers.CharField()
    meter = serializers.CharField()
    quantity = serializers.IntegerField()
    unit_price = Money(allow_null=True)
    per_hour = Money(allow_null=True)
    per_month = Money(allow_null=True)


class QuoteOutput(Output):
    currency = serializers.CharField()
    lines = QuoteLineOutput(many=True)
    per_hour = Money()
    month = serializers.DateField(
        source="month.day", help_text="First day of the current month in the billing time zone."
    )
    month_hours = serializers.IntegerField(
        source="hours", help_text="Hours of that month; 743 or 745 if daylight saving time changes."
    )
    per_month = Money(help_text="All hours of that month at the present prices.")
    to_lease_end = Money(allow_null=True, help_text="From now on, with all published price changes.")
    complete = serializers.BooleanField(help_text="false: a price is missing.")
    estimate = serializers.BooleanField(help_text="true: the final cost depends on tiers or use.")
    notes = serializers.ListField(
        child=serializers.CharField(), help_text="Why it is an estimate, and when prices change."
    )


class PriceDifferenceOutput(Output):
    per_hour = Money(help_text="Negative: it becomes cheaper.")
    per_month = Money()
    to_lease_end = Money(allow_null=True)


class WhatIfOutput(Output):
    now = QuoteOutput(help_text="Cost of what runs now; a suspended workspace holds no GPUs.")
    then = QuoteOutput(help_text="Cost after the change.")
    difference = PriceDifferenceOutput(source="*")


class ChosenOutput(Output):
    flavor = serializers.CharField()
    count = serializers.IntegerField()


class PreviewOutput(Output):
    items = ChosenOutput(many=True, help_text="With the flavors that were chosen by attributes.")
    fits = serializers.BooleanField()
    hold = serializers.CharField(
        help_text="Why nothing is given here now (a budget is spent); otherwise empty."
    )
    checks = CheckOutput(many=True)
    quote = QuoteOutput(allow_null=True, help_text="null: the caller may not see prices.")
    usual_seconds = serializers.FloatField(
        allow_null=True, help_text="Usual duration of a creation at this site."
    )


REQUEST_EXAMPLE = OpenApiExample(
    "Two H100 for a week",
    value={
        "name": "train-7b",
        "items": [{"flavor": "h100.1", "count": 2}],
        "storage_gib": 100,
        "lease_ends_at": "2026-12-01T18:00:00Z",
    },
    request_only=True,
)
