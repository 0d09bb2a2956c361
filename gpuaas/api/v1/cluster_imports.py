"""Operators: the parameters of a template, as its site says that they may be chosen."""

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Output
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.cluster_platform import TAG, TemplateVersionOutput, TemplateView
from gpuaas.api.v1.cluster_shapes import Document
from gpuaas.clusters import services
from gpuaas.clusters.difference import ChangeKind
from gpuaas.clusters.imports import parameters_import_answer, parameters_import_get
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.core import clock
from tenants.roles import Permission


class ParameterChangeOutput(Output):
    parameter = serializers.CharField(help_text="Of an object inside: names with a dot between them.")
    kind = serializers.ChoiceField(choices=[(one.value, one.value) for one in ChangeKind])
    breaking = serializers.BooleanField(help_text="An order that was taken before may be refused.")
    says = serializers.ListField(child=serializers.CharField())


class MisfitOutput(Output):
    name = serializers.CharField()
    project = serializers.CharField()
    cluster = serializers.UUIDField(
        source="cluster.pk", default=None, allow_null=True, help_text="null: a warm pool."
    )
    says = serializers.CharField()


class ImportOutput(Output):
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    base = serializers.IntegerField(
        source="base.number", help_text="The version whose settings the site was asked with."
    )
    pending = serializers.BooleanField(help_text="The site is being asked, or will be again.")
    failure = serializers.CharField(help_text="Why there is no answer, and what to do.")
    read_at = serializers.DateTimeField(allow_null=True)
    parameters = Document(allow_null=True, help_text="JSON Schema, as of a template's document.")
    published = serializers.IntegerField(
        source="published.number",
        default=None,
        allow_null=True,
        help_text="The version that was made of it.",
    )


class ImportAnswerOutput(Output):
    publishable = serializers.BooleanField(
        help_text="false: the template has a newer version since, or it was read more than a day ago."
    )
    changes = ParameterChangeOutput(many=True, help_text="To the version `base`; what breaks comes first.")
    misfits = MisfitOutput(many=True, help_text="What is there and has chosen what the site no longer takes.")


class ImportDetailOutput(ImportOutput, ImportAnswerOutput):
    pass


class ImportShownView(TemplateView):
    def import_shown(self, template: ClusterTemplate, *, status: int = 200) -> Response:
        row = parameters_import_get(actor=self.actor, template=template)
        answer = parameters_import_answer(row=row, now=clock.now())
        told = {
            "publishable": answer is not None and answer.publishable and row.published is None,
            "changes": answer.changes if answer else (),
            "misfits": answer.misfits if answer else (),
        }
        said = {name: getattr(row, name) for name in ("requested_by", "requested_at", "base", "failure")}
        said |= {"pending": row.due_at is not None, "read_at": row.read_at, "parameters": row.parameters}
        said["published"] = row.published
        where = reverse("api:platform-cluster-template-import", kwargs={"template": template.slug})
        headers = {"ETag": etag(row.version)} | ({"Location": where} if status == 202 else {})
        data = {**ImportOutput(said).data, **ImportAnswerOutput(told).data}
        return Response(data, status=status, headers=headers)


class ImportView(ImportShownView):
    @operation(
        "platform_cluster_template_import_get",
        "What the site says may be chosen",
        tag=TAG,
        answer=ImportDetailOutput,
    )
    def get(self, request: Request, template: str) -> Response:
        """With the difference to the version whose settings were asked with. 404: nobody has asked, or it was dropped."""
        del request, template
        return self.import_shown(self.template(Permission.PLATFORM_VIEW))

    @operation(
        "platform_cluster_template_import",
        "Ask the site what may be chosen",
        tag=TAG,
        answer=ImportDetailOutput,
        status=202,
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """In the background: follow `Location` until `pending` is false. What is being asked already is not asked twice; an
        answer that was there is forgotten. Needs a version: its settings name the class.
        """
        del request, template
        found = self.template()
        services.parameters_import_request(actor=self.actor, template=found)
        return self.import_shown(found, status=202)

    @operation(
        "platform_cluster_template_import_drop",
        "Drop what the site said",
        tag=TAG,
        status=204,
        versioned=True,
    )
    def delete(self, request: Request, template: str) -> Response:
        """Or stop asking. The template is what it was."""
        del template
        found, version = self.template(), wanted_version(request)
        services.parameters_import_drop(actor=self.actor, template=found, expected_version=version)
        return Response(status=204)


class ImportPublishView(ImportShownView):
    @operation(
        "platform_cluster_template_import_publish",
        "Publish what the site said",
        tag=TAG,
        answer=TemplateVersionOutput,
        status=201,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """As a new version: the document of the version before with these parameters. 409 where the template has a newer
        version since, or it was read more than a day ago.
        """
        del template
        found, version = self.template(), wanted_version(request)
        made = services.parameters_import_publish(actor=self.actor, template=found, expected_version=version)
        return Response(TemplateVersionOutput(made).data, status=201)
