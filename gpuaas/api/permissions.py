"""What each operation of the API needs: the OpenAPI document and docs/permissions.md are made from it.

Services and selectors decide; `tests/api/test_permissions.py` calls every operation with every scope and every role
and compares the answers with `need_of`. An operation without a line here fails there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from tenants.roles import Permission

P = Permission


class For(Enum):
    """Who may call the operation at all."""

    PROJECT = auto()  # people, and tokens of that project
    PEOPLE = auto()  # what belongs to an organization, the platform or a person: for a token it is not there
    ANYBODY = auto()  # whoever is signed in, and every token
    MACHINES = auto()  # neither: a machine of a cluster by its own token


@dataclass(frozen=True)
class Need:
    """`permissions`: all of them are required, of the role and, for a token, of its scopes.

    own: names what belongs to the person themselves, for which any role is enough. more: what the callers described
    by `when` need in addition. cut: never refused; the list contains what the caller may see.
    """

    who: For
    permissions: tuple[Permission, ...] = ()
    own: str = ""
    more: Permission | None = None
    when: str = ""
    cut: bool = False

    @property
    def for_tokens(self) -> bool:
        return self.who in {For.PROJECT, For.ANYBODY}

    def __str__(self) -> str:
        """As sentences for the OpenAPI document."""
        names = " and ".join(f"`{permission.value}`" for permission in self.permissions)
        match self.who:
            case For.ANYBODY:
                return "For any signed-in person and any token."
            case For.MACHINES:
                return "Only for the machines of a cluster, each with the token that it got at boot."
            case For.PEOPLE if not names:
                return "For signed-in people, not for tokens."
            case For.PEOPLE:
                return f"Needs {names} by role; for signed-in people, not for tokens."
        if self.cut:
            return f"Lists what the caller may see by {names}; a token without the scope gets an empty list."
        return f"Needs {names}, by role and, for a token, by its scopes.{self.besides}"

    @property
    def besides(self) -> str:
        text = ""
        if self.own:
            text = f" For {self.own} any role is enough; an API token still needs the scope."
        if self.more:
            text += f" {self.when} also needs `{self.more.value}`."
        return text


def project(*permissions: Permission, own: str = "", more: Permission | None = None, when: str = "") -> Need:
    return Need(For.PROJECT, permissions, own=own, more=more, when=when)


def people(*permissions: Permission) -> Need:
    return Need(For.PEOPLE, permissions)


ANYBODY = Need(For.ANYBODY)
SEE, RUN, ENTER = project(P.WORKSPACE_VIEW), project(P.WORKSPACE_CREATE), project(P.WORKSPACE_ACCESS)
PROJECT, COSTS, BUDGETS = project(P.PROJECT_VIEW), project(P.BILLING_VIEW), project(P.BILLING_MANAGE)
MEMBERS = project(P.PROJECT_MANAGE)
NOT_ADMIN = "A caller who is not an admin of the workspace, and an API token in any case,"
TEAM = project(P.WORKSPACE_CREATE, more=P.PROJECT_MANAGE, when=NOT_ADMIN)
CREDENTIALS = "your own credentials"
GRANTS = project(P.WORKSPACE_ACCESS, own=CREDENTIALS, more=P.PROJECT_MANAGE, when=NOT_ADMIN)
CLUSTER_GRANTS = project(
    P.WORKSPACE_ACCESS,
    own=CREDENTIALS,
    more=P.PROJECT_MANAGE,
    when="A caller who ends another person's credentials",
)
KEYS = Need(For.PROJECT, (P.WORKSPACE_ACCESS,), own="your own keys")
ORGANIZATION, OWNERS = people(P.ORGANIZATION_VIEW), people(P.ORGANIZATION_MANAGE)
MONEY, PURSES = people(P.BILLING_VIEW), people(P.BILLING_MANAGE)
LOOK, OPERATE = people(P.PLATFORM_VIEW), people(P.PLATFORM_MANAGE)

NEEDS: Mapping[str, Need] = {
    # -- what everybody may ask
    "flavor_list": ANYBODY,
    "gpu_type_list": ANYBODY,
    "me_get": ANYBODY,
    "key_list": KEYS,
    "key_get": people(),
    "key_add": people(),
    "key_remove": people(),
    "node_report": Need(For.MACHINES),
    "queue_report": Need(For.MACHINES),
    "site_list": ANYBODY,
    "storage_class_list": ANYBODY,
    # -- projects
    "project_list": Need(For.PROJECT, (P.PROJECT_VIEW,), cut=True),
    "project_get": PROJECT,
    "project_change": MEMBERS,
    "audit_list": project(P.AUDIT_VIEW),
    "project_budget_list": COSTS,
    "project_budget_create": project(P.BILLING_MANAGE, P.BILLING_VIEW),
    "project_budget": COSTS,
    "project_budget_set": project(P.BILLING_MANAGE, P.BILLING_VIEW),
    "project_budget_end": BUDGETS,
    "project_costs": COSTS,
    "project_costs_breakdown": COSTS,
    "project_costs_intervals": COSTS,
    "project_costs_intervals_csv": COSTS,
    "limit_list": PROJECT,
    "project_member_list": PROJECT,
    "project_member_get": PROJECT,
    "project_member_set": MEMBERS,
    "project_member_remove": project(P.PROJECT_MANAGE, own="your own membership"),
    "project_statement": COSTS,
    "project_statement_csv": COSTS,
    "token_list": project(P.TOKEN_MANAGE, own="your own tokens"),
    "token_get": project(P.TOKEN_MANAGE, own="your own tokens"),
    "token_create": people(P.TOKEN_MANAGE),
    "token_revoke": project(P.TOKEN_MANAGE, own="your own tokens"),
    "usage_list": SEE,
    "usage_totals": SEE,
    "project_gpu_metrics": SEE,
    "workspace_gpu_metrics": SEE,
    "environment_gpu_metrics": SEE,
    "job_gpu_metrics": SEE,
    # -- workspaces and machines
    "workspace_list": SEE,
    "workspace_request": RUN,
    "workspace_get": SEE,
    "workspace_change": RUN,
    "workspace_delete": RUN,
    "workspace_credential": ENTER,
    "workspace_drift_check": RUN,
    "workspace_drifts": SEE,
    "workspace_grant_list": SEE,
    "workspace_grant_revoke": GRANTS,
    "workspace_kubeconfig": ENTER,
    "machine_list": SEE,
    "machine_order": ENTER,
    "machine_get": SEE,
    "machine_delete": ENTER,
    "machine_act": ENTER,
    "machine_console": ENTER,
    "machine_belonging_list": SEE,
    "machine_flavor_list": SEE,
    "machine_image_list": SEE,
    "workspace_member_list": SEE,
    "workspace_member_get": SEE,
    "workspace_member_set": TEAM,
    "workspace_member_remove": TEAM,
    "workspace_operations": SEE,
    "environment_cost": project(P.WORKSPACE_VIEW, P.BILLING_VIEW),
    "job_cost": project(P.WORKSPACE_VIEW, P.BILLING_VIEW),
    "workspace_quote": project(P.WORKSPACE_VIEW, P.BILLING_VIEW),
    "workspace_resume": RUN,
    "workspace_retry": RUN,
    "workspace_service_account_list": SEE,
    "workspace_service_account_create": TEAM,
    "workspace_service_account_get": SEE,
    "workspace_service_account_delete": TEAM,
    "workspace_service_account_credential": ENTER,
    "workspace_service_account_kubeconfig": ENTER,
    "workspace_sign_in_kubeconfig": ENTER,
    "workspace_suspend": RUN,
    "workspace_preview": RUN,
    "project_volume_list": SEE,
    # -- environments
    "environment_kind_list": SEE,
    "environment_list": SEE,
    "environment_create": ENTER,
    "environment_get": SEE,
    "environment_delete": ENTER,
    "environment_start": ENTER,
    "environment_stop": ENTER,
    "environment_restart": ENTER,
    "environment_change": ENTER,
    "environment_keep": ENTER,
    "environment_key_list": ENTER,
    "environment_key_get": ENTER,
    "environment_key_create": ENTER,
    "environment_key_revoke": ENTER,
    "environment_clone": ENTER,
    "environment_operations": SEE,
    "environment_file_list": ENTER,
    "environment_folder_create": ENTER,
    "environment_file_delete": ENTER,
    "environment_file_move": ENTER,
    "environment_file_get": ENTER,
    "environment_file_put": ENTER,
    "environment_token_days": SEE,
    "environment_log": ENTER,
    "environment_log_fetch": ENTER,
    # -- jobs
    "job_list": SEE,
    "job_create": ENTER,
    "job_get": SEE,
    "job_file": SEE,
    "job_delete": ENTER,
    "job_prioritize": ENTER,
    "job_cancel": ENTER,
    "job_rerun": ENTER,
    "job_log": ENTER,
    "job_log_follow": ENTER,
    "job_retry": ENTER,
    "job_tasks": SEE,
    "job_template_list": SEE,
    "job_template_get": SEE,
    "job_template_create": ENTER,
    "job_template_change": ENTER,
    "job_template_delete": ENTER,
    "data_credential_list": SEE,
    "data_credential_get": SEE,
    "data_credential_create": ENTER,
    "data_credential_delete": ENTER,
    # -- clusters
    "cluster_template_list": SEE,
    "cluster_template_get": SEE,
    "cluster_list": SEE,
    "cluster_order": RUN,
    "cluster_get": SEE,
    "cluster_change": RUN,
    "cluster_delete": RUN,
    "cluster_credential": ENTER,
    "cluster_grant_list": SEE,
    "cluster_grant_revoke": CLUSTER_GRANTS,
    "cluster_job_list": SEE,
    "cluster_job_create": ENTER,
    "cluster_job_get": SEE,
    "cluster_job_file": SEE,
    "cluster_job_cancel": ENTER,
    "cluster_job_retry": ENTER,
    "cluster_job_log": ENTER,
    "cluster_ledger": SEE,
    "cluster_operations": SEE,
    "cluster_scale_plan": SEE,
    "cluster_policy_list": SEE,
    "cluster_policy_create": RUN,
    "cluster_policy": SEE,
    "cluster_policy_set": RUN,
    "cluster_policy_switch": RUN,
    "cluster_policy_delete": RUN,
    "cluster_policy_decisions": SEE,
    "cluster_policy_dry_run": SEE,
    "cluster_policy_kinds": SEE,
    "cluster_resume": RUN,
    "cluster_retry": RUN,
    "cluster_suspend": RUN,
    "cluster_upgrade": RUN,
    "cluster_usage": SEE,
    "cluster_plan": SEE,
    # -- organizations
    "organization_list": Need(For.PROJECT, (P.ORGANIZATION_VIEW,), cut=True),
    "organization_get": ORGANIZATION,
    "organization_change": OWNERS,
    "organization_balance": MONEY,
    "organization_billing_account": MONEY,
    "organization_budget_list": MONEY,
    "organization_budget_create": people(P.BILLING_MANAGE, P.BILLING_VIEW),
    "organization_budget": MONEY,
    "organization_budget_set": people(P.BILLING_MANAGE, P.BILLING_VIEW),
    "organization_budget_end": PURSES,
    "organization_costs": MONEY,
    "organization_costs_breakdown": MONEY,
    "organization_costs_intervals": MONEY,
    "organization_costs_intervals_csv": MONEY,
    "organization_discount_list": MONEY,
    "organization_focus_csv": MONEY,
    "organization_focus_parquet": MONEY,
    "organization_grant_list": MONEY,
    "organization_invoice_list": MONEY,
    "organization_invoice_get": MONEY,
    "organization_invoice_csv": MONEY,
    "organization_invoice_lines": MONEY,
    "organization_invoice_pdf": MONEY,
    "organization_member_list": ORGANIZATION,
    "organization_member_get": ORGANIZATION,
    "organization_member_set": OWNERS,
    "organization_member_remove": OWNERS,
    "organization_pool_reservation_list": ORGANIZATION,
    "organization_prices": MONEY,
    "organization_project_list": ORGANIZATION,
    "project_create": OWNERS,
    "organization_statement": MONEY,
    "organization_statement_csv": MONEY,
}


def need_of(operation: str, method: str) -> Need | None:
    """Auditors read the platform, operators change it: its operations need no lines of their own. None for an
    operation without a line."""
    if operation.startswith("platform_"):
        return LOOK if method.lower() == "get" else OPERATE
    return NEEDS.get(operation)
