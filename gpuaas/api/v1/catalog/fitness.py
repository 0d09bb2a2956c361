"""Operators: the preflight checks of a site and the health of its nodes."""

import uuid

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import ConditionOutput, Input, Output, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.views import SiteView
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import node_check_get_for, node_checks_of, site_checks
from gpuaas.catalog.services import node_check_request, site_preflight_request
from gpuaas.catalog.states import NodeCheckState


class SiteChecksOutput(Output):
    fit = serializers.BooleanField(help_text="false: a check forbids new requests there.")
    sell_unfit = serializers.BooleanField(help_text="true: an operator sells there despite the checks.")
    preflight_at = serializers.DateTimeField(allow_null=True, help_text="When all checks last ran.")
    checks = ConditionOutput(many=True)


class NodeCheckInput(Input):
    node = Text(max_length=253, help_text="A node of the site with GPUs.")


class NodeCheckOutput(Output):
    id = serializers.UUIDField()
    site = serializers.CharField(source="site.slug")
    node = serializers.CharField()
    state = serializers.ChoiceField(choices=NodeCheckState.choices)
    detail = serializers.CharField(allow_blank=True, help_text="The result, or what the check waits for.")
    output = serializers.CharField(allow_blank=True, help_text="Output of nvidia-smi.")
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(
        allow_null=True, help_text="When the check had ended and nothing of it was left at the site."
    )


def shown(site: Site) -> dict[str, object]:
    columns = {name: getattr(site, name) for name in ("fit", "sell_unfit", "preflight_at")}
    return dict(SiteChecksOutput({**columns, "checks": site_checks(site=site)}).data)


class SiteChecksView(SiteView):
    @operation("platform_site_checks", "Get the checks of a site", answer=SiteChecksOutput)
    def get(self, request: Request, site: str) -> Response:
        """Returns the latest result of every check with its remedy. Failed checks come first."""
        return Response(shown(self.site()))


class SitePreflightView(SiteView):
    @operation("platform_site_preflight", "Start the checks of a site", accepted=SiteChecksOutput)
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Starts the checks and answers with the present results. `preflight_at` changes when the new results are
        ready."""
        found = self.site()
        site_preflight_request(actor=self.actor, site=found)
        return Response(shown(found), status=202)


class NodeChecksView(SiteView):
    @operation("platform_node_check_list", "List node checks", rows=NodeCheckOutput)
    def get(self, request: Request, site: str) -> Response:
        """Newest first."""
        return self.page(node_checks_of(site=self.site()), NodeCheckOutput, key="-pk")

    @operation("platform_node_check_create", "Check a node", body=NodeCheckInput, accepted=NodeCheckOutput)
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Runs nvidia-smi on one GPU of the node as soon as one is free. Gives up after an hour."""
        found = self.site()
        made = node_check_request(actor=self.actor, site=found, **self.input(NodeCheckInput))
        where = reverse("api:platform-node-check", kwargs={"site": found.slug, "check": made.pk})
        return Response(NodeCheckOutput(made).data, status=202, headers={"Location": where})


class NodeCheckView(SiteView):
    @operation("platform_node_check_get", "Get a node check", answer=NodeCheckOutput)
    def get(self, request: Request, site: str, check: uuid.UUID) -> Response:
        """Returns its state, its result, and the output of nvidia-smi."""
        found = node_check_get_for(actor=self.actor, site=self.site(), id=check)
        return Response(NodeCheckOutput(found).data)
