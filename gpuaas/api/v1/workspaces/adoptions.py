"""Operators: namespaces and projects that could be adopted, and the plans for that."""

import uuid
from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.fields import EMAILS, Input, Instant, Output, Text, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.workspaces.shapes import ItemInput, List, WorkspaceMemberInput, WorkspaceOutput
from gpuaas.api.v1.workspaces.views import pairs
from gpuaas.api.views import PlatformView, SiteView
from gpuaas.catalog.models import Site
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.workspaces import services
from gpuaas.workspaces.models import Adoption
from gpuaas.workspaces.selectors import (
    adoptables_of,
    adoption_get_for,
    adoption_scan_get_for,
    adoptions_for,
    workspaces_loaded,
)
from gpuaas.workspaces.states import AdoptionState
from tenants.models import Project
from tenants.selectors import project_get_for


class AdoptableOutput(Output):
    external_name = serializers.CharField(source="found.external_name", help_text="The namespace or project.")
    created_at = serializers.DateTimeField(source="found.created_at")
    gpus = serializers.DictField(
        source="found.gpus", child=serializers.IntegerField(), help_text="Held now, by GPU name."
    )
    hard = serializers.DictField(
        source="found.hard", child=serializers.IntegerField(), help_text="Maximum by its own quota."
    )
    vcpus = serializers.IntegerField(source="found.vcpus")
    memory_gib = serializers.IntegerField(source="found.memory_gib")
    storage_gib = serializers.IntegerField(source="found.storage_gib")
    consumers = serializers.IntegerField(
        source="found.consumers", help_text="Pods or machines that have not ended."
    )
    proposed_items = serializers.DictField(
        source="proposal.items", child=serializers.IntegerField(), help_text="Count by flavor."
    )
    proposed_storage_gib = serializers.IntegerField(source="proposal.storage_gib")
    taken = serializers.BooleanField(help_text="The workspace that has adopted it since.")


class AdoptionScanOutput(Output):
    requested_at = serializers.DateTimeField()
    requested_by = serializers.CharField()
    taken_at = serializers.DateTimeField(
        allow_null=True, help_text="When the last scan ran; null: not scanned yet."
    )
    pending = serializers.BooleanField(help_text="true: a scan is running.")
    failure = serializers.CharField(allow_blank=True, help_text="Why the last scan failed.")
    found = AdoptableOutput(many=True)


class AdoptionInput(Input):
    external_name = Text(max_length=63, help_text="A namespace or project that the last scan found.")
    project = Text(max_length=40, help_text="Slug of the project that gets the workspace.")
    name = Text(max_length=40, help_text="Name of the workspace: lower-case letters, digits and hyphens.")
    items = List(child=ItemInput(), max_length=20, min_length=1)
    storage_gib = Whole(required=False, default=0, max_value=1_000_000)
    members = List(
        child=WorkspaceMemberInput(),
        required=False,
        max_length=200,
        help_text="In addition to the project's admins, who are admins of every workspace.",
    )
    lease_ends_at = Instant(required=False, help_text="Default: 28 days after the confirmation.")


class AdoptionStepOutput(Output):
    object = serializers.CharField(help_text="Kind/name.")
    action = serializers.ChoiceField(choices=["create", "change", "remove", "keep"])
    detail = serializers.CharField(allow_blank=True)
    blocking = serializers.BooleanField(help_text="Must be resolved before the plan can be confirmed.")


class AdoptionOutput(Output):
    id = serializers.UUIDField()
    site = serializers.CharField(source="site.slug")
    external_name = serializers.CharField()
    project = serializers.CharField(source="project.slug")
    name = serializers.CharField()
    items = serializers.DictField(child=serializers.IntegerField(), help_text="Count by flavor.")
    storage_gib = serializers.IntegerField()
    members = serializers.DictField(child=serializers.CharField(), help_text="Role by username.")
    lease_ends_at = serializers.DateTimeField(allow_null=True)
    state = serializers.ChoiceField(choices=AdoptionState.choices)
    steps = AdoptionStepOutput(many=True)
    failure = serializers.CharField(allow_blank=True)
    workspace = serializers.UUIDField(source="workspace_id", allow_null=True)
    requested_by = serializers.CharField(source="requested_by.username")
    requested_at = serializers.DateTimeField()
    planned_at = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    adopted_at = serializers.DateTimeField(allow_null=True, help_text="Metered from this time on.")
    version = serializers.IntegerField()


class AdoptionScanView(SiteView):
    @operation("platform_adoption_scan", "List what can be adopted", answer=AdoptionScanOutput)
    def get(self, request: Request, site: str) -> Response:
        """Lists namespaces or projects of the site that are not workspaces yet, as the last scan found them, each
        with a proposal."""
        return Response(self._shown(self.site()))

    @operation(
        "platform_adoption_scan_request", "Scan a site for what can be adopted", accepted=AdoptionScanOutput
    )
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Runs in the background; the results of the last scan stay until then."""
        found = self.site()
        services.adoption_scan_request(actor=self.actor, site=found)
        return Response(self._shown(found), status=202)

    def _shown(self, site: Site) -> Any:
        scan = adoption_scan_get_for(actor=self.actor, site=site)
        if scan is None:
            raise NotFound("this site was not scanned yet: POST here first")
        data = {
            "requested_at": scan.requested_at,
            "requested_by": scan.requested_by,
            "taken_at": scan.taken_at,
            "pending": scan.due_at is not None,
            "failure": scan.failure,
            "found": adoptables_of(actor=self.actor, scan=scan),
        }
        return AdoptionScanOutput(data).data


class AdoptionsView(SiteView):
    @operation("platform_adoption_list", "List plans", rows=AdoptionOutput)
    def get(self, request: Request, site: str) -> Response:
        """Lists plans for the site and their results, newest first."""
        found = self.site()
        return self.page(adoptions_for(actor=self.actor, site=found), AdoptionOutput, key="-pk")

    @operation("platform_adoption_plan", "Plan an adoption", body=AdoptionInput, accepted=AdoptionOutput)
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Changes nothing at the site. Follow `Location` until the state is `planned`, read the steps, then confirm."""
        found = self.site()
        asked = self.input(AdoptionInput)
        made = services.adoption_plan_request(
            actor=self.actor,
            site=found,
            external_name=asked["external_name"],
            project=self._project(asked["project"]),
            items=pairs(asked["items"], "flavor", "count"),
            name=asked["name"],
            storage_gib=asked["storage_gib"],
            members=pairs(asked.get("members", []), "username", "role"),
            lease_ends_at=asked.get("lease_ends_at"),
        )
        where = reverse("api:platform-adoption", kwargs={"site": found.slug, "adoption": str(made.pk)})
        headers = {"Location": where, "ETag": etag(made.version)}
        return Response(AdoptionOutput(made).data, status=202, headers=headers)

    def _project(self, slug: str) -> Project:
        try:
            return project_get_for(actor=self.actor, slug=slug)
        except NotFound as error:
            raise Invalid.field("project", f"there is no project {slug!r}") from error


class PlanView(PlatformView):
    def adoption(self) -> Adoption:
        found = adoption_get_for(actor=self.actor, adoption_id=self.kwargs["adoption"])
        if found.site.slug != self.kwargs["site"]:
            raise NotFound("there is no such adoption")
        return found


class AdoptionView(PlanView):
    @operation("platform_adoption_get", "Get a plan", answer=AdoptionOutput)
    def get(self, request: Request, site: str, adoption: uuid.UUID) -> Response:
        """Returns what the plan would adopt, what blocks it, and its progress."""
        found = self.adoption()
        return answer(request, version=found.version, data=AdoptionOutput(found).data)

    @operation("platform_adoption_discard", "Discard a plan", versioned=True)
    def delete(self, request: Request, site: str, adoption: uuid.UUID) -> Response:
        """The site was not changed. A confirmed plan is a workspace, and is deleted as one."""
        found = self.adoption()
        services.adoption_discard(actor=self.actor, adoption=found, expected_version=wanted_version(request))
        return Response(status=204)


class AdoptionConfirmView(PlanView):
    @operation("platform_adoption_confirm", "Confirm a plan", accepted=WorkspaceOutput, versioned=True)
    @idempotent
    def post(self, request: Request, site: str, adoption: uuid.UUID) -> Response:
        """Reserves like a request, or refuses. The site is compared with the plan once more before anything is
        written there: if it has changed, the workspace is withdrawn and the plan fails."""
        found = self.adoption()
        made = services.adoption_confirm(
            actor=self.actor, adoption=found, expected_version=wanted_version(request)
        )
        fresh = workspaces_loaded().get(pk=made.pk)
        where = reverse("api:workspace", kwargs={"project": fresh.project.slug, "workspace": str(fresh.pk)})
        headers = {"Location": where, "ETag": etag(fresh.version)}
        shown = WorkspaceOutput(fresh, context={EMAILS: True}).data
        return Response(shown, status=202, headers=headers)
