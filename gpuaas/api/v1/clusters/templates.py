"""Cluster templates that a project may order, and plans of orders."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from billing.clusters import cluster_plan_priced, cluster_wanted_quote
from billing.held import held_quote
from gpuaas.api.fields import Input, QueryWhole
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.shapes import (
    ClusterPlanInput,
    ClusterPlanOutput,
    ClusterScalePlanInput,
    ClusterScalePlanOutput,
    ClusterTemplateDetailOutput,
    ClusterTemplateMoreOutput,
    ClusterTemplateOutput,
)
from gpuaas.api.v1.clusters.views import ClusterView, version_named
from gpuaas.api.views import ProjectView
from gpuaas.clusters.selectors import template_get_for, template_version_get, templates_for, usual_time
from gpuaas.clusters.services import scale_preview, scale_warnings
from gpuaas.providers.base import Change
from tenants.roles import Permission


class VersionQuery(Input):
    version = QueryWhole(
        required=False, min_value=1, help_text="Version of the template. Default: the newest."
    )


class ClusterTemplatesView(ProjectView):
    @operation("cluster_template_list", "List cluster templates", rows=ClusterTemplateOutput)
    def get(self, request: Request, project: str) -> Response:
        """Lists public templates, and those granted to the project's organization."""
        found = self.project(Permission.WORKSPACE_VIEW)
        return self.page(templates_for(actor=self.actor, project=found), ClusterTemplateOutput, key="slug")


class ClusterTemplateView(ProjectView):
    @operation(
        "cluster_template_get",
        "Get a cluster template",
        answer=ClusterTemplateDetailOutput,
        query=VersionQuery,
    )
    def get(self, request: Request, project: str, template: str) -> Response:
        """Returns the template with the JSON Schema of an order's document, which is simple enough for a generated
        form."""
        found = self.project(Permission.WORKSPACE_VIEW)
        row = template_get_for(actor=self.actor, project=found, slug=template)
        version = template_version_get(template=row, number=self.params.get("version"))
        more = {"versions": [one.number for one in row.versions.all()], "definition": version}
        return Response({**ClusterTemplateOutput(row).data, **ClusterTemplateMoreOutput(more).data})


class ClusterPlanView(ProjectView):
    @operation("cluster_plan", "Plan an order", body=ClusterPlanInput, answer=ClusterPlanOutput)
    def post(self, request: Request, project: str) -> Response:
        """Returns the margin or deficit of each limit and of the site, the price, the usual time, warnings, and every
        object that would be made. Reserves nothing. Safe to repeat, so it takes no Idempotency-Key."""
        found = self.project(Permission.WORKSPACE_VIEW)
        asked = self.input(ClusterPlanInput)
        version_named(found, asked)
        priced = cluster_plan_priced(
            actor=self.actor,
            project=found,
            template=asked["template"],
            number=asked.get("version"),
            document=asked["document"],
            name=asked.get("name"),
            lease_ends_at=asked.get("lease_ends_at"),
        )
        plan = priced.plan
        draft = plan.draft
        said = {
            "template": draft.cluster.template_version.template.slug,
            "version": draft.cluster.template_version.number,
            "document": draft.document,
            "fits": plan.fits,
            "hold": plan.admission.hold,
            "checks": plan.admission.checks,
            "amounts": draft.amounts,
            "quote": priced.quote,
            "usual": plan.usual,
            "waiting": plan.waiting,
            "warnings": plan.warnings,
            "pools": draft.pools,
            "steps": draft.plan.steps,
            "objects": draft.plan.objects,
            "lease_ends_at": draft.cluster.lease_ends_at,
        }
        return Response(ClusterPlanOutput(said).data)


class ClusterScalePlanView(ClusterView):
    @operation(
        "cluster_scale_plan", "Plan a scaling", body=ClusterScalePlanInput, answer=ClusterScalePlanOutput
    )
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Returns the margin or deficit beyond what is held, the price before and after, and the work that it would end.
        Reserves nothing. Safe to repeat, so it takes no Idempotency-Key."""
        found = self.held(Permission.WORKSPACE_VIEW)
        counts = self.input(ClusterScalePlanInput)["pools"]
        admission = scale_preview(cluster=found, counts=counts)
        priced = self.sees_prices(found.project)
        said = {
            "fits": admission.fits,
            "hold": admission.hold,
            "checks": admission.checks,
            "usual": usual_time(template_id=found.template_version.template_id, kind=Change.SCALE),
            "warnings": scale_warnings(cluster=found, counts=counts),
            "now": held_quote(holder=found) if priced else None,
            "then": cluster_wanted_quote(cluster=found, counts=counts) if priced else None,
        }
        return Response(ClusterScalePlanOutput(said).data)
