"""What cannot be done by one click too many: the question that is asked before, and the way back."""

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from billing.models import ProjectCostCenter, Rate, RateDraft
from billing.services import LineTerms, rate_draft_line_set, rate_draft_open, rate_set
from gpuaas.catalog.models import Flavor, GpuType, Site
from gpuaas.clusters.models import ClusterTemplate, TemplateVersion
from gpuaas.core.errors import Conflict
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit
from tenants.actors import SYSTEM, Actor
from tenants.models import Organization, User
from tenants.roles import PlatformRole
from tenants.services import organization_member_set, user_deactivate, user_platform_role_set
from tests.frontend.markup import words
from tests.frontend.operator.conftest import signed_in
from tests.workspaces.spotted import spot_flavor

H100, TYPE = "h100.1", "h100-sxm-80gb"


BY_SCRIPT = {"HX-Request": "true"}


def state_of(slug: str = H100) -> str:
    return str(Flavor.objects.values_list("state", flat=True).get(slug=slug))


def test_a_flavor_without_a_price_is_offered_only_by_a_word(olga_at: Client, workspace: Workspace) -> None:
    Rate.objects.all().delete()
    Flavor.objects.update(state="draft")
    publish = reverse("frontend:operator_flavor_state", args=[H100, "publish"])
    page = words(olga_at.get(reverse("frontend:operator_flavors")))
    assert "Offer h100.1 without a price?" in page
    assert f"/operator/rates/prices/?what={H100}" in page
    assert f'action="{publish}"' in page.split("Offer h100.1 without a price?")[0].rsplit("<dialog", 1)[1]
    assert "has no price" in words(olga_at.post(publish, follow=True))
    assert state_of() == "draft"
    olga_at.post(publish, {"without_price": "1"})
    assert state_of() == "active"
    Flavor.objects.update(state="draft")
    rate_set(actor=SYSTEM, flavor=Flavor.objects.get(slug=H100), meter="gpu_held", price="2")
    assert "Offer h100.1 without a price?" not in words(olga_at.get(reverse("frontend:operator_flavors")))
    olga_at.post(publish)
    assert state_of() == "active"


def test_a_lent_flavor_without_a_price_of_its_meter_says_so(olga_at: Client, h100: Flavor) -> None:
    """What runs of it is charged; that of another flavor is part of the price of what it holds."""

    def row() -> str:
        page = olga_at.get(reverse("frontend:operator_prices")).content.decode()
        (found,) = re.findall(r'<tr>\s*<th scope="row">h100\.spot.*?</tr>', page, re.DOTALL)
        return str(found)

    spot_flavor(h100)
    assert "no price" in row()
    assert "included" not in row()
    rate_set(actor=SYSTEM, flavor=Flavor.objects.get(slug="h100.spot"), meter="gpu_allocated", price="1")
    assert "no price" not in row()


def test_what_is_retired_is_asked_for_and_put_back(olga_at: Client, workspace: Workspace) -> None:
    rate_set(actor=SYSTEM, flavor=Flavor.objects.get(slug=H100), meter="gpu_held", price="2")
    for name, slug, title in (
        ("flavor", H100, "Retire h100.1?"),
        ("gpu_type", TYPE, f"Retire {GpuType.objects.get(slug=TYPE).name}?"),
    ):
        page = reverse(f"frontend:operator_{name}s")
        retire = reverse(f"frontend:operator_{name}_state", args=[slug, "retire"])
        shown = words(olga_at.get(page))
        assert title in shown
        assert shown.count(f'action="{retire}"') == 1, "only the dialog does it"
        olga_at.post(retire)
        assert f"Put {slug} back on offer" in words(olga_at.get(page))
        olga_at.post(reverse(f"frontend:operator_{name}_state", args=[slug, "publish"]))
        assert title in words(olga_at.get(page))


def test_roles_and_accounts_are_asked_for(olga_at: Client, alice: User) -> None:
    page = words(olga_at.get(reverse("frontend:operator_people")))
    assert "Platform role of alice" in page
    assert "An operator sees and changes everything" in page
    assert "Disable alice?" in page
    role = reverse("frontend:operator_person_role", args=[alice.pk])
    olga_at.post(role, {"platform_role": "operator"})
    alice.refresh_from_db()
    assert alice.platform_role == PlatformRole.OPERATOR
    olga_at.post(role, {"platform_role": ""})
    alice.refresh_from_db()
    assert alice.platform_role == ""
    switch = reverse("frontend:operator_person_switch", args=[alice.pk])
    olga_at.post(switch, {"active": "0"})
    assert "Enable alice" in words(olga_at.get(reverse("frontend:operator_people")))


@pytest.mark.parametrize("way", ["role", "account"])
def test_the_last_operator_stays(olga: User, alice: User, as_olga: Actor, way: str) -> None:
    def take(user: User) -> None:
        if way == "role":
            user_platform_role_set(actor=SYSTEM, user=user, platform_role="")
        else:
            user_deactivate(actor=SYSTEM, user=user)

    with pytest.raises(Conflict, match="olga is the last operator"):
        take(olga)
    user_platform_role_set(actor=as_olga, user=alice, platform_role="operator")
    take(olga)
    with pytest.raises(Conflict, match="alice is the last operator"):
        take(alice)


def test_a_draft_is_published_now(olga_at: Client, as_olga: Actor, workspace: Workspace) -> None:
    draft = rate_draft_open(actor=as_olga)
    flavor = Flavor.objects.get(slug=H100)
    rate_draft_line_set(
        actor=as_olga, draft=draft, flavor=flavor, meter="gpu_held", terms=LineTerms(price="2")
    )
    editor = reverse("frontend:operator_rate_draft", args=[draft.pk])
    assert 'name="when" value="now"' in words(olga_at.get(editor))
    publish = reverse("frontend:operator_rate_draft_publish", args=[draft.pk])
    undated = olga_at.post(publish, {"when": "date"})
    assert undated.status_code == 422
    assert "or choose now" in words(undated)
    assert olga_at.post(publish, {"when": "now", "valid_from": "2031-01-01T00:00"}).status_code == 302
    made = RateDraft.objects.get().published
    assert made is not None
    assert made.valid_from.year < 2031


def test_downloads_and_hints_lead_somewhere(olga_at: Client, alice: User, workspace: Workspace) -> None:
    usage = reverse("frontend:operator_usage")
    page = words(olga_at.get(f"{usage}?month=2026-10"))
    for address in ("/operator/usage/2026-10.csv", "/api/v1/platform/focus/2026-10.csv"):
        assert f'href="{address}"' in page
        answer: Any = olga_at.get(address)
        assert answer.status_code == 200
        assert answer["Content-Type"].startswith("text/csv")
        b"".join(answer.streaming_content)
    assert 'href="/operator/organizations/"' in words(olga_at.get("/operator/budgets/")).split("<main", 1)[1]
    slug = workspace.project.organization.slug
    focus = f"/api/v1/organizations/{slug}/focus/"
    at = signed_in(alice)
    for name in ("organization_invoices", "organization_costs"):
        assert focus in words(at.get(reverse(f"frontend:{name}", args=[slug])))
    link = words(at.get(reverse("frontend:organization_invoices", args=[slug]))).split(focus)[1][:11]
    assert at.get(focus + link).status_code == 200
    budgets = reverse("frontend:organization_budgets", args=[slug])
    assert budgets in words(olga_at.get(reverse("frontend:operator_organization", args=[slug])))
    assert olga_at.get(budgets).status_code == 200


def undone(client: Client, url: str) -> None:
    """As the button of a toast asks: nothing is sent but the address."""
    answer = client.post(url, headers=BY_SCRIPT)
    assert (answer.status_code, answer["HX-Refresh"]) == (204, "true")


def undo_in(answer: Any) -> str:
    """The address that the Undo of the toast posts to."""
    if header := answer.headers.get("HX-Trigger"):
        return str(json.loads(header)["toast"]["undo"])
    (found,) = re.findall(r'hx-post="([^"]*undone=1)"', words(answer))
    return unescape(found)


def test_a_limit_is_put_back_unless_somebody_changed_it(olga_at: Client, workspace: Workspace) -> None:
    project, resource = workspace.project, f"gpu:{TYPE}"
    row = Limit.objects.get(project=project, resource=resource)
    save = reverse("frontend:operator_limit_save")
    asked = {"kind": "project", "owner": project.slug, "resource": resource}
    undo = undo_in(olga_at.post(save, {**asked, "hard": "3", "version": row.version}, headers=BY_SCRIPT))
    assert Limit.objects.get(pk=row.pk).hard == 3
    undone(olga_at, undo)
    assert Limit.objects.get(pk=row.pk).hard == row.hard
    again = olga_at.post(undo, headers=BY_SCRIPT)
    assert (again.status_code, "Nothing was undone" in again["HX-Trigger"]) == (412, True)
    version = Limit.objects.get(pk=row.pk).version
    undo = undo_in(olga_at.post(save, {**asked, "unlimited": "on", "version": version}, headers=BY_SCRIPT))
    version = Limit.objects.get(pk=row.pk).version
    back = undo_in(olga_at.post(save, {**asked, "hard": "5", "version": version}, headers=BY_SCRIPT))
    undone(olga_at, back)
    assert Limit.objects.get(pk=row.pk).hard is None
    assert olga_at.post(undo, headers=BY_SCRIPT).status_code == 412


def test_a_role_in_an_organization_is_put_back(olga_at: Client, workspace: Workspace, bob: User) -> None:
    organization = workspace.project.organization
    for door, client in (
        ("operator_member", olga_at),
        ("organization_member", signed_in(workspace.created_by)),
    ):
        organization_member_set(actor=SYSTEM, organization=organization, user=bob, role="billing")
        remove = reverse(f"frontend:{door}_remove", args=[organization.slug, bob.pk])
        undo = undo_in(client.post(remove, follow=True))
        assert not organization.memberships.filter(user=bob).exists()
        undone(client, undo)
        assert organization.memberships.get(user=bob).role == "billing"


def test_selling_despite_failed_checks_is_asked(olga_at: Client, site: Site) -> None:
    Site.objects.update(fit=False)
    sell, page = (
        reverse(f"frontend:{name}", args=[site.slug]) for name in ("operator_site_sell", "operator_site")
    )
    shown = words(olga_at.get(page))
    assert "Sell despite failed checks?" in shown
    assert f'action="{sell}"' in shown.split("Sell despite failed checks?")[0].rsplit("<dialog", 1)[1]
    assert shown.count(f'action="{sell}"') == 1, "only the dialog does it"
    olga_at.post(sell, {"sell": "1"})
    assert "Sell only when ready" in words(olga_at.get(page))


def test_what_a_site_sells_and_repairs_is_put_back(olga_at: Client, site: Site) -> None:
    Site.objects.update(oversubscription_percent=100, drift_policy="repair", enabled=True, sell_unfit=False)
    for door, asked, field, now in (
        ("factor", {"oversubscription_percent": "150"}, "oversubscription_percent", 150),
        ("drift_policy", {"drift_policy": "observe"}, "drift_policy", "observe"),
        ("switch", {"enabled": "0"}, "enabled", False),
        ("sell", {"sell": "1"}, "sell_unfit", True),
        ("confirm", {"confirmed": "0"}, "confirmed", False),
    ):
        before = getattr(Site.objects.get(), field)
        answer = olga_at.post(reverse(f"frontend:operator_site_{door}", args=[site.slug]), asked, follow=True)
        assert getattr(Site.objects.get(), field) == now
        undone(olga_at, undo_in(answer))
        assert getattr(Site.objects.get(), field) == before
    page = words(olga_at.get(reverse("frontend:operator_site", args=[site.slug])))
    assert "undone=1" not in page, "what was undone has no undo itself"


def terms(draft: RateDraft) -> list[tuple[Any, ...]]:
    names = ("flavor__slug", "meter", "price_micro", "tier_mode", "tiers", "minimum_seconds")
    return sorted(draft.lines.values_list(*names), key=str)


def test_prices_of_a_draft_are_put_back(olga_at: Client, as_olga: Actor, workspace: Workspace) -> None:
    """The number alone, all terms, one that is new, one that is taken out: of a flavor and of what all share."""
    draft = rate_draft_open(actor=as_olga)
    flavor = Flavor.objects.get(slug=H100)
    tiered = LineTerms(price="2", tier_mode="volume", tiers=[(100, "1.5")], minimum_seconds=60)
    rate_draft_line_set(actor=as_olga, draft=draft, flavor=flavor, meter="gpu_held", terms=tiered)
    rate_draft_line_set(
        actor=as_olga, draft=draft, flavor=None, meter="vcpu_held", terms=LineTerms(price="0.01")
    )
    before = terms(draft)
    save = reverse("frontend:operator_rate_draft_line", args=[draft.pk])
    asked = {"meter": "gpu_held", "increment_seconds": 1, "minimum_seconds": 0, "surplus_percent": 100}
    for what in (H100, "vcpu_held", "memory_held"):
        undo = undo_in(olga_at.post(save, {**asked, "what": what, "price": "9"}, follow=True))
        assert terms(draft) != before
        undone(olga_at, undo)
        assert terms(draft) == before
    for row in draft.lines.all():
        price, remove = (
            reverse(f"frontend:operator_rate_draft_{name}", args=[draft.pk, row.pk])
            for name in ("price", "line_remove")
        )
        undo = undo_in(olga_at.post(price, {"price": "7"}, headers=BY_SCRIPT))
        assert terms(draft) != before
        undone(olga_at, undo)
        assert terms(draft) == before
        undo = undo_in(olga_at.post(remove, follow=True))
        assert draft.lines.count() == len(before) - 1
        undone(olga_at, undo)
        assert terms(draft) == before


def test_who_may_order_a_template_is_put_back(
    olga_at: Client, site: Site, organization: Organization
) -> None:
    row = ClusterTemplate.objects.create(
        slug="sim", name="Sim", kind="kubernetes", site=site, driver="sandbox", state="active"
    )
    TemplateVersion.objects.create(template=row, number=1, document={}, created_by="olga")

    def seen() -> tuple[Any, ...]:
        row.refresh_from_db()
        return row.state, row.public, row.grants.count(), row.versions.get().deprecated_at is None

    for door, asked in (
        ("state", {"state": "retired"}),
        ("state", {"state": "active", "public": "on"}),
        ("give", {"organization": organization.slug, "granted": "yes"}),
        ("deprecate", {}),
    ):
        before = seen()
        more = [1] if door == "deprecate" else []
        url = reverse(f"frontend:operator_cluster_template_{door}", args=[row.slug, *more])
        answer = olga_at.post(url, asked, follow=True)
        assert seen() != before
        undone(olga_at, undo_in(answer))
        assert seen() == before


def test_an_account_and_a_cost_center_are_put_back(
    olga_at: Client, alice: User, workspace: Workspace
) -> None:
    project = workspace.project
    switch = reverse("frontend:operator_person_switch", args=[alice.pk])
    answer = olga_at.post(switch, {"active": "0"}, follow=True)
    assert not User.objects.get(pk=alice.pk).is_active
    undone(olga_at, undo_in(answer))
    assert User.objects.get(pk=alice.pk).is_active
    center = reverse("frontend:operator_cost_center", args=[project.organization.slug])
    for code, was in (("A1", ""), ("B2", "")):
        answer = olga_at.post(center, {"project": project.slug, "cost_center": code}, follow=True)
        undone(olga_at, undo_in(answer))
        found = ProjectCostCenter.objects.filter(project=project).values_list("code", flat=True).first()
        assert (found or "") == was
