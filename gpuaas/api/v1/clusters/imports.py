"""Operators: importing the parameters of a template from its site."""

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Output
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.platform import TemplateVersionOutput, TemplateView
from gpuaas.api.v1.clusters.shapes import Document
from gpuaas.clusters import services
from gpuaas.clusters.difference import ChangeKind
from gpuaas.clusters.imports import parameters_import_answer, parameters_import_get
from gpuaas.clusters.models import ClusterTemplate
from gpuaas.core import clock


class ParameterChangeOutput(Output):
    parameter = serializers.CharField(help_text="Name of the parameter; nested names are joined by dots.")
    kind = serializers.ChoiceField(choices=[(one.value, one.value) for one in ChangeKind])
    breaking = serializers.BooleanField(help_text="true: an order that was accepted before may be refused.")
    says = serializers.ListField(child=serializers.CharField(), source="sentences")


class MisfitOutput(Output):
    name = serializers.CharField()
    project = serializers.CharField()
    cluster = serializers.UUIDField(
        source="cluster.pk", default=None, allow_null=True, help_text="null: a warm pool."
    )
    says = serializers.CharField(source="reason")


class ImportOutput(Output):
    requested_by = serializers.CharField()
    requested_at = serializers.DateTimeField()
    base = serializers.IntegerField(
        source="base.number", help_text="The version whose settings the site was asked with."
    )
    pending = serializers.BooleanField(help_text="true: the site is being asked, or will be again.")
    failure = serializers.CharField(help_text="Why there is no answer, and what to do.")
    read_at = serializers.DateTimeField(allow_null=True)
    parameters = Document(allow_null=True, help_text="JSON Schema, as in a template's document.")
    published = serializers.IntegerField(
        source="published.number",
        default=None,
        allow_null=True,
        help_text="The version that was published from it.",
    )


class ImportAnswerOutput(Output):
    publishable = serializers.BooleanField(
        help_text="false: the template has a newer version, or the answer is more than a day old."
    )
    changes = ParameterChangeOutput(
        many=True, help_text="Compared with the version `base`; breaking changes come first."
    )
    misfits = MisfitOutput(
        many=True, help_text="Clusters and warm pools whose choice the site no longer accepts."
    )


class ImportDetailOutput(ImportOutput, ImportAnswerOutput):
    pass


class ImportShownView(TemplateView):
    def import_shown(self, template: ClusterTemplate, *, status: int = 200) -> Response:
        row = parameters_import_get(actor=self.actor, template=template)
        answer = parameters_import_answer(row=row, now=clock.now())
        found = {
            "publishable": answer is not None and answer.publishable and row.published is None,
            "changes": answer.changes if answer else (),
            "misfits": answer.misfits if answer else (),
        }
        request = {name: getattr(row, name) for name in ("requested_by", "requested_at", "base", "failure")}
        request |= {"pending": row.due_at is not None, "read_at": row.read_at, "parameters": row.parameters}
        request["published"] = row.published
        where = reverse("api:platform-cluster-template-import", kwargs={"template": template.slug})
        headers = {"ETag": etag(row.version)} | ({"Location": where} if status == 202 else {})
        data = {**ImportOutput(request).data, **ImportAnswerOutput(found).data}
        return Response(data, status=status, headers=headers)


class ImportView(ImportShownView):
    @operation(
        "platform_cluster_template_import_get", "Get the imported parameters", answer=ImportDetailOutput
    )
    def get(self, request: Request, template: str) -> Response:
        """Returns the parameters and their difference to the version that was asked with. 404 if nothing was
        requested, or if the answer was dropped."""
        return self.import_shown(self.template())

    @operation(
        "platform_cluster_template_import", "Import parameters from the site", accepted=ImportDetailOutput
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """Runs in the background: follow `Location` until `pending` is false. A request that is already running is
        not started twice. A previous answer is dropped. The template needs a version, whose settings name the class."""
        found = self.template()
        services.parameters_import_request(actor=self.actor, template=found)
        return self.import_shown(found, status=202)

    @operation("platform_cluster_template_import_drop", "Drop the imported parameters", versioned=True)
    def delete(self, request: Request, template: str) -> Response:
        """Drops the answer, or cancels the request. The template does not change."""
        found, version = self.template(), wanted_version(request)
        services.parameters_import_drop(actor=self.actor, template=found, expected_version=version)
        return Response(status=204)


class ImportPublishView(ImportShownView):
    @operation(
        "platform_cluster_template_import_publish",
        "Publish the imported parameters",
        created=TemplateVersionOutput,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, template: str) -> Response:
        """Publishes a new version: the document of the previous version with these parameters. 409 if the template
        has a newer version, or if the answer is more than a day old."""
        found, version = self.template(), wanted_version(request)
        made = services.parameters_import_publish(actor=self.actor, template=found, expected_version=version)
        return Response(TemplateVersionOutput(made).data, status=201)
