"""Every address of the operators, asked by everybody: tenants and strangers find nothing, auditors change nothing."""

import uuid
from collections.abc import Callable, Iterable, Mapping

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.urls import reverse

from billing.models import LedgerEntry
from billing.services.payments import payment_record
from frontend.operator_urls import urlpatterns
from gpuaas.catalog.models import StorageClass
from gpuaas.core import clock
from gpuaas.workspaces.models import Workspace
from tenants.actors import SYSTEM
from tenants.models import AuditEntry, Project, Tries, User
from tests.apart import each_apart
from tests.api.cluster_stage import template_stage, warm_stage
from tests.billing.stage import (
    card_stage,
    grant_stage,
    pool_stage,
    usage_import_stage,
    usage_write_off_stage,
    write_off_stage,
)
from tests.clusters.host_stage import host_at
from tests.environments.stage import kind
from tests.factories.billing import invoice_make
from tests.frontend.disabled import sentences_of
from tests.frontend.operator.adopting import plan_at
from tests.frontend.operator.conftest import signed_in
from tests.frontend.operator.trouble import drift_of
from tests.lasting import lasting

NAMES = sorted(str(pattern.name) for pattern in urlpatterns)
ACTIONS = frozenset(
    {
        "operator_site_factor",
        "operator_site_credentials",
        "operator_site_options",
        "operator_site_rename",
        "operator_site_switch",
        "operator_site_remove",
        "operator_site_probe",
        "operator_site_preflight",
        "operator_site_drift_policy",
        "operator_site_drift_check",
        "operator_node_check",
        "operator_site_hosts_put",
        "operator_site_host_act",
        "operator_site_adoption_scan",
        "operator_site_sell",
        "operator_site_confirm",
        "operator_site_storage_sell",
        "operator_site_storage_plain",
        "operator_site_storage_retire",
        "operator_drift_repair",
        "operator_adoption_confirm",
        "operator_adoption_discard",
        "operator_cluster_template_state",
        "operator_cluster_template_version",
        "operator_cluster_template_deprecate",
        "operator_cluster_template_give",
        "operator_cluster_template_import_publish",
        "operator_cluster_template_import_drop",
        "operator_cluster_template_pool_effect",
        "operator_cluster_template_pool_end",
        "operator_environment_kind_version",
        "operator_environment_kind_retire",
        "operator_pool_sell",
        "operator_flavor_state",
        "operator_gpu_type_state",
        "operator_limit_save",
        "operator_project_new",
        "operator_member_set",
        "operator_member_remove",
        "operator_person_role",
        "operator_person_second_factor_off",
        "operator_person_sign_out",
        "operator_person_unlink",
        "operator_person_switch",
        "operator_tries_lift",
        "operator_invoice_note",
        "operator_invoice_write_off",
        "operator_grant_give",
        "operator_payment_record",
        "operator_payment_reverse",
        "operator_payout_record",
        "operator_payout_reverse",
        "operator_grant_reverse",
        "operator_write_off_reverse",
        "operator_rate_version_withdraw",
        "operator_reservation_change",
        "operator_reservation_end",
        "operator_rate_draft_open",
        "operator_rate_draft_line",
        "operator_rate_draft_price",
        "operator_rate_draft_line_remove",
        "operator_rate_draft_publish",
        "operator_rate_draft_discard",
        "operator_billing_account",
        "operator_cost_center",
        "operator_own_card",
        "operator_discount_give",
        "operator_discount_end",
        "operator_usage_write_off",
        "operator_usage_write_off_back",
        "operator_usage_import_new",
        "operator_usage_import_take_back",
    }
)
FORMS = frozenset(
    {
        "operator_site_new",
        "operator_flavor_new",
        "operator_adoption_new",
        "operator_cluster_template_new",
        "operator_environment_kind_new",
        "operator_month_close",
    }
)
QUERY = {"kind": "project", "owner": "weather-lm", "resource": "gpu:h100-sxm-80gb", "hard": "9"}


def standing(workspace: Workspace, user: User) -> dict[str, object]:
    """What addresses name, made once for all of them."""
    site, project = workspace.site, workspace.project
    plan = plan_at(site, project, user)
    host_at(site, name=plan.external_name)
    flavor = workspace.flavors.get().flavor
    template = template_stage(SYSTEM, site)
    return {
        "verb": "retire",
        "pool": site.pools.get(gpu_type__slug="h100-sxm-80gb").pk,
        "user": user.pk,
        "tries": Tries.objects.create(account=str(user.pk), user=user, network="192.0.2.1").pk,
        "link": SocialAccount.objects.create(user=user, provider="oidc", uid=str(user.pk)).pk,
        "node": "h100-01",
        "name": plan.external_name,
        "adoption": plan.pk,
        "key": StorageClass.objects.create(site=site, name="fast", observed_at=clock.now()).pk,
        "drift": drift_of(workspace).pk,
        "template": template.slug,
        "warm": warm_stage(template, project, user).pk,
        "kind": kind().slug,
        "month": "2026-10",
        "reservation": pool_stage(project, flavor).pk,
        **card_stage(project, flavor),
        **booked(project),
    }


def booked(project: Project) -> dict[str, object]:
    payment_record(actor=SYSTEM, organization=project.organization, amount="5")
    payment = LedgerEntry.objects.latest("pk")
    invoice = invoice_make(project)
    return {
        "entry": payment.pk,
        "grant": LedgerEntry.objects.get(grant=grant_stage(project.organization)).pk,
        "number": invoice.number,
        "write_off": write_off_stage(invoice),
        "written": usage_write_off_stage().pk,
        "batch": usage_import_stage(project),
    }


def address(name: str, workspace: Workspace, found: Mapping[str, object]) -> str:
    """The real address with things that exist: only who asks may decide."""
    pattern = next(pattern for pattern in urlpatterns if pattern.name == name)
    slugs = {
        "operator_flavor_state": "h100.1",
        "operator_gpu_type_state": "h100-sxm-80gb",
        "operator_site": "ber-1",
    }
    at_site = any(word in name for word in ("site", "node", "adoption"))
    slug = "ber-1" if at_site else slugs.get(name, workspace.project.organization.slug)
    known = {"slug": slug, **found}
    if name.startswith("operator_cluster_template"):
        known |= {"slug": found["template"], "version": 1}
    if name.startswith("operator_environment_kind"):
        known["slug"] = found["kind"]
    if name == "operator_grant_reverse":
        known["entry"] = found["grant"]
    if "number" in pattern.pattern.converters:
        known["entry"] = found["write_off"]
    return reverse(f"frontend:{name}", kwargs={key: known[key] for key in pattern.pattern.converters})


@pytest.fixture
@lasting
def urls(workspace: Workspace, bob: User) -> dict[str, str]:
    """Of all pages and actions, by name."""
    found = standing(workspace, bob)
    return {name: address(name, workspace, found) for name in NAMES}


def each(subtests: pytest.Subtests, names: Iterable[str], check: Callable[[str], None]) -> None:
    each_apart(subtests, ((name, (name,)) for name in names), check)


def test_tenants_and_outsiders_find_nothing(
    subtests: pytest.Subtests, urls: dict[str, str], alice: User, bob: User, charlie: User
) -> None:
    clients = [signed_in(user) for user in (alice, bob, charlie)]

    def check(name: str) -> None:
        url = urls[name]
        before = AuditEntry.objects.count()
        for client in clients:
            assert client.get(url, QUERY).status_code == 404
            assert client.post(url, QUERY).status_code == 404
        assert AuditEntry.objects.count() == before

    each(subtests, NAMES, check)


def test_strangers_are_asked_to_sign_in(subtests: pytest.Subtests, urls: dict[str, str]) -> None:
    def check(name: str) -> None:
        url = urls[name]
        assert Client().get(url)["Location"].startswith("/accounts/login/")
        assert Client().post(url)["Location"].startswith("/accounts/login/")

    each(subtests, NAMES, check)


def test_auditors_look_and_cannot_change(
    subtests: pytest.Subtests, urls: dict[str, str], ada_at: Client
) -> None:
    def check(name: str) -> None:
        url = urls[name]
        before = AuditEntry.objects.count()
        expected = 403 if name in ACTIONS else 302 if name in FORMS else 200
        page = ada_at.get(url, QUERY)
        assert page.status_code == expected
        assert ada_at.post(url, QUERY).status_code == 403
        assert AuditEntry.objects.count() == before
        if expected == 200 and "csv" not in name:
            main = page.content.decode().partition("<main")[2].partition("</main>")[0]
            assert 'method="post"' not in main
            assert "hx-post" not in main

    each(subtests, NAMES, check)


def test_operators_see_every_page(subtests: pytest.Subtests, urls: dict[str, str], olga_at: Client) -> None:
    def check(name: str) -> None:
        url = urls[name]
        answer = olga_at.get(url, QUERY)
        assert answer.status_code == (302 if name in ACTIONS else 200)
        if answer["Content-Type"].startswith("text/html") and not answer.streaming:
            sentences_of(answer.content.decode())

    each(subtests, NAMES, check)


def test_things_that_are_not_there_are_not_found(
    subtests: pytest.Subtests, workspace: Workspace, olga_at: Client
) -> None:
    nobody = {
        "slug": "nothing-here",
        "number": "INV-2026-9999",
        "verb": "retire",
        "pool": uuid.uuid4(),
        "user": uuid.uuid4(),
        "node": "none",
        "name": "none",
        "adoption": uuid.uuid4(),
        "drift": uuid.uuid4(),
        "card": "none",
        "version": 99,
        "draft": uuid.uuid4(),
        "entry": uuid.uuid4(),
        "line": uuid.uuid4(),
        "discount": uuid.uuid4(),
        "reservation": uuid.uuid4(),
        "warm": uuid.uuid4(),
        "batch": uuid.uuid4(),
        "written": uuid.uuid4(),
        "tries": uuid.uuid4(),
        "link": 999,
        "key": uuid.uuid4(),
    }

    def check(name: str) -> None:
        pattern = next(pattern for pattern in urlpatterns if pattern.name == name)
        url = reverse(f"frontend:{name}", kwargs={key: nobody[key] for key in pattern.pattern.converters})
        assert olga_at.post(url).status_code == 404

    each(
        subtests,
        sorted(ACTIONS - {"operator_limit_save", "operator_usage_import_new", "operator_usage_write_off"}),
        check,
    )
