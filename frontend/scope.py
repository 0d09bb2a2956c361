"""Pages that are the same for a project and for a whole organization."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from frontend.place import Door, OrganizationPlace, ProjectPlace, organization_page, project_page
from tenants.actors import Actor
from tenants.models import Organization, Project
from tenants.roles import Permission


@dataclass(frozen=True)
class Scope:
    """What the address names. `given` is what selectors and services take; `url` an address of the same scope."""

    place: ProjectPlace | OrganizationPlace
    organization: Organization
    project: Project | None

    @property
    def actor(self) -> Actor:
        return self.place.actor

    @property
    def now(self) -> datetime:
        return self.place.now

    @property
    def may_manage(self) -> bool:
        return Permission.BILLING_MANAGE in self.place.may

    @property
    def slug(self) -> str:
        return self.project.slug if self.project else self.organization.slug

    @property
    def name(self) -> str:
        return self.project.slug if self.project else self.organization.name

    @property
    def given(self) -> dict[str, Any]:
        return self.place.given

    def url(self, name: str, *args: object, query: Mapping[str, str] | None = None) -> str:
        room = "" if self.project else "organization_"
        address = reverse(f"frontend:{room}{name}", args=[self.slug, *args])
        return f"{address}?{urlencode(query)}" if query is not None else address


def of_project(permission: Permission = Permission.BILLING_VIEW) -> Door[Scope]:
    def enter(request: HttpRequest, address: dict[str, Any]) -> Scope:
        here = project_page(permission).enter(request, address)
        return Scope(here, here.project.organization, here.project)

    return Door(enter)


def of_organization(permission: Permission = Permission.BILLING_VIEW) -> Door[Scope]:
    def enter(request: HttpRequest, address: dict[str, Any]) -> Scope:
        here = organization_page(permission).enter(request, address)
        return Scope(here, here.organization, None)

    return Door(enter)
