"""Access to a workspace: issued credentials, their end, and service accounts for CI."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.idempotency import idempotent, idempotent_secret
from gpuaas.api.schema import operation
from gpuaas.api.v1.workspaces.shapes import (
    CredentialInput,
    CredentialOutput,
    GrantOutput,
    KubeconfigOutput,
    RevocationInput,
    RevokedOutput,
    RobotInput,
    RobotOutput,
    SignInKubeconfigOutput,
)
from gpuaas.api.v1.workspaces.views import WorkspaceView, lifetime_of
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import AccessKind
from gpuaas.workspaces import services
from gpuaas.workspaces.selectors import grantee_get, grants_of, robot_get, robots_of
from tenants.roles import Permission


class WorkspaceKubeconfigView(WorkspaceView):
    @operation(
        "workspace_kubeconfig",
        "Issue a kubeconfig",
        body=CredentialInput,
        created=KubeconfigOutput,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Issues your own kubeconfig for a workspace on Kubernetes: short-lived and shown once. A repetition with the
        same Idempotency-Key answers 409 `idempotency_replayed`. A workspace that uses a clouds.yaml answers 409."""
        found = self.held(Permission.WORKSPACE_ACCESS)
        access = services.credential_issue(
            actor=self.actor,
            workspace=found,
            lifetime=lifetime_of(self.input(CredentialInput)),
            kind=AccessKind.KUBECONFIG,
        )
        return Response(KubeconfigOutput(access).data, status=201, headers={"Cache-Control": "no-store"})


class WorkspaceCredentialView(WorkspaceView):
    @operation(
        "workspace_credential",
        "Issue a credential",
        body=CredentialInput,
        created=CredentialOutput,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Issues your own credential in the file format of the site's tools: `kind` says which. It is short-lived and
        shown once. A repetition with the same Idempotency-Key answers 409 `idempotency_replayed`."""
        found = self.held(Permission.WORKSPACE_ACCESS)
        lifetime = lifetime_of(self.input(CredentialInput))
        access = services.credential_issue(actor=self.actor, workspace=found, lifetime=lifetime)
        return Response(CredentialOutput(access).data, status=201, headers={"Cache-Control": "no-store"})


class SignInKubeconfigView(WorkspaceView):
    @operation(
        "workspace_sign_in_kubeconfig",
        "Get a kubeconfig for signing in",
        answer=SignInKubeconfigOutput,
        also=(409,),
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """For sites with their own identity provider that knows you: kubectl signs in there (kubelogin). The file
        contains no credential and does not expire. Other sites answer 409."""
        found = self.held(Permission.WORKSPACE_ACCESS)
        data = {"kubeconfig": services.sign_in_kubeconfig(actor=self.actor, workspace=found)}
        return Response(SignInKubeconfigOutput(data).data)


class GrantsView(WorkspaceView):
    @operation("workspace_grant_list", "List issued credentials", rows=GrantOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists to whom and by whom each was issued, until when, and its present state, newest first. Never contains
        the credential."""
        return self.page(grants_of(workspace=self.held()), GrantOutput, key="-pk")


class RevocationView(WorkspaceView):
    @operation("workspace_grant_revoke", "End credentials", body=RevocationInput, accepted=RevokedOutput)
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Ends all credentials of one person or service account: your own, or anybody's if you are an admin. They can
        request another.

        The site is informed at once; until it confirms, the workspace has the condition `CredentialsRevoked` False.
        """
        found = self.held(Permission.WORKSPACE_ACCESS, own=True)
        asked = self.input(RevocationInput)
        if "service_account" in asked:
            if "username" in asked:
                raise Invalid.field("username", "a person or a service account, not both")
            robot = robot_get(workspace=found, name=asked["service_account"])
            count = services.access_revoke(actor=self.actor, workspace=found, robot=robot)
        else:
            user = (
                grantee_get(workspace=found, username=asked["username"]) if "username" in asked else self.user
            )
            count = services.access_revoke(actor=self.actor, workspace=found, user=user)
        return Response(RevokedOutput({"credentials": count}).data, status=202)


class RobotsView(WorkspaceView):
    @operation("workspace_service_account_list", "List service accounts", rows=RobotOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists the service accounts of the workspace with their roles, sorted by name."""
        return self.page(robots_of(workspace=self.held()), RobotOutput, key="name")

    @operation(
        "workspace_service_account_create", "Create a service account", body=RobotInput, created=RobotOutput
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """For CI and other automation, created by an admin of the workspace or the project. It exists at the site
        within seconds."""
        found = self.held(Permission.WORKSPACE_CREATE)
        asked = self.input(RobotInput)
        robot = services.robot_create(
            actor=self.actor, workspace=found, name=asked["name"], role=asked["role"]
        )
        return Response(RobotOutput(robot).data, status=201)


class RobotView(WorkspaceView):
    @operation("workspace_service_account_get", "Get a service account", answer=RobotOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        """Returns its role, and who created it and when. Its kubeconfig is issued by a separate request."""
        return Response(RobotOutput(robot_get(workspace=self.held(), name=robot)).data)

    @operation("workspace_service_account_delete", "Delete a service account")
    def delete(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        """Its credentials end within seconds."""
        found = self.held(Permission.WORKSPACE_CREATE)
        services.robot_delete(actor=self.actor, robot=robot_get(workspace=found, name=robot))
        return Response(status=204)


class RobotKubeconfigView(WorkspaceView):
    @operation(
        "workspace_service_account_kubeconfig",
        "Issue a kubeconfig for a service account",
        body=CredentialInput,
        created=KubeconfigOutput,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        """Like `credential`, for a workspace on Kubernetes; other workspaces answer 409."""
        access = services.robot_access_issue(
            actor=self.actor,
            robot=robot_get(workspace=self.held(Permission.WORKSPACE_ACCESS), name=robot),
            lifetime=lifetime_of(self.input(CredentialInput)),
            kind=AccessKind.KUBECONFIG,
        )
        return Response(KubeconfigOutput(access).data, status=201, headers={"Cache-Control": "no-store"})


class RobotCredentialView(WorkspaceView):
    @operation(
        "workspace_service_account_credential",
        "Issue a credential for a service account",
        body=CredentialInput,
        created=CredentialOutput,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        """Short-lived and shown once; a pipeline requests one when it starts. Allowed for people and API tokens with
        the scope `workspace:access` whose own role in the workspace is at least that of the account."""
        account = robot_get(workspace=self.held(Permission.WORKSPACE_ACCESS), name=robot)
        lifetime = lifetime_of(self.input(CredentialInput))
        access = services.robot_access_issue(actor=self.actor, robot=account, lifetime=lifetime)
        return Response(CredentialOutput(access).data, status=201, headers={"Cache-Control": "no-store"})
