"""The caller, and what they may do where."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Output
from gpuaas.api.schema import operation
from gpuaas.api.views import ApiView
from tenants.selectors import projects_for


class MyProjectOutput(Output):
    slug = serializers.CharField()
    name = serializers.CharField()
    organization = serializers.CharField(source="organization.slug")
    permissions = serializers.SerializerMethodField()

    def get_permissions(self, project: object) -> list[str]:
        held: dict[object, list[str]] = self.context["permissions"]
        return held[project]


class MeOutput(Output):
    username = serializers.CharField()
    email = serializers.CharField(allow_blank=True)
    platform_permissions = serializers.ListField(child=serializers.CharField())
    token_prefix = serializers.CharField(
        allow_null=True, help_text="Prefix of the calling token; null in a browser."
    )
    projects = MyProjectOutput(many=True)


class MeView(ApiView):
    @operation("me_get", "Get the caller", answer=MeOutput)
    def get(self, request: Request) -> Response:
        """Returns the caller, their projects and their permissions there. For a token, these are limited to its
        project and scopes."""
        actor = self.actor
        projects = list(projects_for(actor=actor)[:200])
        held = {
            project: sorted(actor.on_project(project.pk, project.organization_id)) for project in projects
        }
        me = {
            "username": actor.name,
            "email": self.user.email,
            "platform_permissions": sorted(actor.on_platform()),
            "token_prefix": actor.token_prefix or None,
            "projects": projects,
        }
        return Response(MeOutput(me, context={"permissions": held}).data)
