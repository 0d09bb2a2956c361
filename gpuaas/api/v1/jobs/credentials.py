"""Data credentials of a project: with which the files of its jobs are moved. What is secret of one is never sent back."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, Text, TextOrEmpty
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.views import ProjectView
from gpuaas.jobs import services
from gpuaas.jobs.selectors import credential_get_for, credentials_for
from tenants.roles import Permission


class DataCredentialInput(Input):
    name = Text(max_length=40, help_text="By which jobs name it: lower-case letters, digits and hyphens.")
    access_key_id = Text(max_length=128)
    secret = Text(
        max_length=256, write_only=True, help_text="The secret access key, which is never sent back."
    )
    endpoint = TextOrEmpty(max_length=255, help_text="URL of the S3 server; empty: Amazon's.")
    region = TextOrEmpty(max_length=64, help_text="Such as eu-central-1, where the server has any.")


class DataCredentialOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField(help_text="`s3`.")
    access_key_id = serializers.CharField()
    endpoint = serializers.CharField(allow_blank=True)
    region = serializers.CharField(allow_blank=True)
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()


class DataCredentialsView(ProjectView):
    @operation("data_credential_list", "List data credentials", rows=DataCredentialOutput)
    def get(self, request: Request, project: str) -> Response:
        """With which jobs of the project reach S3 servers, by their names."""
        found = self.project(Permission.WORKSPACE_VIEW)
        return self.page(credentials_for(actor=self.actor, project=found), DataCredentialOutput, key="name")

    @operation(
        "data_credential_create",
        "Add a data credential",
        body=DataCredentialInput,
        created=DataCredentialOutput,
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Its secret is stored sealed, and given to the pods that move files alone."""
        found = self.project(Permission.WORKSPACE_ACCESS)
        row = services.credential_create(actor=self.actor, project=found, **self.input(DataCredentialInput))
        return Response(DataCredentialOutput(row).data, status=201)


class DataCredentialView(ProjectView):
    @operation("data_credential_get", "Get a data credential", answer=DataCredentialOutput)
    def get(self, request: Request, project: str, credential: uuid.UUID) -> Response:
        """All of it but its secret."""
        found = self.project(Permission.WORKSPACE_VIEW)
        row = credential_get_for(actor=self.actor, project=found, credential_id=credential)
        return Response(DataCredentialOutput(row).data)

    @operation("data_credential_delete", "Delete a data credential")
    def delete(self, request: Request, project: str, credential: uuid.UUID) -> Response:
        """What is moved with it now continues. Jobs whose files are not moved yet fail, and can be retried once there is one of its
        name again."""
        may = Permission.WORKSPACE_ACCESS
        found = self.project(may)
        row = credential_get_for(actor=self.actor, project=found, credential_id=credential, permission=may)
        services.credential_delete(actor=self.actor, credential=row)
        return Response(status=204)
