"""What may be ordered in a project, and what an order would take: cluster templates and plans."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from billing.clusters import cluster_plan_priced, cluster_quote
from gpuaas.api.fields import Input, PageQuery, QueryWhole
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.cluster_shapes import (
    ClusterPlanInput,
    ClusterPlanOutput,
    ClusterScalePlanInput,
    ClusterScalePlanOutput,
    ClusterTemplateDetailOutput,
    ClusterTemplateMoreOutput,
    ClusterTemplateOutput,
)
from gpuaas.api.v1.clusters import TAG, ClusterView, version_named
from gpuaas.api.views import ProjectView
from gpuaas.clusters.selectors import template_get_for, template_version_get, templates_for, usual_time
from gpuaas.clusters.services import scale_preview
from gpuaas.providers.base import ClusterChange
from tenants.roles import Permission


class VersionQuery(Input):
    version = QueryWhole(required=False, min_value=1, help_text="Of the template; default: the newest.")


class ClusterTemplatesView(ProjectView):
    @operation(
        "cluster_template_list",
        "List what may be ordered",
        tag=TAG,
        answer=page_of(ClusterTemplateOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str) -> Response:
        """Templates for everybody, and those that are given to the project's organization."""
        del request, project
        found = self.project(Permission.WORKSPACE_VIEW)
        return self.page(templates_for(actor=self.actor, project=found), ClusterTemplateOutput, key="slug")


class ClusterTemplateView(ProjectView):
    @operation(
        "cluster_template_get",
        "Look at a template",
        tag=TAG,
        answer=ClusterTemplateDetailOutput,
        query=VersionQuery,
    )
    def get(self, request: Request, project: str, template: str) -> Response:
        """With the JSON Schema of an order's document: what it takes, a form of plain fields can hold."""
        del request, project
        found = self.project(Permission.WORKSPACE_VIEW)
        row = template_get_for(actor=self.actor, project=found, slug=template)
        version = template_version_get(template=row, number=self.params.get("version"))
        more = {"versions": [one.number for one in row.versions.all()], "definition": version}
        return Response({**ClusterTemplateOutput(row).data, **ClusterTemplateMoreOutput(more).data})


class ClusterPlanView(ProjectView):
    @operation(
        "cluster_plan", "What would an order take", tag=TAG, body=ClusterPlanInput, answer=ClusterPlanOutput
    )
    def post(self, request: Request, project: str) -> Response:
        """Fit or deficit of each limit and of the site, price, usual time, warnings, and every object that would be made.
        Nothing is reserved. Safe to repeat, so it takes no Idempotency-Key.
        """
        del request, project
        found = self.project(Permission.WORKSPACE_VIEW)
        asked = self.input(ClusterPlanInput)
        version_named(self.actor, found, asked)
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
        "cluster_scale_plan",
        "What would other numbers of workers take",
        tag=TAG,
        body=ClusterScalePlanInput,
        answer=ClusterScalePlanOutput,
    )
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Fit or deficit beyond what is held, and the price now and then. Nothing is reserved. Safe to repeat, so it takes
        no Idempotency-Key.
        """
        del request, project, cluster
        found = self.cluster(Permission.WORKSPACE_VIEW)
        counts = self.input(ClusterScalePlanInput)["pools"]
        admission = scale_preview(cluster=found, counts=counts)
        held = self.actor.on_project(found.project_id, found.project.organization_id)
        priced = Permission.BILLING_VIEW in held
        said = {
            "fits": admission.fits,
            "hold": admission.hold,
            "checks": admission.checks,
            "usual": usual_time(template_id=found.template_version.template_id, kind=ClusterChange.SCALE),
            "now": cluster_quote(cluster=found) if priced else None,
            "then": cluster_quote(cluster=found, counts=counts) if priced else None,
        }
        return Response(ClusterScalePlanOutput(said).data)
