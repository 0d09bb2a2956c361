"""Operators: how many clusters of which choice are kept ready, and what became of them."""

import uuid

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.clusters import warm_pool_cost
from billing.selectors.running import warm_pool_rate
from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import ChangeInput, Input, Money, Output, Text, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.platform import TemplateView
from gpuaas.api.v1.clusters.shapes import Document
from gpuaas.clusters import services
from gpuaas.clusters.models import WarmPool
from gpuaas.clusters.waiting import warm_pool_get, warm_pools
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import one_or_none
from tenants.models import Project

CHOICE = (
    "The choice, as in an order. Fields left out take the defaults of the newest version of the "
    "template, whichever that is."
)


class WarmPoolInput(Input):
    name = Text(max_length=20)
    project = Text(
        max_length=64,
        help_text="The project that holds the ready clusters and pays for them until they are claimed.",
    )
    document = Document(help_text=CHOICE)
    wanted = Whole(help_text="Number of clusters to keep ready.")
    making_most = Whole(required=False, default=1, help_text="How many are made at a time.")


class WarmPoolPatchInput(ChangeInput):
    document = Document(required=False, help_text=CHOICE)
    wanted = Whole(required=False)
    making_most = Whole(required=False)


class WarmPoolOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    template = serializers.CharField(source="template.slug")
    project = serializers.CharField(source="project.slug")
    document = Document()
    wanted = serializers.IntegerField()
    making_most = serializers.IntegerField()
    ready = serializers.IntegerField(help_text="Number of clusters that can be claimed now.")
    making = serializers.IntegerField()
    claimed = serializers.IntegerField(help_text="Number of clusters claimed so far.")
    claimed_last = serializers.DateTimeField(allow_null=True)
    trouble = serializers.CharField(help_text="Why fewer are ready than wanted, if known.")
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()


class WarmPoolCostOutput(Output):
    per_hour = Money(help_text="Present hourly cost of its ready clusters to the project, exact.")
    cost_month = Money(
        help_text="Cost of its ready clusters to the project this month, until they were claimed."
    )


class WarmPoolDetailOutput(WarmPoolOutput, WarmPoolCostOutput):
    pass


class WarmView(TemplateView):
    """Views of the warm pools of one template."""

    def pool(self) -> WarmPool:
        template = self.template()
        return warm_pool_get(actor=self.actor, template=template, pool_id=self.kwargs["warm_pool"])

    def pool_shown(self, pool: WarmPool, *, status: int = 200) -> Response:
        row = warm_pool_get(actor=self.actor, template=pool.template, pool_id=pool.pk)
        cost = {
            "per_hour": warm_pool_rate(actor=self.actor, pool=row).per_hour,
            "cost_month": warm_pool_cost(actor=self.actor, pool=row),
        }
        names = {"template": row.template.slug, "warm_pool": row.pk}
        where = reverse("api:platform-warm-pool", kwargs=names)
        headers = {"ETag": etag(row.version)} | ({"Location": where} if status == 201 else {})
        data = {**WarmPoolOutput(row).data, **WarmPoolCostOutput(cost).data}
        return Response(data, status=status, headers=headers)


class WarmPoolsView(WarmView):
    @operation("platform_warm_pool_list", "List warm pools", rows=WarmPoolOutput)
    def get(self, request: Request, template: str) -> Response:
        """Lists warm pools with the numbers of clusters that are ready, being made, and claimed."""
        rows = warm_pools(actor=self.actor, template=self.template())
        return self.page(rows, WarmPoolOutput, key="pk")

    @operation(
        "platform_warm_pool_create", "Create a warm pool", body=WarmPoolInput, created=WarmPoolDetailOutput
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """Starts to keep clusters of the template's newest version ready. An order of exactly this choice gets one of
        them in seconds."""
        found = self.template()
        asked = self.input(WarmPoolInput)
        slug = asked.pop("project")
        project = one_or_none(Project.objects.select_related("organization").filter(slug=slug))
        if project is None:
            raise Invalid.field("project", f"there is no project {slug!r}")
        made = services.warm_pool_create(actor=self.actor, template=found, project=project, **asked)
        return self.pool_shown(made, status=201)


class WarmPoolView(WarmView):
    @operation("platform_warm_pool_get", "Get a warm pool", answer=WarmPoolDetailOutput)
    def get(self, request: Request, template: str, warm_pool: uuid.UUID) -> Response:
        """Returns its target, the clusters that are ready now, and their cost. Send the ETag as If-Match with a
        change."""
        return self.pool_shown(self.pool())

    @operation(
        "platform_warm_pool_change",
        "Change a warm pool",
        body=WarmPoolPatchInput,
        answer=WarmPoolDetailOutput,
        versioned=True,
    )
    def patch(self, request: Request, template: str, warm_pool: uuid.UUID) -> Response:
        """Ready clusters of the previous choice are deleted once as many of the new one are ready."""
        found = self.pool()
        asked = self.input(WarmPoolPatchInput)
        changed = services.warm_pool_update(
            actor=self.actor, pool=found, expected_version=wanted_version(request), **asked
        )
        return self.pool_shown(changed)

    @operation("platform_warm_pool_end", "Remove a warm pool", versioned=True)
    def delete(self, request: Request, template: str, warm_pool: uuid.UUID) -> Response:
        """Deletes the ready clusters; claimed ones belong to their tenants and stay."""
        services.warm_pool_end(actor=self.actor, pool=self.pool(), expected_version=wanted_version(request))
        return Response(status=204)
