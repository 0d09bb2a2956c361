"""The shapes of policies, decisions and dry runs."""

import re
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_field
from rest_framework import serializers

from gpuaas.api.fields import Input, Instant, Money, Output, PageQuery, Pick, Switch, Text, TextOrEmpty, Whole
from gpuaas.api.v1.clusters.shapes import Document
from gpuaas.clusters.models import ScalingOutcome

SECONDS = "Seconds."
MONTH = "Maximum in a calendar month of the billing time zone; the pool returns to its minimum before that."


@extend_schema_field({"type": "string", "format": "decimal", "example": "250.00", "nullable": True})
class Amount(serializers.Field[Any, Any, str, Any]):
    """A decimal number as text."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", data):
            raise serializers.ValidationError("an amount is a decimal number in a string, such as 250.00")
        return Decimal(data)

    def to_representation(self, value: Decimal) -> str:
        return f"{value:f}"


class PolicyTermsInput(Input):
    kind = Text(max_length=32, help_text="A kind from `…/policy-kinds`.")
    settings = Document(required=False, default=dict, help_text="By the schema of the kind.")
    minimum = Whole(max_value=500, help_text="Workers, within the bounds of the template's pool.")
    maximum = Whole(max_value=500)
    step = Whole(
        required=False,
        default=1,
        min_value=1,
        max_value=500,
        help_text="Largest change of workers at a time.",
    )
    up_delay = Whole(
        required=False,
        default=60,
        help_text="How long more workers must be wanted before the pool grows. " + SECONDS,
    )
    down_delay = Whole(
        required=False,
        default=600,
        help_text="How long fewer workers must be wanted before the pool shrinks. " + SECONDS,
    )
    cool_down = Whole(required=False, default=300, help_text="Minimum time between two changes. " + SECONDS)
    gpu_hours_month = Whole(required=False, allow_null=True, default=None, help_text=MONTH)
    money_month = Amount(
        required=False,
        allow_null=True,
        default=None,
        help_text=f"Of the organization's currency. {MONTH}",
    )
    after = TextOrEmpty(
        max_length=20,
        help_text="For a pool at another site: the pool at the cluster's own site that is filled first.",
    )
    enabled = Switch(
        required=False,
        default=False,
        help_text="false: records signals for a dry run, and scales nothing.",
    )


class PolicyInput(PolicyTermsInput):
    pool = Text(max_length=20)


class PolicyPatchInput(Input):
    enabled = Switch()


class DryRunInput(PolicyInput):
    since = Instant(required=False, help_text="Default: 7 days before `until`. At most 31 days.")
    until = Instant(required=False, help_text="Default: now.")


class PolicyKindOutput(Output):
    name = serializers.CharField()
    label = serializers.CharField()
    schema = Document(help_text="JSON Schema of `settings`.")
    needs_signals = serializers.BooleanField(
        help_text="true: it follows demand, so the template's driver must report signals."
    )


class ScalingPolicyOutput(Output):
    id = serializers.UUIDField()
    pool = serializers.CharField(source="pool.name")
    kind = serializers.CharField()
    settings = Document()
    minimum = serializers.IntegerField()
    maximum = serializers.IntegerField()
    step = serializers.IntegerField()
    up_delay = serializers.IntegerField(help_text=SECONDS)
    down_delay = serializers.IntegerField(help_text=SECONDS)
    cool_down = serializers.IntegerField(help_text=SECONDS)
    gpu_hours_month = serializers.IntegerField(allow_null=True)
    money_month = Money(allow_null=True)
    after = serializers.CharField(allow_blank=True)
    enabled = serializers.BooleanField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class DecisionQuery(PageQuery):
    pool = Text(required=False, max_length=20)
    outcome = Pick(choices=ScalingOutcome.choices, required=False)


class SignalsOutput(Output):
    used_gpus = serializers.IntegerField(help_text="Used by pods or jobs.")
    pending_gpus = serializers.IntegerField(help_text="Requested by waiting pods or jobs.")
    queued = serializers.IntegerField(help_text="Number of waiting pods or jobs.")


class ScalingDecisionOutput(Output):
    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    pool = serializers.CharField()
    kind = serializers.CharField()
    outcome = serializers.ChoiceField(choices=ScalingOutcome.choices)
    before = serializers.IntegerField(help_text="Workers.")
    wanted = serializers.IntegerField(help_text="By the policy, within its bounds.")
    after = serializers.IntegerField()
    reason = serializers.CharField()
    refused = serializers.CharField(
        allow_blank=True, help_text="The limit, capacity or budget that allowed less."
    )
    signals = SignalsOutput()
    per_hour = serializers.SerializerMethodField(
        help_text="Additional cost per hour; null: no price, or the caller may not see prices."
    )
    currency = serializers.CharField(allow_blank=True)

    @extend_schema_field({"type": "string", "format": "decimal", "nullable": True})
    def get_per_hour(self, row: Any) -> str | None:
        if row.per_hour is None or not self.context.get("prices"):
            return None
        return f"{row.per_hour:f}"


class DryRunTotalOutput(Output):
    gpu_hours = Money()
    cost = Money(
        allow_null=True,
        help_text="By the prices of that time; null: no price, or the caller may not see prices.",
    )
    waited_seconds = serializers.IntegerField(help_text="How long anything waited for GPUs.")
    changes = serializers.IntegerField()


class DryRunPointOutput(Output):
    at = serializers.DateTimeField()
    workers = serializers.IntegerField(help_text="By the policy; the maximum in this interval.")
    actual = serializers.IntegerField(help_text="What really happened.")
    demand_gpus = serializers.IntegerField()
    pending_gpus = serializers.IntegerField(help_text="GPUs that would have waited.")


class DryRunOutput(Output):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    recorded_seconds = serializers.IntegerField(
        help_text="Recorded time; the rest counts neither as held nor as waiting."
    )
    boot = serializers.IntegerField(help_text="Assumed start time of new workers in seconds.")
    currency = serializers.CharField()
    would = DryRunTotalOutput(help_text="By these terms.")
    was = DryRunTotalOutput(help_text="What really happened.")
    refused = serializers.IntegerField(help_text="How often a cap allowed less than was wanted.")
    broken = serializers.CharField(allow_blank=True, help_text="Errors in the policy's answers.")
    series = DryRunPointOutput(many=True, help_text="At most 168 intervals of equal length.")


POLICY_EXAMPLE = OpenApiExample(
    "Follow waiting jobs, for at most 250 a month",
    value={
        "pool": "gpu",
        "kind": "pending",
        "settings": {"spare_workers": 0},
        "minimum": 1,
        "maximum": 8,
        "step": 2,
        "money_month": "250.00",
        "enabled": True,
    },
    request_only=True,
)
