"""The base of every view: parse strictly → call one service or selector → serialize."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import SAFE_METHODS, IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import ValidationError
from rest_framework.views import APIView

from gpuaas.api import throttle
from gpuaas.api.authentication import BrowserAuthentication, TokenAuthentication
from gpuaas.api.errors import TooLarge
from gpuaas.api.fields import EMAILS, Input, NoQuery, Output
from gpuaas.api.pagination import Cursor
from gpuaas.api.parsers import StrictJSONParser
from gpuaas.api.permissions import need_of
from gpuaas.api.schema import OPERATION, QUERY
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import site_get_for
from tenants.actors import Actor
from tenants.models import ApiToken, Project, User
from tenants.roles import Permission
from tenants.selectors import (
    actor_for,
    actor_for_token,
    organization_get_for,
    platform_require,
    project_get_for,
)

LONGEST_BODY = 64 * 1024


class ApiView(APIView):
    """`actor` is the caller, `params` the query parameters that the operation declares. `tag`: its heading in the
    OpenAPI document, given by the list of addresses. longest_body: in bytes; None for a view that reads it as it comes."""

    tag = ""
    authentication_classes = [TokenAuthentication, BrowserAuthentication]
    permission_classes = [IsAuthenticated]
    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    metadata_class = None
    longest_body: int | None = LONGEST_BODY
    params: dict[str, Any]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # before whoever parses it, as the check of a browser's CSRF token does
        if self.longest_body is not None and len(request._request.body) > self.longest_body:
            raise TooLarge(f"the request body is too large: it may have {self.longest_body // 1024} KiB here")
        super().initial(request, *args, **kwargs)
        handler = getattr(self, (request.method or "").lower(), None)
        if handler is None:
            return
        self._count(request)
        self.params = self._query(request, getattr(handler, QUERY, NoQuery))
        self.admit()

    def _count(self, request: Request) -> None:
        """A token is a caller of its own; addresses that anybody may ask see to themselves."""
        who = request.auth if isinstance(request.auth, ApiToken) else request.user
        if who.pk is not None:
            throttle.admit(f"{type(who).__name__}:{who.pk}")

    def admit(self) -> None:
        """Refuses callers for whom the whole address is not, by NotFound or Forbidden."""

    def permit(self) -> None:
        """Refuses callers whose role does not hold what the operation needs, by NotFound or Forbidden. Operations do so themselves, but
        for a repetition that is answered from what was stored."""
        method = (self.request.method or "").lower()
        need, place = need_of(getattr(getattr(self, method), OPERATION), method), self.kwargs
        for permission in need.permissions if need else ():
            given: dict[str, Any] = {"actor": self.actor, "permission": permission}
            if "project" in place:
                project_get_for(slug=place["project"], own=bool(need and need.own), **given)
            elif "organization" in place:
                organization_get_for(slug=place["organization"], **given)

    def handle_exception(self, exc: Exception) -> Response:
        """Refusals are JSON, whatever else the address offers."""
        response = super().handle_exception(exc)
        self.request.accepted_renderer = JSONRenderer()
        self.request.accepted_media_type = JSONRenderer.media_type
        return response

    @cached_property
    def actor(self) -> Actor:
        """Built once per request. A token's actor is its creator, limited to the token's project and scopes."""
        if isinstance(self.request.auth, ApiToken):
            return actor_for_token(token=self.request.auth)
        return actor_for(user=self.user)

    @property
    def user(self) -> User:
        if not isinstance(self.request.user, User):
            raise NotAuthenticated
        return self.request.user

    def input(self, serializer: type[Input]) -> dict[str, Any]:
        """The validated body. Raises ValidationError for fields that the serializer does not name."""
        parsed = serializer(data=self.request.data)
        parsed.is_valid(raise_exception=True)
        return dict(parsed.validated_data)

    def page(
        self,
        rows: QuerySet[Any] | Sequence[Any],
        serializer: type[Output],
        *,
        key: str,
        context: dict[str, Any] | None = None,
    ) -> Response:
        """One page of `rows` in the envelope that `schema.page_of` describes."""
        pages = Cursor(self.request, key=key, size=self.params["page_size"], cursor=self.params.get("cursor"))
        found, following = pages.page(rows)
        shown = serializer(found, many=True, context=context or {})
        return Response({"next": following, "results": shown.data})

    def _query(self, request: Request, serializer: type[Input]) -> dict[str, Any]:
        twice = [name[:80] for name, values in request.query_params.lists() if len(values) > 1]
        if twice:
            raise ValidationError({name: ["give this parameter once"] for name in twice})
        parsed = serializer(data=request.query_params.dict())
        parsed.is_valid(raise_exception=True)
        return dict(parsed.validated_data)


class ProjectView(ApiView):
    """Views below /projects/{project}/…"""

    def project(self, permission: Permission = Permission.PROJECT_VIEW, *, own: bool = False) -> Project:
        """own: the service decides whether the thing belongs to the caller; a token needs the scope in any case."""
        slug: str = self.kwargs["project"]
        return project_get_for(actor=self.actor, slug=slug, permission=permission, own=own)

    def sees_prices(self, project: Project) -> bool:
        return Permission.BILLING_VIEW in self.actor.on_project(project.pk, project.organization_id)

    def seeing(self, project: Project) -> dict[str, bool]:
        """The context of answers with members: their addresses are for those who manage them, as on the pages."""
        held = self.actor.on_project(project.pk, project.organization_id)
        return {EMAILS: Permission.PROJECT_MANAGE in held}


class PlatformView(ApiView):
    """Views below /platform/…: auditors read, operators change; for others the address does not exist."""

    def admit(self) -> None:
        reads = self.request.method in SAFE_METHODS
        permission = Permission.PLATFORM_VIEW if reads else Permission.PLATFORM_MANAGE
        platform_require(actor=self.actor, permission=permission)


class SiteView(PlatformView):
    """Views below /platform/sites/{site}/…"""

    def site(self) -> Site:
        return site_get_for(actor=self.actor, slug=self.kwargs["site"])
