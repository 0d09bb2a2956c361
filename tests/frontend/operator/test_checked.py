"""What operators set up is tried while it is typed: the answer is the service's, and nothing is written."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.clusters.models import ClusterTemplate
from tenants.models import AuditEntry, Organization, Project, User
from tests.frontend.markup import words
from tests.frontend.operator.conftest import signed_in
from tests.frontend.operator.test_site_storage import found

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Case:
    """A form on `page`, sent to `to`; `wrong` is what is typed instead, which is red beside its field."""

    page: str
    form: dict[str, Any]
    wrong: dict[str, Any]
    to: str = ""
    args: tuple[str, ...] = ()


ORGANIZATION, SITE = ("climate",), ("ber-1",)
FLAVOR = {"slug": "h100.9", "name": "Nine", "gpus": "1", "price_class": "reserved"}
SIZE = {"vcpus": "8", "memory_gib": "64", "disk_gib": "0"}
ACCOUNT = {"currency": "EUR", "tax_rate": "19", "tax_label": "VAT"}
TEMPLATE = {"slug": "k8s-9", "name": "Nine", "kind": "kubernetes", "site": "ber-1", "driver": "sandbox"}
PERSON = {"username": "nina", "email": "nina@example.org"}
CASES = {
    "options": Case("site", {"text": "{}"}, {"text": "[1]"}, "site_options", SITE),
    "organization": Case("organizations", {"slug": "ice", "name": "Ice"}, {"slug": "climate"}),
    "project": Case(
        "organization", {"slug": "ice", "name": "Ice"}, {"slug": "weather-lm"}, "project_new", ORGANIZATION
    ),
    "role": Case(
        "organization", {"user": "bob", "role": "owner"}, {"user": "nobody"}, "member_set", ORGANIZATION
    ),
    "person": Case("people", PERSON, {"username": "alice"}),
    "flavor": Case("flavor_new", FLAVOR | SIZE, {"vcpus": "0"}),
    "price": Case("prices", {"what": "h100.1", "price": "2.40"}, {"price": "2,4,0"}),
    "card": Case("rate_cards", {"currency": "EUR", "organization": "climate"}, {"organization": "nobody"}),
    "account": Case("billing", ACCOUNT, {"tax_rate": "much"}, "billing_account", ORGANIZATION),
    "discount": Case("billing", {"percent": "10"}, {"percent": "200"}, "discount_give", ORGANIZATION),
    "center": Case(
        "billing",
        {"project": "weather-lm", "cost_center": "4711"},
        {"project": "nobody"},
        "cost_center",
        ORGANIZATION,
    ),
    "template": Case("cluster_template_new", TEMPLATE, {"slug": "No Slug"}),
    "site": Case("site", {"name": "Berlin"}, {"name": "x" * 200}, "site_rename", SITE),
    "storage": Case(
        "site_storage", {"name": "fast", "slug": "fast-9"}, {"slug": "No Slug"}, "site_storage_sell", SITE
    ),
}


def ask(client: Client, url: str, form: dict[str, Any]) -> tuple[str, set[str]]:
    """What stands beside the button, and beside which fields something is red."""
    before = AuditEntry.objects.count()
    answer = client.post(f"{url}?check", form)
    assert answer.status_code == 200
    assert AuditEntry.objects.count() == before
    text = words(answer)
    return text.partition("<p ")[0].strip(), set(
        re.findall(r'"invalid-feedback" id="[a-z]+_(\w+)-help"', text)
    )


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_tried_while_it_is_typed(
    olga_at: Client, alice: User, site: Site, project: Project, bob: User, name: str
) -> None:
    del bob
    case, pool = CASES[name], GpuPool.objects.order_by("pk").first()
    if name == "storage":
        found(site, "fast", "standard")
    args = (str(pool.pk),) if name == "flavor" and pool else case.args
    page = reverse(f"frontend:operator_{case.page}", args=args)
    to = reverse(f"frontend:operator_{case.to}", args=args) if case.to else page
    drawn = words(olga_at.get(page))
    assert f'hx-post="{to if case.to or name == "price" else ""}?check"' in drawn
    before = {each: each.objects.count() for each in (Organization, Project, User, ClusterTemplate)}
    assert ask(olga_at, to, case.form) == ("", set())
    why, red = ask(olga_at, to, case.form | case.wrong)
    assert why
    assert red == set(case.wrong)
    assert {each: each.objects.count() for each in before} == before
    assert signed_in(alice).post(f"{to}?check", case.form).status_code == 404


def test_no_password_is_hashed_for_it(olga_at: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    keep = User.set_password

    def noted(user: User, password: str) -> None:
        hashed.append(password)
        keep(user, password)

    monkeypatch.setattr(User, "set_password", noted)
    page, form = reverse("frontend:operator_people"), PERSON | {"platform_role": ""}
    assert ask(olga_at, page, form) == ("", set())
    assert hashed == []
    assert olga_at.post(page, form).status_code == 201
    assert len(hashed) == 1


def test_all_that_is_wrong_with_a_new_site_stands_beside_its_fields_at_once(olga: User) -> None:
    client, page = signed_in(olga), reverse("frontend:operator_site_new")
    sent = {"driver": "kubernetes", "slug": "A B", "name": "", "endpoint": "ftp://x"}
    answer = client.post(page, sent | {"oversubscription_percent": "0", "kubeconfig": "nonsense"})
    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert {"slug", "name", "endpoint", "oversubscription_percent", "kubeconfig"} <= set(errors)
    assert all(len(each) == 1 for each in errors.values())
    assert "__all__" not in errors
    assert not Site.objects.filter(name="").exists()
