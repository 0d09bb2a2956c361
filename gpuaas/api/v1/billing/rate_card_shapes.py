"""The shapes of rate cards, their versions, drafts and previews."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.models import RateDraft, TierMode
from billing.money import price_of
from billing.selectors.cards import Change
from gpuaas.api.fields import (
    Input,
    Instant,
    Money,
    Month,
    Output,
    PageQuery,
    Pick,
    Text,
    TextOrEmpty,
    TextOrNull,
    Whole,
)
from gpuaas.metering.models import Meter

OF_TOKENS = "Of tokens, millions."
PER_HOUR = "Per unit and hour; of tokens, per million."


class RateCardInput(Input):
    currency = Text(max_length=3, help_text="ISO 4217.")
    organization = TextOrNull(
        max_length=64, help_text="The organization whose own card it is; null: the standard card."
    )


class RateCardOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    currency = serializers.CharField()
    organization = serializers.CharField(
        source="organization.slug",
        default=None,
        allow_null=True,
        help_text="null: the standard card of its currency.",
    )
    prices = serializers.IntegerField(help_text="Prices in force now.")
    versions = serializers.IntegerField(source="version_count")
    draft = serializers.UUIDField(source="draft_id", allow_null=True, help_text="The open draft.")


class RateVersionOutput(Output):
    number = serializers.IntegerField()
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True, help_text="When the next version starts.")
    note = serializers.CharField()
    changes = serializers.IntegerField(help_text="Number of prices that start with it.")
    published_by = serializers.CharField()
    published_at = serializers.DateTimeField()


class RateTierOutput(Output):
    from_unit_hours = serializers.IntegerField(help_text=OF_TOKENS)
    price = Money()


class RateTermsOutput(Output):
    flavor = serializers.CharField(
        source="flavor.slug",
        default=None,
        allow_null=True,
        help_text="null for vCPU, memory, storage and tokens, and for what `resource` names.",
    )
    resource = serializers.CharField(
        source="resource_name",
        allow_blank=True,
        help_text="For GPUs that are not sold, and storage classes; otherwise empty.",
    )
    meter = serializers.ChoiceField(choices=Meter.choices)
    price_class = serializers.CharField()
    price = Money(help_text=PER_HOUR)
    increment_seconds = serializers.IntegerField()
    minimum_seconds = serializers.IntegerField()
    surplus_percent = serializers.IntegerField()
    tier_mode = serializers.ChoiceField(choices=TierMode.choices)
    tiers = serializers.SerializerMethodField(help_text="Without the first tier, whose price is `price`.")

    @extend_schema_field(RateTierOutput(many=True))
    def get_tiers(self, row: Any) -> list[dict[str, Any]]:
        tiers = row.tiers
        steps = (
            tiers
            if isinstance(tiers, list)
            else [(one.from_unit_hours, one.price_micro) for one in tiers.all()]
        )
        return [{"from_unit_hours": hours, "price": f"{price_of(micro):f}"} for hours, micro in steps]


class CardPriceOutput(RateTermsOutput):
    id = serializers.UUIDField()
    version = serializers.IntegerField(
        source="version.number", help_text="The version in which this price started."
    )
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True)


class RateDraftRowOutput(Output):
    id = serializers.UUIDField(
        source="line.pk", default=None, allow_null=True, help_text="null after its removal."
    )
    change = serializers.ChoiceField(
        choices=[one.value for one in Change], help_text="Compared with the price in force."
    )
    price_now = Money(
        source="before.price", default=None, allow_null=True, help_text="The price in force; null: none."
    )
    terms = RateTermsOutput(source="shown")


class RateDraftOutput(Output):
    id = serializers.UUIDField()
    card = serializers.CharField(source="card.slug")
    currency = serializers.CharField(source="card.currency")
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    published = serializers.IntegerField(
        source="published.number", default=None, allow_null=True, help_text="The version that it became."
    )
    fingerprint = serializers.SerializerMethodField(help_text="Changes with every change of a line.")
    lines = serializers.SerializerMethodField()

    def get_fingerprint(self, row: RateDraft) -> str:
        return str(self.context["fingerprint"])

    @extend_schema_field(RateDraftRowOutput(many=True))
    def get_lines(self, row: RateDraft) -> list[Any]:
        return list(RateDraftRowOutput(self.context["rows"], many=True).data)


class RateTierInput(Input):
    from_unit_hours = Whole(min_value=1, help_text=OF_TOKENS)
    price = Text(max_length=20)


class PriceInput(Input):
    flavor = TextOrNull(
        max_length=64, help_text="null for vCPU, memory, storage and tokens, and if `resource` is given."
    )
    resource = TextOrEmpty(
        max_length=150,
        help_text="For GPUs that ran without being sold: the name by which their site counts them. For a storage class: "
        "`storage:` and its short name, with the meter storage_held.",
    )
    meter = Pick(choices=Meter.choices)
    price = Text(
        max_length=20,
        help_text="Per unit and hour, or per million tokens: a decimal number in a string, such as 2.40.",
    )


class RateDraftLineInput(PriceInput):
    increment_seconds = Whole(
        required=False, default=1, help_text="A session is charged in full increments; of tokens, 1."
    )
    minimum_seconds = Whole(
        required=False, default=0, help_text="A session is charged for at least this long; of tokens, 0."
    )
    surplus_percent = Whole(
        required=False,
        default=100,
        help_text="Price of what is held beyond the purchase, in percent of `price`.",
    )
    tier_mode = Pick(choices=TierMode.choices, required=False, default="", allow_blank=True)
    tiers = RateTierInput(many=True, required=False, default=list)


class RateDraftPublishInput(Input):
    valid_from = Instant(required=False, help_text="Default: now.")
    note = TextOrEmpty(max_length=300)
    fingerprint = TextOrEmpty(
        max_length=64, help_text="Publishes only if the draft still has this fingerprint."
    )


class RatePreviewQuery(Input):
    month = Text(required=False, max_length=7, help_text="YYYY-MM. Default: the last full month.")


class RatePreviewSumOutput(Output):
    before = Money(help_text="By the prices that were in force.")
    after = Money(help_text="By the draft.")
    difference = Money()
    unpriced_seconds_before = serializers.IntegerField(source="unpriced_before")
    unpriced_seconds_after = serializers.IntegerField(
        source="unpriced_after", help_text="Unit-seconds without a price; the amounts do not contain them."
    )


class ProjectPreviewOutput(Output):
    project = serializers.CharField()
    cost = RatePreviewSumOutput(source="sides")


class OrganizationPreviewOutput(Output):
    organization = serializers.CharField()
    name = serializers.CharField()
    cost = RatePreviewSumOutput(source="sides")
    projects = ProjectPreviewOutput(many=True)


class RatePreviewOutput(Output):
    month = Month()
    currency = serializers.CharField()
    total = RatePreviewSumOutput()
    organizations = OrganizationPreviewOutput(many=True)


class CardQuery(PageQuery):
    currency = Text(required=False, max_length=3)
