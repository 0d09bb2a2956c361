"""One frame for what a project holds: workspaces, clusters, environments and jobs are found, changed and answered alike."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Input, Output
from gpuaas.api.views import ProjectView
from gpuaas.clusters.models import Cluster
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.environments.models import Environment
from gpuaas.jobs.models import Job
from gpuaas.workspaces.models import Workspace
from gpuaas.workspaces.selectors import workspace_get_for
from tenants.models import Project
from tenants.roles import Permission

Row = TypeVar("Row", Workspace, Cluster, Environment, Job)
Service = Callable[..., Row]  # takes `actor`, the row by its noun, `expected_version`, and what was asked


class HeldView(ProjectView, Generic[Row]):
    """Views of one row of a kind; under the address of another project it does not exist.

    noun: the row in addresses, and where services take it. get_for: the selector of the row for an actor. loaded: the
    rows with everything that `output` shows. changes: what a caller needs who changes it.
    """

    changes = Permission.WORKSPACE_CREATE
    noun: str
    output: type[Output]
    get_for: Callable[..., Row]
    loaded: Callable[[], QuerySet[Row]]

    def held(self, permission: Permission = Permission.WORKSPACE_VIEW, *, own: bool = False) -> Row:
        project = self.project(permission, own=own)
        named = {f"{self.noun}_id": self.kwargs[self.noun]}
        found = self.get_for(actor=self.actor, permission=permission, own=own, **named)
        if found.project_id != project.pk:
            raise NotFound(f"there is no such {self.noun}")
        return found

    def workspace_in(self, project: Project, workspace_id: UUID) -> Workspace:
        """That is named in the body: one that does not exist is an error there, not a 404 of the address."""
        try:
            found = workspace_get_for(actor=self.actor, workspace_id=workspace_id)
        except NotFound as error:
            raise Invalid.field("workspace", error.message) from error
        if found.project_id != project.pk:
            raise Invalid.field("workspace", "there is no such workspace")
        return found

    def changed(self, service: Service[Row], body: type[Input] | None = None) -> Response:
        """202 after the service was asked with the fields of `body`, for callers who may change the row."""
        row = self.held(self.changes)
        asked = self.input(body) if body else {}
        return self.accepted(self.ask(service, row, wanted_version(self.request), **asked))

    def ask(self, service: Service[Row], row: Row, version: int | None, **asked: Any) -> Row:
        return service(actor=self.actor, **{self.noun: row}, expected_version=version, **asked)

    def accepted(self, row: Row) -> Response:
        """202 with the row as it is now, its address, and its version."""
        fresh = self.loaded().get(pk=row.pk)
        where = reverse(f"api:{self.noun}", kwargs={"project": fresh.project.slug, self.noun: str(fresh.pk)})
        headers = {"Location": where, "ETag": etag(fresh.version)}
        return Response(
            self.output(fresh, context=self.seeing(fresh.project)).data, status=202, headers=headers
        )
