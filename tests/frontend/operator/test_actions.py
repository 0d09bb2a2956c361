"""What operators change, and what is refused beside the field."""

from datetime import timedelta
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from billing.models import Rate
from gpuaas.catalog.models import Flavor, GpuPool, GpuType, Site
from gpuaas.core import clock
from gpuaas.core.crypto import decrypt_json
from gpuaas.workspaces.models import Workspace
from quotas.models import Limit, SiteCapacity
from tenants.models import AuditEntry, Organization, Project, User
from tests.factories.credentials import kubeconfig_made
from tests.factories.tenants import UserFactory
from tests.frontend.markup import words
from tests.frontend.operator.conftest import signed_in

H100 = "gpu:h100-sxm-80gb"
CELL = {"kind": "project", "owner": "weather-lm", "resource": H100}


BY_SCRIPT = {"HX-Request": "true"}


def limit_of(project: str = "weather-lm") -> Limit:
    return Limit.objects.get(project__slug=project, resource=H100)


def test_a_site_is_attached_and_its_secret_never_shown(olga_at: Client) -> None:
    secret = kubeconfig_made("very-secret-token").strip()
    file = SimpleUploadedFile("kubeconfig", secret.encode())
    form = {"slug": "lab", "name": "Lab", "driver": "kubernetes", "oversubscription_percent": "100"}
    answer = olga_at.post("/operator/sites/new/", {**form, "kubeconfig_file": file})
    assert answer["Location"] == "/operator/sites/at/lab/"
    site = Site.objects.get(slug="lab")
    assert decrypt_json(site.credentials) == {"kubeconfig": secret}
    assert "very-secret-token" not in site.credentials
    page = olga_at.get("/operator/sites/at/lab/").content.decode()
    assert "very-secret-token" not in page
    assert "Not checked yet" in page
    entry = AuditEntry.objects.get(action="site.create")
    assert "very-secret-token" not in str(entry.after)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slug": "BER 2"}, "use 1 to 40 lower-case letters"),
        ({"slug": "ber-1"}, "already exists"),
        ({"kubeconfig": ""}, "needs a kubeconfig"),
        ({"kubeconfig": "hello: world"}, "this is not a kubeconfig: it names no cluster"),
        ({"kubeconfig": "{secret-words"}, "it is not valid YAML"),
        ({"driver": "vmware"}, "Choose one of the list"),
        ({"oversubscription_percent": "0"}, "whole number from 1 to 1000"),
        ({"oversubscription_percent": "1.5"}, "Enter a whole number."),
        ({"name": ""}, "Enter a name."),
    ],
)
def test_a_site_is_refused_beside_the_field(
    olga_at: Client, site: Site, change: dict[str, str], said: str
) -> None:
    form = {"slug": "ber-2", "name": "Berlin 2", "driver": "kubernetes", "oversubscription_percent": "100"}
    answer = olga_at.post(
        "/operator/sites/new/", {**form, "kubeconfig": kubeconfig_made("secret-words"), **change}
    )
    assert answer.status_code == 422
    assert said.lower() in answer.content.decode().lower()
    assert "secret-words" not in answer.content.decode()
    assert Site.objects.count() == 1


def test_factor_shows_its_effect_and_changes_it(olga_at: Client, workspace: Workspace) -> None:
    effect = olga_at.get("/operator/sites/at/ber-1/effect/?oversubscription_percent=50").content.decode()
    assert "<b>8</b>" in effect
    nonsense = olga_at.get("/operator/sites/at/ber-1/effect/?oversubscription_percent=lots")
    assert "1 to 1000" in nonsense.content.decode()
    assert (
        olga_at.post("/operator/sites/at/ber-1/factor/", {"oversubscription_percent": "1001"}).status_code
        == 422
    )
    assert (
        olga_at.post("/operator/sites/at/ber-1/factor/", {"oversubscription_percent": "150"}).status_code
        == 302
    )
    assert Site.objects.get().oversubscription_percent == 150


def test_what_is_in_use_is_held_once(olga_at: Client, h100: Flavor) -> None:
    """8 of 16 are held and 6 of these are in use: at 50% nothing is short, at 49% one is."""
    GpuPool.objects.filter(pk=h100.pool_id).update(allocated=6)
    SiteCapacity.objects.filter(resource="gpu:h100-sxm-80gb").update(used=8)
    for percent, short in (("50", 0), ("49", 1)):
        page = olga_at.get("/operator/sites/at/ber-1/effect/", {"oversubscription_percent": percent})
        (row,) = (row for row in page.context["effect"] if row["pool"].pool.pk == h100.pool_id)
        assert (row["held"], row["short"]) == (8, short)


def test_site_is_switched_and_gets_new_credentials(olga_at: Client, site: Site) -> None:
    assert "It has no workspaces." in words(olga_at.get("/operator/sites/at/ber-1/"))
    olga_at.post("/operator/sites/at/ber-1/switch/", {"enabled": "0"})
    assert not Site.objects.get().enabled
    olga_at.post("/operator/sites/at/ber-1/switch/", {"enabled": "1"})
    assert Site.objects.get().enabled
    refused = olga_at.post("/operator/sites/at/ber-1/credentials/", {"kubeconfig": " "})
    assert refused.status_code == 422
    assert 'aria-labelledby="rotate-title" open>' in words(refused)
    olga_at.post("/operator/sites/at/ber-1/credentials/", {"kubeconfig": kubeconfig_made("fresh")})
    assert decrypt_json(Site.objects.get().credentials) == {"kubeconfig": kubeconfig_made("fresh").strip()}
    assert olga_at.post("/operator/sites/at/ber-1/probe/").status_code == 302


def test_flavor_is_made_published_and_retired(olga_at: Client, site: Site, nodes: None) -> None:
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    page = olga_at.get(f"/operator/flavors/new/{pool.pk}/").content.decode()
    assert 'value="h100-sxm-80gb.1"' in page
    form = {"slug": "h100.8", "name": "H100 eight", "gpus": "8", "vcpus": "120", "memory_gib": "960"}
    form |= {"disk_gib": "0", "price_class": "on_demand"}
    bad = olga_at.post(f"/operator/flavors/new/{pool.pk}/", {**form, "gpus": "-1", "vcpus": "many"})
    assert bad.status_code == 422
    assert olga_at.post(f"/operator/flavors/new/{pool.pk}/", {**form, "slug": "h100.1"}).status_code == 422
    assert olga_at.post(f"/operator/flavors/new/{pool.pk}/", form).status_code == 302
    assert Flavor.objects.get(slug="h100.8").state == "draft"
    olga_at.post("/operator/flavors/at/h100.8/publish/", {"without_price": "1"})
    assert Flavor.objects.get(slug="h100.8").state == "active"
    olga_at.post("/operator/flavors/at/h100.8/retire/")
    assert Flavor.objects.get(slug="h100.8").state == "retired"


def test_gpu_type_gets_its_name_and_blocks_flavors_until_published(olga_at: Client, site: Site) -> None:
    GpuType.objects.filter(slug="l40s-48gb").update(state="draft", ecc=True)
    Flavor.objects.filter(slug="l40s.1").update(state="draft")
    refused = olga_at.post("/operator/flavors/at/l40s.1/publish/", follow=True)
    assert "not sold yet" in refused.content.decode()
    olga_at.post("/operator/gpu-types/l40s-48gb/publish/", {"name": "L40S, air cooled"}, follow=True)
    assert GpuType.objects.get(slug="l40s-48gb").name == "L40S, air cooled"
    pool = GpuPool.objects.get(gpu_type__slug="l40s-48gb")
    olga_at.post(f"/operator/flavors/sell/{pool.pk}/", {"price": "0.95"})
    assert Flavor.objects.get(slug="l40s.1").state == "active"


def test_a_new_gpu_type_is_published_with_its_price_or_not_at_all(olga_at: Client, site: Site) -> None:
    Flavor.objects.filter(slug="l40s.1").delete()
    GpuType.objects.filter(slug="l40s-48gb").update(state="draft")
    pool = GpuPool.objects.get(gpu_type__slug="l40s-48gb")
    page = olga_at.get("/operator/flavors/").content.decode()
    assert "a new GPU type" in page
    assert "not available to workspaces until you set a price and publish it" in page
    for price, said in (("", "Enter a price"), ("cheap", "decimal number"), ("-1", "price must be between")):
        refused = olga_at.post(f"/operator/flavors/sell/{pool.pk}/", {"price": price})
        assert refused.status_code == 422
        assert said.lower() in refused.content.decode().lower()
        assert GpuType.objects.get(slug="l40s-48gb").state == "draft"
        assert not pool.flavors.exists()
    olga_at.post(f"/operator/flavors/sell/{pool.pk}/", {"price": "0.95"})
    made = pool.flavors.get()
    assert (made.state, str(Rate.objects.get(flavor=made).price)) == ("active", "0.95")


def test_what_cannot_be_sold_says_why_and_has_no_button(olga_at: Client, site: Site) -> None:
    Flavor.objects.filter(slug="l40s.1").delete()
    pool = GpuPool.objects.get(gpu_type__slug="l40s-48gb")
    GpuPool.objects.filter(pk=pool.pk).update(trouble="two GPU types go by one name")
    page = olga_at.get("/operator/flavors/").content.decode()
    assert "It cannot be sold: two GPU types go by one name." in page
    assert f"/operator/flavors/sell/{pool.pk}/" not in page


TUNED = {
    "slug": "h100.tuned",
    "name": "H100 tuned",
    "gpus": "1",
    "vcpus": "16",
    "memory_gib": "128",
    "disk_gib": "0",
    "price_class": "on_demand",
    "exclusive_cpus": "on",
    "hugepages_size": "1Gi",
    "hugepages_gib": "32",
    "profile": "hpc",
    "sysctls": "net.core.somaxconn, kernel.shmmax",
}


def tuned_pool() -> GpuPool:
    pool = GpuPool.objects.get(gpu_type__slug="h100-sxm-80gb")
    pool.nodes.update(cpus="static", hugepages={"1Gi": 64}, profile="hpc")
    return pool


def test_a_tuned_flavor_is_made_and_the_list_says_so(olga_at: Client, site: Site, nodes: None) -> None:
    pool = tuned_pool()
    page = olga_at.get(f"/operator/flavors/new/{pool.pk}/").content.decode()
    assert "64 GiB of 1Gi" in page
    assert olga_at.post(f"/operator/flavors/new/{pool.pk}/", TUNED).status_code == 302
    made = Flavor.objects.get(slug="h100.tuned")
    assert made.sysctls == ["net.core.somaxconn", "kernel.shmmax"]
    assert (made.hugepages_size, made.hugepages_gib, made.exclusive_cpus) == ("1Gi", 32, True)
    assert "32 GiB in hugepages of 1 GiB" in olga_at.get("/operator/flavors/").content.decode()


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"hugepages_gib": "65", "memory_gib": "256"}, "hugepages_gib", "Not every node of the pool"),
        ({"hugepages_gib": "128"}, "hugepages_gib", "must leave some"),
        ({"hugepages_size": ""}, "hugepages_gib", "the page size"),
        ({"hugepages_gib": "many"}, "hugepages_gib", "whole number"),
        ({"profile": "other"}, "profile", "Not every node of the pool"),
        ({"sysctls": "vm.swappiness"}, "sysctls", "is not a sysctl that a pod may set"),
        ({"whole_node": "on"}, "whole_node", "a number of GPUs other than"),
    ],
)
def test_tuning_is_refused_beside_its_field(
    olga_at: Client, site: Site, nodes: None, change: dict[str, str], field: str, said: str
) -> None:
    answer = olga_at.post(f"/operator/flavors/new/{tuned_pool().pk}/", {**TUNED, **change})
    assert answer.status_code == 422
    assert said in str(answer.context["form"].errors[field])
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not Flavor.objects.filter(slug="h100.tuned").exists()


def test_limit_is_saved_under_its_version(olga_at: Client, workspace: Workspace) -> None:
    row = limit_of()
    answer = olga_at.post(
        "/operator/limits/save/", {**CELL, "hard": "12", "version": row.version}, headers=BY_SCRIPT
    )
    assert answer.status_code == 200
    assert 'id="limit-totals" hx-swap-oob="true"' in answer.content.decode()
    assert (limit_of().hard, limit_of().version) == (12, row.version + 1)
    late = olga_at.post("/operator/limits/save/", {**CELL, "hard": "9", "version": row.version})
    assert late.status_code == 412
    assert "changed to 12" in late.content.decode()
    assert f'name="version" value="{row.version + 1}"' in words(late)
    assert limit_of().hard == 12


@pytest.mark.parametrize("hard", ["", "-1", "1.5", "lots", "9" * 17, "1e3", "٣", "9999999999999999", "0x10"])
def test_limit_refuses_what_is_no_number(olga_at: Client, workspace: Workspace, hard: str) -> None:
    row = limit_of()
    answer = olga_at.post("/operator/limits/save/", {**CELL, "hard": hard, "version": row.version})
    assert answer.status_code == 422
    assert "whole number" in answer.content.decode()
    assert limit_of().version == row.version


def test_unlimited_is_said_explicitly(olga_at: Client, workspace: Workspace) -> None:
    typed = {**CELL, "hard": "", "unlimited": "1", "version": limit_of().version}
    assert olga_at.post("/operator/limits/save/", typed, headers=BY_SCRIPT).status_code == 200
    assert limit_of().hard is None
    assert "of <b>unlimited</b>" in words(olga_at.get("/operator/limits/"))


def test_effect_is_told_before_saving(olga_at: Client, workspace: Workspace) -> None:
    def effect(hard: str) -> str:
        query = f"kind=project&owner=weather-lm&resource={quote(H100)}&hard={hard}"
        return olga_at.get(f"/operator/limits/effect/?{query}").content.decode()

    raised = effect("12")
    assert "8 → 12" in raised
    assert "€9.60 per hour" in raised
    assert "Nothing is taken away" in effect("1")
    assert "The limits exceed what can be sold" in effect("400")
    assert "whole number" in effect("x")
    assert limit_of().hard == 8


@pytest.mark.parametrize(
    "query", ["", "kind=project&owner=nobody", "kind=project&owner=weather-lm&resource=gpu:no"]
)
def test_cells_that_are_not_there(olga_at: Client, workspace: Workspace, query: str) -> None:
    assert olga_at.get(f"/operator/limits/effect/?{query}").status_code == 404


def test_organization_project_and_owner(olga_at: Client, alice: User) -> None:
    bad = olga_at.post("/operator/organizations/", {"slug": "Bad Slug", "name": "x", "owner": ""})
    assert bad.status_code == 422
    nobody = olga_at.post(
        "/operator/organizations/", {"slug": "physics", "name": "Physics", "owner": "nobody"}
    )
    assert nobody.status_code == 422
    assert not Organization.objects.filter(slug="physics").exists()
    olga_at.post("/operator/organizations/", {"slug": "physics", "name": "Physics", "owner": "alice"})
    made = Organization.objects.get(slug="physics")
    url = "/operator/organizations/physics/"
    assert olga_at.post(f"{url}projects/", {"slug": "weather-lm", "name": "again"}).status_code == 422
    assert olga_at.post(f"{url}projects/", {"slug": "laser", "name": "Laser"}).status_code == 302
    assert Project.objects.get(slug="laser").organization == made
    assert olga_at.post(f"{url}members/", {"user": "nobody", "role": "owner"}).status_code == 422
    last = olga_at.post(f"{url}members/{alice.pk}/remove/", follow=True)
    assert "last owner" in last.content.decode()


def test_owners_are_named_by_addresses_of_every_length(olga_at: Client) -> None:
    address = f"{'a' * 64}@{'.'.join(['b' * 60] * 3)}.org"
    erik = UserFactory.create(username="erik", email=address)
    for name in ("physics", "chemistry"):
        sent = {"slug": name, "name": name, "owner": address if name == "physics" else ""}
        assert olga_at.post("/operator/organizations/", sent).status_code == 302
        sent = {"user": address, "role": "owner"}
        assert olga_at.post(f"/operator/organizations/{name}/members/", sent).status_code == 302
    assert erik.organization_memberships.filter(role="owner").count() == 2


def test_the_name_of_a_gpu_type_that_is_refused_comes_back(olga_at: Client, h100: Flavor) -> None:
    kind = h100.pool.gpu_type
    GpuType.objects.filter(pk=kind.pk).update(state="draft")
    typed = ("H100 of the new hall " * 6).strip()
    refused = olga_at.post(f"/operator/gpu-types/{kind.slug}/publish/", {"name": typed})
    assert refused.status_code == 422
    assert f'value="{typed}"' in words(refused)
    assert "at most 100 characters" in words(refused)
    assert GpuType.objects.get(pk=kind.pk).state == "draft"


def test_account_password_is_shown_once_and_works(olga_at: Client, alice: User) -> None:
    form = {"username": "erik", "email": "erik@example.org", "platform_role": ""}
    assert olga_at.post("/operator/people/", {**form, "email": "nonsense"}).status_code == 422
    assert olga_at.post("/operator/people/", {**form, "username": "alice"}).status_code == 422
    answer = olga_at.post("/operator/people/", form)
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    password = answer.context["password"]
    assert password in answer.content.decode()
    assert Client().login(username="erik", password=password)
    assert password not in olga_at.get("/operator/people/").content.decode()
    assert password not in str(list(AuditEntry.objects.values()))


def test_roles_and_accounts_but_not_ones_own(olga_at: Client, olga: User, bob: User) -> None:
    olga_at.post(f"/operator/people/{bob.pk}/role/", {"platform_role": "auditor"})
    assert User.objects.get(pk=bob.pk).platform_role == "auditor"
    olga_at.post(f"/operator/people/{bob.pk}/role/", {"platform_role": "emperor"})
    olga_at.post(f"/operator/people/{olga.pk}/role/", {"platform_role": ""})
    olga_at.post(f"/operator/people/{olga.pk}/switch/", {"active": "0"})
    assert User.objects.get(pk=bob.pk).platform_role == "auditor"
    assert User.objects.get(pk=olga.pk).is_active
    at_bob = signed_in(bob)
    olga_at.post(f"/operator/people/{bob.pk}/switch/", {"active": "0"})
    assert at_bob.get("/operator/").status_code == 302


def test_a_price_begins_and_ends_the_one_before(olga_at: Client, workspace: Workspace) -> None:
    start = timezone.localtime(clock.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    form = {"what": "h100.1", "meter": "", "price": "2.55", "valid_from": f"{start:%Y-%m-%dT%H:%M}"}
    assert olga_at.post("/operator/rates/prices/", form).status_code == 302
    found = Rate.objects.filter(flavor__slug="h100.1").order_by("valid_from")
    assert [str(rate.price) for rate in found] == ["2.40", "2.55"]
    assert found[0].valid_to == found[1].valid_from
    page = olga_at.get("/operator/rates/prices/").content.decode()
    assert "€2.40" in page
    assert "€2.55" in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"price": "-1"}, "a price must be between"),
        ({"price": "2,40"}, "decimal number"),
        ({"price": "0.0000001"}, "at most 6 decimal places"),
        ({"price": ""}, "enter a price"),
        ({"what": "nothing"}, "no such flavor"),
        ({"valid_from": "tomorrow"}, "year-month-day"),
    ],
)
def test_a_price_is_refused_beside_the_field(
    olga_at: Client, workspace: Workspace, change: dict[str, str], said: str
) -> None:
    before = Rate.objects.count()
    form = {"what": "h100.1", "meter": "", "price": "2.55", "valid_from": ""}
    answer = olga_at.post("/operator/rates/prices/", {**form, **change})
    assert answer.status_code == 422
    assert said in answer.content.decode().lower()
    assert Rate.objects.count() == before
