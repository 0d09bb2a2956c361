"""Clusters on demand of a project: order, watch, change, enter, delete with proof."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from billing.clusters import cluster_quote
from gpuaas.api.etag import etag, wanted_version
from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent, idempotent_secret
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.cluster_shapes import (
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
from gpuaas.api.v1.workspace_shapes import CredentialInput, CredentialOutput, ReasonInput, RevokedOutput
from gpuaas.api.v1.workspaces import lifetime_of
from gpuaas.api.views import ProjectView
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster
from gpuaas.clusters.selectors import (
    cluster_get_for,
    clusters_for,
    clusters_loaded,
    grantee_get,
    grants_of,
    ledger_of,
    template_get_for,
    template_version_get,
    timeline,
)
from gpuaas.core.errors import Invalid, NotFound
from tenants.actors import Actor
from tenants.models import Project
from tenants.roles import Permission

TAG = "clusters"


class ClusterView(ProjectView):
    """Views of one cluster; under the URL of another project it does not exist."""

    def cluster(self, permission: Permission = Permission.WORKSPACE_VIEW) -> Cluster:
        project = self.project(permission)
        key: uuid.UUID = self.kwargs["cluster"]
        found = cluster_get_for(actor=self.actor, cluster_id=key, permission=permission)
        if found.project_id != project.pk:
            raise NotFound("there is no such cluster")
        return found

    def accepted(self, cluster: Cluster) -> Response:
        """202 with the cluster as it is now, where it lives, and its version."""
        fresh = clusters_loaded().get(pk=cluster.pk)
        where = reverse("api:cluster", kwargs={"project": fresh.project.slug, "cluster": str(fresh.pk)})
        headers = {"Location": where, "ETag": etag(fresh.version)}
        return Response(ClusterOutput(fresh).data, status=202, headers=headers)


def listed(actor: Actor, params: dict[str, Any], project: Project | None) -> QuerySet[Cluster]:
    """Clusters as `ClusterQuery` asks for them."""
    return clusters_for(
        actor=actor,
        project=project,
        states=[params["state"]] if "state" in params else None,
        template=params.get("template", ""),
        site=params.get("site", ""),
        search=params.get("search", ""),
    )


def version_named(actor: Actor, project: Project, asked: dict[str, Any]) -> None:
    """One that is not there is a mistake in the body, not a missing address."""
    field = "template"
    try:
        template = template_get_for(actor=actor, project=project, slug=asked["template"])
        field = "version"
        template_version_get(template=template, number=asked.get("version"))
    except NotFound as error:
        raise Invalid.field(field, error.message) from error


class ClustersView(ClusterView):
    @operation("cluster_list", "List clusters", tag=TAG, answer=page_of(ClusterOutput), query=ClusterQuery)
    def get(self, request: Request, project: str) -> Response:
        """Clusters of the project, newest first unless `order` says otherwise; deleted ones too, unless `state` does."""
        del request, project
        found = self.project(Permission.WORKSPACE_VIEW)
        return self.page(
            listed(self.actor, self.params, found), ClusterOutput, key=ORDERS[self.params["order"]]
        )

    @operation(
        "cluster_order",
        "Order a cluster",
        tag=TAG,
        body=ClusterInput,
        answer=ClusterOutput,
        status=202,
        examples=(ORDER_EXAMPLE,),
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Reserves at once what the plan said, or refuses (409 with the limit, what is used and what was asked).

        The site is reached in the background: follow `Location`, or `…/operations` for the steps.
        """
        del request, project
        found = self.project(Permission.WORKSPACE_CREATE)
        asked = self.input(ClusterInput)
        version_named(self.actor, found, asked)
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
    @operation("cluster_get", "Look at a cluster", tag=TAG, answer=ClusterDetailOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """With its machines as last seen, the newest operation and its steps, and what it costs. `ETag` is the version of
        what is wanted of it: send it as If-Match with a change.
        """
        del request, project, cluster
        found = self.cluster()
        held = self.actor.on_project(found.project_id, found.project.organization_id)
        more = {
            "endpoint": found.observed.get("endpoint", ""),
            "nodes": found.observed.get("nodes", []),
            "operation": next(iter(timeline(cluster=found)), None),
            "cost": cluster_quote(cluster=found) if Permission.BILLING_VIEW in held else None,
        }
        data = {**ClusterOutput(found).data, **ClusterMoreOutput(more).data}
        return Response(data, headers={"ETag": etag(found.version)})

    @operation(
        "cluster_change",
        "Scale or extend",
        tag=TAG,
        body=ClusterPatchInput,
        answer=ClusterOutput,
        status=202,
        versioned=True,
    )
    def patch(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """What grows is reserved at once, what shrinks is given back when the site has confirmed it. All of the change
        happens, or nothing of it. One change at a time: 409 while another runs.
        """
        del project, cluster
        found = self.cluster(Permission.WORKSPACE_CREATE)
        asked = self.input(ClusterPatchInput)
        version = wanted_version(request)
        with transaction.atomic():
            if "lease_ends_at" in asked:
                found = services.cluster_extend(
                    actor=self.actor,
                    cluster=found,
                    lease_ends_at=asked["lease_ends_at"],
                    expected_version=version,
                )
                version = None
            if "pools" in asked:
                found = services.cluster_scale(
                    actor=self.actor, cluster=found, counts=asked["pools"], expected_version=version
                )
        return self.accepted(found)

    @operation(
        "cluster_delete", "Delete a cluster", tag=TAG, answer=ClusterOutput, status=202, versioned=True
    )
    def delete(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Access is cut first. It is over, and the charge and the reservation end, when a sweep of the site finds nothing of
        it any more: `…/ledger` shows what is left.
        """
        del project, cluster
        found = self.cluster(Permission.WORKSPACE_CREATE)
        version = wanted_version(request)
        return self.accepted(
            services.cluster_delete(actor=self.actor, cluster=found, expected_version=version)
        )


class ClusterUpgradeView(ClusterView):
    @operation(
        "cluster_upgrade",
        "Upgrade",
        tag=TAG,
        body=ClusterUpgradeInput,
        answer=ClusterOutput,
        status=202,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """The control plane first, then all pools, or the one that is named. Versions that may not follow each other, or that
        would leave a pool too far behind, are refused beside `release`.
        """
        del project, cluster
        found = self.cluster(Permission.WORKSPACE_CREATE)
        asked = self.input(ClusterUpgradeInput)
        return self.accepted(
            services.cluster_upgrade(
                actor=self.actor,
                cluster=found,
                release=asked["release"],
                first_pool=asked.get("first_pool"),
                expected_version=wanted_version(request),
            )
        )


class ClusterRetryView(ClusterView):
    @operation("cluster_retry", "Try again", tag=TAG, answer=ClusterOutput, status=202, versioned=True)
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """What failed goes on from the step that failed; what was reserved is still held."""
        del project, cluster
        found = self.cluster(Permission.WORKSPACE_CREATE)
        version = wanted_version(request)
        return self.accepted(
            services.cluster_retry(actor=self.actor, cluster=found, expected_version=version)
        )


class ClusterSuspendView(ClusterView):
    @operation(
        "cluster_suspend",
        "Put to sleep",
        tag=TAG,
        body=ReasonInput,
        answer=ClusterOutput,
        status=202,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Its workers go and their GPUs are given back; its control plane stays. Asking again changes nothing."""
        del project, cluster
        found = self.cluster(Permission.WORKSPACE_CREATE)
        reason = self.input(ReasonInput)["reason"]
        version = wanted_version(request)
        return self.accepted(
            services.cluster_suspend(actor=self.actor, cluster=found, expected_version=version, reason=reason)
        )


class ClusterResumeView(ClusterView):
    @operation(
        "cluster_resume",
        "Wake",
        tag=TAG,
        body=ReasonInput,
        answer=ClusterOutput,
        status=202,
        versioned=True,
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Its GPUs are reserved anew, or it stays asleep (409 with the limit). Asking again changes nothing."""
        del project, cluster
        found = self.cluster(Permission.WORKSPACE_CREATE)
        reason = self.input(ReasonInput)["reason"]
        version = wanted_version(request)
        return self.accepted(
            services.cluster_resume(actor=self.actor, cluster=found, expected_version=version, reason=reason)
        )


class ClusterOperationsView(ClusterView):
    @operation(
        "cluster_operations", "Timeline", tag=TAG, answer=page_of(ClusterOperationOutput), query=PageQuery
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Everything asked of the cluster, newest first, with each step, what was seen and how long it usually takes."""
        del request, project, cluster
        return self.page(timeline(cluster=self.cluster()), ClusterOperationOutput, key="-operation__pk")


class ClusterLedgerView(ClusterView):
    @operation(
        "cluster_ledger",
        "What was made at the site",
        tag=TAG,
        answer=page_of(LedgerEntryOutput),
        query=LedgerQuery,
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Every object, written down before the site was asked for it; `gone_at` is a proof, from a sweep by the cluster's
        tag. A deletion is over when nothing is `open`.
        """
        del request, project, cluster
        rows = ledger_of(cluster=self.cluster())
        if "standing" in self.params:
            rows = rows.filter(gone_at__isnull=self.params["standing"] == "open")
        return self.page(rows, LedgerEntryOutput, key="pk")


class ClusterCredentialView(ClusterView):
    @operation(
        "cluster_credential",
        "Take a credential",
        tag=TAG,
        body=CredentialInput,
        answer=CredentialOutput,
        status=201,
        also=(502, 503),
    )
    @idempotent_secret
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Your own, short-lived, shown once; who took one and until when is in the audit log. A repetition with the same
        Idempotency-Key answers 409 `idempotency_replayed`.
        """
        del request, project, cluster
        found = self.cluster(Permission.WORKSPACE_ACCESS)
        access = services.cluster_credential(
            actor=self.actor, cluster=found, lifetime=lifetime_of(self.input(CredentialInput))
        )
        return Response(CredentialOutput(access).data, status=201, headers={"Cache-Control": "no-store"})


class ClusterGrantsView(ClusterView):
    @operation(
        "cluster_grant_list",
        "List issued credentials",
        tag=TAG,
        answer=page_of(ClusterGrantOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """To whom, until when, and what became of it; newest first. Never the credential."""
        del request, project, cluster
        return self.page(grants_of(cluster=self.cluster()), ClusterGrantOutput, key="-pk")


class ClusterRevocationView(ClusterView):
    @operation(
        "cluster_grant_revoke",
        "End credentials",
        tag=TAG,
        body=ClusterRevocationInput,
        answer=RevokedOutput,
        status=202,
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """All of one person's: your own, or anybody's for who manages the project. They may take another. `standing` is
        `ending` until the cluster has confirmed. 409 where the template's clusters cannot end them early.
        """
        del request, project, cluster
        found = self.cluster()
        asked = self.input(ClusterRevocationInput)
        user = grantee_get(cluster=found, username=asked["username"]) if "username" in asked else self.user
        count = services.credentials_revoke(actor=self.actor, cluster=found, user=user)
        return Response(RevokedOutput({"credentials": count}).data, status=202)
