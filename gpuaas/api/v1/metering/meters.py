"""Operators: how accurately the usage of a site is counted."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import ConditionOutput, Output
from gpuaas.api.schema import operation
from gpuaas.api.views import SiteView
from gpuaas.metering.health import meter_conditions
from gpuaas.metering.selectors import cross_checks_of, gaps_of, meters_for


class SiteMeterOutput(Output):
    site = serializers.CharField()
    last_event_at = serializers.DateTimeField(allow_null=True)
    last_proof_at = serializers.DateTimeField(
        allow_null=True, help_text="Everything that happened at the site until this time is counted."
    )
    conditions = ConditionOutput(many=True)


class FindingOutput(Output):
    uid = serializers.CharField()
    name = serializers.CharField()
    workspace = serializers.CharField(help_text="Its name at the site.")
    resource = serializers.CharField()
    what = serializers.ChoiceField(
        choices=[
            ("uncounted", "held but not counted"),
            ("ended", "ended but still counted"),
            ("gone", "gone but still counted"),
            ("differs", "counted differently than held"),
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


class SiteMeterView(SiteView):
    @operation("platform_site_meter", "Get the meter of a site", answer=SiteMeterOutput)
    def get(self, request: Request, site: str) -> Response:
        """Returns when the meter last heard from the site, and whether anything is missing."""
        found = self.site()
        meter = meters_for(actor=self.actor).filter(site=found).first()
        answer = {
            "site": found.slug,
            "last_event_at": meter.last_event_at if meter else None,
            "last_proof_at": meter.last_proof_at if meter else None,
            "conditions": meter_conditions(site_id=found.pk),
        }
        return Response(SiteMeterOutput(answer).data)


class CrossChecksView(SiteView):
    @operation("platform_cross_checks", "List cross-checks of a site", rows=CrossCheckOutput)
    def get(self, request: Request, site: str) -> Response:
        """Usage is compared with a full list of the site's consumers once a day. Newest first."""
        found = self.site()
        return self.page(cross_checks_of(actor=self.actor, site=found), CrossCheckOutput, key="-pk")


class MeterGapsView(SiteView):
    @operation("platform_meter_gaps", "List gaps of a site's meter", rows=MeterGapOutput)
    def get(self, request: Request, site: str) -> Response:
        """Lists periods for which the site has no history: usage in them is estimated. Newest first."""
        found = self.site()
        return self.page(gaps_of(actor=self.actor, site=found), MeterGapOutput, key="-pk")
