"""Operators: the hosts of a bare-metal site."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.fields import Input, Output, PageQuery, Pick, Text, TextOrEmpty
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.shapes import Document
from gpuaas.api.v1.workspaces.shapes import List
from gpuaas.api.views import SiteView
from gpuaas.clusters.services.hosts import (
    VERBS,
    HostState,
    host_do,
    host_get,
    hosts_of_site,
    hosts_put,
)
from gpuaas.core.errors import Invalid

ACTIONS = ["take-out", *(verb for verb in VERBS if verb != "remove")]


class HostQuery(PageQuery):
    state = serializers.ChoiceField(choices=HostState.choices, required=False)
    search = Text(required=False, max_length=80, help_text="Part of its name or of its GPU product.")


class HostOutput(Output):
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=HostState.choices)
    reason = serializers.CharField(help_text="Why it was taken out; otherwise empty.")
    dirty = serializers.BooleanField(help_text="true: its disks may hold a tenant's data.")
    gpus = serializers.IntegerField()
    product = serializers.CharField(help_text="Of each of its GPUs.")
    gpu_memory_gib = serializers.IntegerField(help_text="Of each of its GPUs.")
    vcpus = serializers.IntegerField()
    memory_gib = serializers.IntegerField()
    resource_name = serializers.CharField(help_text="Name by which a flavor requests it.")
    cluster = serializers.UUIDField(source="cluster_id", allow_null=True)
    pool = serializers.CharField()
    slot = serializers.CharField(help_text="The machine of the cluster that runs on it.")
    bound_at = serializers.DateTimeField(allow_null=True)
    bmc_address = serializers.CharField()
    bmc_secret = serializers.CharField(
        help_text="Name of the Secret at the hub; the portal never reads its content into an answer."
    )
    boot_mac = serializers.CharField()
    addresses = serializers.ListField(child=serializers.CharField())


class HostsInput(Input):
    hosts = List(
        child=Document(),
        min_length=1,
        max_length=500,
        help_text="Format: see the operator guide. All are accepted, or none.",
    )


class HostsPutOutput(Output):
    hosts = serializers.IntegerField()
    new = serializers.IntegerField()


class HostActionInput(Input):
    action = Pick(choices=[(verb, verb) for verb in ACTIONS])
    reason = TextOrEmpty(max_length=300, help_text="Required for take-out.")


class HostsView(SiteView):
    @operation("platform_host_list", "List hosts", rows=HostOutput, query=HostQuery)
    def get(self, request: Request, site: str) -> Response:
        """Lists the hosts of a bare-metal site by name: the hardware of each, the cluster that holds it, and why it
        was taken out."""
        rows = hosts_of_site(
            actor=self.actor,
            site=self.site(),
            state=self.params.get("state", ""),
            search=self.params.get("search", ""),
        )
        return self.page(rows, HostOutput, key="name")

    @operation("platform_host_put", "Add or change hosts", body=HostsInput, answer=HostsPutOutput)
    @idempotent
    def post(self, request: Request, site: str) -> Response:
        """Adds new hosts and updates known ones, all or none. A host that a cluster holds cannot be changed until it
        is released: 409. Errors name the place, such as `hosts.1.boot_mac`."""
        found = self.site()
        described: list[Any] = self.input(HostsInput)["hosts"]
        try:
            new = hosts_put(actor=self.actor, site=found, described=described)
        except Invalid as error:
            places = {
                name if name == "site" else f"hosts.{name}": messages
                for name, messages in error.fields.items()
            }
            raise Invalid(error.message, fields=places) from error
        return Response(HostsPutOutput({"hosts": len(described), "new": new}).data)


class HostView(SiteView):
    @operation("platform_host_get", "Get a host", answer=HostOutput)
    def get(self, request: Request, site: str, host: str) -> Response:
        """Returns its GPUs, its state, and the cluster that holds it."""
        found = self.site()
        return Response(HostOutput(host_get(actor=self.actor, site=found, name=host)).data)

    @operation("platform_host_remove", "Remove a host")
    def delete(self, request: Request, site: str, host: str) -> Response:
        """Removes the host from the inventory. 409 while a cluster holds it."""
        host_do(actor=self.actor, site=self.site(), name=host, verb="remove")
        return Response(status=204)


class HostActionView(SiteView):
    @operation("platform_host_act", "Change the state of a host", body=HostActionInput, answer=HostOutput)
    @idempotent
    def post(self, request: Request, site: str, host: str) -> Response:
        """`take-out` (with a reason): the host takes no work, and a cluster that holds it gets another one.
        `put-back`: it is repaired and clean. `cleaned`: it was wiped by hand. `rebind`: it may join its cluster once
        more. 409 if its state forbids the action."""
        found = self.site()
        asked = self.input(HostActionInput)
        host_do(actor=self.actor, site=found, name=host, verb=asked["action"], reason=asked["reason"])
        return Response(HostOutput(host_get(actor=self.actor, site=found, name=host)).data)
