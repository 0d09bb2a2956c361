"""Pages of operators and auditors, below /operator/, in the console's namespace."""

from collections.abc import Callable

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, register_converter
from django.urls.converters import SlugConverter, StringConverter

from frontend.views.operator import (
    adoption,
    audit,
    billing_accounts,
    closing,
    cluster_imports,
    clusters,
    environment_kinds,
    hosts,
    invoices,
    limits,
    money,
    offers,
    overview,
    person,
    rate_cards,
    rate_drafts,
    reservations,
    site_parts,
    sites,
    storage,
    system,
    tenants,
    usage_imports,
    warm_pools,
    workspaces,
    write_offs,
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


def below(start: str, *rows: tuple[str, Callable[..., HttpResponseBase], str]) -> list[URLPattern]:
    """All that begins with the same address: rest of it, view, name."""
    return [path(f"{start}{rest}", view, name=name) for rest, view, name in rows]


urlpatterns: list[URLPattern] = [
    path("", overview.overview, name="operator"),
    path("capacity/", overview.capacity, name="operator_capacity"),
    path("utilization/", overview.utilization, name="operator_utilization"),
    path("sites/", sites.sites, name="operator_sites"),
    path("sites/new/", sites.site_new, name="operator_site_new"),
    *below(
        "sites/at/<slug:slug>/",
        ("", sites.site, "operator_site"),
        ("effect/", sites.site_effect, "operator_site_effect"),
        ("factor/", sites.site_factor, "operator_site_factor"),
        ("options/", sites.site_options, "operator_site_options"),
        ("rename/", sites.site_rename, "operator_site_rename"),
        ("credentials/", sites.site_credentials, "operator_site_credentials"),
        ("switch/", sites.site_switch, "operator_site_switch"),
        ("remove/", sites.site_removed, "operator_site_remove"),
        ("probe/", sites.site_probe_now, "operator_site_probe"),
        ("preflight/", site_parts.site_preflight, "operator_site_preflight"),
        ("sell/", site_parts.site_sell_unfit, "operator_site_sell"),
        ("confirm/", site_parts.site_confirm, "operator_site_confirm"),
        ("hosts/", hosts.index, "operator_site_hosts"),
        ("hosts/put/", hosts.put, "operator_site_hosts_put"),
        ("hosts/at/<atsite:name>/", hosts.show, "operator_site_host"),
        ("hosts/at/<atsite:name>/act/", hosts.act, "operator_site_host_act"),
        ("nodes/", site_parts.nodes, "operator_site_nodes"),
        ("nodes/<atsite:node>/", site_parts.node, "operator_node"),
        ("nodes/<atsite:node>/check/", site_parts.node_check, "operator_node_check"),
        ("drift/", site_parts.drift, "operator_site_drift"),
        ("drift/policy/", site_parts.drift_policy, "operator_site_drift_policy"),
        ("drift/check/", site_parts.drift_check, "operator_site_drift_check"),
        ("storage/", storage.index, "operator_site_storage"),
        ("storage/sell/", storage.sell, "operator_site_storage_sell"),
        ("storage/<uuid:key>/plain/", storage.plain, "operator_site_storage_plain"),
        ("storage/<uuid:key>/retire/", storage.retire, "operator_site_storage_retire"),
        ("metering/", site_parts.metering, "operator_site_metering"),
        ("adoption/", adoption.adoption, "operator_site_adoption"),
        ("adoption/look/", adoption.adoption_scan, "operator_site_adoption_scan"),
        ("adoption/of/<atsite:name>/", adoption.adoption_new, "operator_adoption_new"),
        ("adoption/plans/<uuid:adoption>/", adoption.plan, "operator_adoption"),
        ("adoption/plans/<uuid:adoption>/confirm/", adoption.plan_confirm, "operator_adoption_confirm"),
        ("adoption/plans/<uuid:adoption>/discard/", adoption.plan_discard, "operator_adoption_discard"),
    ),
    path("drifts/<uuid:drift>/repair/", site_parts.drift_repair, name="operator_drift_repair"),
    path("reservations/", reservations.reservations, name="operator_reservations"),
    path(
        "reservations/<uuid:reservation>/change/",
        reservations.reservation_change,
        name="operator_reservation_change",
    ),
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
    path("environment-kinds/", environment_kinds.kinds, name="operator_environment_kinds"),
    path("environment-kinds/new/", environment_kinds.kind_new, name="operator_environment_kind_new"),
    *below(
        "environment-kinds/of/<slug:slug>/",
        ("", environment_kinds.kind, "operator_environment_kind"),
        ("versions/", environment_kinds.version_add, "operator_environment_kind_version"),
        ("retire/", environment_kinds.retire, "operator_environment_kind_retire"),
    ),
    path("cluster-templates/", clusters.templates, name="operator_cluster_templates"),
    path("cluster-templates/new/", clusters.template_new, name="operator_cluster_template_new"),
    *below(
        "cluster-templates/of/<slug:slug>/",
        ("", clusters.template, "operator_cluster_template"),
        ("offer/", clusters.template_state, "operator_cluster_template_state"),
        ("versions/", clusters.template_version, "operator_cluster_template_version"),
        (
            "versions/<int:version>/deprecate/",
            clusters.version_deprecate,
            "operator_cluster_template_deprecate",
        ),
        ("give/", clusters.template_give, "operator_cluster_template_give"),
        ("import/", cluster_imports.show, "operator_cluster_template_import"),
        ("import/publish/", cluster_imports.publish, "operator_cluster_template_import_publish"),
        ("import/drop/", cluster_imports.drop, "operator_cluster_template_import_drop"),
        ("warm-pools/", warm_pools.pools, "operator_cluster_template_pools"),
        ("warm-pools/<uuid:warm>/", warm_pools.pool, "operator_cluster_template_pool"),
        ("warm-pools/<uuid:warm>/effect/", warm_pools.pool_effect, "operator_cluster_template_pool_effect"),
        ("warm-pools/<uuid:warm>/end/", warm_pools.pool_end, "operator_cluster_template_pool_end"),
    ),
    path("organizations/", tenants.organizations, name="operator_organizations"),
    *below(
        "organizations/<slug:slug>/",
        ("", tenants.organization, "operator_organization"),
        ("projects/", tenants.project_new, "operator_project_new"),
        ("members/", tenants.member_set, "operator_member_set"),
        ("members/<uuid:user>/remove/", tenants.member_remove, "operator_member_remove"),
        ("billing/", billing_accounts.show, "operator_billing"),
        ("billing/account/", billing_accounts.account, "operator_billing_account"),
        ("billing/cost-center/", billing_accounts.cost_center, "operator_cost_center"),
        ("billing/card/", rate_cards.own, "operator_own_card"),
        ("billing/discounts/", billing_accounts.discount_new, "operator_discount_give"),
        ("billing/discounts/<uuid:discount>/end/", billing_accounts.discount_stop, "operator_discount_end"),
        ("credits/", invoices.money_of, "operator_credits"),
        ("credits/grant/", invoices.grant, "operator_grant_give"),
        ("credits/grant/<uuid:entry>/reverse/", invoices.grant_reversed, "operator_grant_reverse"),
        ("credits/payment/<uuid:entry>/reverse/", invoices.payment_reversed, "operator_payment_reverse"),
        ("credits/payment/", invoices.payment, "operator_payment_record"),
        ("credits/payout/<uuid:entry>/reverse/", invoices.payout_reversed, "operator_payout_reverse"),
        ("credits/payout/", invoices.payout, "operator_payout_record"),
    ),
    path("people/", tenants.people, name="operator_people"),
    path("people/<uuid:user>/", person.show, name="operator_person"),
    path("people/<uuid:user>/sign-out/", person.sign_out, name="operator_person_sign_out"),
    path("people/<uuid:user>/links/<int:link>/remove/", person.unlink, name="operator_person_unlink"),
    path(
        "people/<uuid:user>/second-factor/remove/",
        person.second_factor_off,
        name="operator_person_second_factor_off",
    ),
    path("people/<uuid:user>/role/", tenants.person_role, name="operator_person_role"),
    path("people/<uuid:user>/switch/", tenants.person_switch, name="operator_person_switch"),
    path("people/waits/<uuid:tries>/lift/", tenants.tries_end, name="operator_tries_lift"),
    path("usage/", money.usage, name="operator_usage"),
    *below(
        "usage-imports/",
        ("", usage_imports.index, "operator_usage_imports"),
        ("new/", usage_imports.new, "operator_usage_import_new"),
        ("at/<uuid:batch>/", usage_imports.show, "operator_usage_import"),
        ("at/<uuid:batch>/take-back/", usage_imports.take_back, "operator_usage_import_take_back"),
    ),
    path("usage/<slug:month>.csv", money.usage_csv, name="operator_usage_csv"),
    path("rates/", rate_cards.index, name="operator_rate_cards"),
    path("usage/write-offs/", write_offs.write_off, name="operator_usage_write_off"),
    path("usage/write-offs/<uuid:written>/back/", write_offs.take_back, name="operator_usage_write_off_back"),
    path("rates/prices/", money.rates, name="operator_prices"),
    *below(
        "rates/at/<offer:card>/",
        ("", rate_cards.card, "operator_rate_card"),
        ("draft/", rate_cards.draft_open, "operator_rate_draft_open"),
        ("versions/<int:version>/withdraw/", rate_cards.withdraw, "operator_rate_version_withdraw"),
    ),
    *below(
        "rates/drafts/<uuid:draft>/",
        ("", rate_drafts.draft, "operator_rate_draft"),
        ("lines/", rate_drafts.line_set, "operator_rate_draft_line"),
        ("lines/<uuid:line>/", rate_drafts.price_set, "operator_rate_draft_price"),
        ("lines/<uuid:line>/remove/", rate_drafts.line_remove, "operator_rate_draft_line_remove"),
        ("publish/", rate_drafts.publish, "operator_rate_draft_publish"),
        ("discard/", rate_drafts.discard, "operator_rate_draft_discard"),
    ),
    path("budgets/", money.budgets, name="operator_budgets"),
    path("invoices/", invoices.index, name="operator_invoices"),
    path("invoices/at/<slug:number>/", invoices.show, name="operator_invoice"),
    path("invoices/at/<slug:number>/note/", invoices.note, name="operator_invoice_note"),
    path("invoices/at/<slug:number>/write-off/", invoices.give_up, name="operator_invoice_write_off"),
    path(
        "invoices/at/<slug:number>/write-off/<uuid:entry>/reverse/",
        invoices.write_off_reversed,
        name="operator_write_off_reverse",
    ),
    path("closes/", closing.closes, name="operator_closes"),
    path("closes/at/<slug:month>/", closing.close, name="operator_month_close"),
    path("system/", system.system, name="operator_system"),
    path("audit/", audit.audit, name="operator_audit"),
]
