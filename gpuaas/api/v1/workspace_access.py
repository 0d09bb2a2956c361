"""Who may enter a workspace and with what: credentials that were issued, their end, and service accounts for CI."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent, idempotent_secret
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.workspace_shapes import (
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
from gpuaas.api.v1.workspaces import WorkspaceView, lifetime_of
from gpuaas.core.errors import Invalid
from gpuaas.providers.base import AccessKind
from gpuaas.workspaces import services
from gpuaas.workspaces.selectors import grantee_get, grants_of, robot_get, robots_of
from tenants.roles import Permission

TAG = "workspace access"


class WorkspaceKubeconfigView(WorkspaceView):
    @operation(
        "workspace_kubeconfig",
        "Take a kubeconfig",
        tag=TAG,
        body=CredentialInput,
        answer=KubeconfigOutput,
        status=201,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Your own, short-lived, shown once, of a workspace on Kubernetes. A repetition with the same Idempotency-Key
        answers 409 `idempotency_replayed`; so does a workspace that is entered by a clouds.yaml.
        """
        del request, project, workspace
        found = self.workspace(Permission.WORKSPACE_ACCESS)
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
        "Take a credential",
        tag=TAG,
        body=CredentialInput,
        answer=CredentialOutput,
        status=201,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Your own, short-lived, shown once, as the file that the site's own tools read: `kind` says which. A repetition
        with the same Idempotency-Key answers 409 `idempotency_replayed`.
        """
        del request, project, workspace
        found = self.workspace(Permission.WORKSPACE_ACCESS)
        lifetime = lifetime_of(self.input(CredentialInput))
        access = services.credential_issue(actor=self.actor, workspace=found, lifetime=lifetime)
        return Response(CredentialOutput(access).data, status=201, headers={"Cache-Control": "no-store"})


class SignInKubeconfigView(WorkspaceView):
    @operation(
        "workspace_sign_in_kubeconfig",
        "Take a kubeconfig to sign in with",
        tag=TAG,
        answer=SignInKubeconfigOutput,
        also=(409,),
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Where the site has an identity provider of its own that knows you: kubectl signs in there (kubelogin). It holds
        no credential and does not run out. Elsewhere 409.
        """
        del request, project, workspace
        found = self.workspace(Permission.WORKSPACE_ACCESS)
        said = {"kubeconfig": services.sign_in_kubeconfig(actor=self.actor, workspace=found)}
        return Response(SignInKubeconfigOutput(said).data)


class GrantsView(WorkspaceView):
    @operation(
        "workspace_grant_list",
        "List issued credentials",
        tag=TAG,
        answer=page_of(GrantOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """To whom, by whom, until when, and what became of it; newest first. Never the credential."""
        del request, project, workspace
        return self.page(grants_of(workspace=self.workspace()), GrantOutput, key="-pk")


class RevocationView(WorkspaceView):
    @operation(
        "workspace_grant_revoke",
        "End credentials",
        tag=TAG,
        body=RevocationInput,
        answer=RevokedOutput,
        status=202,
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """All of one person's or one service account's: your own, or anybody's as an admin. They may ask for another.

        The site is told at once; until it has confirmed, the workspace has the condition `CredentialsRevoked` False.
        """
        del request, project, workspace
        found = self.workspace()
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
    @operation(
        "workspace_service_account_list",
        "List service accounts",
        tag=TAG,
        answer=page_of(RobotOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        del request, project, workspace
        return self.page(robots_of(workspace=self.workspace()), RobotOutput, key="name")

    @operation(
        "workspace_service_account_create",
        "Make a service account",
        tag=TAG,
        body=RobotInput,
        answer=RobotOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """For CI and other automation, by an admin of the workspace or the project. The site knows it within seconds."""
        del request, project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        asked = self.input(RobotInput)
        robot = services.robot_create(
            actor=self.actor, workspace=found, name=asked["name"], role=asked["role"]
        )
        return Response(RobotOutput(robot).data, status=201)


class RobotView(WorkspaceView):
    @operation("workspace_service_account_get", "Look at a service account", tag=TAG, answer=RobotOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        del request, project, workspace
        return Response(RobotOutput(robot_get(workspace=self.workspace(), name=robot)).data)

    @operation("workspace_service_account_delete", "Delete a service account", tag=TAG, status=204)
    def delete(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        """Its credentials end with it, within seconds."""
        del request, project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        services.robot_delete(actor=self.actor, robot=robot_get(workspace=found, name=robot))
        return Response(status=204)


class RobotKubeconfigView(WorkspaceView):
    @operation(
        "workspace_service_account_kubeconfig",
        "Take a service account's kubeconfig",
        tag=TAG,
        body=CredentialInput,
        answer=KubeconfigOutput,
        status=201,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        """As `credential`, of a workspace on Kubernetes; elsewhere 409."""
        del request, project, workspace
        access = services.robot_access_issue(
            actor=self.actor,
            robot=robot_get(workspace=self.workspace(Permission.WORKSPACE_ACCESS), name=robot),
            lifetime=lifetime_of(self.input(CredentialInput)),
            kind=AccessKind.KUBECONFIG,
        )
        return Response(KubeconfigOutput(access).data, status=201, headers={"Cache-Control": "no-store"})


class RobotCredentialView(WorkspaceView):
    @operation(
        "workspace_service_account_credential",
        "Take a service account's credential",
        tag=TAG,
        body=CredentialInput,
        answer=CredentialOutput,
        status=201,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, workspace: uuid.UUID, robot: str) -> Response:
        """Short-lived, shown once; a pipeline asks for one at its start. By anybody, also an API token with the scope
        `workspace:access`, whose own role in the workspace is not below the account's.
        """
        del request, project, workspace
        account = robot_get(workspace=self.workspace(Permission.WORKSPACE_ACCESS), name=robot)
        lifetime = lifetime_of(self.input(CredentialInput))
        access = services.robot_access_issue(actor=self.actor, robot=account, lifetime=lifetime)
        return Response(CredentialOutput(access).data, status=201, headers={"Cache-Control": "no-store"})
