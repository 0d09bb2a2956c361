"""Pages of operators and auditors, below /operator/, in the console's namespace."""

from django.urls import URLPattern, path, register_converter
from django.urls.converters import SlugConverter, StringConverter

from frontend.views.operator import (
    adoption,
    audit,
    billing_accounts,
    closing,
    cluster_imports,
    clusters,
    hosts,
    invoices,
    limits,
    money,
    offers,
    overview,
    rate_cards,
    rate_drafts,
    reservations,
    site_parts,
    sites,
    tenants,
    warm_pools,
    workspaces,
)


class OfferSlug(StringConverter):
    """Slugs of flavors and GPU types may hold dots: h100.1."""

    regex = r"[a-z0-9][a-z0-9.-]{0,63}"


class NameAtSite(StringConverter):
    """Names at a site, of nodes and namespaces, may hold dots: gpu-01.example.org."""

    regex = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"


class Verb(SlugConverter):
    regex = "publish|retire"


register_converter(OfferSlug, "offer")
register_converter(NameAtSite, "atsite")
register_converter(Verb, "verb")

urlpatterns: list[URLPattern] = [
    path("", overview.overview, name="operator"),
    path("capacity/", overview.capacity, name="operator_capacity"),
    path("utilization/", overview.utilization, name="operator_utilization"),
    path("sites/", sites.sites, name="operator_sites"),
    path("sites/new/", sites.site_new, name="operator_site_new"),
    path("sites/at/<slug:slug>/", sites.site, name="operator_site"),
    path("sites/at/<slug:slug>/effect/", sites.site_effect, name="operator_site_effect"),
    path("sites/at/<slug:slug>/factor/", sites.site_factor, name="operator_site_factor"),
    path("sites/at/<slug:slug>/options/", sites.site_options, name="operator_site_options"),
    path("sites/at/<slug:slug>/credentials/", sites.site_credentials, name="operator_site_credentials"),
    path("sites/at/<slug:slug>/switch/", sites.site_switch, name="operator_site_switch"),
    path("sites/at/<slug:slug>/probe/", sites.site_probe_now, name="operator_site_probe"),
    path("sites/at/<slug:slug>/preflight/", site_parts.site_preflight, name="operator_site_preflight"),
    path("sites/at/<slug:slug>/sell/", site_parts.site_sell_unfit, name="operator_site_sell"),
    path("drifts/<uuid:drift>/repair/", site_parts.drift_repair, name="operator_drift_repair"),
    path("sites/at/<slug:slug>/hosts/", hosts.index, name="operator_site_hosts"),
    path("sites/at/<slug:slug>/hosts/put/", hosts.put, name="operator_site_hosts_put"),
    path("sites/at/<slug:slug>/hosts/at/<atsite:name>/", hosts.show, name="operator_site_host"),
    path("sites/at/<slug:slug>/hosts/at/<atsite:name>/act/", hosts.act, name="operator_site_host_act"),
    path("sites/at/<slug:slug>/nodes/", site_parts.nodes, name="operator_site_nodes"),
    path("sites/at/<slug:slug>/nodes/<atsite:node>/", site_parts.node, name="operator_node"),
    path(
        "sites/at/<slug:slug>/nodes/<atsite:node>/check/", site_parts.node_check, name="operator_node_check"
    ),
    path("sites/at/<slug:slug>/drift/", site_parts.drift, name="operator_site_drift"),
    path("sites/at/<slug:slug>/drift/policy/", site_parts.drift_policy, name="operator_site_drift_policy"),
    path("sites/at/<slug:slug>/drift/check/", site_parts.drift_check, name="operator_site_drift_check"),
    path("sites/at/<slug:slug>/metering/", site_parts.metering, name="operator_site_metering"),
    path("sites/at/<slug:slug>/adoption/", adoption.adoption, name="operator_site_adoption"),
    path("sites/at/<slug:slug>/adoption/look/", adoption.adoption_scan, name="operator_site_adoption_scan"),
    path(
        "sites/at/<slug:slug>/adoption/of/<atsite:name>/", adoption.adoption_new, name="operator_adoption_new"
    ),
    path("sites/at/<slug:slug>/adoption/plans/<uuid:adoption>/", adoption.plan, name="operator_adoption"),
    path(
        "sites/at/<slug:slug>/adoption/plans/<uuid:adoption>/confirm/",
        adoption.plan_confirm,
        name="operator_adoption_confirm",
    ),
    path(
        "sites/at/<slug:slug>/adoption/plans/<uuid:adoption>/discard/",
        adoption.plan_discard,
        name="operator_adoption_discard",
    ),
    path("reservations/", reservations.reservations, name="operator_reservations"),
    path(
        "reservations/<uuid:reservation>/end/", reservations.reservation_end, name="operator_reservation_end"
    ),
    path("flavors/", offers.flavors, name="operator_flavors"),
    path("flavors/new/<uuid:pool>/", offers.flavor_new, name="operator_flavor_new"),
    path("flavors/sell/<uuid:pool>/", offers.pool_sell, name="operator_pool_sell"),
    path("flavors/at/<offer:slug>/<verb:verb>/", offers.flavor_state, name="operator_flavor_state"),
    path("gpu-types/", offers.gpu_types, name="operator_gpu_types"),
    path("gpu-types/<offer:slug>/<verb:verb>/", offers.gpu_type_state, name="operator_gpu_type_state"),
    path("limits/", limits.limits, name="operator_limits"),
    path("limits.csv", limits.limits_csv, name="operator_limits_csv"),
    path("limits/edit/", limits.limit_edit, name="operator_limit_edit"),
    path("limits/effect/", limits.limit_effect, name="operator_limit_effect"),
    path("limits/save/", limits.limit_save, name="operator_limit_save"),
    path("workspaces/", workspaces.workspaces, name="operator_workspaces"),
    path("clusters/", clusters.clusters, name="operator_clusters"),
    path("clusters/without-proof/", clusters.orphans, name="operator_cluster_orphans"),
    path("cluster-templates/", clusters.templates, name="operator_cluster_templates"),
    path("cluster-templates/new/", clusters.template_new, name="operator_cluster_template_new"),
    path("cluster-templates/of/<slug:slug>/", clusters.template, name="operator_cluster_template"),
    path(
        "cluster-templates/of/<slug:slug>/offer/",
        clusters.template_state,
        name="operator_cluster_template_state",
    ),
    path(
        "cluster-templates/of/<slug:slug>/versions/",
        clusters.template_version,
        name="operator_cluster_template_version",
    ),
    path(
        "cluster-templates/of/<slug:slug>/versions/<int:version>/deprecate/",
        clusters.version_deprecate,
        name="operator_cluster_template_deprecate",
    ),
    path(
        "cluster-templates/of/<slug:slug>/give/",
        clusters.template_give,
        name="operator_cluster_template_give",
    ),
    path(
        "cluster-templates/of/<slug:slug>/import/",
        cluster_imports.show,
        name="operator_cluster_template_import",
    ),
    path(
        "cluster-templates/of/<slug:slug>/import/publish/",
        cluster_imports.publish,
        name="operator_cluster_template_import_publish",
    ),
    path(
        "cluster-templates/of/<slug:slug>/import/drop/",
        cluster_imports.drop,
        name="operator_cluster_template_import_drop",
    ),
    path(
        "cluster-templates/of/<slug:slug>/warm-pools/",
        warm_pools.pools,
        name="operator_cluster_template_pools",
    ),
    path(
        "cluster-templates/of/<slug:slug>/warm-pools/<uuid:warm>/",
        warm_pools.pool,
        name="operator_cluster_template_pool",
    ),
    path(
        "cluster-templates/of/<slug:slug>/warm-pools/<uuid:warm>/end/",
        warm_pools.pool_end,
        name="operator_cluster_template_pool_end",
    ),
    path("organizations/", tenants.organizations, name="operator_organizations"),
    path("organizations/<slug:slug>/", tenants.organization, name="operator_organization"),
    path("organizations/<slug:slug>/projects/", tenants.project_new, name="operator_project_new"),
    path("organizations/<slug:slug>/members/", tenants.member_set, name="operator_member_set"),
    path(
        "organizations/<slug:slug>/members/<uuid:user>/remove/",
        tenants.member_remove,
        name="operator_member_remove",
    ),
    path("people/", tenants.people, name="operator_people"),
    path("people/<uuid:user>/role/", tenants.person_role, name="operator_person_role"),
    path("people/<uuid:user>/switch/", tenants.person_switch, name="operator_person_switch"),
    path("usage/", money.usage, name="operator_usage"),
    path("rates/", rate_cards.index, name="operator_rate_cards"),
    path("rates/prices/", money.rates, name="operator_prices"),
    path("rates/at/<offer:card>/", rate_cards.card, name="operator_rate_card"),
    path("rates/at/<offer:card>/draft/", rate_cards.draft_open, name="operator_rate_draft_open"),
    path(
        "rates/at/<offer:card>/versions/<int:version>/withdraw/",
        rate_cards.withdraw,
        name="operator_rate_version_withdraw",
    ),
    path("rates/drafts/<uuid:draft>/", rate_drafts.draft, name="operator_rate_draft"),
    path("rates/drafts/<uuid:draft>/preview/", rate_drafts.preview, name="operator_rate_draft_preview"),
    path("rates/drafts/<uuid:draft>/lines/", rate_drafts.line_set, name="operator_rate_draft_line"),
    path(
        "rates/drafts/<uuid:draft>/lines/<uuid:line>/",
        rate_drafts.price_set,
        name="operator_rate_draft_price",
    ),
    path(
        "rates/drafts/<uuid:draft>/lines/<uuid:line>/remove/",
        rate_drafts.line_remove,
        name="operator_rate_draft_line_remove",
    ),
    path("rates/drafts/<uuid:draft>/publish/", rate_drafts.publish, name="operator_rate_draft_publish"),
    path("rates/drafts/<uuid:draft>/discard/", rate_drafts.discard, name="operator_rate_draft_discard"),
    path("organizations/<slug:slug>/billing/", billing_accounts.show, name="operator_billing"),
    path(
        "organizations/<slug:slug>/billing/account/",
        billing_accounts.account,
        name="operator_billing_account",
    ),
    path(
        "organizations/<slug:slug>/billing/cost-center/",
        billing_accounts.cost_center,
        name="operator_cost_center",
    ),
    path("organizations/<slug:slug>/billing/card/", rate_cards.own, name="operator_own_card"),
    path(
        "organizations/<slug:slug>/billing/discounts/",
        billing_accounts.discount_new,
        name="operator_discount_give",
    ),
    path(
        "organizations/<slug:slug>/billing/discounts/<uuid:discount>/end/",
        billing_accounts.discount_stop,
        name="operator_discount_end",
    ),
    path("budgets/", money.budgets, name="operator_budgets"),
    path("invoices/", invoices.index, name="operator_invoices"),
    path("invoices/at/<slug:number>/", invoices.show, name="operator_invoice"),
    path("invoices/at/<slug:number>/note/", invoices.note, name="operator_invoice_note"),
    path("invoices/at/<slug:number>/write-off/", invoices.give_up, name="operator_invoice_write_off"),
    path("organizations/<slug:slug>/credits/", invoices.money_of, name="operator_credits"),
    path("organizations/<slug:slug>/credits/grant/", invoices.grant, name="operator_grant_give"),
    path("organizations/<slug:slug>/credits/payment/", invoices.payment, name="operator_payment_record"),
    path("closes/", closing.closes, name="operator_closes"),
    path("closes/at/<slug:month>/", closing.close, name="operator_month_close"),
    path("audit/", audit.audit, name="operator_audit"),
]
