"""API tokens of a project: created by a person, shown once, revoked at any time."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Instant, Output, Pick, Text
from gpuaas.api.idempotency import idempotent_secret
from gpuaas.api.schema import operation
from gpuaas.api.views import ProjectView
from tenants.roles import TOKEN_SCOPES, Permission
from tenants.selectors import token_get_for, tokens_for
from tenants.services import token_create, token_revoke

SCOPES = [(scope.value, scope.label) for scope in Permission if scope in TOKEN_SCOPES]


class TokenInput(Input):
    name = Text(max_length=100)
    scopes = serializers.ListField(child=Pick(choices=SCOPES), min_length=1, max_length=len(SCOPES))
    expires_at = Instant(help_text="At most 365 days ahead.")


class TokenOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The middle part of the token, to recognize it by.")
    username = serializers.CharField(source="user.username", help_text="The token acts as this person.")
    scopes = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewTokenOutput(TokenOutput):
    token = serializers.CharField(help_text="Shown once, never stored.")


class TokensView(ProjectView):
    @operation("token_list", "List API tokens", rows=TokenOutput)
    def get(self, request: Request, project: str) -> Response:
        """Those who manage the project see all tokens, everybody else their own. Newest first."""
        found = self.project(Permission.TOKEN_MANAGE, own=True)
        return self.page(tokens_for(actor=self.actor, project=found), TokenOutput, key="-pk")

    @operation("token_create", "Create an API token", body=TokenInput, created=NewTokenOutput)
    @idempotent_secret
    def post(self, request: Request, project: str) -> Response:
        """A token is created by a signed-in person, never by another token. It can do what both its scopes and your
        roles allow."""
        found = self.project(Permission.TOKEN_MANAGE)
        token, raw = token_create(actor=self.actor, project=found, **self.input(TokenInput))
        data = {**TokenOutput(token).data, "token": raw}
        return Response(data, status=201, headers={"Cache-Control": "no-store"})


class TokenView(ProjectView):
    @operation("token_get", "Get an API token", answer=TokenOutput)
    def get(self, request: Request, project: str, token: uuid.UUID) -> Response:
        """Returns its scopes and expiry. The token itself was shown once and is not stored."""
        place = self.project(Permission.TOKEN_MANAGE, own=True)
        return Response(TokenOutput(token_get_for(actor=self.actor, project=place, token_id=token)).data)

    @operation("token_revoke", "Revoke an API token")
    def delete(self, request: Request, project: str, token: uuid.UUID) -> Response:
        """Takes effect at once. Repeating the request changes nothing."""
        place = self.project(Permission.TOKEN_MANAGE, own=True)
        found = token_get_for(actor=self.actor, project=place, token_id=token)
        token_revoke(actor=self.actor, token=found)
        return Response(status=204)
