"""How drf-spectacular describes our addresses and our authentication; registered by being imported (see `apps`)."""

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

# Choices that several shapes share under one field name get the names of our own enums. Set here and not in the
# settings, because only this room knows its shapes.
settings.SPECTACULAR_SETTINGS.setdefault(
    "ENUM_NAME_OVERRIDES",
    {
        "AccessRole": "gpuaas.workspaces.states.AccessRole",
        "ProjectRole": "tenants.roles.ProjectRole",
        "OrganizationRole": "tenants.roles.OrganizationRole",
        "WorkspaceState": "gpuaas.workspaces.states.WorkspaceState",
        "ClusterState": "gpuaas.clusters.states.ClusterState",
        "ClusterJobState": "gpuaas.clusters.states.ClusterJobState",
        "TemplateState": "gpuaas.clusters.states.TemplateState",
        "ClusterKind": "gpuaas.clusters.states.CLUSTER_KINDS",
        "Change": "gpuaas.clusters.states.CHANGE_KINDS",
        "OfferState": "gpuaas.catalog.states.OfferState",
        "SaleState": "gpuaas.api.v1.catalog.offers.SOLD",
        "EnvironmentAccess": "gpuaas.environments.states.Access",
        "EnvironmentKindState": "gpuaas.environments.states.KindState",
        "JobState": "gpuaas.api.v1.jobs.shapes.STATES",
        "StepState": "gpuaas.lifecycle.operations.StepState",
        "Meter": "gpuaas.metering.models.Meter",
    },
)


class TaggedSchema(AutoSchema):
    view: Any  # an ApiView; the library knows only its own class

    def get_tags(self) -> list[str]:
        return [self.view.tag]


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the library's own __init_subclass__
    target_class = "gpuaas.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token of a project: `gpa_…`"}


class BrowserScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the library's own __init_subclass__
    target_class = "gpuaas.api.authentication.BrowserAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "A signed-in browser session; unsafe methods also need the X-CSRFToken header",
        }
