"""The base of every view: parse strictly → call one service or selector → serialize."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import ValidationError
from rest_framework.views import APIView

from gpuaas.api.authentication import BrowserAuthentication, TokenAuthentication
from gpuaas.api.errors import TooLarge
from gpuaas.api.fields import Input, NoQuery, Output
from gpuaas.api.pagination import Cursor
from gpuaas.api.parsers import StrictJSONParser
from gpuaas.api.schema import QUERY
from tenants.actors import Actor
from tenants.models import ApiToken, Project, User
from tenants.roles import Permission
from tenants.selectors import actor_for, actor_for_token, project_get_for

LONGEST_BODY = 64 * 1024


class ApiView(APIView):
    """`actor` is who asks, `params` the query parameters that the operation declares."""

    authentication_classes = [TokenAuthentication, BrowserAuthentication]
    permission_classes = [IsAuthenticated]
    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    metadata_class = None
    params: dict[str, Any]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        handler = getattr(self, (request.method or "").lower(), None)
        if handler is None:
            return
        if len(request._request.body) > LONGEST_BODY:
            raise TooLarge
        self.params = self._query(request, getattr(handler, QUERY, NoQuery))

    def handle_exception(self, exc: Exception) -> Response:
        """Refusals are JSON, whatever the address offers otherwise."""
        response = super().handle_exception(exc)
        self.request.accepted_renderer = JSONRenderer()
        self.request.accepted_media_type = JSONRenderer.media_type
        return response

    @cached_property
    def actor(self) -> Actor:
        """Built once per request; a token's actor is its maker's, cut to the token's project and scopes."""
        if isinstance(self.request.auth, ApiToken):
            return actor_for_token(token=self.request.auth)
        return actor_for(user=self.user)

    @property
    def user(self) -> User:
        user = self.request.user
        assert isinstance(user, User)  # noqa: S101  IsAuthenticated has let only people through
        return user

    def input(self, serializer: type[Input]) -> dict[str, Any]:
        """The validated body. Raises ValidationError for anything that the serializer does not name."""
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
            raise ValidationError({name: ["give it once"] for name in twice})
        parsed = serializer(data=request.query_params.dict())
        parsed.is_valid(raise_exception=True)
        return dict(parsed.validated_data)


class ProjectView(ApiView):
    """Views below /projects/{project}/…"""

    def project(self, permission: Permission = Permission.PROJECT_VIEW) -> Project:
        return project_get_for(actor=self.actor, slug=self.kwargs["project"], permission=permission)
