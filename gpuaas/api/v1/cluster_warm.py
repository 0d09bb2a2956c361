"""Operators: how many clusters of which choice are kept ready, and what became of them."""

import uuid
from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.clusters import warm_pool_cost
from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Input, Money, Output, PageQuery, Text, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.cluster_platform import TAG, TemplateView
from gpuaas.api.v1.cluster_shapes import Document
from gpuaas.clusters import services
from gpuaas.clusters.models import WarmPool
from gpuaas.clusters.waiting import warm_pool_get, warm_pools
from gpuaas.core.errors import Invalid
from tenants.models import Project
from tenants.roles import Permission

CHOICE = "As of an order; what it leaves out is the default of the template's newest version, each time anew."


class WarmPoolInput(Input):
    name = Text(max_length=20)
    project = Text(max_length=64, help_text="Where they wait: it holds and pays them until they are claimed.")
    document = Document(help_text=CHOICE)
    wanted = Whole(help_text="So many are kept ready.")
    making_most = Whole(required=False, default=1, help_text="So many are made at once.")


class WarmPoolPatchInput(Input):
    document = Document(required=False, help_text=CHOICE)
    wanted = Whole(required=False)
    making_most = Whole(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError("say what shall change: document, wanted or making_most")
        return attrs


class WarmPoolOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    template = serializers.CharField(source="template.slug")
    project = serializers.CharField(source="project.slug")
    document = Document()
    wanted = serializers.IntegerField()
    making_most = serializers.IntegerField()
    ready = serializers.IntegerField(help_text="So many could be claimed now.")
    making = serializers.IntegerField()
    claimed = serializers.IntegerField(help_text="So many were, ever.")
    claimed_last = serializers.DateTimeField(allow_null=True)
    trouble = serializers.CharField(help_text="Why fewer are ready than wanted, as far as that is known.")
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()


class WarmPoolCostOutput(Output):
    cost_month = Money(help_text="What they have cost the project this month, until they were claimed.")


class WarmPoolDetailOutput(WarmPoolOutput, WarmPoolCostOutput):
    pass


class WarmView(TemplateView):
    """Views of the warm pools of one template."""

    def pool(self, permission: Permission = Permission.PLATFORM_MANAGE) -> WarmPool:
        template = self.template(permission)
        return warm_pool_get(actor=self.actor, template=template, pool_id=self.kwargs["warm_pool"])

    def pool_shown(self, pool: WarmPool, *, status: int = 200) -> Response:
        row = warm_pool_get(actor=self.actor, template=pool.template, pool_id=pool.pk)
        cost = {"cost_month": warm_pool_cost(actor=self.actor, pool=row)}
        names = {"template": row.template.slug, "warm_pool": row.pk}
        where = reverse("api:platform-warm-pool", kwargs=names)
        headers = {"ETag": etag(row.version)} | ({"Location": where} if status == 201 else {})
        data = {**WarmPoolOutput(row).data, **WarmPoolCostOutput(cost).data}
        return Response(data, status=status, headers=headers)


class WarmPoolsView(WarmView):
    @operation(
        "platform_warm_pool_list",
        "List warm pools",
        tag=TAG,
        answer=page_of(WarmPoolOutput),
        query=PageQuery,
    )
    def get(self, request: Request, template: str) -> Response:
        """With how many are ready, are being made and were claimed."""
        del request, template
        rows = warm_pools(actor=self.actor, template=self.template(Permission.PLATFORM_VIEW))
        return self.page(rows, WarmPoolOutput, key="pk")

    @operation(
        "platform_warm_pool_create",
        "Keep clusters ready",
        tag=TAG,
        body=WarmPoolInput,
        answer=WarmPoolDetailOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """Of the template's newest version, from now on. An order of exactly this choice is served by one of them in seconds."""
        del request, template
        found = self.template()
        asked = self.input(WarmPoolInput)
        slug = asked.pop("project")
        project = Project.objects.select_related("organization").filter(slug=slug).first()
        if project is None:
            raise Invalid.field("project", f"there is no project {slug!r}")
        made = services.warm_pool_create(actor=self.actor, template=found, project=project, **asked)
        return self.pool_shown(made, status=201)


class WarmPoolView(WarmView):
    @operation("platform_warm_pool_get", "Look at a warm pool", tag=TAG, answer=WarmPoolDetailOutput)
    def get(self, request: Request, template: str, warm_pool: uuid.UUID) -> Response:
        del request, template, warm_pool
        return self.pool_shown(self.pool(Permission.PLATFORM_VIEW))

    @operation(
        "platform_warm_pool_change",
        "Keep more, fewer or others ready",
        tag=TAG,
        body=WarmPoolPatchInput,
        answer=WarmPoolDetailOutput,
        versioned=True,
    )
    def patch(self, request: Request, template: str, warm_pool: uuid.UUID) -> Response:
        """What waits and is of another choice goes once as many of the new one are ready."""
        del template, warm_pool
        found = self.pool()
        asked = self.input(WarmPoolPatchInput)
        changed = services.warm_pool_update(
            actor=self.actor, pool=found, expected_version=wanted_version(request), **asked
        )
        return self.pool_shown(changed)

    @operation("platform_warm_pool_end", "Keep nothing ready any more", tag=TAG, status=204, versioned=True)
    def delete(self, request: Request, template: str, warm_pool: uuid.UUID) -> Response:
        """What waits is deleted; what was claimed is the tenants'."""
        del template, warm_pool
        services.warm_pool_end(actor=self.actor, pool=self.pool(), expected_version=wanted_version(request))
        return Response(status=204)
