"""Pools that are reserved: operators make and end reservations, an organization sees its own."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Instant, Output, PageQuery, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.rate_cards import flavor_named
from gpuaas.api.views import ApiView
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from quotas.models import PoolReservation
from quotas.pools import (
    pool_guests,
    pool_reservation_end,
    pool_reservation_get_for,
    pool_reservations_for,
    pool_reserve,
    pool_standing,
)
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission
from tenants.selectors import organization_get_for, platform_require

TAG = "platform"


class PoolReservationInput(Input):
    flavor = Text(
        max_length=64,
        help_text="Of the price class reserved: the pool is its pool, idle GPUs cost its price.",
    )
    project = Text(max_length=64, help_text="Its organization has the pool; it is charged for what is idle.")
    valid_from = Instant(required=False, help_text="Default: now.")
    valid_to = Instant(required=False, allow_null=True, default=None, help_text="null: until it is ended.")
    note = Text(max_length=300, required=False, default="", allow_blank=True)


class PoolReservationEndInput(Input):
    at = Instant(required=False, help_text="Default: now.")


class PoolReservationOutput(Output):
    id = serializers.UUIDField()
    site = serializers.CharField(source="pool.site.slug")
    gpu_type = serializers.CharField(source="pool.gpu_type.slug")
    flavor = serializers.CharField(source="flavor.slug")
    organization = serializers.CharField(source="project.organization.slug")
    project = serializers.CharField(source="project.slug")
    standing = serializers.SerializerMethodField(
        help_text="waits: others get nothing more of the pool already."
    )
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()

    def get_standing(self, row: PoolReservation) -> str:
        return pool_standing(reservation=row, now=clock.now()).value


class PoolGuestOutput(Output):
    organization = serializers.CharField()
    project = serializers.CharField()
    holders = serializers.IntegerField(help_text="Workspaces and clusters.")
    gpus = serializers.IntegerField(source="amount")


class PlatformPoolReservationOutput(PoolReservationOutput):
    created_by = serializers.CharField()


class PoolReservationGuestsOutput(PlatformPoolReservationOutput):
    guests = serializers.SerializerMethodField(help_text="Who else still holds GPUs of the pool.")

    @extend_schema_field(PoolGuestOutput(many=True))
    def get_guests(self, row: PoolReservation) -> list[Any]:
        del row
        return list(PoolGuestOutput(self.context["guests"], many=True).data)


def shown(actor: Actor, reservation_id: uuid.UUID, *, status: int = 200) -> Response:
    row = pool_reservation_get_for(actor=actor, reservation_id=reservation_id)
    wanted = [(row.pool, row.project.organization_id)]
    (guests,) = pool_guests(actor=actor, wanted=wanted).values()
    return Response(PoolReservationGuestsOutput(row, context={"guests": guests}).data, status=status)


class PoolReservationQuery(PageQuery):
    site = Text(max_length=40, required=False)
    organization = Text(max_length=64, required=False)


class OrganizationPoolReservationsView(ApiView):
    @operation(
        "organization_pool_reservation_list",
        "Reserved pools",
        tag="organizations",
        answer=page_of(PoolReservationOutput),
        query=PageQuery,
    )
    def get(self, request: Request, organization: str) -> Response:
        """Those charged to projects that you see: in force, to come, and over."""
        del request
        row = organization_get_for(actor=self.actor, slug=organization)
        rows = pool_reservations_for(actor=self.actor, organization=row)
        return self.page(rows, PoolReservationOutput, key="-pk")


class PlatformPoolReservationsView(ApiView):
    @operation(
        "platform_pool_reservation_list",
        "Reserved pools",
        tag=TAG,
        answer=page_of(PlatformPoolReservationOutput),
        query=PoolReservationQuery,
    )
    def get(self, request: Request) -> Response:
        """In force, to come, and over."""
        del request
        platform_require(actor=self.actor)
        names = {"site": "pool__site__slug", "organization": "project__organization__slug"}
        asked = {path: self.params[name] for name, path in names.items() if name in self.params}
        rows = pool_reservations_for(actor=self.actor).filter(**asked)
        return self.page(rows, PlatformPoolReservationOutput, key="-pk")

    @operation(
        "platform_pool_reserve",
        "Reserve a pool",
        tag=TAG,
        body=PoolReservationInput,
        answer=PoolReservationGuestsOutput,
        status=201,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """From now on nobody else gets more of it. One that begins at once needs it free of others; nobody is evicted."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        asked = self.input(PoolReservationInput)
        slug = asked["project"]
        project = Project.objects.select_related("organization").filter(slug=slug).first()
        if project is None:
            raise Invalid.field("project", f"there is no project {slug!r}")
        flavor = flavor_named(asked["flavor"])
        made = pool_reserve(actor=self.actor, **{**asked, "flavor": flavor, "project": project})
        return shown(self.actor, made.pk, status=201)


class PlatformPoolReservationView(ApiView):
    @operation("platform_pool_reservation", "A reserved pool", tag=TAG, answer=PoolReservationGuestsOutput)
    def get(self, request: Request, reservation: uuid.UUID) -> Response:
        """With who of others still holds GPUs of the pool."""
        del request
        platform_require(actor=self.actor)
        return shown(self.actor, reservation)


class PlatformPoolReservationEndView(ApiView):
    @operation(
        "platform_pool_reservation_end",
        "End a reservation",
        tag=TAG,
        body=PoolReservationEndInput,
        status=204,
    )
    @idempotent
    def post(self, request: Request, reservation: uuid.UUID) -> Response:
        """Now or later; what was idle until then stays charged. One that has not begun by then is gone."""
        del request
        platform_require(actor=self.actor, permission=Permission.PLATFORM_MANAGE)
        row = pool_reservation_get_for(actor=self.actor, reservation_id=reservation)
        asked = self.input(PoolReservationEndInput)
        pool_reservation_end(actor=self.actor, reservation=row, **asked)
        return Response(status=204)
