"""Scaling by policy: the kinds of policies, the policies of a cluster's pools, their log, and dry runs."""

import uuid
from typing import Any

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from billing.policies import policy_dry_run
from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.v1.clusters.policy_shapes import (
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
from gpuaas.api.v1.clusters.views import ClusterView
from gpuaas.clusters import services
from gpuaas.clusters.models import ScalingPolicy
from gpuaas.clusters.policies.registry import kinds
from gpuaas.clusters.selectors import decisions_of, policies_of, policy_get_of
from gpuaas.clusters.services import PolicyTerms
from tenants.roles import Permission

CREATE = Permission.WORKSPACE_CREATE


class PolicyViews(ClusterView):
    """Views of one cluster's policies."""

    def policy(self, permission: Permission = Permission.WORKSPACE_VIEW) -> ScalingPolicy:
        key: uuid.UUID = self.kwargs["policy"]
        return policy_get_of(cluster=self.held(permission), policy_id=key)

    def answer(self, row: ScalingPolicy, *, status: int = 200, **headers: str) -> Response:
        sent = {"ETag": etag(row.version), **headers}
        return Response(ScalingPolicyOutput(row).data, status=status, headers=sent)


class KindsView(PolicyViews):
    @operation("cluster_policy_kinds", "List kinds of policies", rows=PolicyKindOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Lists the policies of the portal and those that its operators have added, each with the JSON Schema of its
        settings."""
        self.held()
        return self.page(sorted(kinds().values(), key=lambda kind: kind.name), PolicyKindOutput, key="name")


class PoliciesView(PolicyViews):
    @operation("cluster_policy_list", "List policies of a cluster", rows=ScalingPolicyOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """A pool has at most one policy."""
        return self.page(policies_of(cluster=self.held()), ScalingPolicyOutput, key="pk")

    @operation(
        "cluster_policy_create",
        "Add a policy",
        body=PolicyInput,
        created=ScalingPolicyOutput,
        examples=(POLICY_EXAMPLE,),
    )
    @idempotent
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Adds a policy to a pool that has none. A disabled policy only records the signals, so that a dry run has
        data. Changes that it starts reserve GPUs like those of people, and a limit, the site or a budget may refuse
        them."""
        found = self.held(CREATE)
        asked = self.input(PolicyInput)
        row = services.policy_create(actor=self.actor, cluster=found, **terms_of(asked))
        path = {"project": found.project.slug, "cluster": str(found.pk), "policy": str(row.pk)}
        return self.answer(row, status=201, Location=reverse("api:cluster-policy", kwargs=path))


class PolicyView(PolicyViews):
    @operation("cluster_policy", "Get a policy", answer=ScalingPolicyOutput)
    def get(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """`ETag` is its version, with a digest of this answer: send it as If-Match with a change, which compares the version alone, or
        as If-None-Match to poll cheaply."""
        row = self.policy()
        return answer(request, version=row.version, data=ScalingPolicyOutput(row).data)

    @operation(
        "cluster_policy_set",
        "Change a policy",
        body=PolicyTermsInput,
        answer=ScalingPolicyOutput,
        versioned=True,
    )
    def put(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """Replaces all terms. The delays start again."""
        row = self.policy(CREATE)
        terms = PolicyTerms(**self.input(PolicyTermsInput))
        version = wanted_version(request)
        services.policy_update(actor=self.actor, policy=row, terms=terms, expected_version=version)
        return self.answer(self.policy(CREATE))

    @operation(
        "cluster_policy_switch",
        "Enable or disable a policy",
        body=PolicyPatchInput,
        answer=ScalingPolicyOutput,
        versioned=True,
    )
    def patch(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """A disabled policy still records signals. Repeating the request changes nothing."""
        row = self.policy(CREATE)
        enabled = self.input(PolicyPatchInput)["enabled"]
        version = wanted_version(request)
        services.policy_switch(actor=self.actor, policy=row, enabled=enabled, expected_version=version)
        return self.answer(self.policy(CREATE))

    @operation("cluster_policy_delete", "Remove a policy", versioned=True)
    def delete(self, request: Request, project: str, cluster: uuid.UUID, policy: uuid.UUID) -> Response:
        """The pool keeps its present workers; the log stays."""
        row = self.policy(CREATE)
        services.policy_delete(actor=self.actor, policy=row, expected_version=wanted_version(request))
        return Response(status=204)


class DecisionsView(PolicyViews):
    @operation(
        "cluster_policy_decisions",
        "List decisions of policies",
        rows=ScalingDecisionOutput,
        query=DecisionQuery,
    )
    def get(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Newest first: each change with its reason and price. A lasting refusal is logged once an hour. Decisions of
        removed policies are included."""
        found = self.held()
        rows = decisions_of(
            cluster=found, pool=self.params.get("pool", ""), outcome=self.params.get("outcome", "")
        )
        return self.page(
            rows, ScalingDecisionOutput, key="-pk", context={"prices": self.sees_prices(found.project)}
        )


class DryRunView(PolicyViews):
    @operation("cluster_policy_dry_run", "Dry-run a policy", body=DryRunInput, answer=DryRunOutput)
    def post(self, request: Request, project: str, cluster: uuid.UUID) -> Response:
        """Replays the recorded signals of the pool: cost by the prices of that time, GPU-hours and waiting time,
        beside what really happened. Writes nothing and is safe to repeat, so it takes no Idempotency-Key."""
        found = self.held()
        asked = self.input(DryRunInput)
        since, until = asked.pop("since", None), asked.pop("until", None)
        run = policy_dry_run(actor=self.actor, cluster=found, since=since, until=until, **terms_of(asked))
        return Response(DryRunOutput(run).data)


def terms_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The pool, and the remaining fields."""
    return {"pool": asked.pop("pool"), "terms": PolicyTerms(**asked)}
