"""Reserved pools: operators create and end reservations; an organization sees its own."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import Input, Instant, Output, PageQuery, Text, TextOrEmpty
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.billing.rate_cards import flavor_named
from gpuaas.api.views import ApiView, PlatformView
from gpuaas.core import clock
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import one_or_none
from quotas.models import PoolReservation
from quotas.pools import (
    pool_guests,
    pool_reservation_change,
    pool_reservation_end,
    pool_reservation_get_for,
    pool_reservations_for,
    pool_reserve,
    pool_standing,
)
from tenants.actors import Actor
from tenants.models import Project
from tenants.selectors import organization_get_for


class PoolReservationInput(Input):
    flavor = Text(
        max_length=64,
        help_text=(
            "A flavor of the price class reserved. Its pool is reserved; idle GPUs are charged at its price."
        ),
    )
    project = Text(
        max_length=64,
        help_text="The pool is reserved for its organization; the project is charged for idle GPUs.",
    )
    valid_from = Instant(required=False, help_text="Default: now.")
    valid_to = Instant(
        required=False, allow_null=True, default=None, help_text="null: until somebody ends it."
    )
    note = TextOrEmpty(max_length=300)


class PoolReservationPatchInput(Input):
    note = Text(max_length=300, required=False, allow_blank=True)
    valid_to = Instant(required=False, allow_null=True, help_text="null: until somebody ends it.")


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
        help_text="waits: it has not started, but others already get nothing more of the pool."
    )
    valid_from = serializers.DateTimeField()
    valid_to = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField()

    def get_standing(self, row: PoolReservation) -> str:
        return pool_standing(reservation=row, now=clock.now()).value


class PoolGuestOutput(Output):
    organization = serializers.CharField()
    project = serializers.CharField()
    holders = serializers.IntegerField(help_text="Number of workspaces and clusters.")
    gpus = serializers.IntegerField(source="amount")


class PlatformPoolReservationOutput(PoolReservationOutput):
    created_by = serializers.CharField()
    version = serializers.IntegerField()


class PoolReservationGuestsOutput(PlatformPoolReservationOutput):
    guests = serializers.SerializerMethodField(help_text="Other holders of GPUs of the pool.")

    @extend_schema_field(PoolGuestOutput(many=True))
    def get_guests(self, row: PoolReservation) -> list[Any]:
        return list(PoolGuestOutput(self.context["guests"], many=True).data)


def shown(actor: Actor, reservation_id: uuid.UUID, *, status: int = 200) -> Response:
    row = pool_reservation_get_for(actor=actor, reservation_id=reservation_id)
    wanted = [(row.pool, row.project.organization_id)]
    (guests,) = pool_guests(actor=actor, wanted=wanted).values()
    data = PoolReservationGuestsOutput(row, context={"guests": guests}).data
    return Response(data, status=status, headers={"ETag": etag(row.version)})


class PoolReservationQuery(PageQuery):
    site = Text(max_length=40, required=False)
    organization = Text(max_length=64, required=False)


class OrganizationPoolReservationsView(ApiView):
    @operation("organization_pool_reservation_list", "List reserved pools", rows=PoolReservationOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Lists those charged to projects that you may see: current, future and past."""
        row = organization_get_for(actor=self.actor, slug=organization)
        rows = pool_reservations_for(actor=self.actor, organization=row)
        return self.page(rows, PoolReservationOutput, key="-pk")


class PlatformPoolReservationsView(PlatformView):
    @operation(
        "platform_pool_reservation_list",
        "List reserved pools",
        rows=PlatformPoolReservationOutput,
        query=PoolReservationQuery,
    )
    def get(self, request: Request) -> Response:
        """Lists current, future and past reservations."""
        names = {"site": "pool__site__slug", "organization": "project__organization__slug"}
        asked = {path: self.params[name] for name, path in names.items() if name in self.params}
        rows = pool_reservations_for(actor=self.actor).filter(**asked)
        return self.page(rows, PlatformPoolReservationOutput, key="-pk")

    @operation(
        "platform_pool_reserve",
        "Reserve a pool",
        body=PoolReservationInput,
        created=PoolReservationGuestsOutput,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Nobody else gets more of the pool from now on. A reservation that starts at once needs the pool to be free
        of other holders; nobody is evicted."""
        asked = self.input(PoolReservationInput)
        slug = asked["project"]
        project = one_or_none(Project.objects.select_related("organization").filter(slug=slug))
        if project is None:
            raise Invalid.field("project", f"there is no project {slug!r}")
        flavor = flavor_named(asked["flavor"])
        made = pool_reserve(actor=self.actor, **{**asked, "flavor": flavor, "project": project})
        return shown(self.actor, made.pk, status=201)


class PlatformPoolReservationView(PlatformView):
    @operation("platform_pool_reservation", "Get a reserved pool", answer=PoolReservationGuestsOutput)
    def get(self, request: Request, reservation: uuid.UUID) -> Response:
        """Returns the reservation with the other holders of GPUs of the pool. Send the ETag as If-Match with a
        change."""
        return shown(self.actor, reservation)

    @operation(
        "platform_pool_reservation_change",
        "Change a reserved pool",
        body=PoolReservationPatchInput,
        answer=PoolReservationGuestsOutput,
        versioned=True,
    )
    def patch(self, request: Request, reservation: uuid.UUID) -> Response:
        """Its note and its end. What is past stays: its start, and all of it once it has ended."""
        row = pool_reservation_get_for(actor=self.actor, reservation_id=reservation)
        changes: Any = self.input(PoolReservationPatchInput)
        version = wanted_version(request)
        pool_reservation_change(actor=self.actor, reservation=row, changes=changes, expected_version=version)
        return shown(self.actor, reservation)


class PlatformPoolReservationEndView(PlatformView):
    @operation(
        "platform_pool_reservation_end", "End a reservation", body=PoolReservationEndInput, versioned=True
    )
    @idempotent
    def post(self, request: Request, reservation: uuid.UUID) -> Response:
        """Ends it now or later. GPUs that were idle until then are still charged. A reservation that has not started
        by then is removed."""
        row = pool_reservation_get_for(actor=self.actor, reservation_id=reservation)
        asked = self.input(PoolReservationEndInput)
        version = wanted_version(request)
        pool_reservation_end(actor=self.actor, reservation=row, expected_version=version, **asked)
        return Response(status=204)
