"""Budgets of projects and organizations: how much may be spent in a period, and what happens at each threshold."""

import uuid
from typing import Any, TypeVar

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.models import Budget, BudgetAction, Measure, Period
from billing.selectors.budgets import budget_get_for, budget_states, budgets_for
from billing.services.budgets import BudgetTerms, budget_create, budget_end, budget_update
from gpuaas.api.etag import answer, etag, wanted_version
from gpuaas.api.fields import Input, Money, Output, Pick, Text, Whole
from gpuaas.api.idempotency import idempotent
from gpuaas.api.schema import operation
from gpuaas.api.views import ProjectView
from gpuaas.clusters.selectors import cluster_get_for
from gpuaas.core.errors import Invalid, NotFound
from gpuaas.lifecycle.models import Provisioned
from gpuaas.workspaces.selectors import workspace_get_for
from tenants.models import Organization, Project
from tenants.roles import Permission
from tenants.selectors import organization_get_for, organization_require, project_require

RowT = TypeVar("RowT", bound=Provisioned)
PERCENT = "Of the amount, 1 to 1000, ascending."


class ThresholdInput(Input):
    percent = Whole(min_value=1, max_value=1000, help_text=PERCENT)
    effect = Pick(choices=BudgetAction.choices, help_text="`suspend` also blocks new requests.")


class BudgetInput(Input):
    name = Text(max_length=60)
    measure = Pick(choices=Measure.choices)
    amount = Text(
        max_length=24,
        help_text="In the organization's currency or in GPU-hours: a decimal number in a string.",
    )
    period = Pick(choices=Period.choices)
    starts_on = serializers.DateField(
        required=False, allow_null=True, default=None, help_text="First day of a fixed period."
    )
    ends_on = serializers.DateField(
        required=False, allow_null=True, default=None, help_text="Last day of a fixed period."
    )
    thresholds = ThresholdInput(many=True, allow_empty=False)


class ProjectBudgetInput(BudgetInput):
    workspace = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Limits the budget to this workspace of the project.",
    )
    cluster = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Limits the budget to this cluster of the project; not together with `workspace`.",
    )


class ThresholdOutput(Output):
    percent = serializers.IntegerField(help_text=PERCENT)
    effect = serializers.ChoiceField(source="action", choices=BudgetAction.choices)


class BudgetAlertOutput(Output):
    percent = serializers.IntegerField(help_text="0 for the alert about an unusual day.")
    effect = serializers.ChoiceField(source="action", choices=BudgetAction.choices)
    message = serializers.CharField()
    created_at = serializers.DateTimeField()


class BudgetOutput(Output):
    id = serializers.UUIDField(source="budget.pk")
    name = serializers.CharField(source="budget.name")
    project = serializers.CharField(source="budget.project.slug", default=None, allow_null=True)
    workspace = serializers.UUIDField(source="budget.workspace_id", allow_null=True)
    cluster = serializers.UUIDField(source="budget.cluster_id", allow_null=True)
    measure = serializers.ChoiceField(source="budget.measure", choices=Measure.choices)
    unit = serializers.CharField(help_text="A currency, or GPU-hours.")
    amount = Money()
    period = serializers.ChoiceField(source="budget.period", choices=Period.choices)
    starts_on = serializers.DateField(
        source="reading.period.first", default=None, allow_null=True, help_text="Of the current period."
    )
    ends_on = serializers.DateField(source="reading.period.last", default=None, allow_null=True)
    spent = Money(allow_null=True, help_text="null outside a fixed period.")
    forecast = Money(
        allow_null=True,
        help_text=(
            "Expected at the end of the period if everything that runs now continues until its lease ends."
        ),
    )
    percent = serializers.IntegerField(source="reading.percent", default=None, allow_null=True)
    thresholds = ThresholdOutput(source="budget.thresholds.all", many=True)
    alerts = BudgetAlertOutput(many=True, help_text="Thresholds that are reached at present.")
    blocks = serializers.BooleanField(help_text="true: new requests in its scope are refused now.")
    version = serializers.IntegerField(source="budget.version")


class Budgets(ProjectView):
    """The project or the organization that the address names."""

    def scope(self, permission: Permission) -> dict[str, Any]:
        if "project" in self.kwargs:
            return {"project": self.project(permission)}
        slug = self.kwargs["organization"]
        return {"organization": organization_get_for(actor=self.actor, slug=slug, permission=permission)}

    def scope_to_change(self) -> dict[str, Any]:
        """The answer shows what was spent, so a caller who may not see that is refused before anything changes."""
        scope = self.scope(Permission.BILLING_MANAGE)
        view = Permission.BILLING_VIEW
        if "project" in scope:
            project_require(actor=self.actor, project=scope["project"], permission=view)
        else:
            organization_require(actor=self.actor, organization=scope["organization"], permission=view)
        return scope

    def budget(self, permission: Permission) -> Budget:
        scope = self.scope(permission)
        key: uuid.UUID = self.kwargs["budget"]
        row = budget_get_for(actor=self.actor, budget_id=key, permission=permission)
        owner = scope.get("project") or scope["organization"]
        if owner != (row.organization if isinstance(owner, Organization) else row.project):
            raise NotFound("there is no such budget")
        return row

    def listed(self) -> Response:
        rows = budgets_for(actor=self.actor, **self.scope(Permission.BILLING_VIEW))
        return self.page(budget_states(budgets=list(rows)), BudgetOutput, key="budget__pk")

    def made(self, body: type[BudgetInput]) -> Response:
        scope = self.scope_to_change()
        asked = self.input(body)
        workspace, cluster = asked.pop("workspace", None), asked.pop("cluster", None)
        if workspace is not None and cluster is not None:
            raise Invalid.field("cluster", "a budget is for a workspace or for a cluster, not for both")
        if workspace is not None:
            row = workspace_get_for(actor=self.actor, workspace_id=workspace)
            scope["workspace"] = self.of_project(row, scope["project"], "workspace")
        if cluster is not None:
            found = cluster_get_for(actor=self.actor, cluster_id=cluster)
            scope["cluster"] = self.of_project(found, scope["project"], "cluster")
        return self.answer(budget_create(actor=self.actor, terms=terms_of(asked), **scope), status=201)

    def of_project(self, row: RowT, project: Project, noun: str) -> RowT:
        if row.project_id != project.pk:
            raise Invalid.field(noun, f"there is no such {noun} in this project")
        return row

    def changed(self, request: Request) -> Response:
        self.scope_to_change()
        row = self.budget(Permission.BILLING_MANAGE)
        terms = terms_of(self.input(BudgetInput))
        version = wanted_version(request)
        return self.answer(
            budget_update(actor=self.actor, budget=row, terms=terms, expected_version=version), status=200
        )

    def answer(self, row: Budget, *, status: int) -> Response:
        fresh = budget_get_for(actor=self.actor, budget_id=row.pk)
        (state,) = budget_states(budgets=[fresh])
        return Response(BudgetOutput(state).data, status=status, headers={"ETag": etag(fresh.version)})

    def shown(self, request: Request) -> Response:
        row = self.budget(Permission.BILLING_VIEW)
        (state,) = budget_states(budgets=[row])
        return answer(request, version=row.version, data=BudgetOutput(state).data)

    def ended(self, request: Request) -> Response:
        row = self.budget(Permission.BILLING_MANAGE)
        budget_end(actor=self.actor, budget=row, expected_version=wanted_version(request))
        return Response(status=204)


def terms_of(asked: dict[str, Any]) -> BudgetTerms:
    thresholds = [(one["percent"], one["effect"]) for one in asked.pop("thresholds")]
    return BudgetTerms(**asked, thresholds=thresholds)


class ProjectBudgetsView(Budgets):
    @operation("project_budget_list", "List budgets of a project", rows=BudgetOutput)
    def get(self, request: Request, project: str) -> Response:
        """Returns the budgets of the project, its workspaces and its clusters, with the amounts spent until now."""
        return self.listed()

    @operation(
        "project_budget_create",
        "Create a budget for a project",
        body=ProjectBudgetInput,
        created=BudgetOutput,
    )
    @idempotent
    def post(self, request: Request, project: str) -> Response:
        """Takes effect at once if the amount is already spent."""
        return self.made(ProjectBudgetInput)


class ProjectBudgetView(Budgets):
    @operation("project_budget", "Get a budget of a project", answer=BudgetOutput)
    def get(self, request: Request, project: str, budget: uuid.UUID) -> Response:
        """Returns the amounts spent and expected, and the thresholds reached."""
        return self.shown(request)

    @operation(
        "project_budget_set",
        "Change a budget of a project",
        body=BudgetInput,
        answer=BudgetOutput,
        versioned=True,
    )
    def put(self, request: Request, project: str, budget: uuid.UUID) -> Response:
        """Replaces all terms. The effects of thresholds that are no longer reached end at once."""
        return self.changed(request)

    @operation("project_budget_end", "Remove a budget of a project", versioned=True)
    def delete(self, request: Request, project: str, budget: uuid.UUID) -> Response:
        """Requests that it blocked are accepted again. Workspaces and clusters that it suspended have to be resumed
        by a person."""
        return self.ended(request)


class OrganizationBudgetsView(Budgets):
    @operation("organization_budget_list", "List budgets of an organization", rows=BudgetOutput)
    def get(self, request: Request, organization: str) -> Response:
        """Returns the budgets of the organization and of its projects, with the amounts spent until now."""
        return self.listed()

    @operation(
        "organization_budget_create",
        "Create a budget for an organization",
        body=BudgetInput,
        created=BudgetOutput,
    )
    @idempotent
    def post(self, request: Request, organization: str) -> Response:
        """Covers all projects of the organization together."""
        return self.made(BudgetInput)


class OrganizationBudgetView(Budgets):
    @operation("organization_budget", "Get a budget of an organization", answer=BudgetOutput)
    def get(self, request: Request, organization: str, budget: uuid.UUID) -> Response:
        """Returns the amounts spent and expected, and the thresholds reached."""
        return self.shown(request)

    @operation(
        "organization_budget_set",
        "Change a budget of an organization",
        body=BudgetInput,
        answer=BudgetOutput,
        versioned=True,
    )
    def put(self, request: Request, organization: str, budget: uuid.UUID) -> Response:
        """Replaces all terms. The effects of thresholds that are no longer reached end at once."""
        return self.changed(request)

    @operation("organization_budget_end", "Remove a budget of an organization", versioned=True)
    def delete(self, request: Request, organization: str, budget: uuid.UUID) -> Response:
        """Requests that it blocked are accepted again. Workspaces and clusters that it suspended have to be resumed
        by a person."""
        return self.ended(request)
