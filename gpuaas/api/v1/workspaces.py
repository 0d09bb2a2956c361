"""Workspaces of a project: request, watch, resize, use, delete."""

import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from billing.quotes import QuoteItem, quote
from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.matching import items_chosen
from gpuaas.api.v1.shapes import MemberOutput
from gpuaas.api.v1.workspace_shapes import (
    REQUEST_EXAMPLE,
    OperationOutput,
    PreviewInput,
    PreviewOutput,
    ReasonInput,
    WorkspaceInput,
    WorkspaceOutput,
    WorkspacePatchInput,
    WorkspaceQuery,
    WorkspaceRoleInput,
)
from gpuaas.api.views import ApiView, ProjectView
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.errors import NotFound
from gpuaas.core.terms import lease_validate
from gpuaas.workspaces import services
from gpuaas.workspaces.amounts import amounts_of
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import (
    estimate,
    timeline,
    workspace_get_for,
    workspaces_for,
    workspaces_loaded,
)
from gpuaas.workspaces.services.validation import items_resolve, storage_validate
from gpuaas.workspaces.states import WorkspaceState
from quotas.selectors import admission_preview
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG = "workspaces"


class WorkspaceView(ProjectView):
    """Views of one workspace; under the URL of another project it does not exist."""

    def workspace(self, permission: Permission = Permission.WORKSPACE_VIEW) -> Workspace:
        project = self.project(permission)
        key: uuid.UUID = self.kwargs["workspace"]
        workspace = workspace_get_for(actor=self.actor, workspace_id=key, permission=permission)
        if workspace.project_id != project.pk:
            raise NotFound("there is no such workspace")
        return workspace

    def accepted(self, workspace: Workspace) -> Response:
        """202 with the workspace as it is now, where it lives, and its version."""
        fresh = workspaces_loaded().get(pk=workspace.pk)
        where = reverse("api:workspace", kwargs={"project": fresh.project.slug, "workspace": str(fresh.pk)})
        headers = {"Location": where, "ETag": etag(fresh.version)}
        return Response(WorkspaceOutput(fresh).data, status=202, headers=headers)


def pairs(items: list[dict[str, Any]], first: str, second: str) -> list[tuple[Any, Any]]:
    return [(item[first], item[second]) for item in items]


def lifetime_of(asked: dict[str, Any]) -> timedelta | None:
    return timedelta(seconds=asked["lifetime_seconds"]) if "lifetime_seconds" in asked else None


def chosen(actor: Actor, project: Project, asked: dict[str, Any]) -> list[tuple[str, int]]:
    return items_chosen(actor=actor, project=project, items=asked["items"], storage_gib=asked["storage_gib"])


def listed(actor: Actor, params: dict[str, Any], project: Project | None) -> QuerySet[Workspace]:
    """Workspaces as `WorkspaceQuery` asks for them."""
    rows = workspaces_for(
        actor=actor,
        project=project,
        states=[WorkspaceState(params["state"])] if "state" in params else None,
        search=params.get("search", ""),
    )
    return rows.filter(site__slug=params["site"]) if "site" in params else rows


class WorkspacesView(WorkspaceView):
    @operation(
        "workspace_list",
        "List workspaces",
        tag=TAG,
        answer=page_of(WorkspaceOutput),
        query=WorkspaceQuery,
    )
    def get(self, request: Request, project: str) -> Response:
        """Workspaces of the project, newest first; deleted ones too, unless `state` says otherwise."""
        del request, project
        found = self.project(Permission.WORKSPACE_VIEW)
        return self.page(listed(self.actor, self.params, found), WorkspaceOutput, key="-pk")

    @operation(
        "workspace_request",
        "Request a workspace",
        tag=TAG,
        body=WorkspaceInput,
        answer=WorkspaceOutput,
        status=202,
        examples=(REQUEST_EXAMPLE,),
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Reserves at once or refuses (409 with the limit, what is used and what was asked).

        The site is reached in the background: follow `Location`, or `…/operations` for the steps.
        """
        del request, project
        found = self.project(Permission.WORKSPACE_CREATE)
        asked = self.input(WorkspaceInput)
        members = asked.get("members")
        workspace = services.workspace_request(
            actor=self.actor,
            project=found,
            name=asked["name"],
            items=chosen(self.actor, found, asked),
            storage_gib=asked["storage_gib"],
            lease_ends_at=asked.get("lease_ends_at"),
            members=None if members is None else pairs(members, "username", "role"),
            placement=asked["placement"],
        )
        return self.accepted(workspace)


class WorkspaceDetailView(WorkspaceView):
    @operation("workspace_get", "Look at a workspace", tag=TAG, answer=WorkspaceOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """`ETag` is its version; send it as If-Match with a change, or as If-None-Match to poll cheaply."""
        del project, workspace
        found = self.workspace()
        return answer(request, version=found.version, data=WorkspaceOutput(found).data)

    @operation(
        "workspace_change",
        "Resize or extend",
        tag=TAG,
        body=WorkspacePatchInput,
        answer=WorkspaceOutput,
        status=202,
        versioned=True,
    )
    def patch(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """`items` and `storage_gib` are what is wanted from now on; more is reserved at once, less is given back when
        the site has confirmed it. All of the change happens, or nothing of it. One resize at a time: 409 while another
        runs; one that only waits for pods to end is replaced, so that a shrink can be taken back.
        """
        del project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        asked = self.input(WorkspacePatchInput)
        version = wanted_version(request)
        with transaction.atomic():
            if "lease_ends_at" in asked:
                found = services.workspace_extend(
                    actor=self.actor,
                    workspace=found,
                    lease_ends_at=asked["lease_ends_at"],
                    expected_version=version,
                )
                version = None
            if "items" in asked or "storage_gib" in asked:
                kept = [
                    {"flavor": row.flavor.slug, "count": row.count}
                    for row in found.flavors.all()
                    if row.count
                ]
                found = services.workspace_resize(
                    actor=self.actor,
                    workspace=found,
                    items=pairs(asked.get("items", kept), "flavor", "count"),
                    storage_gib=asked.get("storage_gib"),
                    expected_version=version,
                )
        return self.accepted(found)

    @operation(
        "workspace_delete", "Delete a workspace", tag=TAG, answer=WorkspaceOutput, status=202, versioned=True
    )
    def delete(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Access is cut first; the reservation is given back when the site holds nothing of it any more."""
        del project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        version = wanted_version(request)
        return self.accepted(
            services.workspace_delete(actor=self.actor, workspace=found, expected_version=version)
        )


class WorkspaceRetryView(WorkspaceView):
    @operation("workspace_retry", "Try again", tag=TAG, answer=WorkspaceOutput, status=202, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """A failed creation, resize or resumption begins anew; what was reserved is still held."""
        del project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        version = wanted_version(request)
        return self.accepted(
            services.workspace_retry(actor=self.actor, workspace=found, expected_version=version)
        )


class WorkspaceSuspendView(WorkspaceView):
    @operation(
        "workspace_suspend",
        "Put to sleep",
        tag=TAG,
        body=ReasonInput,
        answer=WorkspaceOutput,
        status=202,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """All that runs is stopped and its GPUs are given back; storage, objects and access stay.

        Pods that nothing owns do not come back. Asking again changes nothing.
        """
        del project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        reason = self.input(ReasonInput)["reason"]
        version = wanted_version(request)
        return self.accepted(
            services.workspace_suspend(
                actor=self.actor, workspace=found, expected_version=version, reason=reason
            )
        )


class WorkspaceResumeView(WorkspaceView):
    @operation(
        "workspace_resume",
        "Wake",
        tag=TAG,
        body=ReasonInput,
        answer=WorkspaceOutput,
        status=202,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Its GPUs are reserved anew, or it stays asleep (409 with the limit, what is used and what was asked); then
        what ran is started again. Asking again changes nothing.
        """
        del project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        reason = self.input(ReasonInput)["reason"]
        version = wanted_version(request)
        return self.accepted(
            services.workspace_resume(
                actor=self.actor, workspace=found, expected_version=version, reason=reason
            )
        )


class WorkspaceOperationsView(WorkspaceView):
    @operation("workspace_operations", "Timeline", tag=TAG, answer=page_of(OperationOutput), query=PageQuery)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Everything asked of the workspace, newest first, with each step, what was seen and how long it usually takes."""
        del request, project, workspace
        return self.page(timeline(workspace=self.workspace()), OperationOutput, key="-operation__pk")


class WorkspaceMembersView(WorkspaceView):
    @operation(
        "workspace_member_list", "List members", tag=TAG, answer=page_of(MemberOutput), query=PageQuery
    )
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        del request, project, workspace
        rows = self.workspace().members.select_related("user")
        return self.page(rows, MemberOutput, key="user__username")


class WorkspaceMemberView(WorkspaceView):
    @operation(
        "workspace_member_set",
        "Add a member or change the role",
        tag=TAG,
        body=WorkspaceRoleInput,
        answer=MemberOutput,
        versioned=True,
    )
    def put(self, request: Request, project: str, workspace: uuid.UUID, username: str) -> Response:
        """The site follows within seconds."""
        del project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        asked = self.input(WorkspaceRoleInput)
        member = services.member_set(
            actor=self.actor,
            workspace=found,
            username=username,
            role=asked["role"],
            expected_version=wanted_version(request),
        )
        return Response(MemberOutput(member).data)

    @operation("workspace_member_remove", "Remove a member", tag=TAG, status=204, versioned=True)
    def delete(self, request: Request, project: str, workspace: uuid.UUID, username: str) -> Response:
        """Their access ends within seconds; kubeconfigs that they hold stop working."""
        del project, workspace
        found = self.workspace(Permission.WORKSPACE_CREATE)
        version = wanted_version(request)
        services.member_remove(actor=self.actor, workspace=found, username=username, expected_version=version)
        return Response(status=204)


class WorkspacePreviewView(WorkspaceView):
    @operation("workspace_preview", "What would it say", tag=TAG, body=PreviewInput, answer=PreviewOutput)
    def post(self, request: Request, project: str) -> Response:
        """Admission and price of a request, without reserving anything. Safe to repeat, so it takes no Idempotency-Key."""
        del request, project
        found = self.project(Permission.WORKSPACE_CREATE)
        asked = self.input(PreviewInput)
        items = items_resolve(chosen(self.actor, found, asked))
        storage = storage_validate(asked["storage_gib"])
        lease = lease_validate(asked.get("lease_ends_at"), now=clock.now())
        site: Site = items[0][0].pool.site
        preview = admission_preview(project=found, site=site, amounts=amounts_of(items, storage_gib=storage))
        priced = None
        if Permission.BILLING_VIEW in self.actor.on_project(found.pk, found.organization_id):
            wanted = [QuoteItem(flavor=flavor, count=count) for flavor, count in items]
            priced = quote(
                organization=found.organization, items=wanted, storage_gib=storage, lease_ends_at=lease
            )
        said = {
            "items": [{"flavor": flavor.slug, "count": count} for flavor, count in items],
            "fits": preview.fits,
            "hold": preview.hold,
            "checks": preview.checks,
            "quote": priced,
            "usual_seconds": estimate(site=site),
        }
        return Response(PreviewOutput(said).data)


class PlatformWorkspacesView(ApiView):
    @operation(
        "platform_workspace_list",
        "List all workspaces",
        tag="platform",
        answer=page_of(WorkspaceOutput),
        query=WorkspaceQuery,
    )
    def get(self, request: Request) -> Response:
        """Of all projects, newest first."""
        del request
        platform_require(actor=self.actor)
        return self.page(listed(self.actor, self.params, None), WorkspaceOutput, key="-pk")
