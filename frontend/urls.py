"""Pages of the console."""

from importlib.util import find_spec

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from frontend.views import (
    account,
    budgets,
    cluster_actions,
    cluster_orders,
    cluster_policies,
    clusters,
    costs,
    home,
    invoices,
    keys,
    machines,
    organizations,
    prices,
    projects,
    requests,
    resize,
    tokens,
    usage,
    workspace_access,
    workspace_actions,
    workspaces,
)

app_name = "frontend"

workspace_patterns: list[URLPattern] = [
    path("", workspaces.show, name="workspace"),
    path("resize/", resize.resize, name="workspace_resize"),
    path("resize/effect/", resize.effect, name="workspace_effect"),
    path("extend/", workspace_actions.extend, name="workspace_extend"),
    path("delete/", workspace_actions.delete, name="workspace_delete"),
    path("retry/", workspace_actions.retry, name="workspace_retry"),
    path("suspend/", workspace_actions.suspend, name="workspace_suspend"),
    path("resume/", workspace_actions.resume, name="workspace_resume"),
    path("drift/", workspace_actions.drift_check, name="workspace_drift_check"),
    path("credential/", workspace_access.credential, name="workspace_credential"),
    path("access/<uuid:user>/revoke/", workspace_access.revoke, name="workspace_access_revoke"),
    path("robots/", workspace_access.robot_add, name="workspace_robots"),
    path("robots/<uuid:robot>/", workspace_access.robot, name="workspace_robot"),
    path("robots/<uuid:robot>/credential/", workspace_access.robot_issue, name="workspace_robot_issue"),
    path("robots/<uuid:robot>/revoke/", workspace_access.robot_revoke, name="workspace_robot_revoke"),
    path("robots/<uuid:robot>/delete/", workspace_access.robot_delete, name="workspace_robot_delete"),
    path("machines/", machines.index, name="machines"),
    path("machines/new/", machines.new, name="machine_new"),
    path("machines/<uuid:machine>/", machines.show, name="machine"),
    path("machines/<uuid:machine>/act/", machines.act, name="machine_act"),
    path("machines/<uuid:machine>/delete/", machines.delete, name="machine_delete"),
    path("machines/<uuid:machine>/console/", machines.console, name="machine_console"),
    path("members/", workspace_actions.member_add, name="workspace_members"),
    path("members/<uuid:user>/remove/", workspace_actions.member_remove, name="workspace_member_remove"),
]

cluster_patterns: list[URLPattern] = [
    path("", clusters.show, name="cluster"),
    path("scale/", cluster_actions.scale, name="cluster_scale"),
    path("scale/effect/", cluster_actions.scale_effect, name="cluster_scale_effect"),
    path("upgrade/", cluster_actions.upgrade, name="cluster_upgrade"),
    path("extend/", cluster_actions.extend, name="cluster_extend"),
    path("delete/", cluster_actions.delete, name="cluster_delete"),
    path("retry/", cluster_actions.retry, name="cluster_retry"),
    path("suspend/", cluster_actions.suspend, name="cluster_suspend"),
    path("resume/", cluster_actions.resume, name="cluster_resume"),
    path("credential/", cluster_actions.credential, name="cluster_credential"),
    path("credentials/<uuid:user>/revoke/", cluster_actions.revoke, name="cluster_revoke"),
    path("policies/", cluster_policies.index, name="cluster_policies"),
    path("policies/new/", cluster_policies.new, name="cluster_policy_new"),
    path("policies/<uuid:policy>/", cluster_policies.show, name="cluster_policy"),
    path("policies/<uuid:policy>/switch/", cluster_policies.switch, name="cluster_policy_switch"),
    path("policies/<uuid:policy>/delete/", cluster_policies.delete, name="cluster_policy_delete"),
]

project_patterns: list[URLPattern | URLResolver] = [
    path("", home.project_home, name="home"),
    path("workspaces/", workspaces.index, name="workspaces"),
    path("workspaces/new/", requests.new, name="workspace_new"),
    path("workspaces/new/answer/", requests.answer_now, name="workspace_answer"),
    path("workspaces/new/flavors/", requests.flavors, name="workspace_flavors"),
    path("workspaces/<uuid:workspace>/", include(workspace_patterns)),
    path("clusters/", clusters.index, name="clusters"),
    path("clusters/new/", cluster_orders.choose, name="cluster_new"),
    path("clusters/new/<slug:template>/", cluster_orders.new, name="cluster_order"),
    path("clusters/new/<slug:template>/answer/", cluster_orders.answer_now, name="cluster_answer"),
    path("clusters/<uuid:cluster>/", include(cluster_patterns)),
    path("usage/", usage.usage, name="usage"),
    path("usage.csv", usage.usage_csv, name="usage_csv"),
    path("usage/<uuid:workspace>/", usage.intervals, name="intervals"),
    path("costs/", costs.project_costs, name="costs"),
    path("costs.csv", costs.project_csv, name="costs_csv"),
    path("costs/intervals/", costs.project_intervals, name="cost_intervals"),
    path("costs/intervals.csv", costs.project_intervals_csv, name="cost_intervals_csv"),
    path("statements/<str:month>/", usage.project_statement, name="statement"),
    path("statements/<str:month>.csv", usage.statement_csv, name="statement_csv"),
    path("budgets/", budgets.project_index, name="budgets"),
    path("budgets/new/", budgets.project_new, name="budget_new"),
    path("budgets/<uuid:budget>/", budgets.project_budget, name="budget"),
    path("budgets/<uuid:budget>/remove/", budgets.project_remove, name="budget_remove"),
    path("limits/", projects.limits, name="limits"),
    path("members/", projects.members, name="members"),
    path("members/<uuid:user>/role/", projects.member_role, name="member_role"),
    path("members/<uuid:user>/remove/", projects.member_remove, name="member_remove"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<uuid:token>/revoke/", tokens.revoke, name="token_revoke"),
    path("audit/", projects.audit, name="audit"),
]

organization_patterns: list[URLPattern | URLResolver] = [
    path("", organizations.show, name="projects"),
    path("projects/", organizations.project_new, name="project_new"),
    path("members/", organizations.member_set, name="organization_member_set"),
    path("members/<uuid:user>/remove/", organizations.member_remove, name="organization_member_remove"),
    path("costs/", costs.organization_costs, name="organization_costs"),
    path("costs.csv", costs.organization_csv, name="organization_costs_csv"),
    path("costs/intervals/", costs.organization_intervals, name="organization_cost_intervals"),
    path("costs/intervals.csv", costs.organization_intervals_csv, name="organization_cost_intervals_csv"),
    path("statements/", organizations.statements, name="invoices"),
    path("invoices/", invoices.index, name="organization_invoices"),
    path("invoices/<slug:number>/", invoices.show, name="invoice"),
    path("invoices/<slug:number>.csv", invoices.csv, name="invoice_csv"),
    path("invoices/<slug:number>.pdf", invoices.pdf, name="invoice_pdf"),
    path("budgets/", budgets.organization_index, name="organization_budgets"),
    path("budgets/new/", budgets.organization_new, name="organization_budget_new"),
    path("budgets/<uuid:budget>/", budgets.organization_budget, name="organization_budget"),
    path("budgets/<uuid:budget>/remove/", budgets.organization_remove, name="organization_budget_remove"),
    path("prices/", prices.index, name="organization_prices"),
    path("reserved-pools/", prices.reserved_pools, name="organization_pools"),
    path("ledger/", invoices.ledger, name="organization_ledger"),
    path("statements/<str:month>/", organizations.organization_statement, name="organization_statement"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.root, name="root"),
    path("search/", home.search, name="search"),
    path("account/", account.account, name="account"),
    path("account/keys/", keys.keys, name="keys"),
    path("account/keys/<uuid:key>/remove/", keys.remove, name="key_remove"),
    path("workspaces/new/", home.new_workspace, name="new_workspace"),
    path("p/<slug:project>/", include(project_patterns)),
    path("o/<slug:organization>/", include(organization_patterns)),
]

if find_spec("frontend.operator_urls") is not None:
    urlpatterns.append(path("operator/", include("frontend.operator_urls")))
if settings.DEBUG:
    urlpatterns.append(path("dev/parts/", include("frontend.parts_urls")))
