"""What operators set up is tried while it is typed: the answer is the service's, and nothing is written."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gpuaas.catalog.models import GpuPool, Site
from gpuaas.clusters.models import ClusterTemplate
from tenants.actors import Actor
from tenants.models import AuditEntry, Organization, Project, User
from tests.clusters.stage import offered
from tests.environments.stage import kind
from tests.factories.credentials import kubeconfig_made
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
KUBECONFIG = kubeconfig_made("fresh")
ATTACHED = {
    "driver": "kubernetes",
    "slug": "ham-1",
    "name": "Hamburg",
    "oversubscription_percent": "100",
    "kubeconfig": KUBECONFIG,
}
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
    "factor": Case(
        "site", {"oversubscription_percent": "150"}, {"oversubscription_percent": "2000"}, "site_factor", SITE
    ),
    "credentials": Case(
        "site", {"kubeconfig": KUBECONFIG}, {"kubeconfig": "nonsense"}, "site_credentials", SITE
    ),
    "attached": Case("site_new", ATTACHED, {"kubeconfig": "nonsense"}),
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


def test_a_file_that_is_chosen_is_read_when_it_is_sent(olga_at: Client, site: Site) -> None:
    """A try comes without it: neither what it holds nor that the text lacks it is refused before."""
    to = reverse("frontend:operator_site_credentials", args=[site.slug])
    Site.objects.filter(pk=site.pk).update(driver="kubernetes")
    empty = ask(olga_at, to, {"kubeconfig": ""})
    assert empty == ("Kubeconfig: Paste the new kubeconfig or choose its file.", set())
    assert ask(olga_at, to, {"kubeconfig": "", "kubeconfig_file": "[object File]"}) == ("", set())
    new, chosen = (
        reverse("frontend:operator_site_new"),
        {"kubeconfig_file": "[object File]", "kubeconfig": ""},
    )
    assert ask(olga_at, new, ATTACHED | chosen) == ("", set())
    assert ask(olga_at, new, ATTACHED | chosen | {"slug": "No Slug"})[1] == {"slug"}
    assert ask(olga_at, new, ATTACHED | chosen | {"name": ""}) == ("Name: Enter a name.", set())


def test_documents_of_operators_are_tried(olga_at: Client, site: Site, as_olga: Actor) -> None:
    offered(as_olga, site)
    made = kind()
    for to, page in (
        (("cluster_template_version", "k8s"), ("cluster_template", "k8s")),
        (("environment_kind_version", made.slug), ("environment_kind", made.slug)),
        (("site_hosts_put", site.slug), ("site_hosts", site.slug)),
    ):
        url = reverse(f"frontend:operator_{to[0]}", args=[to[1]])
        drawn = words(olga_at.get(reverse(f"frontend:operator_{page[0]}", args=[page[1]])))
        assert f'hx-post="{url}?check"' in drawn
        why, red = ask(olga_at, url, {"document": "{"})
        assert "This is not valid JSON" in why
        assert red == {"document"}
        assert ask(olga_at, url, {"document": ""}) == (
            "Document: Paste a document or choose its file.",
            set(),
        )
        assert ask(olga_at, url, {"document": "", "file": "[object File]"}) == ("", set())


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
