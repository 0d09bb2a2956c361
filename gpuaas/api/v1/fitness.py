"""Operators: is a site fit to be sold, and are its nodes well?"""

import uuid

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import ConditionOutput, Input, Output, PageQuery, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.views import ApiView
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import node_check_get_for, node_checks_of, site_checks, site_get_for
from gpuaas.catalog.services import node_check_request, site_preflight_request
from gpuaas.catalog.states import NodeCheckState
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG = "platform"


class SiteChecksOutput(Output):
    fit = serializers.BooleanField(help_text="false: one of the checks forbids to sell anything new there.")
    sell_unfit = serializers.BooleanField(help_text="An operator sells there all the same.")
    preflight_at = serializers.DateTimeField(allow_null=True, help_text="When all checks were last made.")
    checks = ConditionOutput(many=True)


class NodeCheckInput(Input):
    node = Text(max_length=253, help_text="A node of the site with GPUs.")


class NodeCheckOutput(Output):
    id = serializers.UUIDField()
    site = serializers.CharField(source="site.slug")
    node = serializers.CharField()
    state = serializers.ChoiceField(choices=NodeCheckState.choices)
    detail = serializers.CharField(allow_blank=True, help_text="What was found, or what it waits for.")
    output = serializers.CharField(allow_blank=True, help_text="What nvidia-smi printed.")
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(
        allow_null=True, help_text="When it was over and nothing of it was left at the site."
    )


class SiteView(ApiView):
    """Views below /platform/sites/{site}/…"""

    def site(self, *, manage: bool = False) -> Site:
        if manage:
            platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        return site_get_for(actor=self.actor, slug=self.kwargs["site"])


def shown(site: Site) -> dict[str, object]:
    columns = {name: getattr(site, name) for name in ("fit", "sell_unfit", "preflight_at")}
    return dict(SiteChecksOutput({**columns, "checks": site_checks(site=site)}).data)


class SiteChecksView(SiteView):
    @operation("platform_site_checks", "Is the site fit to be sold?", tag=TAG, answer=SiteChecksOutput)
    def get(self, request: Request, site: str) -> Response:
        """Every check with its remedy, as last made; what is not as it should be comes first."""
        del request, site
        return Response(shown(self.site()))


class SitePreflightView(SiteView):
    @operation(
        "platform_site_preflight",
        "Check the site now",
        tag=TAG,
        answer=SiteChecksOutput,
        status=202,
    )
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Answers with what is known so far; `preflight_at` moves when the new checks are made."""
        del request, site
        found = self.site(manage=True)
        site_preflight_request(actor=self.actor, site=found)
        return Response(shown(found), status=202)


class NodeChecksView(SiteView):
    @operation(
        "platform_node_check_list",
        "List checks of nodes",
        tag=TAG,
        answer=page_of(NodeCheckOutput),
        query=PageQuery,
    )
    def get(self, request: Request, site: str) -> Response:
        """The latest first."""
        del request, site
        return self.page(node_checks_of(site=self.site()), NodeCheckOutput, key="-pk")

    @operation(
        "platform_node_check_create",
        "Check a node",
        tag=TAG,
        body=NodeCheckInput,
        answer=NodeCheckOutput,
        status=202,
    )
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Runs nvidia-smi on one GPU of the node as soon as one is free, for at most an hour."""
        del request, site
        found = self.site(manage=True)
        made = node_check_request(actor=self.actor, site=found, **self.input(NodeCheckInput))
        where = reverse("api:platform-node-check", kwargs={"site": found.slug, "check": made.pk})
        return Response(NodeCheckOutput(made).data, status=202, headers={"Location": where})


class NodeCheckView(SiteView):
    @operation("platform_node_check_get", "Look at a check of a node", tag=TAG, answer=NodeCheckOutput)
    def get(self, request: Request, site: str, check: uuid.UUID) -> Response:
        del request, site
        found = node_check_get_for(actor=self.actor, site=self.site(), id=check)
        return Response(NodeCheckOutput(found).data)
