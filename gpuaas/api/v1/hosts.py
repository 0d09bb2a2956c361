"""Operators: the hosts of a site of bare metal."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, PageQuery, Pick, Text
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.cluster_shapes import Document
from gpuaas.api.v1.workspace_shapes import List
from gpuaas.api.views import ApiView
from gpuaas.catalog.models import Site
from gpuaas.catalog.selectors import site_get_for
from gpuaas.clusters.services.hosts import (
    VERBS,
    HostState,
    host_do,
    host_get,
    hosts_of_site,
    hosts_put,
)
from gpuaas.core.errors import Invalid
from tenants.roles import Permission
from tenants.selectors import platform_require

TAG = "platform"
ACTIONS = ["take-out", *(verb for verb in VERBS if verb != "remove")]


class HostQuery(PageQuery):
    state = serializers.ChoiceField(choices=HostState.choices, required=False)
    search = Text(required=False, max_length=80, help_text="Part of its name or of its GPUs' product.")


class HostOutput(Output):
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=HostState.choices)
    reason = serializers.CharField(help_text="Why it was taken out, else empty.")
    dirty = serializers.BooleanField(help_text="Somebody's data may be on its disks.")
    gpus = serializers.IntegerField()
    product = serializers.CharField(help_text="Of one of its GPUs.")
    gpu_memory_gib = serializers.IntegerField(help_text="Of one of its GPUs.")
    vcpus = serializers.IntegerField()
    memory_gib = serializers.IntegerField()
    resource_name = serializers.CharField(help_text="By what a flavor asks for it.")
    cluster = serializers.UUIDField(source="cluster_id", allow_null=True)
    pool = serializers.CharField()
    slot = serializers.CharField(help_text="Which of the cluster's machines it is.")
    bound_at = serializers.DateTimeField(allow_null=True)
    bmc_address = serializers.CharField()
    bmc_secret = serializers.CharField(
        help_text="The name of the Secret at the hub; what is in it never comes here."
    )
    boot_mac = serializers.CharField()
    addresses = serializers.ListField(child=serializers.CharField())


class HostsInput(Input):
    hosts = List(
        child=Document(), min_length=1, max_length=500, help_text="As in the operator guide. All or none."
    )


class HostsPutOutput(Output):
    hosts = serializers.IntegerField()
    new = serializers.IntegerField()


class HostActionInput(Input):
    action = Pick(choices=[(verb, verb) for verb in ACTIONS])
    reason = Text(required=False, default="", allow_blank=True, max_length=300, help_text="Of take-out.")


class HostsAtSite(ApiView):
    def site(self, permission: Permission = Permission.PLATFORM_MANAGE) -> Site:
        platform_require(actor=self.actor, permission=permission)
        return site_get_for(actor=self.actor, slug=self.kwargs["site"])


class HostsView(HostsAtSite):
    @operation("platform_host_list", "List hosts", tag=TAG, answer=page_of(HostOutput), query=HostQuery)
    def get(self, request: Request, site: str) -> Response:
        """Of a site of bare metal, by name: what each has, who holds it, and why it is out."""
        del request, site
        rows = hosts_of_site(
            actor=self.actor,
            site=self.site(Permission.PLATFORM_VIEW),
            state=self.params.get("state", ""),
            search=self.params.get("search", ""),
        )
        return self.page(rows, HostOutput, key="name")

    @operation("platform_host_put", "Describe hosts", tag=TAG, body=HostsInput, answer=HostsPutOutput)
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """New ones are added, others are as described from now on, all or none. What a cluster holds keeps its facts until it
        is given back: 409. What cannot be is refused with its place, such as `hosts.1.boot_mac`.
        """
        del request, site
        found = self.site()
        described: list[Any] = self.input(HostsInput)["hosts"]
        try:
            new = hosts_put(actor=self.actor, site=found, described=described)
        except Invalid as error:
            places = {
                name if name == "site" else f"hosts.{name}": said for name, said in error.fields.items()
            }
            raise Invalid(error.message, fields=places) from error
        return Response(HostsPutOutput({"hosts": len(described), "new": new}).data)


class HostView(HostsAtSite):
    @operation("platform_host_get", "Look at a host", tag=TAG, answer=HostOutput)
    def get(self, request: Request, site: str, host: str) -> Response:
        del request, site
        found = self.site(Permission.PLATFORM_VIEW)
        return Response(HostOutput(host_get(actor=self.actor, site=found, name=host)).data)

    @operation("platform_host_remove", "Remove a host", tag=TAG, status=204)
    def delete(self, request: Request, site: str, host: str) -> Response:
        """From the inventory; 409 while a cluster holds it."""
        del request, site
        host_do(actor=self.actor, site=self.site(), name=host, verb="remove")
        return Response(status=204)


class HostActionView(HostsAtSite):
    @operation("platform_host_act", "Act on a host", tag=TAG, body=HostActionInput, answer=HostOutput)
    @idempotent
    def post(self, request: Request, site: str, host: str) -> Response:
        """`take-out` (with a reason): it takes no work, and a cluster that holds it gets another. `put-back`: repaired and clean.
        `cleaned`: wiped by hand. `rebind`: it may join its cluster once more. 409 where its state forbids it.
        """
        del request, site
        found = self.site()
        asked = self.input(HostActionInput)
        host_do(actor=self.actor, site=found, name=host, verb=asked["action"], reason=asked["reason"])
        return Response(HostOutput(host_get(actor=self.actor, site=found, name=host)).data)
