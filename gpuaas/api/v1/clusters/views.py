"""Clusters of a project: order, watch, change, enter, and delete with proof."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from billing.held import held_quote
from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.idempotency import idempotent, idempotent_secret
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.shapes import (
    ORDER_EXAMPLE,
    ORDERS,
    ClusterDetailOutput,
    ClusterGrantOutput,
    ClusterInput,
    ClusterMoreOutput,
    ClusterOperationOutput,
    ClusterOutput,
    ClusterPatchInput,
    ClusterQuery,
    ClusterRevocationInput,
    ClusterUpgradeInput,
    LedgerEntryOutput,
    LedgerQuery,
)
from gpuaas.api.v1.held import HeldView
from gpuaas.api.v1.workspaces.shapes import CredentialInput, CredentialOutput, ReasonInput, RevokedOutput
from gpuaas.api.v1.workspaces.views import lifetime_of
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import (
    cluster_get_for,
    clusters_for,
    clusters_loaded,
    grantee_get,
    grants_of,
    ledger_of,
    template_offered,
    template_version_get,
    timeline,
)
from gpuaas.clusters.spec import nodes_of
from gpuaas.core import clock
from gpuaas.core.errors import Invalid, NotFound
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission


class ClusterView(HeldView[Cluster]):
    noun, output = "cluster", ClusterOutput
    get_for, loaded = staticmethod(cluster_get_for), staticmethod(clusters_loaded)


def listed(actor: Actor, params: dict[str, Any], project: Project | None) -> QuerySet[Cluster]:
    """Clusters as `ClusterQuery` selects them."""
    return clusters_for(
        actor=actor,
        project=project,
        states=[params["state"]] if "state" in params else None,
        template=params.get("template", ""),
        site=params.get("site", ""),
        search=params.get("search", ""),
    )


def version_named(project: Project, asked: dict[str, Any]) -> None:
    """The cluster of this id. One that does not exist is an error in the body, not a 404 of the address."""
    field = "template"
    try:
        template = template_offered(project=project, slug=asked["template"])
        field = "version"
        template_version_get(template=template, number=asked.get("version"))
    except NotFound as error:
        raise Invalid.field(field, error.message) from error


class ClustersView(ClusterView):
    @operation("cluster_list", "List clusters", rows=ClusterOutput, query=ClusterQuery)
    def get(self, request: Request, project: str) -> Response:
        """Lists clusters of the project, newest first unless `order` is given. Deleted ones are included unless
        `state` excludes them."""
        found = self.project(Permission.WORKSPACE_VIEW)
        return self.page(
            listed(self.actor, self.params, found), ClusterOutput, key=ORDERS[self.params["order"]]
        )

    @operation(
        "cluster_order",
        "Order a cluster",
        body=ClusterInput,
        accepted=ClusterOutput,
        examples=(ORDER_EXAMPLE,),
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Reserves what the plan showed, or refuses (409 with the limit, the amount used and the amount requested).

        The site is called in the background: follow `Location`, or `…/operations` for the steps.
        """
        found = self.project(Permission.WORKSPACE_CREATE)
        asked = self.input(ClusterInput)
        version_named(found, asked)
        return self.accepted(
            services.cluster_order(
                actor=self.actor,
                project=found,
                template=asked["template"],
                number=asked.get("version"),
                name=asked["name"],
                document=asked["document"],
                lease_ends_at=asked.get("lease_ends_at"),
            )
        )


class ClusterDetailView(ClusterView):
    @operation("cluster_get", "Get a cluster", answer=ClusterDetailOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Returns the cluster with its machines as last seen, the newest operation with its steps, and its cost.
        `ETag` is the version of its specification: send it as If-Match with a change."""
        found = self.held()
        more = {
            "endpoint": found.observed.get("endpoint", ""),
            "nodes": nodes_of(found, clock.now()),
            "operation": next(iter(timeline(cluster=found)), None),
            "cost": held_quote(holder=found) if self.sees_prices(found.project) else None,
        }
        data = {**ClusterOutput(found).data, **ClusterMoreOutput(more).data}
        return Response(data, headers={"ETag": etag(found.version)})

    @operation(
        "cluster_change",
        "Scale a cluster or extend its lease",
        body=ClusterPatchInput,
        accepted=ClusterOutput,
        versioned=True,
    )
    def patch(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Additional workers are reserved at once; removed ones are released when the site has confirmed it. Either
        the whole change happens or none of it. One change at a time: 409 while another is running."""
        found = self.held(Permission.WORKSPACE_CREATE)
        asked = self.input(ClusterPatchInput)
        version = wanted_version(request)
        with transaction.atomic():
            if "lease_ends_at" in asked:
                found = self.ask(
                    services.cluster_extend, found, version, lease_ends_at=asked["lease_ends_at"]
                )
                version = None
            if "pools" in asked:
                found = self.ask(services.cluster_scale, found, version, counts=asked["pools"])
        return self.accepted(found)

    @operation("cluster_delete", "Delete a cluster", accepted=ClusterOutput, versioned=True)
    def delete(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Access ends first. Charge and reservation end when a sweep of the site finds nothing of the cluster any
        more: `…/ledger` shows what is left."""
        return self.changed(services.cluster_delete)


class ClusterUpgradeView(ClusterView):
    @operation(
        "cluster_upgrade",
        "Upgrade a cluster",
        body=ClusterUpgradeInput,
        accepted=ClusterOutput,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Upgrades the control plane first, then all pools or the named one. Versions that may not follow each other,
        or that would leave a pool too far behind, are refused at `release`."""
        return self.changed(services.cluster_upgrade, ClusterUpgradeInput)


class ClusterRetryView(ClusterView):
    @operation("cluster_retry", "Retry a failed operation", accepted=ClusterOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Continues at the step that failed. What was reserved is still held."""
        return self.changed(services.cluster_retry)


class ClusterSuspendView(ClusterView):
    @operation(
        "cluster_suspend", "Suspend a cluster", body=ReasonInput, accepted=ClusterOutput, versioned=True
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Removes its workers and releases their GPUs; its control plane stays. Repeating the request changes
        nothing."""
        return self.changed(services.cluster_suspend, ReasonInput)


class ClusterResumeView(ClusterView):
    @operation("cluster_resume", "Resume a cluster", body=ReasonInput, accepted=ClusterOutput, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Reserves its GPUs again. If that is refused (409 with the limit), it stays suspended. Repeating the request
        changes nothing."""
        return self.changed(services.cluster_resume, ReasonInput)


class ClusterOperationsView(ClusterView):
    @operation("cluster_operations", "List operations of a cluster", rows=ClusterOperationOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Lists all operations of the cluster, newest first, with each step, what was observed, and how long the step
        usually takes."""
        return self.page(timeline(cluster=self.held()), ClusterOperationOutput, key="-operation__pk")


class ClusterLedgerView(ClusterView):
    @operation("cluster_ledger", "List the objects of a cluster", rows=LedgerEntryOutput, query=LedgerQuery)
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Lists every object; each was recorded before the site was asked for it. `gone_at` is a proof from a sweep
        by the cluster's tag. A deletion is complete when no object is `open`."""
        rows = ledger_of(cluster=self.held())
        if "standing" in self.params:
            rows = rows.filter(gone_at__isnull=self.params["standing"] == "open")
        return self.page(rows, LedgerEntryOutput, key="pk")


class ClusterCredentialView(ClusterView):
    @operation(
        "cluster_credential",
        "Issue a credential",
        body=CredentialInput,
        created=CredentialOutput,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Issues your own credential: short-lived and shown once. The audit log records who took one and until when
        it is valid. A repetition with the same Idempotency-Key answers 409 `idempotency_replayed`."""
        found = self.held(Permission.WORKSPACE_ACCESS)
        access = services.cluster_credential(
            actor=self.actor, cluster=found, lifetime=lifetime_of(self.input(CredentialInput))
        )
        return Response(CredentialOutput(access).data, status=201, headers={"Cache-Control": "no-store"})


class ClusterGrantsView(ClusterView):
    @operation("cluster_grant_list", "List issued credentials", rows=ClusterGrantOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Lists to whom each was issued, until when, and its present state, newest first. Never contains the
        credential."""
        return self.page(grants_of(cluster=self.held()), ClusterGrantOutput, key="-pk")


class ClusterRevocationView(ClusterView):
    @operation("cluster_grant_revoke", "End credentials", body=ClusterRevocationInput, accepted=RevokedOutput)
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Ends all credentials of one person: your own, or anybody's if you manage the project. That person can still
        request another. `standing` is `ending` until the cluster has confirmed it. 409 if clusters of this template
        cannot end credentials early."""
        found = self.held(Permission.WORKSPACE_ACCESS, own=True)
        asked = self.input(ClusterRevocationInput)
        user = grantee_get(cluster=found, username=asked["username"]) if "username" in asked else self.user
        count = services.credentials_revoke(actor=self.actor, cluster=found, user=user)
        return Response(RevokedOutput({"credentials": count}).data, status=202)
