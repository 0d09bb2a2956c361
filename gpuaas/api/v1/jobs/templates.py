"""Templates of jobs of a project: values that orders begin with, and which of them are locked."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.fields import ChangeInput, Input, Output, Pick, Text, TextOrEmpty
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.jobs.shapes import JobOrderInput
from gpuaas.api.views import ProjectView
from gpuaas.jobs import services
from gpuaas.jobs.document import FIELDS
from gpuaas.jobs.models import JobTemplate
from gpuaas.jobs.selectors import template_get_for, templates_for
from gpuaas.jobs.services.templates import DESCRIPTION_MOST
from tenants.roles import Permission

ORDER = "Fields of a job with the values that jobs begin with; those that are left out are as usual, or given by the order."
LOCKED = (
    "Names of fields that an order may not change. `workspace`, `name` and `image` need a value to be locked."
)


def _locked() -> serializers.ListField:
    return serializers.ListField(
        child=Pick(choices=FIELDS), required=False, max_length=len(FIELDS), help_text=LOCKED
    )


class JobTemplateInput(Input):
    name = Text(
        max_length=40,
        help_text="Unique in the project: lower-case letters, digits and hyphens. Orders name it.",
    )
    description = TextOrEmpty(max_length=DESCRIPTION_MOST)
    order = JobOrderInput(help_text=ORDER)
    locked = _locked()


class JobTemplatePatchInput(ChangeInput):
    name = Text(required=False, max_length=40)
    description = Text(required=False, max_length=DESCRIPTION_MOST, allow_blank=True)
    order = JobOrderInput(required=False, help_text="Replaces all values.")
    locked = _locked()


class JobTemplateOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    order = serializers.DictField(help_text="Without what is as usual.")
    locked = serializers.ListField(child=serializers.CharField())
    version = serializers.IntegerField()
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()


class JobTemplatesView(ProjectView):
    @operation("job_template_list", "List templates of jobs", rows=JobTemplateOutput)
    def get(self, request: Request, project: str) -> Response:
        """By which jobs of the project can be submitted, by their names."""
        found = self.project(Permission.WORKSPACE_VIEW)
        return self.page(templates_for(actor=self.actor, project=found), JobTemplateOutput, key="name")

    @operation(
        "job_template_create", "Add a template of jobs", body=JobTemplateInput, created=JobTemplateOutput
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Its values are judged as an order's, but for what a workspace has bought, which counts when a job is submitted."""
        found = self.project(Permission.WORKSPACE_ACCESS)
        row = services.template_create(actor=self.actor, project=found, **self.input(JobTemplateInput))
        return Response(JobTemplateOutput(row).data, status=201)


class JobTemplateView(ProjectView):
    def _row(self, permission: Permission) -> JobTemplate:
        found, named = self.project(permission), self.kwargs["job_template"]
        return template_get_for(actor=self.actor, project=found, template_id=named, permission=permission)

    @operation("job_template_get", "Get a template of jobs", answer=JobTemplateOutput)
    def get(self, request: Request, project: str, job_template: uuid.UUID) -> Response:
        """Everybody who sees the project's jobs sees all of it."""
        row = self._row(Permission.WORKSPACE_VIEW)
        return answer(request, version=row.version, data=JobTemplateOutput(row).data)

    @operation(
        "job_template_change",
        "Change a template of jobs",
        body=JobTemplatePatchInput,
        answer=JobTemplateOutput,
        versioned=True,
    )
    def patch(self, request: Request, project: str, job_template: uuid.UUID) -> Response:
        """Jobs that were submitted by it stay as they are."""
        row = self._row(Permission.WORKSPACE_ACCESS)
        asked, version = self.input(JobTemplatePatchInput), wanted_version(request)
        row = services.template_change(actor=self.actor, template=row, expected_version=version, **asked)
        return Response(JobTemplateOutput(row).data, headers={"ETag": etag(row.version)})

    @operation("job_template_delete", "Delete a template of jobs")
    def delete(self, request: Request, project: str, job_template: uuid.UUID) -> Response:
        """Jobs that were submitted by it stay, and keep its name."""
        services.template_delete(actor=self.actor, template=self._row(Permission.WORKSPACE_ACCESS))
        return Response(status=204)
