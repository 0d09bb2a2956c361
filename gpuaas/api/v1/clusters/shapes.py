"""The shapes of templates, plans and clusters."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_field
from rest_framework import serializers

from gpuaas.api.fields import ChangeInput, Conditions, Input, Instant, Money, Output, PageQuery, Text, Whole
from gpuaas.api.v1.workspaces.shapes import CheckOutput, OperationOutput, QuoteOutput, StepOutput
from gpuaas.clusters.models import ClusterTemplate, LedgerEntry, TemplateVersion
from gpuaas.clusters.selectors import StepView, definition_of
from gpuaas.clusters.states import CHANGE_KINDS, CLUSTER_KINDS, ClusterState, TemplateState
from gpuaas.lifecycle.grants import GrantStanding

ORDERS = {"newest": "-pk", "oldest": "pk"}
DOCUMENT_HELP = "The order, by the template's JSON Schema; fields left out take its defaults."


@extend_schema_field({"type": "object", "additionalProperties": True})
class Document(serializers.JSONField):
    """A JSON object; a schema of its own defines its contents."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError("this must be a JSON object")
        return data


class ClusterQuery(PageQuery):
    state = serializers.ChoiceField(choices=ClusterState.choices, required=False)
    template = Text(required=False, max_length=40, help_text="A template's slug.")
    site = Text(required=False, max_length=40, help_text="A site's slug.")
    search = Text(required=False, max_length=40, help_text="Part of the name.")
    order = serializers.ChoiceField(
        choices=[(name, name) for name in ORDERS], required=False, default="newest"
    )


class LedgerQuery(PageQuery):
    standing = serializers.ChoiceField(
        choices=[("open", "open"), ("gone", "gone")],
        required=False,
        help_text="true: not proved gone yet.",
    )


class ClusterPlanInput(Input):
    template = Text(max_length=40, help_text="A template's slug.")
    version = Whole(required=False, min_value=1, help_text="Version of the template. Default: the newest.")
    name = Text(required=False, max_length=20)
    document = Document(required=False, default=dict, help_text=DOCUMENT_HELP)
    lease_ends_at = Instant(required=False, help_text="Default: in 28 days. At most 365 days ahead.")


class ClusterInput(ClusterPlanInput):
    name = Text(max_length=20, help_text="Lower-case letters, digits and hyphens; unique in the project.")


class Counts(serializers.DictField):
    """Workers by pool."""

    def __init__(self, **kwargs: Any) -> None:
        help_text = "Workers by pool; pools that are not named stay as they are."
        super().__init__(child=Whole(max_value=500), allow_empty=False, help_text=help_text, **kwargs)


class ClusterScalePlanInput(Input):
    pools = Counts()


class ClusterPatchInput(ChangeInput):
    pools = Counts(required=False)
    lease_ends_at = Instant(required=False, help_text="A later end of the lease.")


class ClusterUpgradeInput(Input):
    release = Text(max_length=32, help_text="A release of the template's newest version.")
    first_pool = Text(
        required=False,
        max_length=20,
        help_text="Upgrades only the control plane and this pool, to try the release.",
    )


class ClusterRevocationInput(Input):
    username = Text(
        required=False, max_length=150, help_text="Username of the owner of the credentials. Default: you."
    )


class ClusterGrantOutput(Output):
    id = serializers.UUIDField()
    username = serializers.CharField(source="user.username")
    issued_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    standing = serializers.ChoiceField(choices=GrantStanding.choices)


class ClusterTemplateOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    summary = serializers.CharField(allow_blank=True)
    kind = serializers.ChoiceField(choices=CLUSTER_KINDS)
    site = serializers.CharField(source="site.slug")
    state = serializers.ChoiceField(
        choices=TemplateState.choices, help_text="deprecated: can still be ordered, with a warning."
    )
    version = serializers.SerializerMethodField(help_text="The newest version; null: none yet.")

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_version(self, template: ClusterTemplate) -> int | None:
        return next((version.number for version in template.versions.all()), None)


class PoolDefinitionOutput(Output):
    name = serializers.CharField()
    label = serializers.CharField()
    flavors = serializers.ListField(child=serializers.CharField())
    minimum = serializers.IntegerField()
    maximum = serializers.IntegerField()
    default = serializers.IntegerField()


class AddonDefinitionOutput(Output):
    name = serializers.CharField()
    label = serializers.CharField()
    default = serializers.BooleanField()
    required = serializers.BooleanField()


class DefinitionOutput(Output):
    number = serializers.IntegerField()
    note = serializers.CharField(allow_blank=True)
    deprecated_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    releases = serializers.ListField(child=serializers.CharField(), help_text="Oldest first.")
    pools = PoolDefinitionOutput(many=True)
    addons = AddonDefinitionOutput(many=True)
    burst = serializers.ListField(
        child=serializers.CharField(), help_text="Other sites at which pools can be, by flavors there."
    )
    schema = Document(help_text="JSON Schema of an order's `document`.")

    def to_representation(self, instance: TemplateVersion) -> Any:
        return super().to_representation(self.said(instance))

    def said(self, version: TemplateVersion) -> dict[str, Any]:
        definition = definition_of(version)
        return {
            "number": version.number,
            "note": version.note,
            "deprecated_at": version.deprecated_at,
            "created_at": version.created_at,
            "releases": definition.releases,
            "pools": definition.pools,
            "addons": definition.addons,
            "burst": definition.burst,
            "schema": definition.schema,
        }


class ClusterTemplateMoreOutput(Output):
    versions = serializers.ListField(
        child=serializers.IntegerField(), help_text="Numbers of versions that can be ordered, newest first."
    )
    definition = DefinitionOutput(help_text="Of the requested version, or of the newest.")


class ClusterTemplateDetailOutput(ClusterTemplateMoreOutput, ClusterTemplateOutput):
    pass


class SiteObjectOutput(Output):
    kind = serializers.CharField()
    name = serializers.CharField()


class PlannedPoolOutput(Output):
    name = serializers.CharField()
    flavor = serializers.CharField(source="flavor.slug")
    site = serializers.CharField(source="flavor.pool.site.slug", help_text="The site of its workers.")
    count = serializers.IntegerField()


class PlannedStepOutput(Output):
    key = serializers.CharField()
    site = serializers.CharField(
        allow_blank=True, help_text="The burst site of the step; empty: the template's own site."
    )
    label = serializers.CharField()


class ClusterPlanOutput(Output):
    template = serializers.CharField()
    version = serializers.IntegerField()
    document = Document(help_text="The order with all defaults: what would be made.")
    fits = serializers.BooleanField()
    hold = serializers.CharField(
        allow_blank=True, help_text="Why nothing more is given here now; otherwise empty."
    )
    checks = CheckOutput(many=True, help_text="Each limit and the site's capacity; fits = false: a deficit.")
    amounts = serializers.DictField(
        child=serializers.IntegerField(), help_text="What the order reserves, by resource."
    )
    quote = QuoteOutput(allow_null=True, help_text="null: the caller may not see prices.")
    usual_seconds = serializers.FloatField(
        source="usual.median", allow_null=True, help_text="Median of earlier orders; null: no history."
    )
    usual_seconds_p90 = serializers.FloatField(source="usual.p90", allow_null=True)
    waiting = serializers.IntegerField(
        help_text=(
            "Number of ready clusters with exactly this choice. Above 0, the order gets one of them in "
            "seconds."
        )
    )
    warnings = serializers.ListField(child=serializers.CharField())
    pools = PlannedPoolOutput(many=True)
    steps = PlannedStepOutput(many=True)
    objects = SiteObjectOutput(
        many=True,
        help_text="Every object that would be made at the sites. The names depend on the id of the order.",
    )
    lease_ends_at = serializers.DateTimeField()


class ClusterPoolOutput(Output):
    name = serializers.CharField()
    flavor = serializers.CharField(source="flavor.slug")
    site = serializers.CharField(
        source="flavor.pool.site.slug",
        help_text="Site of its workers; if it differs from the cluster's, the pool bursts.",
    )
    gpu_type = serializers.CharField(source="flavor.pool.gpu_type.slug")
    gpus = serializers.IntegerField(source="flavor.gpus", help_text="GPUs of one worker.")
    count = serializers.IntegerField(help_text="Workers wanted.")
    confirmed = serializers.IntegerField(help_text="As confirmed by the site.")
    release = serializers.CharField()
    confirmed_release = serializers.CharField(allow_blank=True)


class TroubleOutput(Output):
    step = serializers.CharField()
    cause = serializers.CharField()
    evidence = serializers.ListField(child=serializers.CharField(), help_text="Messages from the site.")
    next = serializers.CharField(help_text="What to do about it.")


class ClusterOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField(source="project.slug")
    organization = serializers.CharField(source="project.organization.slug")
    site = serializers.CharField(source="site.slug")
    kind = serializers.ChoiceField(choices=CLUSTER_KINDS, source="template_version.template.kind")
    template = serializers.CharField(source="template_version.template.slug")
    template_version = serializers.IntegerField(source="template_version.number")
    external_name = serializers.CharField(help_text="Name at the site.")
    state = serializers.ChoiceField(choices=ClusterState.choices)
    trouble = serializers.SerializerMethodField(help_text="Why it failed; null: it did not.")
    release = serializers.CharField(help_text="Wanted release of the control plane.")
    confirmed_release = serializers.CharField(allow_blank=True)
    control_count = serializers.IntegerField()
    pools = ClusterPoolOutput(many=True)
    addons = serializers.ListField(child=serializers.CharField())
    parameters = Document()
    conditions = Conditions()
    lease_ends_at = serializers.DateTimeField()
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()
    ready_at = serializers.DateTimeField(allow_null=True)
    suspended_at = serializers.DateTimeField(allow_null=True)
    deleted_after = serializers.DateTimeField(
        allow_null=True,
        help_text="Set once its lease is over and it sleeps: then it is deleted, unless the lease is extended.",
    )
    deleted_at = serializers.DateTimeField(
        allow_null=True, help_text="When a sweep of the site proved that nothing is left."
    )
    version = serializers.IntegerField()

    @extend_schema_field(TroubleOutput(allow_null=True))
    def get_trouble(self, cluster: Any) -> Any:
        return TroubleOutput(cluster.trouble).data if cluster.trouble else None


class ClusterNodeOutput(Output):
    name = serializers.CharField()
    pool = serializers.CharField(allow_blank=True, help_text="Empty: the control plane.")
    release = serializers.CharField()
    ready = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)


class ClusterStepOutput(StepOutput):
    site = serializers.SerializerMethodField(
        help_text="The burst site of the step; empty: the cluster's own site."
    )
    usual_seconds = serializers.FloatField(
        allow_null=True, help_text="Median of the template; null: no history."
    )

    def get_site(self, view: StepView) -> str:
        return view.step.site.slug if view.step.site else ""


class ClusterOperationOutput(OperationOutput):
    kind = serializers.ChoiceField(choices=CHANGE_KINDS, source="operation.kind")
    steps = ClusterStepOutput(many=True)


class ClusterCostOutput(Output):
    currency = serializers.CharField()
    per_hour = Money(
        help_text=(
            "In `cost` and `now`: what runs now; of a suspended cluster only the control plane. In "
            "`then`: what is wanted."
        )
    )
    to_lease_end = Money(allow_null=True)
    complete = serializers.BooleanField(help_text="false: a price is missing.")


class ClusterScalePlanOutput(Output):
    fits = serializers.BooleanField()
    hold = serializers.CharField(
        allow_blank=True, help_text="Why nothing more is given here now; otherwise empty."
    )
    checks = CheckOutput(
        many=True, help_text="Requested from each limit and from the site, beyond what is held."
    )
    usual_seconds = serializers.FloatField(
        source="usual.median", allow_null=True, help_text="Median of earlier scalings; null: no history."
    )
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="The work that it would end, where the cluster reports it."
    )
    now = ClusterCostOutput(allow_null=True, help_text="null: the caller may not see prices.")
    then = ClusterCostOutput(allow_null=True)


class ClusterMoreOutput(Output):
    endpoint = serializers.CharField(allow_blank=True, help_text="Address of its API.")
    nodes = ClusterNodeOutput(many=True, help_text="As last seen.")
    operation = ClusterOperationOutput(
        allow_null=True, help_text="The newest operation, with its steps and their usual duration."
    )
    cost = ClusterCostOutput(allow_null=True, help_text="null: the caller may not see prices.")


class ClusterDetailOutput(ClusterMoreOutput, ClusterOutput):
    pass


class LedgerEntryOutput(Output):
    site = serializers.SerializerMethodField(help_text="Site of the object.")
    kind = serializers.CharField()
    name = serializers.CharField()
    uid = serializers.CharField(allow_blank=True, help_text="Id of the object at the site.")
    step = serializers.CharField(allow_blank=True, help_text="The step that makes it.")
    written_at = serializers.DateTimeField(
        help_text="When it was recorded, before the site was asked for it."
    )
    seen_at = serializers.DateTimeField(allow_null=True, help_text="When a sweep found it.")
    gone_at = serializers.DateTimeField(
        allow_null=True, help_text="When a sweep proved that it does not exist."
    )
    found = serializers.BooleanField(help_text="true: not planned; a sweep found it.")

    def get_site(self, entry: LedgerEntry) -> str:
        return (entry.site or entry.cluster.site).slug


ORDER_EXAMPLE = OpenApiExample(
    "Two workers for a week",
    value={
        "template": "kubernetes-h100",
        "name": "train",
        "document": {"release": "1.35.6", "pools": {"gpu": {"count": 2}}},
        "lease_ends_at": "2026-12-01T18:00:00Z",
    },
    request_only=True,
)
