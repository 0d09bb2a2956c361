"""Scaling by policy: what there is to choose, the policies of a cluster's pools, their log, and dry runs."""

import uuid
from typing import Any

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from billing.policies import policy_dry_run
from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.fields import PageQuery
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation, page_of
from gpuaas.api.v1.cluster_policy_shapes import (
    POLICY_EXAMPLE,
    DecisionQuery,
    DryRunInput,
    DryRunOutput,
    PolicyInput,
    PolicyKindOutput,
    PolicyPatchInput,
    PolicyTermsInput,
    ScalingDecisionOutput,
    ScalingPolicyOutput,
)
from gpuaas.api.v1.clusters import ClusterView
from gpuaas.clusters import services
from gpuaas.clusters.models import Cluster, ScalingPolicy
from gpuaas.clusters.policies.registry import kinds
from gpuaas.clusters.selectors import decisions_of, policies_of, policy_get_of
from gpuaas.clusters.services import PolicyTerms
from tenants.roles import Permission

TAG = "cluster policies"
CREATE = Permission.WORKSPACE_CREATE


class PolicyViews(ClusterView):
    """Views of one cluster's policies."""

    def policy(self, permission: Permission = Permission.WORKSPACE_VIEW) -> ScalingPolicy:
        key: uuid.UUID = self.kwargs["policy"]
        return policy_get_of(cluster=self.cluster(permission), policy_id=key)

    def told(self, row: ScalingPolicy, *, status: int = 200, **headers: str) -> Response:
        said = {"ETag": etag(row.version), **headers}
        return Response(ScalingPolicyOutput(row).data, status=status, headers=said)


class KindsView(PolicyViews):
    @operation(
        "cluster_policy_kinds",
        "Kinds of policies",
        tag=TAG,
        answer=page_of(PolicyKindOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Those of the portal and those that its operators have added, each with the JSON Schema of its settings."""
        del request, project, cluster
        self.cluster()
        return self.page(sorted(kinds().values(), key=lambda kind: kind.name), PolicyKindOutput, key="name")


class PoliciesView(PolicyViews):
    @operation(
        "cluster_policy_list",
        "Policies of a cluster",
        tag=TAG,
        answer=page_of(ScalingPolicyOutput),
        query=PageQuery,
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """At most one for each pool."""
        del request, project, cluster
        return self.page(policies_of(cluster=self.cluster()), ScalingPolicyOutput, key="pk")

    @operation(
        "cluster_policy_create",
        "Add a policy",
        tag=TAG,
        body=PolicyInput,
        answer=ScalingPolicyOutput,
        status=201,
        examples=(POLICY_EXAMPLE,),
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """For a pool that has none. Not enabled it only records what there is to do, so that a dry run has something to
        go by. What it starts is reserved like what people start, and a limit, the site or a budget may refuse it.
        """
        del request, project, cluster
        found = self.cluster(CREATE)
        asked = self.input(PolicyInput)
        row = services.policy_create(actor=self.actor, cluster=found, **terms_of(asked))
        path = {"project": found.project.slug, "cluster": str(found.pk), "policy": str(row.pk)}
        return self.told(row, status=201, Location=reverse("api:cluster-policy", kwargs=path))


class PolicyView(PolicyViews):
    @operation("cluster_policy", "Look at a policy", tag=TAG, answer=ScalingPolicyOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """`ETag` is its version: send it as If-Match with a change."""
        del project, cluster, policy
        row = self.policy()
        return answer(request, version=row.version, data=ScalingPolicyOutput(row).data)

    @operation(
        "cluster_policy_set",
        "Change a policy",
        tag=TAG,
        body=PolicyTermsInput,
        answer=ScalingPolicyOutput,
        versioned=True,
    )
    def put(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """All terms at once; its delays begin anew."""
        del project, cluster, policy
        row = self.policy(CREATE)
        terms = PolicyTerms(**self.input(PolicyTermsInput))
        version = wanted_version(request)
        services.policy_update(actor=self.actor, policy=row, terms=terms, expected_version=version)
        return self.told(self.policy())

    @operation(
        "cluster_policy_switch",
        "Enable or disable a policy",
        tag=TAG,
        body=PolicyPatchInput,
        answer=ScalingPolicyOutput,
        versioned=True,
    )
    def patch(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """Disabled it goes on recording. Asking again changes nothing."""
        del project, cluster, policy
        row = self.policy(CREATE)
        enabled = self.input(PolicyPatchInput)["enabled"]
        version = wanted_version(request)
        services.policy_switch(actor=self.actor, policy=row, enabled=enabled, expected_version=version)
        return self.told(self.policy())

    @operation("cluster_policy_delete", "Remove a policy", tag=TAG, status=204, versioned=True)
    def delete(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """The pool keeps the workers that it has; the log stays."""
        del project, cluster, policy
        row = self.policy(CREATE)
        services.policy_delete(actor=self.actor, policy=row, expected_version=wanted_version(request))
        return Response(status=204)


class DecisionsView(PolicyViews):
    @operation(
        "cluster_policy_decisions",
        "What policies decided",
        tag=TAG,
        answer=page_of(ScalingDecisionOutput),
        query=DecisionQuery,
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Newest first: each change with its reason and price; a refusal that lasts once an hour. Also of policies that
        are removed.
        """
        del request, project, cluster
        found = self.cluster()
        rows = decisions_of(
            cluster=found, pool=self.params.get("pool", ""), outcome=self.params.get("outcome", "")
        )
        return self.page(rows, ScalingDecisionOutput, key="-pk", context={"prices": self.prices(found)})

    def prices(self, cluster: Cluster) -> bool:
        held = self.actor.on_project(cluster.project_id, cluster.project.organization_id)
        return Permission.BILLING_VIEW in held


class DryRunView(PolicyViews):
    @operation(
        "cluster_policy_dry_run",
        "What would a policy have done",
        tag=TAG,
        body=DryRunInput,
        answer=DryRunOutput,
    )
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """With what was recorded of the pool: cost by the prices of that time, GPU-hours, how long anything waited, beside
        what really was. Writes nothing and is safe to repeat, so it takes no Idempotency-Key.
        """
        del request, project, cluster
        found = self.cluster()
        asked = self.input(DryRunInput)
        since, until = asked.pop("since", None), asked.pop("until", None)
        run = policy_dry_run(actor=self.actor, cluster=found, since=since, until=until, **terms_of(asked))
        return Response(DryRunOutput(run).data)


def terms_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The pool and the rest."""
    return {"pool": asked.pop("pool"), "terms": PolicyTerms(**asked)}
