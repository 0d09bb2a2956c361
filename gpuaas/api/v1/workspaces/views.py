"""Workspaces of a project: request, watch, resize, use, delete."""

import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from billing.quotes import QuoteItem, quote
from gpuaas.api.etag import answer, wanted_version
from gpuaas.api.fields import EMAILS
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.held import HeldView
from gpuaas.api.v1.shapes import MemberOutput
from gpuaas.api.v1.workspaces.matching import items_chosen
from gpuaas.api.v1.workspaces.shapes import (
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
from gpuaas.api.views import PlatformView
from gpuaas.catalog.models import Site
from gpuaas.core import clock
from gpuaas.core.rows import first_of
from gpuaas.lifecycle.lease import lease_validate
from gpuaas.workspaces import services
from gpuaas.workspaces.amounts import amounts_of, storage_sum
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import (
    estimate,
    timeline,
    workspace_get_for,
    workspaces_for,
    workspaces_loaded,
)
from gpuaas.workspaces.services.validation import items_resolve, storage_resolve, storage_validate
from gpuaas.workspaces.states import WorkspaceState
from quotas.selectors import admission_preview
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission


class WorkspaceView(HeldView[Workspace]):
    noun, output = "workspace", WorkspaceOutput
    get_for, loaded = staticmethod(workspace_get_for), staticmethod(workspaces_loaded)


def pairs(items: list[dict[str, Any]], first: str, second: str) -> list[tuple[Any, Any]]:
    return [(item[first], item[second]) for item in items]


def lifetime_of(asked: dict[str, Any]) -> timedelta | None:
    return timedelta(seconds=asked["lifetime_seconds"]) if "lifetime_seconds" in asked else None


def chosen(actor: Actor, project: Project, asked: dict[str, Any]) -> list[tuple[str, int]]:
    storage_gib = asked["storage_gib"] + sum(each["gib"] for each in asked["storage_classes"])
    return items_chosen(actor=actor, project=project, items=asked["items"], storage_gib=storage_gib)


def classes(asked: dict[str, Any]) -> list[tuple[str, int]]:
    return pairs(asked["storage_classes"], "storage_class", "gib")


def listed(actor: Actor, params: dict[str, Any], project: Project | None) -> QuerySet[Workspace]:
    """Workspaces as `WorkspaceQuery` selects them."""
    rows = workspaces_for(
        actor=actor,
        project=project,
        states=[WorkspaceState(params["state"])] if "state" in params else None,
        search=params.get("search", ""),
    )
    return rows.filter(site__slug=params["site"]) if "site" in params else rows


class WorkspacesView(WorkspaceView):
    @operation("workspace_list", "List workspaces", rows=WorkspaceOutput, query=WorkspaceQuery)
    def get(self, request: Request, project: str) -> Response:
        """Lists workspaces of the project, newest first. Deleted ones are included unless `state` excludes them."""
        found = self.project(Permission.WORKSPACE_VIEW)
        rows = listed(self.actor, self.params, found)
        return self.page(rows, WorkspaceOutput, key="-pk", context=self.seeing(found))

    @operation(
        "workspace_request",
        "Request a workspace",
        body=WorkspaceInput,
        accepted=WorkspaceOutput,
        examples=(REQUEST_EXAMPLE,),
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Reserves at once, or refuses (409 with the limit, the amount used and the amount requested).

        The site is called in the background: follow `Location`, or `…/operations` for the steps.
        """
        found = self.project(Permission.WORKSPACE_CREATE)
        asked = self.input(WorkspaceInput)
        asked["items"] = chosen(self.actor, found, asked)
        asked["storage_classes"] = classes(asked)
        if "members" in asked:
            asked["members"] = pairs(asked["members"], "username", "role")
        return self.accepted(services.workspace_request(actor=self.actor, project=found, **asked))


class WorkspaceDetailView(WorkspaceView):
    @operation("workspace_get", "Get a workspace", answer=WorkspaceOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """`ETag` is its version, with a digest of this answer: send it as If-Match with a change, which compares the version alone, or
        as If-None-Match to poll cheaply."""
        found = self.held()
        data = WorkspaceOutput(found, context=self.seeing(found.project)).data
        return answer(request, version=found.version, data=data)

    @operation(
        "workspace_change",
        "Resize a workspace, extend its lease or open it to its project",
        body=WorkspacePatchInput,
        accepted=WorkspaceOutput,
        versioned=True,
    )
    def patch(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """`items`, `storage_gib` and `storage_classes` are the new totals. An increase is reserved at once; a decrease is released when
        the site has confirmed it. Either the whole change happens or none of it. One resize at a time: 409 while
        another is running. A resize that only waits for pods to end is replaced, so that a shrink can be undone.

        `open_to_project`: once it is false, jobs of other workspaces leave within seconds, with a notice of 120 seconds."""
        found = self.held(Permission.WORKSPACE_CREATE)
        asked = self.input(WorkspacePatchInput)
        version = wanted_version(request)
        with transaction.atomic():
            if "lease_ends_at" in asked:
                found = self.ask(
                    services.workspace_extend, found, version, lease_ends_at=asked["lease_ends_at"]
                )
                version = None
            if "open_to_project" in asked:
                lends = {"open_to_project": asked["open_to_project"]}
                found, version = self.ask(services.workspace_lend, found, version, **lends), None
            if asked.keys() & {"items", "storage_gib", "storage_classes"}:
                found = self.ask(
                    services.workspace_resize,
                    found,
                    version,
                    items=pairs(asked["items"], "flavor", "count") if "items" in asked else None,
                    storage_gib=asked.get("storage_gib"),
                    storage_classes=classes(asked) if "storage_classes" in asked else None,
                )
        return self.accepted(found)

    @operation("workspace_delete", "Delete a workspace", accepted=WorkspaceOutput, versioned=True)
    def delete(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Access ends first; the reservation is released when the site holds nothing of the workspace any more."""
        return self.changed(services.workspace_delete)


class WorkspaceRetryView(WorkspaceView):
    @operation("workspace_retry", "Retry a failed operation", accepted=WorkspaceOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Starts a failed creation, resize or resumption again. What was reserved is still held."""
        return self.changed(services.workspace_retry)


class WorkspaceSuspendView(WorkspaceView):
    @operation(
        "workspace_suspend", "Suspend a workspace", body=ReasonInput, accepted=WorkspaceOutput, versioned=True
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Stops everything that runs and releases its GPUs; storage, objects and access stay.

        Pods without an owner do not come back. Repeating the request changes nothing.
        """
        return self.changed(services.workspace_suspend, ReasonInput)


class WorkspaceResumeView(WorkspaceView):
    @operation(
        "workspace_resume", "Resume a workspace", body=ReasonInput, accepted=WorkspaceOutput, versioned=True
    )
    @idempotent
    def post(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Reserves its GPUs again and starts what ran before. If that is refused (409 with the limit, the amount used
        and the amount requested), it stays suspended. Repeating the request changes nothing."""
        return self.changed(services.workspace_resume, ReasonInput)


class WorkspaceOperationsView(WorkspaceView):
    @operation("workspace_operations", "List operations of a workspace", rows=OperationOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists all operations of the workspace, newest first, with each step, what was observed, and how long the
        step usually takes."""
        return self.page(timeline(workspace=self.held()), OperationOutput, key="-operation__pk")


class WorkspaceMembersView(WorkspaceView):
    @operation("workspace_member_list", "List members", rows=MemberOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID) -> Response:
        """Lists everybody with a role in this workspace itself. Roles in the project and the organization apply in
        addition."""
        found = self.held()
        rows = found.members.select_related("user")
        return self.page(rows, MemberOutput, key="user__username", context=self.seeing(found.project))


class WorkspaceMemberView(WorkspaceView):
    @operation("workspace_member_get", "Get a member", answer=MemberOutput)
    def get(self, request: Request, project: str, workspace: uuid.UUID, username: str) -> Response:
        """Returns the role in this workspace itself. Roles in the project and the organization apply in addition."""
        found = self.held()
        row = first_of(found.members.select_related("user").filter(user__username=username), "member")
        return Response(MemberOutput(row, context=self.seeing(found.project)).data)

    @operation(
        "workspace_member_set",
        "Add a member or change their role",
        body=WorkspaceRoleInput,
        answer=MemberOutput,
        versioned=True,
    )
    def put(self, request: Request, project: str, workspace: uuid.UUID, username: str) -> Response:
        """The site follows within seconds."""
        found = self.held(Permission.WORKSPACE_CREATE)
        asked = self.input(WorkspaceRoleInput)
        member = services.member_set(
            actor=self.actor,
            workspace=found,
            username=username,
            role=asked["role"],
            expected_version=wanted_version(request),
        )
        return Response(MemberOutput(member, context=self.seeing(found.project)).data)

    @operation("workspace_member_remove", "Remove a member", versioned=True)
    def delete(self, request: Request, project: str, workspace: uuid.UUID, username: str) -> Response:
        """Their access ends within seconds; kubeconfigs that they hold stop working."""
        found = self.held(Permission.WORKSPACE_CREATE)
        version = wanted_version(request)
        services.member_remove(actor=self.actor, workspace=found, username=username, expected_version=version)
        return Response(status=204)


class WorkspacePreviewView(WorkspaceView):
    @operation("workspace_preview", "Preview a request", body=PreviewInput, answer=PreviewOutput)
    def post(self, request: Request, project: str) -> Response:
        """Returns admission and price of a request without reserving anything. Safe to repeat, so it takes no
        Idempotency-Key."""
        found = self.project(Permission.WORKSPACE_CREATE)
        asked = self.input(PreviewInput)
        items = items_resolve(chosen(self.actor, found, asked))
        storage = storage_validate(asked["storage_gib"])
        lease = lease_validate(asked.get("lease_ends_at"), now=clock.now())
        site: Site = items[0][0].pool.site
        by_class = storage_resolve(classes(asked), site=site)
        amounts = amounts_of(items, storage_gib=storage_sum(storage, by_class))
        preview = admission_preview(project=found, site=site, amounts=amounts)
        priced = None
        if self.sees_prices(found):
            priced = quote(
                organization=found.organization,
                items=[QuoteItem(flavor=flavor, count=count) for flavor, count in items],
                storage_gib=storage,
                lease_ends_at=lease,
                classes={storage_class.slug: gib for storage_class, gib in by_class},
            )
        data = {
            "items": [{"flavor": flavor.slug, "count": count} for flavor, count in items],
            "fits": preview.fits,
            "hold": preview.hold,
            "checks": preview.checks,
            "quote": priced,
            "usual_seconds": estimate(site=site),
        }
        return Response(PreviewOutput(data).data)


class PlatformWorkspacesView(PlatformView):
    @operation("platform_workspace_list", "List all workspaces", rows=WorkspaceOutput, query=WorkspaceQuery)
    def get(self, request: Request) -> Response:
        """Lists workspaces of all projects, newest first."""
        rows = listed(self.actor, self.params, None)
        context = {EMAILS: Permission.PROJECT_MANAGE in self.actor.on_platform()}
        return self.page(rows, WorkspaceOutput, key="-pk", context=context)
