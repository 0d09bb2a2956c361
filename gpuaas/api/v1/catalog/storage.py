"""Operators: the storage classes of a site, and which of them are sold."""

import uuid

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, Pick, Switch, TextOrEmpty
from gpuaas.api.schema import operation
from gpuaas.api.v1.catalog.offers import SOLD
from gpuaas.api.views import PlatformView
from gpuaas.catalog.models import StorageClass
from gpuaas.catalog.selectors import site_get_for, storage_classes_at
from gpuaas.catalog.services import storage_class_retire, storage_class_sell, storage_plain_choose
from gpuaas.catalog.states import OfferState
from gpuaas.core.errors import Invalid
from gpuaas.core.rows import first_of


class SiteStorageClassOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField(help_text="By which claims at the site use it.")
    provisioner = serializers.CharField(allow_blank=True)
    is_default = serializers.BooleanField(help_text="true: the site's default.")
    present = serializers.BooleanField(
        help_text="false: the site does not have it any more; it stays closed."
    )
    plain = serializers.BooleanField(help_text="true: plain storage is taken from it.")
    chosen = serializers.BooleanField(help_text="true: chosen by an operator.")
    slug = serializers.CharField(allow_blank=True, help_text="As it is or was sold; empty: never.")
    state = serializers.ChoiceField(choices=OfferState.choices)


class SiteStorageClassInput(Input):
    state = Pick(choices=SOLD, required=False)
    slug = TextOrEmpty(max_length=40, help_text="With the first offer: the short name, which stays.")
    plain = Switch(required=False, default=False, help_text="true: take plain storage from it.")


class SiteStorageView(PlatformView):
    def _named(self, site: str, key: uuid.UUID) -> StorageClass:
        found = site_get_for(actor=self.actor, slug=site)
        return first_of(storage_classes_at(actor=self.actor, site=found).filter(pk=key), "storage class")


class SiteStorageClassesView(SiteStorageView):
    @operation("platform_storage_class_list", "List storage classes of a site", rows=SiteStorageClassOutput)
    def get(self, request: Request, site: str) -> Response:
        """Lists every class that the site has or had. What a workspace did not buy of them is closed to it."""
        found = site_get_for(actor=self.actor, slug=site)
        return self.page(storage_classes_at(actor=self.actor, site=found), SiteStorageClassOutput, key="name")


class SiteStorageClassView(SiteStorageView):
    @operation("platform_storage_class_get", "Get a storage class", answer=SiteStorageClassOutput)
    def get(self, request: Request, site: str, storage_class: uuid.UUID) -> Response:
        """Returns what the site reports about it, and whether it is sold."""
        return Response(SiteStorageClassOutput(self._named(site, storage_class)).data)

    @operation(
        "platform_storage_class_change",
        "Sell a storage class, or take plain storage from it",
        body=SiteStorageClassInput,
        answer=SiteStorageClassOutput,
    )
    def patch(self, request: Request, site: str, storage_class: uuid.UUID) -> Response:
        """Either sells it or stops selling it, or makes it the class of plain storage. Workspaces that have some of a
        retired class keep it."""
        found = self._named(site, storage_class)
        asked = self.input(SiteStorageClassInput)
        if asked["plain"] == ("state" in asked):
            raise Invalid.field(
                "state", "say either what becomes of its offer, or that plain storage is taken from it"
            )
        if asked["plain"]:
            storage_plain_choose(actor=self.actor, storage_class=found)
        elif asked["state"] == OfferState.ACTIVE:
            storage_class_sell(actor=self.actor, storage_class=found, slug=asked.get("slug", ""))
        else:
            storage_class_retire(actor=self.actor, storage_class=found)
        return Response(SiteStorageClassOutput(self._named(site, storage_class)).data)
