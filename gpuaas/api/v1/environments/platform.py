"""Operators: the kinds of environments that tenants can order."""

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.environments.shapes import (
    EnvironmentKindInput,
    EnvironmentKindPatchInput,
    EnvironmentKindVersionInput,
    EnvironmentKindVersionOutput,
    PlatformEnvironmentKindOutput,
)
from gpuaas.api.views import PlatformView
from gpuaas.environments import services
from gpuaas.environments.models import EnvironmentKind
from gpuaas.environments.selectors import kind_get, kinds_all
from gpuaas.environments.states import KindState


class KindView(PlatformView):
    def kind(self) -> EnvironmentKind:
        return kind_get(actor=self.actor, slug=self.kwargs["kind"])

    def shown(self, kind: EnvironmentKind, *, status: int = 200) -> Response:
        fresh = kind_get(actor=self.actor, slug=kind.slug)
        where = reverse("api:platform-environment-kind", kwargs={"kind": fresh.slug})
        headers = {"ETag": etag(fresh.version)} | ({"Location": where} if status == 201 else {})
        return Response(PlatformEnvironmentKindOutput(fresh).data, status=status, headers=headers)


class PlatformKindsView(KindView):
    @operation(
        "platform_environment_kind_list", "List all kinds of environments", rows=PlatformEnvironmentKindOutput
    )
    def get(self, request: Request) -> Response:
        """Retired ones are included."""
        return self.page(kinds_all(actor=self.actor), PlatformEnvironmentKindOutput, key="slug")

    @operation(
        "platform_environment_kind_create",
        "Create a kind of environment",
        body=EnvironmentKindInput,
        created=PlatformEnvironmentKindOutput,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """With its first version; it can be ordered at once. Errors in the document are reported at `document`, with
        their place."""
        return self.shown(
            services.kind_create(actor=self.actor, **self.input(EnvironmentKindInput)), status=201
        )


class PlatformKindView(KindView):
    @operation(
        "platform_environment_kind_get", "Get a kind of environment", answer=PlatformEnvironmentKindOutput
    )
    def get(self, request: Request, kind: str) -> Response:
        """Send the ETag as If-Match with a change."""
        return self.shown(self.kind())

    @operation(
        "platform_environment_kind_change",
        "Retire a kind of environment",
        body=EnvironmentKindPatchInput,
        answer=PlatformEnvironmentKindOutput,
        versioned=True,
    )
    def patch(self, request: Request, kind: str) -> Response:
        """Nobody can order a retired kind; what exists stays. `active` offers it again."""
        found = self.kind()
        retired = self.input(EnvironmentKindPatchInput)["state"] == KindState.RETIRED
        version = wanted_version(request)
        return self.shown(
            services.kind_retire(actor=self.actor, kind=found, retired=retired, expected_version=version)
        )


class PlatformKindVersionsView(KindView):
    @operation(
        "platform_environment_kind_version_list",
        "List versions of a kind of environment",
        rows=EnvironmentKindVersionOutput,
    )
    def get(self, request: Request, kind: str) -> Response:
        """Newest first."""
        return self.page(self.kind().versions.all(), EnvironmentKindVersionOutput, key="-number")

    @operation(
        "platform_environment_kind_version_add",
        "Add a version to a kind of environment",
        body=EnvironmentKindVersionInput,
        created=EnvironmentKindVersionOutput,
    )
    @idempotent
    def post(self, request: Request, kind: str) -> Response:
        """Orders use it from now on; environments of earlier versions do not change."""
        found = self.kind()
        made = services.kind_version_add(
            actor=self.actor, kind=found, **self.input(EnvironmentKindVersionInput)
        )
        return Response(EnvironmentKindVersionOutput(made).data, status=201)
