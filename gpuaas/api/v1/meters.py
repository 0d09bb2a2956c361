"""Operators: how well the usage of a site is counted."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import ConditionOutput, Output, PageQuery
from gpuaas.api.schema import operation, page_of
from gpuaas.api.views import ApiView
from gpuaas.catalog.selectors import site_get_for
from gpuaas.metering.health import meter_conditions
from gpuaas.metering.selectors import cross_checks_of, gaps_of, meters_for

TAG = "platform"


class SiteMeterOutput(Output):
    site = serializers.CharField()
    last_event_at = serializers.DateTimeField(allow_null=True)
    last_proof_at = serializers.DateTimeField(
        allow_null=True, help_text="Up to here everything that happened at the site is counted."
    )
    conditions = ConditionOutput(many=True)


class FindingOutput(Output):
    uid = serializers.CharField()
    name = serializers.CharField()
    workspace = serializers.CharField(help_text="By its name at the site.")
    resource = serializers.CharField()
    what = serializers.ChoiceField(
        choices=[
            ("uncounted", "held and not counted"),
            ("ended", "ended and counted on"),
            ("gone", "gone and counted on"),
            ("differs", "counted otherwise than held"),
        ]
    )
    detail = serializers.CharField(allow_blank=True)
    repaired = serializers.BooleanField()


class CrossCheckOutput(Output):
    id = serializers.UUIDField()
    checked_at = serializers.DateTimeField()
    compared = serializers.IntegerField(help_text="Consumers, each with one resource.")
    findings = FindingOutput(many=True)


class MeterGapOutput(Output):
    id = serializers.UUIDField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    closed = serializers.IntegerField(help_text="Intervals that were closed at their last proof of life.")


class SiteMeterView(ApiView):
    @operation("platform_site_meter", "The meter of a site", tag=TAG, answer=SiteMeterOutput)
    def get(self, request: Request, site: str) -> Response:
        """When it last heard of the site, and whether anything is missing."""
        del request
        found = site_get_for(actor=self.actor, slug=site)
        meter = meters_for(actor=self.actor).filter(site=found).first()
        answer = {
            "site": found.slug,
            "last_event_at": meter.last_event_at if meter else None,
            "last_proof_at": meter.last_proof_at if meter else None,
            "conditions": meter_conditions(site_id=found.pk),
        }
        return Response(SiteMeterOutput(answer).data)


class CrossChecksView(ApiView):
    @operation(
        "platform_cross_checks",
        "Cross-checks of a site",
        tag=TAG,
        answer=page_of(CrossCheckOutput),
        query=PageQuery,
    )
    def get(self, request: Request, site: str) -> Response:
        """Once a day usage is compared with a full list of what the site has; newest first."""
        del request
        found = site_get_for(actor=self.actor, slug=site)
        return self.page(cross_checks_of(actor=self.actor, site=found), CrossCheckOutput, key="-pk")


class MeterGapsView(ApiView):
    @operation(
        "platform_meter_gaps",
        "Gaps of a site's meter",
        tag=TAG,
        answer=page_of(MeterGapOutput),
        query=PageQuery,
    )
    def get(self, request: Request, site: str) -> Response:
        """Stretches of which the site keeps no history: usage there is estimated. Newest first."""
        del request
        found = site_get_for(actor=self.actor, slug=site)
        return self.page(gaps_of(actor=self.actor, site=found), MeterGapOutput, key="-pk")
